/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reads and makes fat binaries, which nvcc embeds in programs and libraries.
 *
 *   wrapper    what a program registers: magic, version, address of a container, and in version 2 the address of an array of further ones
 *   container  header (magic, version 1, bytes of the header, bytes of the entries), then the entries
 *   entry      header, payload; both padded with zeros to 8 bytes. The header ends with a name and options, at offsets that its fields give.
 *   payload    PTX, a cubin, or others; uncompressed, an LZ4 block or a zstd frame
 *   group      an entry (kind 0x100, `fatbinary -concat` of CUDA 13.5) with several payloads in one compressed stream. Its header contains a
 *              header for each of them, in the same format, with the payload's offset in the stream instead of the header's size.
 *
 * All integers are little-endian. No function reads outside the bytes passed to it, except where it is documented to trust a container's
 * header; no alignment is required. The format is undocumented; it was found by experiment with CUDA 12.4, 13.0 and 13.5. */
#ifndef MM_LOAD_FATBIN_H
#define MM_LOAD_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a container's header; bytes of an entry's header without name and options. */
#define MM_FATBIN_CONTAINER_BYTES 16u
#define MM_FATBIN_ENTRY_BYTES 64u

enum mm_fatbin_kind { MM_FATBIN_PTX = 1, MM_FATBIN_ELF = 2, MM_FATBIN_LTO = 8, MM_FATBIN_GROUP = 0x100 }; /* others are possible */

/* The known bits of an entry's flags; the others are kept as they are. */
#define MM_FATBIN_64BIT 0x1ull
#define MM_FATBIN_DEBUG 0x2ull
#define MM_FATBIN_LINUX 0x10ull
#define MM_FATBIN_LZ4 0x2000ull
#define MM_FATBIN_ZSTD 0x8000ull
#define MM_FATBIN_SCRAMBLED 0x10000ull /* LTO IR, made unreadable with a key in the header */
#define MM_FATBIN_ARCH_A 0x100000ull   /* sm_90a: runs on no other architecture */
#define MM_FATBIN_ARCH_F 0x200000ull   /* sm_100f: runs on its family */
#define MM_FATBIN_COMPAT 0x1000000ull  /* a cubin for sm_100 or later: its options are a copy of its section .nv.compat */

/* One line: what is wrong, the value found, and the value expected. */
struct mm_fatbin_error {
    char message[160];
};

/* ---- where containers are ------------------------------------------------------------------------- */

/* The containers that a wrapper refers to. */
struct mm_fatbin_wrapper {
    const void *container;
    const void *const *prelinked; /* version 2: the containers that were linked, for their PTX; NULL-terminated. Else NULL */
};
/* Reads a wrapper as passed to __cudaRegisterFatBinary and cuModuleLoadFatBinary: 4 bytes, and 24 if these are its magic. False if they are
 * not, or if its version is neither 1 nor 2. */
bool mm_fatbin_try_wrapper(const void *at, struct mm_fatbin_wrapper *w);

/* Bytes of the container at `at`, including its header, which it trusts; reads MM_FATBIN_CONTAINER_BYTES. 0 if there is none. */
size_t mm_fatbin_total_bytes(const void *at);

/* ---- entries -------------------------------------------------------------------------------------- */

/* Where a payload, or the stream of a group, is stored. */
struct mm_fatbin_store {
    const unsigned char *at;
    size_t bytes;            /* padding included */
    uint64_t flags;          /* how it is compressed, and whether it is scrambled */
    uint32_t packed_bytes;   /* of `bytes`, if it is compressed */
    uint64_t unpacked_bytes; /* as stated in the header: unchecked */
};

/* An entry, or a member of a group. All pointers point into the walked bytes. */
struct mm_fatbin_entry {
    size_t idx; /* counted from 0 over all containers */
    unsigned kind;
    unsigned arch;                         /* 90 */
    char arch_suffix;                      /* 'a' or 'f', else 0 */
    unsigned version_major, version_minor; /* PTX: its language; ELF: the cubin's ABI, 1.7 for CUDA 12, 1.8 for CUDA 13 */
    uint64_t flags;
    const char *name; /* "kernels.cu" with -lineinfo and -G, and in libraries; may lack a terminating zero. NULL: none */
    size_t name_bytes;
    const char *options; /* PTX: ptxas's; LTO: cicc's; ELF: bytes, see MM_FATBIN_COMPAT. May be unterminated or NULL, as the name */
    size_t options_bytes;

    const unsigned char *container;   /* the container's header */
    const unsigned char *begin, *end; /* the entry or the group, header and payload */
    const unsigned char *header;      /* the entry's or the member's */
    size_t header_bytes;
    struct mm_fatbin_store store; /* the entry's or the group's */
    bool is_member;
    uint64_t offset, bytes;        /* a member's part of the stream; bounds not checked yet */
    size_t group_idx, group_count; /* the first member's idx, and how many there are */
};

/* Position between two entries. */
struct mm_fatbin_walk {
    bool is_failed;               /* see error */
    struct mm_fatbin_error error; /* byte offsets in it count from the beginning of the walk */
    const unsigned char *begin, *at, *end;
    const unsigned char *container, *container_end;
    const unsigned char *member; /* header of the next member; NULL outside of groups */
    size_t idx, members_left;
    struct mm_fatbin_entry group;
};

/* Begins a walk over the entries of the container at `at`, or of several consecutive containers; zeros behind each are skipped. `bytes`: how
 * many may be read. */
void mm_fatbin_walk_begin(struct mm_fatbin_walk *w, const void *at, size_t bytes);

/* Gets the next entry. Returns false at the end or on failure (w->is_failed). The members of a group are returned one by one in the group's
 * place. Entries of unknown kinds are returned as they are, as is a group that cannot be read. */
bool mm_fatbin_walk_next(struct mm_fatbin_walk *w, struct mm_fatbin_entry *e);

/* ---- payloads ------------------------------------------------------------------------------------- */

/* A payload as the compiler wrote it. Zero it before its first use; release it with mm_fatbin_payload_free. */
struct mm_fatbin_payload {
    const unsigned char *at;
    size_t bytes;            /* includes padding if stored uncompressed; nvcc's PTX ends with zeros */
    unsigned char *unpacked; /* from malloc, if it was compressed: `at` points into it */
    const unsigned char *unpacked_from;
};

/* Gets the payload of an entry: decompressed if necessary, else in place. Successive members of one group share the decompressed stream, which
 * is decompressed once. Returns false with the error, and an empty payload, if the entry is damaged or scrambled, or if out of memory. */
bool mm_fatbin_try_payload(struct mm_fatbin_payload *p, const struct mm_fatbin_entry *e, struct mm_fatbin_error *error);
void mm_fatbin_payload_free(struct mm_fatbin_payload *p);

/* ---- making --------------------------------------------------------------------------------------- */

struct mm_fatbin_image {
    const void *cubin;
    size_t bytes;
    unsigned arch; /* 90 */
};

/* Makes a container of `count` uncompressed images; for each device, the driver takes the one that it can run. Returns memory of *bytes bytes,
 * for free(), or NULL if out of memory. */
void *mm_fatbin_try_make(const struct mm_fatbin_image *images, size_t count, size_t *bytes);

#endif
