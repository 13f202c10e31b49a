/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Profiles (runtime/host/profile*.c) in all their forms. Under AddressSanitizer. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/profile.h"
#include "tests/runner.h"

#define MALLOC(grid) ((uint64_t)(grid) << MM_TRACE_GRID_SHIFT | MM_TRACE_MALLOC)
#define FREE(grid) ((uint64_t)(grid) << MM_TRACE_GRID_SHIFT | MM_TRACE_FREE)

/* Kernels by the launch's number: three names, one with all that a form must escape. */
static const char *const names[] = {"make<int>(a&, \"b;c\")", "other", "not known"};
static const char *name_of(void *asked, uint32_t grid) {
    ++*(int *)asked;
    return names[grid % 3];
}

/* Launches 3 and 0 are of names[0], launch 1 of names[1], launch 2 of names[2]. */
static const struct mm_trace_event events[] = {
    {0x1000, 64, 0, MALLOC(3)},
    {0x2000, 65, 0, MALLOC(3)},
    {0x3000, 1ull << 16, 0, MALLOC(1)},
    {0x4000, (1ull << 16) + 1, 0, MALLOC(1)},
    {0x1000, 0, 0, FREE(1)},
    {0x1000, 10, 0, MALLOC(0)},
    {0, 1ull << 60, 0, MALLOC(1)},
    {0, 0, 0, 0},
    {0x9000, 0, 0, FREE(3)},
    {0x2000, 0, 0, FREE(2)},
    {0x4000, 0, 0, FREE(1)},
    {0x5000, 0, 0, MALLOC(1)},
    {0x6000, 1ull << 40, 0, MALLOC(0)},
};
#define EVENTS (sizeof events / sizeof *events)

static struct mm_profile counted(int *asked) {
    struct mm_profile p;
    int ignored = 0;
    ck_assert(mm_profile_try_count(&p, events, EVENTS, 9, name_of, asked ? asked : &ignored));
    return p;
}

START_TEST(counts) {
    int asked = 0;
    struct mm_profile p = counted(&asked);
    ck_assert_int_eq(asked, 4); /* once for each launch */
    ck_assert(p.count == 3 && p.sum.mallocs == 7 && p.sum.nulls == 1 && p.sum.frees == 3 && p.sum.dropped == 9 && p.sum.left_out == 2);
    const struct mm_profile_kernel *make = &p.kernels[0], *other = &p.kernels[1], *unknown = &p.kernels[2];
    ck_assert(make->name == names[0] && other->name == names[1] && unknown->name == names[2]); /* by bytes */
    ck_assert(make->all.mallocs == 4 && make->all.bytes == (1ull << 40) + 139 && make->all.live == 2 && make->all.live_bytes == (1ull << 40) + 10);
    ck_assert(make->frees == 0 && make->nulls == 0 && make->most_bytes == (1ull << 40) + 10);
    ck_assert(other->all.mallocs == 3 && other->all.live == 2 && other->all.live_bytes == 1ull << 16 && other->frees == 2 && other->nulls == 1);
    ck_assert(other->most_bytes == (2ull << 16) + 1);
    ck_assert(unknown->frees == 1 && unknown->all.mallocs == 0);
    ck_assert(p.all.mallocs == 7 && p.all.live == 4 && p.most_bytes == (1ull << 40) + (1ull << 16) + 10);
    uint64_t mallocs = 0, bytes = 0;
    for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++)
        for (size_t i = 0; i < p.count; i++) mallocs += p.kernels[i].sizes[s].mallocs, bytes += p.kernels[i].sizes[s].bytes;
    ck_assert(mallocs == p.all.mallocs && bytes == p.all.bytes);
    mm_profile_drop(&p);
}
END_TEST

