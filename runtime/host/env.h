/* What the environment says (secure_getenv; a set-user-ID program hears nothing). */
#ifndef MM_HOST_ENV_H
#define MM_HOST_ENV_H

#include <stdbool.h>
#include <stdint.h>

struct mm_host_env {
    bool verbose;
    uint64_t heap_bytes;   /* MM_HEAP_SIZE in bytes; 0: not given so */
    unsigned heap_percent; /* MM_HEAP_SIZE in % of the device's memory; 0: not given so */
};

/* Reads and checks all MM_* variables, once per process; what is wrong with them is said then. */
const struct mm_host_env *mm_host_env_get(void);

/* "<digits>[KMGT]" with a value above 0 into *bytes (too large for 64 bits: the largest), or "<1..100>%"
 * into *percent; the other one becomes 0. Returns false, and writes nothing, if `text` is neither. */
bool mm_host_env_try_size(const char *text, uint64_t *bytes, unsigned *percent);

#endif
