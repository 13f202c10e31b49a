/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* secure_getenv, environ */
#include "runtime/host/env.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "runtime/core/layout.h"
#include "runtime/host/say.h"

static struct mm_host_env env;
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

/* Parses the digits at *at, and advances *at behind them. If the number does not fit into 64 bits, *value is the largest. Returns false if there are no
 * digits. */
static bool try_digits(const char **at, uint64_t *value) {
    const char *start = *at;
    for (*value = 0; **at >= '0' && **at <= '9'; ++*at) {
        unsigned digit = (unsigned)(**at - '0');
        *value = *value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : *value * 10 + digit;
    }
    return *at != start;
}

bool mm_host_env_try_size(const char *text, struct mm_host_env_size *size) {
    uint64_t value = 0;
    const char *at = text;
    if (!try_digits(&at, &value) || value == 0) return false;
    if (strcmp(at, "%") == 0) {
        if (value > 100) return false;
        *size = (struct mm_host_env_size){0, (unsigned)value};
        return true;
    }
    unsigned shift = 0;
    if (*at) {
        const char *units = "kKmMgGtT", *unit = strchr(units, *at);
        if (!unit || at[1]) return false;
        shift = 10 * (unsigned)((unit - units) / 2 + 1);
    }
    *size = (struct mm_host_env_size){value > UINT64_MAX >> shift ? UINT64_MAX : value << shift, 0};
    return true;
}

bool mm_host_env_try_number(const char *text, unsigned most, unsigned *number) {
    uint64_t value = 0;
    if (!try_digits(&text, &value) || *text || value > most) return false;
    *number = (unsigned)value;
    return true;
}

/* The value of a variable, for a message: shortened, with unprintable characters replaced. */
struct value_text {
    char text[68];
};

static struct value_text value_text(const char *value) {
    struct value_text t;
    size_t n = 0;
    for (; n < 60 && value[n]; n++) {
        unsigned char c = (unsigned char)value[n];
        t.text[n] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    strcpy(t.text + n, value[n] ? "..." : "");
    return t;
}

/* expected: what would be understood, and what is used instead. */
static void say_wrong(const char *name, const char *text, const char *expected) {
    mm_host_say("%s=%s is not understood; expected %s", name, value_text(text).text, expected);
}

static bool in_list(const char *name, size_t length, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == length && memcmp(list[i], name, length) == 0) return true;
    return false;
}

static void report_unknown(void) {
    static const char *const ours[] = {MM_HOST_VARIABLES};
    static const char *const elsewhere[] = {MM_HOST_VARIABLES_ELSEWHERE};
    if (getauxval(AT_SECURE) || !environ) return;
    for (char **e = environ; *e; e++) {
        if (strncmp(*e, "MM_", 3) != 0) continue;
        const char *equals = strchr(*e, '=');
        if (!equals) continue;
        size_t length = (size_t)(equals - *e);
        if (in_list(*e, length, ours, sizeof ours / sizeof *ours)) continue;
        if (in_list(*e, length, elsewhere, sizeof elsewhere / sizeof *elsewhere)) continue;
        char known[400] = "";
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
            strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
            strncat(known, ours[i], sizeof known - strlen(known) - 1);
        }
        struct value_text v = value_text(equals + 1);
        mm_host_say("%.*s=%s is not a variable of mm; known are %s", (int)(length < 60 ? length : 60), *e, v.text, known);
    }
}

static void read_size(const char *name, struct mm_host_env_size *size) {
    const char *text = secure_getenv(name);
    if (text && !mm_host_env_try_size(text, size))
        mm_host_say("%s=%s is not a size; expected bytes above 0, also with K, M, G or T (8G), or "
                    "1%% to 100%% of the GPU's memory; using the default",
                    name, value_text(text).text);
}

/* Which of the words the variable is; if it is none of them, `otherwise`, with a message if it is set. */
static unsigned read_choice(const char *name, const char *const *words, size_t count, unsigned otherwise, const char *expected) {
    const char *text = secure_getenv(name);
    for (unsigned i = 0; text && i < count; i++)
        if (strcmp(text, words[i]) == 0) return i;
    if (text) say_wrong(name, text, expected);
    return otherwise;
}
#define READ_CHOICE(name, words, otherwise, expected) read_choice(name, words, sizeof words / sizeof *words, otherwise, expected)

static bool read_switch(const char *name) {
    static const char *const words[] = {"0", "1"};
    return READ_CHOICE(name, words, 0, "0 or 1; using 0");
}

