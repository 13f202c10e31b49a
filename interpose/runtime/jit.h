/* PTX that comes at run time (NVRTC, CuPy, Numba, the driver API) gets the allocator on its way into the driver.
 *
 * A module or library whose text declares a service (interpose/splice) is loaded from a spliced copy of the text. If that cannot be
 * made, or the driver does not take it, the driver gets the program's own text, its answer is the program's, and one line in a
 * process says why. Whatever else an image is goes to the driver as it came.
 *
 * Texts that the driver links (cuLink*) go in unchanged, and if one declares a service, the allocator follows as a text of its own
 * when the link is completed. Splicing each would do for symbols, which are weak, but not for registers: a kernel with
 * __launch_bounds__(1024,2) must not call what needs more than 32, and only an input of its own can be held to that.
 */
#ifndef MM_INTERPOSE_JIT_H
#define MM_INTERPOSE_JIT_H

#include <cuda.h>

#include "interpose/splice/splice.h"

/* One loading. */
struct mm_jit {
    struct mm_splice_text text; /* what the driver gets instead */
    CUresult refused;           /* what it said, if it did not take that */
    /* The values of the program's options: the driver writes into them, and a second call must find what the first did. */
    void **values, *saved[MM_JIT_OPTIONS_MAX];
    unsigned count;
    /* Of a library: without CU_LIBRARY_BINARY_IS_PRESERVED, since our text goes at once. */
    CUlibraryOption library_options[MM_JIT_LIBRARY_OPTIONS_MAX];
    void *library_values[MM_JIT_LIBRARY_OPTIONS_MAX];
    unsigned library_count;
};

/* Whether a PTX text declares a service of device-side allocation, and mm is not switched off. */
bool mm_jit_wants(const char *text, size_t bytes);

/* The allocator as PTX for a module of that header; the oldest there is if all are for newer targets: then *arch is 0. */
const char *mm_jit_fragment(const struct mm_splice_header *module, int *arch);

/* A PTX text without the counts that nvcc stores in front of arrays (splice/counts.h): a copy in `mended`, which is to be freed, or the
 * text itself if it has none, or is not to get the allocator. */
const char *mm_jit_mend(const char *text, size_t *bytes, struct mm_splice_text *mended);

/* Splices the image, or what is in the file. `count` and `values` are the program's. Returns false if the driver is to get what the
 * program has; then nothing is to be done. Else j->text is for the driver, and then mm_jit_is_taken is to be called. */
bool mm_jit_try_image(struct mm_jit *j, const void *image, void **values, unsigned count);
bool mm_jit_try_file(struct mm_jit *j, const char *path, void **values, unsigned count);
/* To be called before one of these: the options of the library. Returns false as they do. is_file: for cuLibraryLoadFromFile, which
 * refuses CU_LIBRARY_BINARY_IS_PRESERVED. */
bool mm_jit_try_options(struct mm_jit *j, bool is_file, const CUlibraryOption *options, void **values, unsigned count);

/* The driver's answer to our text. Returns whether it took it. If not, the program's own is to be loaded, and that answer goes
 * through mm_jit_answer to the program. */
bool mm_jit_is_taken(struct mm_jit *j, CUresult r);
CUresult mm_jit_answer(const struct mm_jit *j, CUresult r);

/* ---- what the driver links ---- */

struct mm_jit_input {
    const char *text; /* zero-terminated; NULL: nothing is to be added */
    size_t bytes;     /* without the zero */
    unsigned registers; /* for CU_JIT_MAX_REGISTERS */
};

/* A state was made with these options; is about to end. */
void mm_jit_link_begin(CUlinkState state, const CUjit_option *options, void *const *values, unsigned count);
void mm_jit_link_end(CUlinkState state);
/* PTX was added, with these options, by address or (data NULL) as a file. */
void mm_jit_link_add(CUlinkState state, const char *data, size_t bytes, const char *path, const CUjit_option *options,
                     void *const *values, unsigned count);
/* What is to be added before the state is completed, once. */
struct mm_jit_input mm_jit_link_complete(CUlinkState state);
/* The driver did not take that; or it is kept for this reason. */
void mm_jit_link_refused(CUresult r);
void mm_jit_link_kept(const char *why);

#endif