/* Each size is at most its class, and more than the class before. */
START_TEST(sizes) {
    for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++) {
        const uint64_t most = mm_profile_size(s), least = s ? mm_profile_size(s - 1) + 1 : 0, ends[] = {least, most};
        ck_assert(least <= most && (s + 1 < MM_PROFILE_SIZES || most == MM_TRACE_BYTES_MAX));
        for (int i = 0; i < 2; i++) {
            const struct mm_trace_event pair[] = {{0x1000, ends[i], 0, MALLOC(0)}, {0x1000, 0, 0, FREE(0)}};
            struct mm_profile p;
            int asked = 0;
            ck_assert(mm_profile_try_count(&p, pair, 2, 0, name_of, &asked) && p.kernels[0].sizes[s].mallocs == 1 && p.kernels[0].sizes[s].bytes == ends[i]);
            ck_assert(p.kernels[0].sizes[s].live == 0 && p.kernels[0].sizes[s].live_bytes == 0 && p.most_bytes == ends[i] && p.all.live_bytes == 0);
            mm_profile_drop(&p);
        }
    }
}
END_TEST

/* After mm_reset nothing is live, and an earlier address is not freed. */
START_TEST(resets) {
    static const struct mm_trace_event with_resets[] = {
        {0, 0, 0, MM_TRACE_RESET}, {0x1000, 64, 0, MALLOC(5)}, {0x2000, 32, 0, MALLOC(5)},  {0x2000, 0, 0, FREE(5)},
        {0, 0, 0, MM_TRACE_RESET}, {0x1000, 0, 0, FREE(4)},    {0x2000, 16, 0, MALLOC(4)},  {0, 0, 0, MM_TRACE_RESET},
        {0x1000, 8, 0, MALLOC(5)}, {0, 0, 0, MM_TRACE_RESET},  {0x1000, 100, 0, MALLOC(5)}, {0x2000, 0, 0, FREE(5)},
    };
    struct mm_profile p;
    int asked = 0;
    ck_assert(mm_profile_try_count(&p, with_resets, sizeof with_resets / sizeof *with_resets, 0, name_of, &asked));
    ck_assert(asked == 2 && p.count == 2 && p.sum.mallocs == 5 && p.sum.frees == 1 && p.sum.left_out == 2 && p.sum.nulls == 0);
    ck_assert(p.all.live == 1 && p.all.live_bytes == 100 && p.most_bytes == 100);
    ck_assert(p.kernels[0].all.live == 1 && p.kernels[0].all.bytes == 204 && p.kernels[0].most_bytes == 100 && p.kernels[1].all.live == 0);
    uint64_t live = 0;
    for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++) live += p.kernels[0].sizes[s].live + p.kernels[1].sizes[s].live;
    ck_assert(live == 1);
    mm_profile_drop(&p);
}
END_TEST

/* Many kernels and launches: the rows grow. */
static const char *many_of(void *argument, uint32_t grid) { return &((char(*)[8])argument)[grid % 500][0]; }
START_TEST(many_kernels) {
    enum { LAUNCHES = 2000 };
    static char of[500][8];
    static struct mm_trace_event made[LAUNCHES];
    struct mm_profile p;
    for (int i = 0; i < 500; i++) sprintf(of[i], "k%d", i);
    for (unsigned i = 0; i < LAUNCHES; i++) made[i] = (struct mm_trace_event){(i + 1ull) << 4, i % 500 + 1, 0, MALLOC(i)};
    ck_assert(mm_profile_try_count(&p, made, LAUNCHES, 0, many_of, of) && p.count == 500);
    for (unsigned i = 0; i < 500; i++) ck_assert(p.kernels[i].all.mallocs == 4 && p.kernels[i].all.bytes == 4 * (500 - i) && p.kernels[i].name == of[499 - i]);
    mm_profile_drop(&p);
    ck_assert(mm_profile_try_count(&p, NULL, 0, 0, many_of, of) && p.count == 0); /* no events */
    mm_profile_drop(&p);
}
END_TEST

/* ---- forms ----------------------------------------------------------------------------------------- */

static char *form(const struct mm_profile *p, const char *path, size_t *bytes) {
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    ck_assert(mm_profile_try_write(p, path, "Heap of device 0", out));
    fclose(out);
    return text;
}

