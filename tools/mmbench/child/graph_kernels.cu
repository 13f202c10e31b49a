/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Launches of the kernels that allocate for the graph. Compiled twice, like alloc.cu; uses malloc and free only. */
#include <stdlib.h>

#include "tools/mmbench/child/lists.h"

static unsigned ctas_for(unsigned vertices) { return (vertices + CTA_THREADS - 1) / CTA_THREADS; }

void graph_insert(struct list *lists, const struct batch *b, struct tally *t) { insert_kernel<<<ctas_for(b->vertices), CTA_THREADS>>>(lists, *b, t); }

void graph_delete(struct list *lists, const struct batch *b, unsigned run, struct tally *t) {
    delete_kernel<<<ctas_for(b->vertices), CTA_THREADS>>>(lists, *b, run, t);
}

void graph_free(struct list *lists, unsigned vertices) { free_kernel<<<ctas_for(vertices), CTA_THREADS>>>(lists, vertices); }
