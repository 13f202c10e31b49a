/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmunyield CUBIN: replaces each YIELD in the machine code of a cubin by a NOP, in place, and prints how many there were.
 * mmunyield -n FILE (or --check): counts only, in every uncompressed cubin that FILE is or contains; status 1 if a YIELD or a
 * NANOSLEEP is left.
 *
 * ptxas puts a YIELD before strong loads and before atomics whose result is used, wherever it cannot prove that the warp is
 * converged; no option prevents it. A YIELD that some lanes execute releases the lanes that wait for them at a convergence barrier,
 * and the warp stays diverged for the rest of the kernel. A NANOSLEEP does the same and has no substitute: the source must not use it.
 *
 * An instruction has 128 bits (since sm_70): opcode in bits 0 to 11, guard predicate in 12 to 15, scheduling (stall count, barriers set
 * and awaited) in 105 to 125. Bits 9 to 11 of the opcode give the kind of the operands. Guard and scheduling are kept. YIELD's one
 * operand is a predicate in bits 87 to 90 (PT in all code seen); these are zero in ptxas's NOPs, and so in ours.
 *
 * From sm_100 on, a cubin has a second form of its code, .nv.capmerc.*, from which a driver makes machine code for another
 * architecture of the family. It is not changed: it describes the machine code and does not repeat it (docs/explanation/design.md, converged warps).
 *
 * Exit status: 0; 1 (see -n); 2 after a one-line error message; the file is unchanged unless writing it failed.
 */
#define _GNU_SOURCE /* memmem */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INSTRUCTION_BYTES = 16,
    MACHINE_CUDA = 190,    /* e_machine of a cubin */
    ABI_OF_WIDE_FLAGS = 8, /* from this EI_ABIVERSION on (CUDA 13; sm_100), the architecture is in bits 8 to 15 of e_flags, not 0 to 7 */
};

/* The opcodes of each architecture, as disassembled. Add an architecture only after comparing its YIELD and NOP. */
static const struct encoding {
    unsigned first, last; /* sm_75 to sm_75, ... */
    uint32_t yield, nop;
    uint32_t nanosleep; /* without the bits for the kind of operands: it has several kinds */
} encodings[] = {
    {75, 75, 0x946, 0x918, 0x15d},   {80, 80, 0x946, 0x918, 0x15d},   {86, 89, 0x946, 0x918, 0x15d},   {90, 90, 0x946, 0x918, 0x15d},
    {100, 100, 0x946, 0x918, 0x15d}, {103, 103, 0x946, 0x918, 0x15d}, {110, 110, 0x946, 0x918, 0x15d}, {120, 121, 0x946, 0x918, 0x15d},
};
static const uint64_t opcode_mask = 0xfff, without_kind_mask = 0x1ff;
static const uint64_t operand_mask = UINT64_C(0xf) << (87 - 64); /* in the upper half of the instruction */

struct image {
    unsigned char *data;
    size_t bytes; /* to the end of the file */
    unsigned sm;
    size_t yields, nanosleeps;
};

static const char *path;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
    char what[256];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    fprintf(stderr, "mmunyield: %s: %s\n", path, what);
    exit(2);
}

static bool is_within(const struct image *i, uint64_t offset, uint64_t bytes) { return offset <= i->bytes && bytes <= i->bytes - offset; }

static const struct encoding *encoding_of(unsigned sm) {
    for (size_t k = 0; k < sizeof encodings / sizeof *encodings; k++)
        if (encodings[k].first <= sm && sm <= encodings[k].last) return &encodings[k];
    die("machine code for sm_%u, whose encoding is not known", sm);
}

/* Counts the instructions in a section of code, and replaces YIELDs in memory. */
static void walk_code(struct image *i, const struct encoding *e, unsigned char *code, size_t bytes) {
    for (unsigned char *at = code; at < code + bytes; at += INSTRUCTION_BYTES) {
        uint64_t half[2];
        memcpy(half, at, sizeof half);
        i->nanosleeps += (half[0] & without_kind_mask) == e->nanosleep;
        if ((half[0] & without_kind_mask) != (e->yield & without_kind_mask)) continue;
        if ((half[0] & opcode_mask) != e->yield) die("a YIELD with operands of an unknown kind (opcode 0x%03x)", (unsigned)(half[0] & opcode_mask));
        half[0] = (half[0] & ~opcode_mask) | e->nop;
        half[1] &= ~operand_mask;
        memcpy(at, half, sizeof half);
        i->yields++;
    }
}