START_TEST(texts) {
    struct mm_profile p = counted(NULL);
    size_t bytes;
    static const char *const text_paths[] = {"p", "p.txt", "p.svgz", ".svg", "a.pb/p", ".folded"};
    for (size_t i = 0; i < sizeof text_paths / sizeof *text_paths; i++) {
        char *text = form(&p, text_paths[i], &bytes);
        ck_assert_msg(strncmp(text, "Heap of device 0: requests of kernels\n", 38) == 0, "%s: %s", text_paths[i], text);
        ck_assert_ptr_nonnull(strstr(text, "\nnot counted: 9 later events, 2 frees of what was not live\n"));
        ck_assert_ptr_nonnull(
            strstr(text, "\n           4      1099511627915          0            0            2      1099511627786      1099511627786  make<int>("));
        ck_assert_ptr_nonnull(
            strstr(text, "\n           3             131073          1            2            2              65536             131073  other\n"));
        ck_assert_ptr_nonnull(
            strstr(text, "\n           7      1099511758988          1            3            4      1099511693322      1099511693322  all kernels\n"));
        ck_assert_ptr_nonnull(strstr(text, "\n           1              65537            0                  0       131072  other\n"));
        unsigned lines = 0;
        for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
        ck_assert_uint_eq(lines, 5 + 4 + 2 + 7); /* a row for each size that was requested */
        free(text);
    }
    char *text = form(&p, "p.folded", &bytes);
    ck_assert_str_eq(text, "make<int>(a&, \"b:c\");up to 16 bytes 10\nmake<int>(a&, \"b:c\");up to 64 bytes 64\nmake<int>(a&, \"b:c\");up to 80 bytes 65\n"
                           "make<int>(a&, \"b:c\");up to 1.0 TiB 1099511627776\nother;up to 64.0 KiB 65536\nother;up to 128.0 KiB 65537\n");
    free(text);
    mm_profile_drop(&p);
}
END_TEST

/* Each bar lies within its parent, next to its neighbour; names are escaped. */
START_TEST(flame_graph) {
    static const struct mm_trace_event few[] = {
        {0x1000, 3000, 0, MALLOC(0)}, {0x2000, 1000, 0, MALLOC(1)}, {0x3000, 1000, 0, MALLOC(0)}, {0x2000, 0, 0, FREE(2)}};
    struct mm_profile p;
    int asked = 0;
    size_t bytes;
    ck_assert(mm_profile_try_count(&p, few, 4, 0, name_of, &asked));
    char *text = form(&p, "p.svg", &bytes);
    static const char *const wanted[] = {
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\"",
        ">3 mallocs, 0 NULLs, 1 frees; 4.9 KiB live at most. As wide",
        "<title>4.9 KiB in all: 5000 bytes (100.0 %) by 3 mallocs; 4000 bytes live at the end</title><rect x=\"10.0\" y=\"54\" width=\"1180.0\" height=\"19\"",
        "<title>make&lt;int&gt;(a&amp;, \"b;c\"): 4000 bytes (80.0 %) by 2 mallocs; 4000 bytes live at the end</title><rect x=\"10.0\" y=\"74\" width=\"944.0\"",
        "<title>up to 1.0 KiB: 1000 bytes (20.0 %) by 1 mallocs; 1000 bytes live at the end</title><rect x=\"10.0\" y=\"94\" width=\"236.0\"",
        "<title>up to 3.0 KiB: 3000 bytes (60.0 %) by 1 mallocs; 3000 bytes live at the end</title><rect x=\"246.0\" y=\"94\" width=\"708.0\"",
        "<title>other: 1000 bytes (20.0 %) by 1 mallocs; 0 bytes live at the end</title><rect x=\"954.0\" y=\"74\" width=\"236.0\"",
        "<title>up to 1.0 KiB: 1000 bytes (20.0 %) by 1 mallocs; 0 bytes live at the end</title><rect x=\"954.0\" y=\"94\" width=\"236.0\"",
        ">make&lt;int&gt;(a&amp;, \"b;c\")</text></g>\n",
        "</svg>\n",
    };
    const char *at = text;
    for (size_t i = 0; i < 8; i++) ck_assert_msg((at = strstr(at, wanted[i])) != NULL, "no %s in %s", wanted[i], text);
    for (size_t i = 8; i < 10; i++) ck_assert_msg(strstr(text, wanted[i]) != NULL, "no %s in %s", wanted[i], text);
    ck_assert(!strstr(text, "not known") && !strstr(text, "later events")); /* it requested nothing; nothing was dropped */
    free(text);
    mm_profile_drop(&p);
    ck_assert(mm_profile_try_count(&p, few + 3, 1, 1, name_of, &asked)); /* no bytes: no bars */
    text = form(&p, "p.svg", &bytes);
    ck_assert(!strstr(text, "<title>") && strstr(text, "; 1 later events are not counted.") && strcmp(text + bytes - 7, "</svg>\n") == 0);
    free(text);
    mm_profile_drop(&p);
}
END_TEST

