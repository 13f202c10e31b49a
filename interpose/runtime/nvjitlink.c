#include "interpose/runtime/nvjitlink.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/runtime/jit.h"

/* Machine code for each architecture (mm24.a's), with the size that it has in its head. */
__asm__(".pushsection .rodata.mm_linked, \"a\"\n"
        ".balign 8\n"
        "mm_linked: .incbin \"" MM_LINKED "\"\n"
        "mm_linked_end:\n"
        ".popsection\n");
extern const char mm_linked[] __attribute__((visibility("hidden"))), mm_linked_end[] __attribute__((visibility("hidden")));

/* As in nvJitLink.h, which is not everywhere: a result is 0 if all is well, a link is a pointer. */
enum input { INPUT_PTX = 2, INPUT_FATBIN = 4, INPUT_ANY = 10 };
typedef int create_function(void **link, uint32_t count, const char **options);
typedef int data_function(void *link, int input, const void *data, size_t bytes, const char *name);
typedef int file_function(void *link, int input, const char *path);
typedef int complete_function(void *link);

/* One for each nvJitLink in the process. */
struct library {
    create_function *create;
    data_function *data;
    file_function *file;
    complete_function *complete;
};
enum { LIBRARIES = 4, FUNCTIONS = 4 };
static struct library libraries[LIBRARIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int create(const struct library *l, void **link, uint32_t count, const char **options) {
    static const char limit[] = "-maxrregcount=";
    const int r = l->create(link, count, options);
    if (r != 0) return r;
    CUjit_option option = CU_JIT_MAX_REGISTERS;
    void *value = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (strncmp(options[i], limit, sizeof limit - 1) == 0) value = (void *)(uintptr_t)strtoul(options[i] + sizeof limit - 1, NULL, 10);
    mm_jit_link_begin((CUlinkState)*link, &option, &value, 1);
    return 0;
}

static int data(const struct library *l, void *link, int input, const void *text, size_t bytes, const char *name) {
    const int r = l->data(link, input, text, bytes, name);
    if (r == 0 && input == INPUT_PTX && text) mm_jit_link_add((CUlinkState)link, (const char *)text, bytes, NULL, NULL, NULL, 0);
    return r;
}

static int file(const struct library *l, void *link, int input, const char *path) {
    const int r = l->file(link, input, path);
    const size_t length = path ? strlen(path) : 0;
    if (r == 0 && (input == INPUT_PTX || (input == INPUT_ANY && length > 4 && strcmp(path + length - 4, ".ptx") == 0)))
        mm_jit_link_add((CUlinkState)link, NULL, 0, path, NULL, NULL, 0);
    return r;
}

static int complete(const struct library *l, void *link) {
    const struct mm_jit_input input = mm_jit_link_complete((CUlinkState)link);
    if (input.text && l->data(link, INPUT_FATBIN, mm_linked, (size_t)(mm_linked_end - mm_linked), "mm") != 0 &&
        (input.is_bounded || l->data(link, INPUT_PTX, input.text, input.bytes, "mm") != 0))
        mm_jit_link_kept("nvJitLink does not take mm's");
    mm_jit_link_end((CUlinkState)link);
    return l->complete(link);
}

/* A link has no place for us, so each library has functions of its own. */
#define OURS(i)                                                                                                             \
    static int create_##i(void **link, uint32_t n, const char **options) { return create(&libraries[i], link, n, options); } \
    static int data_##i(void *link, int input, const void *d, size_t bytes, const char *name) {                             \
        return data(&libraries[i], link, input, d, bytes, name);                                                            \
    }                                                                                                                       \
    static int file_##i(void *link, int input, const char *path) { return file(&libraries[i], link, input, path); }          \
    static int complete_##i(void *link) { return complete(&libraries[i], link); }
OURS(0)
OURS(1)
OURS(2)
OURS(3)
#define ROW(i) {create_##i, data_##i, file_##i, complete_##i}
static const struct library ours[LIBRARIES] = {ROW(0), ROW(1), ROW(2), ROW(3)};

void *mm_nvjitlink_take(void *handle, const char *name, void *found, void *(*find)(void *handle, const char *name)) {
    static const char *const names[FUNCTIONS] = {"nvJitLinkCreate", "nvJitLinkAddData", "nvJitLinkAddFile", "nvJitLinkComplete"};
    void *theirs[FUNCTIONS], *replaced[FUNCTIONS];
    struct library l;
    int which = FUNCTIONS;
    for (int i = 0; i < FUNCTIONS; i++) {
        theirs[i] = find(handle, names[i]);
        if (!theirs[i]) return found;
        if (strcmp(name, names[i]) == 0) which = i;
    }
    if (which == FUNCTIONS || found != theirs[which]) return found;
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
