/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* strdup */
#include "interpose/runtime/nvjitlink.h"

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/runtime/image.h"
#include "interpose/runtime/jit.h"
#include "interpose/runtime/link.h"
#include "runtime/host/env.h"

/* Machine code for each architecture, of the least registers (mm24.a's): any kernel may call it, whatever its bounds. */
__asm__(".pushsection .rodata.mm_linked, \"a\"\n"
        ".balign 8\n"
        ".globl mm_linked, mm_linked_bytes\n.hidden mm_linked, mm_linked_bytes\n"
        "mm_linked: .incbin \"" MM_LINKED "\"\n"
        "1:  .balign 8\n"
        "mm_linked_bytes: .quad 1b - mm_linked\n"
        ".popsection\n");

/* nvJitLink's functions, as in nvJitLink.h, which is not everywhere: a result is 0 if all is well, a link is a pointer. */
#define FUNCTIONS(F)                                                                                                              \
    F(create, "Create", (void **link, uint32_t count, const char **options), (link, count, options))                              \
    F(destroy, "Destroy", (void **link), (link))                                                                                  \
    F(add_data, "AddData", (void *link, int type, const void *data, size_t bytes, const char *name), (link, type, data, bytes, name)) \
    F(add_file, "AddFile", (void *link, int type, const char *path), (link, type, path))                                          \
    F(complete, "Complete", (void *link), (link))                                                                                 \
    F(cubin_size, "GetLinkedCubinSize", (void *link, size_t *bytes), (link, bytes))                                               \
    F(cubin, "GetLinkedCubin", (void *link, void *to), (link, to))
enum { TYPE_PTX = 2, TYPE_FATBIN = 4 };

struct library {
#define MEMBER(name, symbol, parameters, arguments) int(*name) parameters;
    FUNCTIONS(MEMBER)
};
enum { LIBRARIES = 4, COUNT = sizeof(struct library) / sizeof(void *) };
static struct library libraries[LIBRARIES]; /* one for each nvJitLink in the process */

/* What a program put into a link. */
struct input {
    struct input *next;
    int type;
    char *data; /* NULL: the file `name`; a zero behind it, for which nvJitLink looks in PTX, whatever `bytes` says */
    size_t bytes;
    char *name; /* may be NULL with data */
};
struct link {
    struct link *next;
    void *theirs, *ours; /* ours: with the allocator; NULL: there is none */
    char **options;
    uint32_t count;
    struct input *inputs, **end;
    bool is_partial; /* something was not kept */
};
static struct link *links;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void drop_inputs(struct link *l) {
    while (l->inputs) {
        struct input *i = l->inputs;
        l->inputs = i->next;
        free(i->data);
        free(i->name);
        free(i);
    }
    l->end = &l->inputs;
}
static void drop(struct link *l) {
    if (!l) return;
    drop_inputs(l);
    for (uint32_t i = 0; i < l->count; i++) free(l->options[i]);
    free(l->options);
    free(l);
}

/* Whoever has a link's handle is alone with it, as with nvJitLink itself: the lock is for the list. */
static struct link *find(void *theirs) {
    pthread_mutex_lock(&lock);
    struct link *l = links;
    while (l && l->theirs != theirs) l = l->next;
    pthread_mutex_unlock(&lock);
    return l;
}
static struct link *take_out(void *theirs) {
    pthread_mutex_lock(&lock);
    struct link **at = &links;
    while (*at && (*at)->theirs != theirs) at = &(*at)->next;
    struct link *l = *at;
    if (l) *at = l->next;
    pthread_mutex_unlock(&lock);
    return l;
}

static int create(const struct library *y, void **link, uint32_t count, const char **options) {
    const int r = y->create(link, count, options);
    if (r != 0 || mm_host_env_get()->is_off) return r;
    drop(take_out(*link)); /* of that name before, and destroyed past us */
    struct link *l = (struct link *)calloc(1, sizeof *l);
    if (!l) return r;
    l->theirs = *link;
    l->end = &l->inputs;
    l->options = (char **)calloc(count + 1, sizeof *l->options);
    for (; l->options && l->count < count && (l->options[l->count] = strdup(options[l->count])); l->count++) {}
    l->is_partial = l->count < count;
    pthread_mutex_lock(&lock);
    l->next = links;
    links = l;
    pthread_mutex_unlock(&lock);
    return r;
}

static int destroy(const struct library *y, void **link) {
    struct link *l = link ? take_out(*link) : NULL;
    if (l && l->ours) y->destroy(&l->ours);
    drop(l);
    return y->destroy(link);
}

static void keep(void *link, int type, const void *data, size_t bytes, const char *name) {
    struct link *l = find(link);
    struct input *i = l ? (struct input *)calloc(1, sizeof *i) : NULL;
    struct mm_splice_text mended = {NULL, 0, 0};
    if (!l) return;
    if (type == TYPE_PTX && data) data = mm_jit_mend((const char *)data, &bytes, &mended);
    if (i && (!data || (i->data = (char *)calloc(1, bytes + 1))) && (!name || (i->name = strdup(name)))) {
        if (data) memcpy(i->data, data, bytes);
        i->type = type;
        i->bytes = bytes;
        *l->end = i;
        l->end = &i->next;
    } else {
        l->is_partial = true;
        if (i) free(i->data);
        free(i);
    }
    mm_splice_text_free(&mended);
}
static int add_data(const struct library *y, void *link, int type, const void *data, size_t bytes, const char *name) {
    const int r = y->add_data(link, type, data, bytes, name);
    if (r == 0 && data) keep(link, type, data, bytes, name);
    return r;
}
static int add_file(const struct library *y, void *link, int type, const char *path) {
    const int r = y->add_file(link, type, path);
    if (r == 0 && path) keep(link, type, NULL, 0, path);
    return r;
}