/* A reader of protocol buffers: the next field of a message. */
struct reader {
    const unsigned char *at, *end;
};
static uint64_t number(struct reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        ck_assert(r->at < r->end && shift < 64);
        value |= (uint64_t)(*r->at & 0x7f) << shift;
        if (!(*r->at++ & 0x80)) return value;
    }
}
/* Returns the field's number; 0: the message ends. Its value, or what it contains. */
static unsigned field(struct reader *r, uint64_t *value, struct reader *part) {
    if (r->at == r->end) return 0;
    const uint64_t key = number(r);
    *value = number(r);
    if ((key & 7) == 2) {
        ck_assert(*value <= (uint64_t)(r->end - r->at));
        *part = (struct reader){r->at, r->at + *value};
        r->at += *value;
    } else ck_assert((key & 7) == 0);
    return (unsigned)(key >> 3);
}

struct decoded {
    char strings[40][120];
    unsigned string_count, types[6][2], type_count, samples, locations, functions;
    uint64_t sums[4][6], labels, key, default_type; /* sums: by location */
    unsigned names[4], function_of[4];              /* by function; by location */
};

static void decode_sample(struct reader m, struct decoded *d) {
    struct reader part;
    uint64_t value, location = 0, label = 0;
    unsigned of, n = 0;
    while ((of = field(&m, &value, &part)) != 0) {
        if (of == 1) location = value;
        else if (of == 2)
            for (ck_assert(location > 0 && location < 4); part.at < part.end; n++) ck_assert(n < 6), d->sums[location][n] += number(&part);
        else
            for (ck_assert(of == 3); (of = field(&part, &value, &part)) != 0;) {
                ck_assert(of == 1 || of == 3 || of == 4);
                if (of == 3) label = value;
                else d->key = value;
            }
    }
    ck_assert(n == 6);
    d->samples++, d->labels += label;
}

/* A pair of numbers, with fields 1 and 2, or what the two fields are. */
static void decode_pair(struct reader m, unsigned first, unsigned second, unsigned pair[2]) {
    struct reader part, line;
    uint64_t value;
    for (unsigned of; (of = field(&m, &value, &part)) != 0;) {
        if (of == first) pair[0] = (unsigned)value;
        if (of == second) pair[1] = (unsigned)value;
        if (of == second && first == 1 && second == 4) line = part, ck_assert(field(&line, &value, &part) == 1), pair[1] = (unsigned)value;
    }
}

static struct decoded decode(const char *bytes, size_t n) {
    static struct decoded d;
    struct reader m = {(const unsigned char *)bytes, (const unsigned char *)bytes + n}, part;
    uint64_t value;
    memset(&d, 0, sizeof d);
    for (unsigned of, pair[2] = {0, 0}; (of = field(&m, &value, &part)) != 0;) {
        if (of == 1) ck_assert(d.type_count < 6), decode_pair(part, 1, 2, d.types[d.type_count++]);
        else if (of == 2) decode_sample(part, &d);
        else if (of == 4) decode_pair(part, 1, 4, pair), ck_assert(pair[0] > 0 && pair[0] < 4), d.function_of[pair[0]] = pair[1], d.locations++;
        else if (of == 5) decode_pair(part, 1, 2, pair), ck_assert(pair[0] > 0 && pair[0] < 4), d.names[pair[0]] = pair[1], d.functions++;
        else if (of == 6) ck_assert(d.string_count < 40 && value < 120), memcpy(d.strings[d.string_count++], part.at, value);
        else if (of == 14) d.default_type = value;
        else ck_assert_msg(of == 11 || of == 12 || of == 13, "field %u", of);
    }
    return d;
}

