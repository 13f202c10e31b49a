/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tracks the values of a function's registers, as far as needed to recognize an address in front of an allocation.
 *
 * A register has the value of its last definition in the same block (from label to label); without one, the join of all its definitions
 * in the function, in whatever order they run. So branches and loops do not matter, and the code need not be in SSA form: nvcc also uses the
 * register of malloc's return value for the running pointer of a loop. Definitions are evaluated until no value changes. An unknown
 * instruction sets its first operand to MANY.
 *
 * nvcc -G keeps operator new[] and the offset in registers and in stack slots. A slot keeps its value from a store until the next label or
 * the next instruction that might write to memory or jump.
 */
#include "interpose/load/ptx/counts.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/load/ptx/line.h"
#include "interpose/load/ptx/module.h"

enum { COUNT_BYTES = 8 }; /* size of a count, and its distance in front of an array */
enum { SLOTS = 16 };      /* a new[] by nvcc -G uses 9; the oldest is forgotten */

enum kind {
    NONE,     /* no definition so far */
    CONSTANT, /* .number */
    FUNCTION, /* the address of .name */
    ARRAY,    /* what malloc returned, plus .number */
    MANY      /* anything */
};

struct value {
    enum kind kind;
    long long number;
    struct mm_token name;
};

struct reg {
    struct mm_token name;
    struct value value; /* the join */
    struct value here;  /* of the last definition in `block` */
    unsigned block;
};

struct slot {
    long long offset; /* from %SP */
    struct value value;
    bool is_set;
};

struct function {
    const struct mm_token *allocators; /* functions that return malloc's result */
    size_t allocator_count;
    struct reg *regs; /* a hash table */
    size_t room, used;
    struct slot slots[SLOTS];
    unsigned next_slot;
    unsigned block;         /* number of the current block */
    bool is_conditional;    /* the current instruction has a predicate */
    struct mm_token result; /* the return parameter; kind MM_TOKEN_END if there is none */
    struct value returned;
    struct mm_token call_result; /* of the last call */
    struct value call_value;
    bool changed, no_memory;
    char *edit; /* the copy in which stores are blanked out; NULL: only analyze */
    const char *text;
    int removed;
};

static bool same_token(const struct mm_token *a, const struct mm_token *b) { return a->length == b->length && memcmp(a->at, b->at, a->length) == 0; }

/* ---- values ------------------------------------------------------------------------------------------ */

static struct value value_of(enum kind kind, long long number) {
    struct value v;
    memset(&v, 0, sizeof v);
    v.kind = kind;
    v.number = number;
    return v;
}

static bool same_value(const struct value *a, const struct value *b) {
    if (a->kind != b->kind) return false;
    return a->kind == FUNCTION ? same_token(&a->name, &b->name) : a->number == b->number;
}

static struct value sum(const struct value *a, const struct value *b, int sign) {
    if (a->kind == NONE || b->kind == NONE) return value_of(NONE, 0);
    if (b->kind == CONSTANT && (a->kind == CONSTANT || a->kind == ARRAY))
        return value_of(a->kind, (long long)((unsigned long long)a->number + (unsigned long long)sign * (unsigned long long)b->number));
    if (a->kind == CONSTANT && b->kind == ARRAY && sign > 0) return sum(b, a, sign);
    return value_of(MANY, 0);
}

/* Returns whether *into changed. */
static bool join(struct value *into, const struct value *v) {
    if (v->kind == NONE || into->kind == MANY || same_value(into, v)) return false;
    *into = into->kind == NONE ? *v : value_of(MANY, 0);
    return true;
}

/* ---- registers ----------------------------------------------------------------------------------------- */

static struct reg *place(struct reg *regs, size_t room, const struct mm_token *name) {
    size_t hash = 5381;
    for (size_t i = 0; i < name->length; i++) hash = 33 * hash + (unsigned char)name->at[i];
    while (regs[hash % room].name.length && !same_token(&regs[hash % room].name, name)) hash++;
    return &regs[hash % room];
}