static void walk_image(struct image *i) {
    Elf64_Ehdr head;
    Elf64_Shdr section;
    if (!is_within(i, 0, sizeof head)) die("the ELF header is cut off");
    memcpy(&head, i->data, sizeof head);
    if (head.e_shnum == 0 || head.e_shentsize != sizeof section) die("no table of sections");
    if (!is_within(i, head.e_shoff, (uint64_t)head.e_shnum * sizeof section)) die("the table of sections lies beyond the end of the file");
    i->sm = (head.e_ident[EI_ABIVERSION] >= ABI_OF_WIDE_FLAGS ? head.e_flags >> 8 : head.e_flags) & 0xff;
    const struct encoding *e = encoding_of(i->sm);
    for (unsigned k = 0; k < head.e_shnum; k++) {
        memcpy(&section, i->data + head.e_shoff + k * sizeof section, sizeof section);
        if (!(section.sh_flags & SHF_EXECINSTR)) continue;
        if (section.sh_type != SHT_PROGBITS) die("section %u is code of an unknown type", k);
        if (!is_within(i, section.sh_offset, section.sh_size)) die("section %u lies beyond the end of the file", k);
        if (section.sh_size % INSTRUCTION_BYTES) die("section %u is code and no multiple of %d bytes", k, INSTRUCTION_BYTES);
        walk_code(i, e, i->data + section.sh_offset, section.sh_size);
    }
}

/* The next cubin at or after data + from. False if there is none. */
static bool find_image(unsigned char *data, size_t bytes, size_t from, struct image *i) {
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB};
    while (from < bytes) {
        unsigned char *at = (unsigned char *)memmem(data + from, bytes - from, magic, sizeof magic);
        if (!at) return false;
        const size_t left = bytes - (size_t)(at - data), machine = offsetof(Elf64_Ehdr, e_machine);
        if (left < machine + 2 || (at[machine] | at[machine + 1] << 8) == MACHINE_CUDA) {
            *i = (struct image){at, left, 0, 0, 0};
            return true;
        }
        from = (size_t)(at - data) + 1;
    }
    return false;
}

static unsigned char *read_file(size_t *bytes) {
    FILE *f = fopen(path, "rb");
    long end;
    if (!f || fseek(f, 0, SEEK_END) || (end = ftell(f)) < 0 || fseek(f, 0, SEEK_SET)) die("cannot read it: %s", strerror(errno));
    unsigned char *data = (unsigned char *)malloc((size_t)end + 1);
    if (!data) die("no memory for %ld bytes", end);
    *bytes = fread(data, 1, (size_t)end, f);
    if (*bytes != (size_t)end) die("cannot read it: %s", ferror(f) ? strerror(errno) : "it ended early");
    fclose(f);
    return data;
}

static void write_file(const unsigned char *data, size_t bytes) {
    FILE *f = fopen(path, "r+b"); /* same length: a failure leaves a cubin, with some of its YIELDs */
    if (!f) die("cannot write it: %s", strerror(errno));
    const bool written = fwrite(data, 1, bytes, f) == bytes;
    if (fclose(f) || !written) die("cannot write it: %s", strerror(errno));
}

int main(int argc, char **argv) {
    struct image i;
    bool counts_only = false;
    size_t bytes, images = 0, left = 0;
    if (argc == 3 && (strcmp(argv[1], "-n") == 0 || strcmp(argv[1], "--check") == 0)) counts_only = true;
    if ((argc != 2 && !counts_only) || (argc == 2 && argv[1][0] == '-')) {
        fprintf(stderr, "usage: mmunyield [-n] FILE\n");
        return 2;
    }
    path = argv[argc - 1];
    unsigned char *data = read_file(&bytes);
    for (size_t from = 0; find_image(data, bytes, from, &i); from = (size_t)(i.data - data) + 1) {
        if (!counts_only && i.data != data) break;
        images++;
        walk_image(&i);
        left += i.yields + i.nanosleeps;
        if (counts_only) printf("sm_%u: %zu YIELD, %zu NANOSLEEP\n", i.sm, i.yields, i.nanosleeps);
        else break;
    }
    if (images == 0) die(counts_only ? "there is no cubin in it, or it is compressed" : "this is no cubin");
    if (!counts_only) {
        if (i.nanosleeps) die("%zu NANOSLEEP, which nothing can stand for: the source must not sleep", i.nanosleeps);
        if (i.yields) write_file(data, bytes);
        printf("mmunyield: %s: sm_%u: %zu YIELD replaced\n", path, i.sm, i.yields);
    }
    free(data);
    return counts_only && left != 0;
}