/* A number of at most `most`. */
static void read_number(const char *name, unsigned most, unsigned *number, const char *expected) {
    const char *text = secure_getenv(name);
    if (text && !mm_host_env_try_number(text, most, number)) say_wrong(name, text, expected);
}

/* Returns a copy, since the program may change its environment. NULL: not set. */
static const char *read_path(const char *name) {
    const char *text = secure_getenv(name);
    if (!text) return NULL;
    if (*text && strlen(text) < PATH_MAX) return strdup(text);
    say_wrong(name, text, "the name of a file; not used");
    return NULL;
}

static void read_stats(void) {
    static const char *const forms[] = {[MM_STATS_NONE] = "0", [MM_STATS_TEXT] = "text", [MM_STATS_JSON] = "json", [MM_STATS_CSV] = "csv", "1"};
    const unsigned form = READ_CHOICE("MM_STATS", forms, MM_STATS_NONE, "0, 1, text, json or csv; using 0");
    env.stats = form <= MM_STATS_CSV ? (enum mm_stats_form)form : MM_STATS_TEXT;
    env.stats_file = read_path("MM_STATS_FILE");
}

/* Called after MM_CHECK was read, since the default depends on it. */
static void read_fill(void) {
    static const char *const names[] = {[MM_FILL_NONE] = "none", [MM_FILL_ZERO] = "zero", [MM_FILL_JUNK] = "junk"};
    if (env.is_checked) env.fill = READ_CHOICE("MM_FILL", names, MM_FILL_JUNK, "none, zero or junk; using junk");
    else env.fill = READ_CHOICE("MM_FILL", names, MM_FILL_NONE, "none, zero or junk; using none");
}

/* Parses "1/N", "1/N:SEED" or "K". Returns false, and writes nothing, if `text` is something else. */
static bool try_requests(const char *text, unsigned *kind, uint64_t *number, uint64_t *seed) {
    const bool is_share = strncmp(text, "1/", 2) == 0;
    uint64_t n = 0, s = 0;
    if (is_share) text += 2;
    if (!try_digits(&text, &n) || n > MM_FAIL_NUMBER_MAX || (is_share && n == 0)) return false;
    if (is_share && *text == ':' && (text++, !try_digits(&text, &s) || s > MM_FAIL_NUMBER_MAX)) return false;
    if (*text) return false;
    *kind = is_share ? MM_FAIL_SHARE : n ? MM_FAIL_NUMBER : MM_FAIL_NONE;
    *number = n, *seed = s;
    return true;
}

/* The name of a kernel: an identifier, as it is in the source or mangled. */
static bool is_kernel_name(const char *name) {
    const char *c = name;
    while ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' || *c == '$') c++;
    return *c == 0 && c != name && (*name < '0' || *name > '9');
}

static void read_fail(void) {
    static const char kernel[] = "kernel";
    const char *text = secure_getenv("MM_FAIL");
    if (!text) return;
    const size_t length = sizeof kernel - 1;
    const bool is_kernel = strncmp(text, kernel, length) == 0 && text[length] == ':' && is_kernel_name(text + length + 1);
    if (!is_kernel && !try_requests(text, &env.fail, &env.fail_number, &env.fail_seed)) {
        say_wrong("MM_FAIL", text, "1/1000 or 1/1000:SEED (one of 1000 requests), 1000 (that request), or kernel:NAME; not used");
        return;
    }
    char *const copy = strdup(text);
    env.fail = !copy ? (unsigned)MM_FAIL_NONE : is_kernel ? (unsigned)MM_FAIL_KERNEL : env.fail;
    if (env.fail) env.fail_text = copy;
    else free(copy);
    if (env.fail == MM_FAIL_KERNEL) env.fail_kernel = copy + length + 1;
}

static void read_trim(void) {
    const char *text = secure_getenv("MM_TRIM");
    unsigned seconds = MM_TRIM_SECONDS_DEFAULT;
    env.gives_back = true;
    if (text && strcmp(text, "off") == 0) env.gives_back = false, seconds = 0;
    else if (text && (strcmp(text, "demand") == 0 || strcmp(text, "idle") == 0)) seconds = 0;
    else if (text && (!mm_host_env_try_number(text, MM_TRIM_SECONDS_MAX, &seconds) || seconds == 0)) {
        seconds = MM_TRIM_SECONDS_DEFAULT;
        say_wrong("MM_TRIM", text, "off, demand, idle, or seconds, 1 to " MM_STR(MM_TRIM_SECONDS_MAX) "; using " MM_STR(MM_TRIM_SECONDS_DEFAULT));
    }
    env.trim_after_ms = text && strcmp(text, "idle") == 0 ? MM_HOST_TRIM_IDLE_MS : seconds * 1000;
}