START_TEST(pprof) {
    struct mm_profile p = counted(NULL);
    static const char *const endings[] = {"p.pprof", "p.pb"}, *const types[] = {"alloc_objects", "alloc_space",  "inuse_objects",
                                                                                "inuse_space",   "null_objects", "free_objects"};
    size_t bytes;
    char *text = form(&p, endings[_i], &bytes);
    const struct decoded d = decode(text, bytes);
    ck_assert(d.type_count == 6 && d.string_count == 14 && d.strings[0][0] == 0 && d.locations == 3 && d.functions == 3 && d.samples == 7 + 2);
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_str_eq(d.strings[d.types[i][0]], types[i]);
        ck_assert_str_eq(d.strings[d.types[i][1]], i == 1 || i == 3 ? "bytes" : "count");
    }
    ck_assert_str_eq(d.strings[d.default_type], "alloc_space");
    ck_assert_str_eq(d.strings[d.key], "bytes");
    ck_assert_str_eq(d.strings[10], "Heap of device 0; 9 later events and 2 frees of what was not live are not counted");
    for (unsigned i = 1; i <= 3; i++) {
        const struct mm_profile_kernel *k = &p.kernels[i - 1];
        const uint64_t sums[6] = {k->all.mallocs, k->all.bytes, k->all.live, k->all.live_bytes, k->nulls, k->frees};
        ck_assert_msg(memcmp(d.sums[i], sums, sizeof sums) == 0, "kernel %u", i);
        ck_assert_str_eq(d.strings[d.names[d.function_of[i]]], k->name);
    }
    ck_assert(d.labels == 16 + 16 + 64 + 80 + (1ull << 40) + (1ull << 16) + (2ull << 16));
    free(text);
    mm_profile_drop(&p);
}
END_TEST

static const char *long_of(void *argument, uint32_t grid) { return &((char(*)[400])argument)[grid][0]; }
/* The same in gzip's format, in several blocks: what is stored is the file without. */
START_TEST(pprof_gzip) {
    enum { KERNELS = 300 };
    static char of[KERNELS][400];
    static struct mm_trace_event made[KERNELS];
    struct mm_profile p;
    size_t bytes, plain_bytes, n = 0;
    for (int i = 0; i < KERNELS; i++)
        memset(of[i], 'a' + i % 26, 390), sprintf(of[i] + 390, "%d", i), made[i] = (struct mm_trace_event){(i + 1ull) << 4, 1, 0, MALLOC(i)};
    ck_assert(mm_profile_try_count(&p, made, KERNELS, 0, long_of, of));
    char *plain = form(&p, "p.pb", &plain_bytes), *text = form(&p, "p.pb.gz", &bytes);
    const unsigned char *at = (const unsigned char *)text;
    ck_assert(plain_bytes > 65535 && at[0] == 0x1f && at[1] == 0x8b && at[2] == 8 && at[3] == 0);
    at += 10;
    for (int last = 0; !last; n += at[-4] | at[-3] << 8, at += at[-4] | at[-3] << 8) {
        last = at[0];
        ck_assert((last == 0 || last == 1) && (at[1] ^ at[3]) == 255 && (at[2] ^ at[4]) == 255);
        at += 5;
        ck_assert(n + (at[-4] | at[-3] << 8) <= plain_bytes && memcmp(plain + n, at, (size_t)(at[-4] | at[-3] << 8)) == 0);
    }
    ck_assert(n == plain_bytes && (size_t)(at - (const unsigned char *)text) + 8 == bytes);
    ck_assert((at[4] | (size_t)at[5] << 8 | (size_t)at[6] << 16) == plain_bytes);
    FILE *gzip = popen("gzip -t", "w"); /* the checksum */
    ck_assert(gzip && fwrite(text, 1, bytes, gzip) == bytes && pclose(gzip) == 0);
    free(plain), free(text);
    mm_profile_drop(&p);
}
END_TEST

int main(void) {
    Suite *s = suite_create("profile");
    TCase *c = tcase_create("profile");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, counts);
    tcase_add_test(c, sizes);
    tcase_add_test(c, resets);
    tcase_add_test(c, many_kernels);
    tcase_add_test(c, texts);
    tcase_add_test(c, flame_graph);
    tcase_add_loop_test(c, pprof, 0, 2);
    tcase_add_test(c, pprof_gzip);
    suite_add_tcase(s, c);
    return suite_run(s);
}
