/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/ptx/text.h"

#include <stdlib.h>
#include <string.h>

int mm_text_add(struct mm_text *t, const char *data, size_t bytes) {
    if (t->bytes + bytes + 1 > t->room) {
        const size_t room = 2 * (t->bytes + bytes + 1);
        char *grown = (char *)realloc(t->data, room);
        if (!grown) return -1;
        t->data = grown;
        t->room = room;
    }
    memcpy(t->data + t->bytes, data, bytes);
    t->bytes += bytes;
    t->data[t->bytes] = 0;
    return 0;
}

int mm_text_add_string(struct mm_text *t, const char *string) { return mm_text_add(t, string, strlen(string)); }

void mm_text_free(struct mm_text *t) {
    free(t->data);
    memset(t, 0, sizeof *t);
}