/* Adds the allocator: nvJitLink of an older CUDA takes no machine code of ours, but PTX. */
static int add_ours(const struct library *y, void *link, const struct link *l) {
    struct mm_splice_header gpu = {INT_MAX, 0}; /* who links for an architecture knows the PTX that introduced it */
    int arch = 0;
    if (y->add_data(link, TYPE_FATBIN, mm_linked, mm_linked_bytes, "mm") == 0) return 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (strncmp(l->options[i], "-arch=", 6) == 0) gpu.target = atoi(l->options[i] + strcspn(l->options[i], "0123456789"));
    const char *fragment = mm_jit_fragment(&gpu, &arch);
    return arch ? y->add_data(link, TYPE_PTX, fragment, strlen(fragment), "mm") : -1;
}

/* The same link with the allocator, completed; NULL if there can be none. */
static void *link_again(const struct library *y, const struct link *l) {
    void *link = NULL;
    if (l->is_partial || y->create(&link, l->count, (const char **)(void *)l->options) != 0) return NULL;
    int r = 0;
    for (const struct input *i = l->inputs; i && r == 0; i = i->next)
        r = i->data ? y->add_data(link, i->type, i->data, i->bytes, i->name) : y->add_file(link, i->type, i->name);
    if (r == 0) r = add_ours(y, link, l);
    if (r == 0) r = y->complete(link);
    if (r == 0) return link;
    y->destroy(&link);
    return NULL;
}

static bool allocates(const struct library *y, void *link) {
    struct mm_image_call call;
    size_t bytes = 0;
    if (y->cubin_size(link, &bytes) != 0 || bytes < 64) return false; /* PTX or LTO IR was asked for */
    char *code = (char *)malloc(bytes);
    const bool does = code && y->cubin(link, code) == 0 && memcmp(code, "\177ELF", 4) == 0 && mm_image_find_call(code, &call);
    free(code);
    return does;
}

static int complete(const struct library *y, void *link) {
    const int r = y->complete(link);
    struct link *l = r == 0 ? find(link) : NULL;
    if (!l) return r;
    if (!l->ours && allocates(y, link) && !(l->ours = link_again(y, l))) mm_jit_link_kept("nvJitLink does not take mm's");
    drop_inputs(l);
    return r;
}

static void *chosen(void *link) {
    const struct link *l = find(link);
    return l && l->ours ? l->ours : link;
}
static int cubin_size(const struct library *y, void *link, size_t *bytes) { return y->cubin_size(chosen(link), bytes); }
static int cubin(const struct library *y, void *link, void *to) { return y->cubin(chosen(link), to); }

/* A link has no place for us, so each library has functions of its own. */
#define UNPACK(...) __VA_ARGS__
#define DEFINE(number, name, parameters, arguments) \
    static int name##_##number parameters { return name(&libraries[number], UNPACK arguments); }
#define OURS_0(name, symbol, parameters, arguments) DEFINE(0, name, parameters, arguments)
#define OURS_1(name, symbol, parameters, arguments) DEFINE(1, name, parameters, arguments)
#define OURS_2(name, symbol, parameters, arguments) DEFINE(2, name, parameters, arguments)
#define OURS_3(name, symbol, parameters, arguments) DEFINE(3, name, parameters, arguments)
FUNCTIONS(OURS_0)
FUNCTIONS(OURS_1)
FUNCTIONS(OURS_2)
FUNCTIONS(OURS_3)
#define ROW(i) {create_##i, destroy_##i, add_data_##i, add_file_##i, complete_##i, cubin_size_##i, cubin_##i}
static const struct library ours[LIBRARIES] = {ROW(0), ROW(1), ROW(2), ROW(3)};

void *mm_nvjitlink_take(void *handle, const char *name, void *found, void *(*find)(void *handle, const char *name)) {
#define NAME(name, symbol, parameters, arguments) "nvJitLink" symbol,
    static const char *const names[COUNT] = {FUNCTIONS(NAME)};
    void *theirs[COUNT] = {NULL}, *replaced[COUNT];
    struct library l;
    int which = COUNT;
    for (int i = 0; i < COUNT; i++) {
        theirs[i] = find(handle, names[i]);
        if (!theirs[i]) return found;
        if (strcmp(name, names[i]) == 0) which = i;
    }
    if (which == COUNT || found != theirs[which]) return found;
    memcpy(&l, theirs, sizeof l);
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < LIBRARIES && libraries[i].create && libraries[i].create != l.create) i++;
    if (i < LIBRARIES && !libraries[i].create) libraries[i] = l;
    pthread_mutex_unlock(&lock);
    if (i == LIBRARIES) return found;
    memcpy(replaced, &ours[i], sizeof replaced);
    return replaced[which];
}