static bool grow(struct function *f) {
    const size_t room = f->room ? 2 * f->room : 256;
    struct reg *grown = (struct reg *)calloc(room, sizeof *grown);
    if (!grown) return !(f->no_memory = true);
    for (size_t i = 0; i < f->room; i++)
        if (f->regs[i].name.length) *place(grown, room, &f->regs[i].name) = f->regs[i];
    free(f->regs);
    f->regs = grown;
    f->room = room;
    return true;
}

/* NULL if out of memory. */
static struct reg *find_reg(struct function *f, const struct mm_token *name) {
    if (2 * f->used >= f->room && !grow(f)) return NULL;
    struct reg *r = place(f->regs, f->room, name);
    if (!r->name.length) {
        r->name = *name;
        f->used++;
    }
    return r;
}

static struct value value_in(struct function *f, const struct mm_token *name) {
    const struct reg *r = find_reg(f, name);
    if (!r) return value_of(MANY, 0);
    return r->block == f->block ? r->here : r->value;
}

static void define(struct function *f, const struct mm_token *name, const struct value *v) {
    struct value here = value_in(f, name);
    struct reg *r = find_reg(f, name);
    if (!r) return;
    join(&here, v);
    r->here = f->is_conditional ? here : *v;
    r->block = f->block;
    if (join(&r->value, v)) f->changed = true;
}

/* ---- one instruction ------------------------------------------------------------------------------------ */

static bool is_allocator(const struct function *f, const struct mm_token *name) {
    for (size_t i = 0; i < f->allocator_count; i++)
        if (same_token(&f->allocators[i], name)) return true;
    return false;
}

/* Reads an operand that is a register, a number or a name; moves *i past it and past the comma or the end behind it. */
static struct value read_operand(struct function *f, const struct mm_line *l, size_t *i) {
    struct value v = value_of(MANY, 0);
    if (*i < l->count && l->t[*i].kind == MM_TOKEN_IDENTIFIER) {
        const struct mm_token *name = &l->t[(*i)++];
        if (*name->at == '%') v = value_in(f, name);
        else v.kind = FUNCTION, v.name = *name;
    } else if (mm_line_read_number(l, i, &v.number)) {
        v.kind = CONSTANT;
    }
    if (*i < l->count && !mm_line_is(l, *i, ",")) return *i = l->count, value_of(MANY, 0);
    ++*i;
    return v;
}

static struct slot *find_slot(struct function *f, long long offset) {
    for (size_t i = 0; i < SLOTS; i++)
        if (f->slots[i].is_set && f->slots[i].offset == offset) return &f->slots[i];
    return NULL;
}

static void forget_slots(struct function *f) { memset(f->slots, 0, sizeof f->slots); }

static void set_slot(struct function *f, long long offset, const struct value *v) {
    for (size_t i = 0; i < SLOTS; i++)
        if (f->slots[i].offset > offset - 8 && f->slots[i].offset < offset + 8) f->slots[i].is_set = false;
    struct slot *s = &f->slots[f->next_slot++ % SLOTS];
    s->offset = offset;
    s->value = *v;
    s->is_set = true;
}

/* Sets what an instruction defines to MANY: the registers of its first operand that are not in an address. */
static void define_unknown(struct function *f, const struct mm_line *l) {
    const struct value many = value_of(MANY, 0);
    int depth = 0, address = 0;
    for (size_t i = l->op + 1; i < l->count && (depth > 0 || !mm_line_is(l, i, ",")); i++) {
        address += mm_line_is(l, i, "[") - mm_line_is(l, i, "]");
        depth += mm_line_is(l, i, "{") + mm_line_is(l, i, "(") + mm_line_is(l, i, "[") - mm_line_is(l, i, "}") - mm_line_is(l, i, ")") - mm_line_is(l, i, "]");
        if (l->t[i].kind == MM_TOKEN_IDENTIFIER && !address) define(f, &l->t[i], &many);
    }
}

static const char *const word_parts[] = {".u64", ".b64", ".s64", NULL};

