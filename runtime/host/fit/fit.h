/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The books of a pool of device memory: which addresses are free and which are live. They are kept in host memory; the memory that they describe is
 * never touched.
 *
 * Source: Bell, Kumar and Gill, Host-Based Allocators for Device Memory (arXiv 2405.07079); these are all of its algorithms. For n blocks:
 *
 *   kind         which block                                                             steps of an allocation and a free
 *   tlsf         good fit: a list for each of MM_FIT_TLSF_LISTS steps of a power of two  O(1); the books double now and then
 *   segregated   good fit: a list for each power of two                                  O(1), the same
 *   bitmask      next fit, over a bit for each grain                                     O(grains / 64)
 *   first        the lowest that fits, over pages of up to m = MM_FIT_PAGE_BLOCKS        O(n/m + m)
 *   next         the first from the end of the last allocation on                        O(n/m + m)
 *   best         the smallest, the lowest of these                                       O(n/m + m) if few pages have any that fits; O(n)
 *
 * Invariants, of which mm_fit_check finds the breaches:
 *   I1  The blocks of a range tile it: they begin at its base, do not overlap, leave nothing out, and end at its end.
 *   I2  No two free blocks of a range are adjacent. Ranges never merge, even if they are adjacent.
 *   I3  Addresses and lengths are multiples of the grain.
 *   I4  live_bytes and free_bytes are the sums over the blocks.
 *   I5  What a kind keeps in addition agrees with the blocks: lists and their bits, the largest free block of a page.
 *
 * If the host has no memory left, create, add and allocate fail and change nothing. The other functions need none.
 *
 * Not thread-safe: the caller locks.
 */
#ifndef MM_HOST_FIT_FIT_H
#define MM_HOST_FIT_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* The first is the default. */
enum mm_fit_kind { MM_FIT_TLSF, MM_FIT_SEGREGATED, MM_FIT_BITMASK, MM_FIT_FIRST, MM_FIT_NEXT, MM_FIT_BEST, MM_FIT_COUNT };
#define MM_FIT_NAMES "tlsf, segregated, bitmask, first, next or best" /* for messages */

struct mm_fit;

/* Sets *kind to the kind of that name. Returns false, and writes nothing, if there is none. */
bool mm_fit_parse(const char *name, enum mm_fit_kind *kind);
const char *mm_fit_name(enum mm_fit_kind kind);

/* Makes books without memory. grain_bytes: of the unit of allocation, a power of two of at least 16. Returns NULL if the host has no memory. */
struct mm_fit *mm_fit_create(enum mm_fit_kind kind, uint64_t grain_bytes);
/* Drops the books, whatever is live; NULL is allowed. */
void mm_fit_destroy(struct mm_fit *fit);

/* Adds a range of free memory: base above 0 and bytes above 0, both multiples of the grain. Returns false if they are not, if the range overlaps another
 * one or the end of the addresses, or if the host has no memory. */
bool mm_fit_add(struct mm_fit *fit, uint64_t base, uint64_t bytes);

/* Allocates that many bytes, rounded up to grains. Returns the address, a multiple of the grain. Returns 0 if bytes is 0, if nothing fits, or if the
 * host has no memory. tlsf and segregated may also return 0 if no free block is as long as the next length at which a list begins: at most
 * 1/MM_FIT_TLSF_LISTS more than the request for tlsf, at most twice as much for segregated. Both look at the MM_FIT_LOOKS blocks that were last freed or
 * added in the list of the request, so that a block is found again for the length that it had. */
uint64_t mm_fit_allocate(struct mm_fit *fit, uint64_t bytes);
/* Frees the allocation that begins at the address. Returns its bytes; or 0, and changes nothing, if no live allocation begins there. */
uint64_t mm_fit_free(struct mm_fit *fit, uint64_t address);

/* Returns the bytes of the live allocation that begins at the address, or 0. */
uint64_t mm_fit_live(struct mm_fit *fit, uint64_t address);
/* Finds the live allocation that contains the address: *base and *bytes. Returns false, and writes nothing, if there is none. O(n). */
bool mm_fit_find(struct mm_fit *fit, uint64_t address, uint64_t *base, uint64_t *bytes);

/* Takes out ranges in which nothing is live, that of the highest address first, until those that stay have at most keep_bytes. Calls `release` for each
 * after it was taken out; that function must not use the books. */
void mm_fit_shrink(struct mm_fit *fit, uint64_t keep_bytes, void (*release)(void *arg, uint64_t base, uint64_t bytes), void *arg);

/* Returns the bytes of the largest free block. tlsf, segregated: O(length of a list); bitmask: O(grains); the others: O(n/m). */
uint64_t mm_fit_largest(struct mm_fit *fit);
uint64_t mm_fit_free_bytes(const struct mm_fit *fit);
uint64_t mm_fit_live_bytes(const struct mm_fit *fit);

/* Calls `visit` for each block, in the order of addresses. */
void mm_fit_walk(struct mm_fit *fit, void (*visit)(void *arg, uint64_t base, uint64_t bytes, bool is_live), void *arg);
/* Checks all invariants; O(n). Returns NULL, or a sentence about the first that is broken. */
const char *mm_fit_check(struct mm_fit *fit);

#endif