static void read_allocator(void) {
#define ONE_NAME(name, suffix) name,
#define NAME_COMMA(name, suffix) name ", "
    static const char *const names[] = {MM_ALLOCATORS(ONE_NAME)};
    const char *text = secure_getenv("MM_RUN_ALLOCATOR");
    if (!text) return;
    env.is_cudas = strcmp(text, "cuda") == 0;
    env.asks = strcmp(text, "mm") == 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && !env.asks; i++) {
        env.asks = strcmp(text, names[i]) == 0;
        if (env.asks && i > 0) env.sibling = names[i]; /* the first one is the default */
    }
    if (!env.is_cudas && !env.asks) say_wrong("MM_RUN_ALLOCATOR", text, MM_ALLOCATORS(NAME_COMMA) "mm or cuda; using mm");
}

static void read_pool(void) {
    static const char *const modes[] = {[MM_POOL_OFF] = "off", [MM_POOL_SMALL] = "small", [MM_POOL_KEEP] = "keep", [MM_POOL_ASYNC] = "async"};
    env.pool = (enum mm_pool_modes)READ_CHOICE("MM_POOL", modes, MM_POOL_OFF, "off, small, keep or async; using off");
    const char *text = secure_getenv("MM_POOL_FIT");
    if (text && !mm_fit_parse(text, &env.pool_fit))
        mm_host_say("MM_POOL_FIT=%s is not understood; expected " MM_FIT_NAMES "; using %s", value_text(text).text, mm_fit_name(env.pool_fit));
    struct mm_host_env_size carve = {0, 0};
    text = secure_getenv("MM_POOL_CARVE");
    if (text && mm_host_env_try_size(text, &carve) && carve.percent == 0 && carve.bytes <= MM_POOL_CARVE_MAX) env.pool_carve_bytes = carve.bytes;
    else if (text) say_wrong("MM_POOL_CARVE", text, "bytes, also with K, M or G (32M), up to 1G; not used");
}

static void read_env(void) {
    report_unknown();
    env.verbose = read_switch("MM_VERBOSE");
    env.is_off = read_switch("MM_OFF");
    env.allows_unsafe = read_switch("MM_ALLOW_UNSAFE");
    read_allocator();
    read_size("MM_HEAP_SIZE", &env.heap_size);
    read_size("MM_HEAP_MAX", &env.heap_max);
    env.grow_wait_ms = MM_GROW_WAIT_MS_DEFAULT;
    read_number("MM_GROW_WAIT_MS", MM_GROW_WAIT_MS_MAX, &env.grow_wait_ms,
                "milliseconds, 0 to " MM_STR(MM_GROW_WAIT_MS_MAX) "; using " MM_STR(MM_GROW_WAIT_MS_DEFAULT));
    env.spacing = MM_SPACING_DEFAULT;
    unsigned spacing = 0;
    const char *text = secure_getenv("MM_SPACING");
    if (text && mm_host_env_try_number(text, MM_SPACING_MAX, &spacing) && spacing >= 1u << MM_ALIGN_SHIFT && !(spacing & (spacing - 1))) env.spacing = spacing;
    else if (text) mm_host_say("MM_SPACING=%s is not understood; expected bytes, 16, 32, 64 or 128; using %u", value_text(text).text, MM_SPACING_DEFAULT);
    static const char *const reactions[] = {[MM_ON_MISUSE_REPORT] = "report", [MM_ON_MISUSE_TRAP] = "trap", [MM_ON_MISUSE_IGNORE] = "ignore"};
    env.on_misuse = READ_CHOICE("MM_ON_MISUSE", reactions, MM_ON_MISUSE_REPORT, "report, trap or ignore; using report");
    env.is_checked = read_switch("MM_CHECK");
    read_fill();
    read_fail();
    read_number("MM_CHECK_EXITCODE", MM_CHECK_EXITCODE_MAX, &env.check_exitcode, "0 to " MM_STR(MM_CHECK_EXITCODE_MAX) "; using 0");
    read_stats();
    env.heap_map = read_path("MM_HEAP_MAP");
    env.map_series = read_path("MM_MAP_SERIES");
    env.trace = read_path("MM_TRACE");
    env.profile = read_path("MM_PROFILE");
    read_trim();
    read_pool();
}

const struct mm_host_env *mm_host_env_get(void) {
    pthread_once(&env_once, read_env);
    return &env;
}