/* Returns whether this instruction stores a count. */
static bool read_store(struct function *f, const struct mm_line *l) {
    static const char *const parts[] = {".weak", ".global", ".u64", ".b64", ".s64", NULL};
    struct mm_token base;
    long long offset;
    size_t i = l->op + 1;
    const bool is_param = mm_line_is(l, i, ".param");
    while (i < l->count && l->t[i].kind == MM_TOKEN_DIRECTIVE) i++;
    if (!mm_line_read_address(l, &i, &base, &offset)) return forget_slots(f), false;
    if (is_param) { /* an argument, or the function's return value */
        if (f->result.kind == MM_TOKEN_END || !same_token(&base, &f->result)) return false;
        struct value v = read_operand(f, l, &i);
        if (v.kind == FUNCTION || offset) v = value_of(MANY, 0);
        f->changed |= join(&f->returned, &v);
        return false;
    }
    if (!mm_line_parts_are(l, &i, parts)) return forget_slots(f), false;
    mm_line_read_address(l, &i, &base, &offset);
    if (mm_token_is(&base, "%SP") && !f->is_conditional) {
        const struct value v = read_operand(f, l, &i);
        return set_slot(f, offset, &v), false;
    }
    forget_slots(f);
    const struct value at = value_in(f, &base);
    return at.kind == ARRAY && at.number + offset == -COUNT_BYTES;
}

static void read_load(struct function *f, const struct mm_line *l) {
    struct mm_token base;
    long long offset;
    struct value v = value_of(MANY, 0);
    size_t i = l->op + 1;
    const bool is_param = mm_line_is(l, i, ".param");
    while (i < l->count && l->t[i].kind == MM_TOKEN_DIRECTIVE) i++;
    const size_t to = i;
    i += 2;
    if (i < l->count && l->t[to].kind == MM_TOKEN_IDENTIFIER && mm_line_is(l, to + 1, ",") && mm_line_read_address(l, &i, &base, &offset)) {
        const size_t parts = to - l->op - 1 - (size_t)is_param;
        const bool is_word = parts == 1 && (mm_line_is(l, to - 1, ".u64") || mm_line_is(l, to - 1, ".b64") || mm_line_is(l, to - 1, ".s64"));
        const struct slot *s = mm_token_is(&base, "%SP") && !is_param ? find_slot(f, offset) : NULL;
        if (is_word && s) v = s->value;
        if (is_word && is_param && !offset && f->call_result.length && same_token(&f->call_result, &base)) v = f->call_value;
        define(f, &l->t[to], &v);
    } else {
        define_unknown(f, l);
    }
}

/* call (result), function, (arguments); */
static void read_call(struct function *f, const struct mm_line *l) {
    size_t i = l->op + 1;
    forget_slots(f);
    define_unknown(f, l);
    f->call_result.length = 0;
    while (i < l->count && l->t[i].kind == MM_TOKEN_DIRECTIVE) i++;
    if (!mm_line_is(l, i, "(") || !mm_line_is(l, i + 2, ")") || !mm_line_is(l, i + 3, ",") || i + 4 >= l->count) return;
    f->call_result = l->t[i + 1];
    i += 4;
    const struct value callee = read_operand(f, l, &i);
    f->call_value = value_of(callee.kind == NONE ? NONE : MANY, 0);
    if (callee.kind == FUNCTION && is_allocator(f, &callee.name)) f->call_value = value_of(ARRAY, 0);
}

/* 64-bit mov, cvta, add, sub. */
static void read_move(struct function *f, const struct mm_line *l) {
    static const char *const cvta_parts[] = {".to", ".global", ".u64", NULL};
    const int sign = mm_line_is(l, l->op, "sub") ? -1 : 1;
    const bool is_sum = sign < 0 || mm_line_is(l, l->op, "add");
    size_t i;
    if (!mm_line_parts_are(l, &i, mm_line_is(l, l->op, "cvta") ? cvta_parts : word_parts) || i + 2 >= l->count || !mm_line_is(l, i + 1, ",") ||
        l->t[i].kind != MM_TOKEN_IDENTIFIER) {
        define_unknown(f, l);
        return;
    }
    const struct mm_token *to = &l->t[i];
    i += 2;
    struct value v = read_operand(f, l, &i);
    if (is_sum) {
        const struct value b = read_operand(f, l, &i);
        v = sum(&v, &b, sign);
    }
    if (i <= l->count) v = value_of(MANY, 0); /* an operand is left */
    define(f, to, &v);
}

