/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Series of maps (runtime/host/map_series.c), without a heap. Under AddressSanitizer. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/map_series.h"
#include "tests/runner.h"

static struct mm_map *map_of(uint32_t segments) {
    struct mm_map *map = (struct mm_map *)calloc(1, sizeof *map + segments * sizeof *map->cells);
    map->segment_count = map->counts[0] = segments;
    return map;
}

/* However many launches there are, the frames are evenly spaced, from the first launch on, and at least half of the room is used. */
START_TEST(series) {
    static const int launches[] = {1, 2, MM_HOST_MAP_FRAMES, MM_HOST_MAP_FRAMES + 1, 100, 1000, 12345};
    struct mm_map_series s = {.count = 0};
    unsigned taken = 0;
    ck_assert(!mm_map_series_has_any(&s));
    for (int i = 0; i < launches[_i]; i++)
        if (mm_map_series_count(&s)) mm_map_series_add(&s, s.launches, i == 5 ? NULL : map_of(1 + (uint32_t)i % 100)), taken++; /* one fails */
    for (unsigned i = 0; i < s.count; i++) {
        const uint64_t stride = 1ull << s.stride_shift;
        ck_assert_msg(s.frames[i].launch % stride == 1 % stride && (i == 0 ? s.frames[i].launch == 1 : s.frames[i].launch > s.frames[i - 1].launch), "frame %u",
                      i);
        ck_assert(s.frames[i].map->segment_count == 1 + (s.frames[i].launch - 1) % 100);
    }
    ck_assert(s.count <= MM_HOST_MAP_FRAMES && (s.count >= MM_HOST_MAP_FRAMES / 2 || s.count + (launches[_i] > 5) == (unsigned)launches[_i]));
    ck_assert(taken <= MM_HOST_MAP_FRAMES * 11 && ((uint64_t)launches[_i] - s.frames[s.count - 1].launch) < 2ull << s.stride_shift);
    mm_map_series_end(&s, map_of(7777)), mm_map_series_end(&s, map_of(900));
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    mm_map_series_write(&s, "Heap", out);
    fclose(out);
    char caption[80];
    snprintf(caption, sizeof caption, ">at the end, launches: %d: 900 of 900 segments in use<", launches[_i]);
    ck_assert_msg(strstr(text, ">after launch 1: 1 of 1 segments in use<") && strstr(text, caption) && !strstr(text, "7777"), "%.2000s", text);
    unsigned frames = 0;
    for (const char *at = text; (at = strstr(at, "<g transform=")) != NULL; at++) frames++;
    ck_assert_uint_eq(frames, s.count + 1);
    ck_assert(strncmp(text, "<svg ", 5) == 0 && strcmp(text + bytes - 7, "</svg>\n") == 0 && strstr(text, ">16 bytes</text>"));
    free(text);
    mm_map_series_drop(&s);
    ck_assert(!mm_map_series_has_any(&s) && s.launches == 0);
}
END_TEST

/* Threads add the frames of their launches late, and not in order: the frames are ordered, and none has another launch's number. */
START_TEST(series_of_threads) {
    enum { LATE = 5 };
    struct mm_map_series s = {.count = 0};
    uint64_t late[LATE] = {0};
    for (uint64_t i = 1; i <= 1000; i++) { /* groups of launches, whose frames come last first */
        late[i % LATE] = mm_map_series_count(&s);
        ck_assert(late[i % LATE] == 0 || late[i % LATE] == i);
        for (int k = LATE - 1; i % LATE == 0 && k >= 0; k--)
            if (late[k]) mm_map_series_add(&s, late[k], map_of((uint32_t)late[k]));
    }
    const uint64_t stride = 1ull << s.stride_shift;
    ck_assert(s.count == (1000 - 1) / stride + 1 && s.count <= MM_HOST_MAP_FRAMES);
    for (unsigned i = 0; i < s.count; i++)
        ck_assert(s.frames[i].launch == 1 + i * stride && s.frames[i].map->segment_count == s.frames[i].launch && s.frames[i].map->segment_count > 0);
    mm_map_series_add(&s, 1 + stride / 2, map_of(1)); /* wanted before the stride was this large */
    mm_map_series_add(&s, 1 + 1000 * stride, map_of(1));
    ck_assert(s.count == (1000 - 1) / stride + 1);
    mm_map_series_drop(&s);
}
END_TEST

int main(void) {
    Suite *s = suite_create("series");
    TCase *c = tcase_create("series");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, series, 0, 7);
    tcase_add_test(c, series_of_threads);
    suite_add_tcase(s, c);
    return suite_run(s);
}
