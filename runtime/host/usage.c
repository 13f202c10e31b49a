/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/usage.h"

#include <string.h>

mm_usage_walk_fn *mm_usage_walk_of(const char *sibling) {
#define OF_WALKS(name, suffix) {name, mm_usage_of_walks},
#define OF_RINGS(name, suffix) {name, mm_usage_of_rings},
#define OF_BUMPS(name, suffix) {name, mm_usage_of_bumps},
#define OF_CHUNKS(name, suffix) {name, mm_usage_of_chunks},
    static const struct {
        const char *name;
        mm_usage_walk_fn *walk;
    } siblings[] = {MM_WALKS(OF_WALKS) MM_RINGS(OF_RINGS) MM_BUMPS(OF_BUMPS) MM_PAGES_OF(OF_CHUNKS) MM_CHUNKS_OF(OF_CHUNKS)};
    for (size_t i = 0; sibling && i < sizeof siblings / sizeof *siblings; i++)
        if (strcmp(siblings[i].name, sibling) == 0) return siblings[i].walk;
    return mm_usage_walk;
}