static void read_line(struct function *f, const struct mm_line *l) {
    static const char *const quiet[] = {"cvt", "mul", "mad", "shl", "shr", "and", "or", "not", "setp", "selp", NULL};
    size_t k = 0;
    f->is_conditional = l->op > 0;
    if (l->count == MM_LINE_TOKENS) {
        forget_slots(f);
        define_unknown(f, l);
        f->call_result.length = 0;
    } else if (mm_line_is(l, l->op, "st")) {
        if (!read_store(f, l) || !f->edit) return;
        for (const char *c = l->begin; c < l->end; c++)
            if (*c != '\n') f->edit[c - f->text] = ' ';
        f->removed++;
    } else if (mm_line_is(l, l->op, "ld")) {
        read_load(f, l);
    } else if (mm_line_is(l, l->op, "call")) {
        read_call(f, l);
    } else if (mm_line_is(l, l->op, "mov") || mm_line_is(l, l->op, "cvta") || mm_line_is(l, l->op, "add") || mm_line_is(l, l->op, "sub")) {
        read_move(f, l);
    } else {
        define_unknown(f, l);
        while (quiet[k] && !mm_line_is(l, l->op, quiet[k])) k++;
        if (!quiet[k]) forget_slots(f);
    }
}

/* ---- functions and the module ---------------------------------------------------------------------------- */

static void begin_block(struct function *f) {
    f->block++;
    f->call_result.length = 0;
    forget_slots(f);
}

/* Evaluates a function once; r is behind the opening brace of the body. */
static void read_body(struct function *f, struct mm_token_reader r, struct mm_line *l) {
    struct mm_token t = mm_token_next(&r);
    begin_block(f);
    while (t.kind != MM_TOKEN_END && !f->no_memory) {
        struct mm_token_reader behind = r;
        const struct mm_token next = mm_token_next(&behind);
        if (mm_token_is(&t, "{") || mm_token_is(&t, "}")) {
            if (*t.at == '}') f->call_result.length = 0;
            t = mm_token_next(&r);
        } else if (t.kind == MM_TOKEN_IDENTIFIER && mm_token_is(&next, ":")) {
            r = behind;
            t = mm_token_next(&r);
            if (t.kind != MM_TOKEN_DIRECTIVE || mm_token_is(&t, ".loc")) begin_block(f); /* else the name of a .callprototype */
        } else if (mm_token_is(&t, ".loc")) {
            for (const int line = t.line; t.kind != MM_TOKEN_END && t.line == line;) t = mm_token_next(&r);
        } else {
            mm_line_take(&r, &t, l);
            if (l->count && l->t->kind != MM_TOKEN_DIRECTIVE) read_line(f, l);
        }
    }
}

/* Evaluates a function until nothing changes. A register without a definition may have any value. */
static void settle(struct function *f, struct mm_token_reader r, struct mm_line *l) {
    bool was_changed;
    do {
        do {
            f->changed = false;
            read_body(f, r, l);
        } while (f->changed && !f->no_memory);
        was_changed = false;
        for (size_t i = 0; i < f->room; i++) {
            if (!f->regs[i].name.length || f->regs[i].value.kind != NONE) continue;
            f->regs[i].value = value_of(MANY, 0);
            was_changed = true;
        }
    } while (was_changed && !f->no_memory);
}

