/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Decompresses the contents of fat binaries, with liblz4 and libzstd. */
#ifndef MM_LOAD_UNPACK_H
#define MM_LOAD_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Larger stated sizes are refused: the largest cubins of cuBLAS and PyTorch are a tenth of this. */
#define MM_UNPACK_MAX_BYTES (1ull << 30)

enum mm_unpack_how { MM_UNPACK_LZ4, MM_UNPACK_ZSTD }; /* an LZ4 block; a zstd frame */

/* Decompresses `from_bytes` bytes to exactly `bytes` bytes. Returns memory for free(), with a zero byte appended that terminates text; or
 * NULL, with the reason in *what ("is damaged"). */
unsigned char *mm_unpack(enum mm_unpack_how how, const unsigned char *from, size_t from_bytes, uint64_t bytes, const char **what);

#endif
