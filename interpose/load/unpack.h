/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Decompression of what fat binaries hold, by liblz4 and libzstd. */
#ifndef MM_LOAD_UNPACK_H
#define MM_LOAD_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is said to be larger is refused: the largest cubins of cuBLAS and PyTorch are a tenth of it. */
#define MM_UNPACK_MAX_BYTES (1ull << 30)

enum mm_unpack_how { MM_UNPACK_LZ4, MM_UNPACK_ZSTD }; /* an LZ4 block; a zstd frame */

/* Decompresses `from_bytes` bytes, which must be exactly `bytes` afterwards. Returns memory for free(), of which one byte more is zero, so
 * that text ends; or NULL, and why in *what ("is damaged"). */
unsigned char *mm_unpack(enum mm_unpack_how how, const unsigned char *from, size_t from_bytes, uint64_t bytes, const char **what);

#endif