/* Reads .func (.param .b64 RESULT) name (...) { and leaves the reader behind the brace. */
static void read_head(struct function *f, const struct mm_item *item, struct mm_token_reader *r) {
    int depth = 0;
    struct mm_token t, last;
    memset(&last, 0, sizeof last);
    mm_token_start(r, item->begin, (size_t)(item->end - item->begin));
    for (t = mm_token_next(r); t.kind != MM_TOKEN_END && (depth || !mm_token_is(&t, "{")); t = mm_token_next(r)) {
        depth += mm_token_is(&t, "(") - mm_token_is(&t, ")");
        if (t.at < item->name.at && mm_token_is(&t, ")")) f->result = last;
        last = t;
    }
}

/* Evaluates a function, and removes its counts from `edit` unless NULL. Returns the number removed, or -1 if out of memory; *returns: whether
 * the function returns malloc's result. */
static int read_function(const struct mm_item *item, const struct mm_token *allocators, size_t count, const char *text, char *edit, struct mm_line *l,
                         bool *returns) {
    struct function f;
    struct mm_token_reader r;
    memset(&f, 0, sizeof f);
    f.allocators = allocators;
    f.allocator_count = count;
    f.text = text;
    read_head(&f, item, &r);
    settle(&f, r, l);
    f.edit = edit;
    if (edit && !f.no_memory) read_body(&f, r, l);
    *returns = f.returned.kind == ARRAY && f.returned.number == 0;
    free(f.regs);
    return f.no_memory ? -1 : f.removed;
}

static bool is_declared(const struct mm_module *m, const char *name, struct mm_token *at) {
    for (size_t i = 0; i < m->count; i++) {
        *at = m->items[i].name;
        if (m->items[i].kind == MM_ITEM_FUNC_DECLARED && mm_token_is(&m->items[i].linkage, ".extern") && mm_token_is(at, name)) return true;
    }
    return false;
}

/* Finds the functions that return malloc's result, such as operator new[] where it is not inlined. Returns how many, including malloc, or
 * -1 if out of memory. `allocators` has room for all. */
static long find_allocators(const struct mm_module *m, const char *text, struct mm_token *allocators, struct mm_line *l) {
    static const char *const mallocs[] = {"malloc", "__cuda_syscall_aligned_malloc"};
    size_t count = 0, before;
    bool returns;
    for (size_t i = 0; i < sizeof mallocs / sizeof *mallocs; i++)
        if (is_declared(m, mallocs[i], &allocators[count])) count++;
    do {
        before = count;
        for (size_t i = 0; i < m->count && before; i++) {
            struct function known;
            memset(&known, 0, sizeof known);
            known.allocators = allocators;
            known.allocator_count = count;
            if (m->items[i].kind != MM_ITEM_FUNC_DEFINED || is_allocator(&known, &m->items[i].name)) continue;
            if (read_function(&m->items[i], allocators, count, text, NULL, l, &returns) < 0) return -1;
            if (returns) allocators[count++] = m->items[i].name;
        }
    } while (count > before);
    return (long)count;
}

static int remove_from(const struct mm_module *m, const char *text, char *edit, struct mm_line *l) {
    int removed = 0;
    bool returns;
    struct mm_token *allocators = (struct mm_token *)calloc(m->count + 2, sizeof *allocators);
    const long count = allocators ? find_allocators(m, text, allocators, l) : -1;
    for (size_t i = 0; i < m->count && count > 0 && removed >= 0; i++) {
        if (m->items[i].kind != MM_ITEM_FUNC_DEFINED && m->items[i].kind != MM_ITEM_ENTRY) continue;
        const int n = read_function(&m->items[i], allocators, (size_t)count, text, edit, l, &returns);
        removed = n < 0 ? -1 : removed + n;
    }
    free(allocators);
    return count < 0 ? -1 : removed;
}

int mm_counts_remove(const char *text, size_t bytes, struct mm_text *out) {
    struct mm_module m;
    int removed = 0;
    memset(out, 0, sizeof *out);
    if (mm_module_try_read(&m, text, bytes)) {
        struct mm_line *l = (struct mm_line *)malloc(sizeof *l);
        removed = l && mm_text_add(out, text, bytes) == 0 ? remove_from(&m, text, out->data, l) : -1;
        free(l);
    }
    mm_module_free(&m);
    if (removed <= 0) mm_text_free(out);
    return removed;
}
