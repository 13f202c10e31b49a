/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The formats of statistics: text for people, JSON and CSV for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host/say.h"
#include "runtime/host/stats.h"

#define NOT_COUNTED "not counted"

/* ---- text ---- */

struct percent {
    char text[24];
};
static struct percent percent(double share) {
    struct percent p;
    if (share < 0) snprintf(p.text, sizeof p.text, NOT_COUNTED);
    else snprintf(p.text, sizeof p.text, "%.1f %%", 100 * share);
    return p;
}

/* Whether there is a row for a class. */
static bool has_row(const struct mm_class_usage *k) { return k->pages || k->live; }

static void write_text(const struct mm_host_stats *s, FILE *out) {
    const struct mm_usage *u = &s->usage;
    const struct mm_host_counts *n = &s->counts;
    char at[32], asked[40] = NOT_COUNTED, live[40] = "objects " NOT_COUNTED;
    snprintf(at, sizeof at, "mm: device %d:", s->device);
    if (s->has_asked) snprintf(asked, sizeof asked, "%" PRIu64, s->asked_bytes);
    if (s->has_live_count) snprintf(live, sizeof live, "%" PRIu64 " objects", s->live_count);
    if (!s->is_default) fprintf(out, "%s allocator: %s\n", at, s->allocator);
    fprintf(out, "%s memory: %s mapped (%s at most), %s of metadata, %s of addresses\n", at, mm_host_size(n->heap_bytes).text,
            mm_host_size(s->peak_heap_bytes).text, mm_host_size(n->metadata_bytes).text, mm_host_size(n->reserved_bytes).text);
    fprintf(out,
            "%s segments of %s: %" PRIu64 " given away by pages, %" PRIu64 " in %" PRIu64 " runs, %" PRIu64 " free (%" PRIu64 " in a row at most), %" PRIu64
            " spare\n",
            at, mm_host_size(MM_SEGMENT_BYTES).text, u->paged_segments, u->run_segments, u->runs, u->free_segments, u->largest_free, s->spare_segments);
    fprintf(out, "%s pages of %s: %" PRIu64 " of size classes, %" PRIu64 " in %" PRIu64 " spans, %" PRIu64 " free\n", at, mm_host_size(MM_PAGE_BYTES).text,
            u->small_pages, u->span_pages, u->spans, u->free_pages);
    fprintf(out, "%s live: %s, %" PRIu64 " bytes granted, asked: %s; the most there were: " NOT_COUNTED "\n", at, live, s->live_bytes, asked);
    fprintf(out, "%s fragmentation: internal %s, external %s; free in blocks of size classes: %s\n", at, percent(mm_stats_internal(s)).text,
            percent(mm_stats_external(s)).text, mm_host_size(s->held_bytes).text);
    fprintf(out, "%s grew %" PRIu64 " times; %" PRIu64 " waits for that, %.3f ms in all; %s given back\n", at, s->growth_count, s->wait_count,
            (double)s->waited_ns * 1e-6, mm_host_size(s->given_back_bytes).text);
    if (n->null_count)
        fprintf(out, "%s NULL: %" PRIu64 " requests, the first of %" PRIu64 " bytes, in kernel: %s\n", at, n->null_count, n->null_first_bytes,
                s->null_first_kernel[0] ? s->null_first_kernel : NOT_COUNTED);
    else fprintf(out, "%s NULL: 0 requests\n", at);
    fprintf(out, "%s misuse of free: %" PRIu64 " foreign, %" PRIu64 " not allocated, %" PRIu64 " interior, %" PRIu64 " never handed out, %" PRIu64 " double\n",
            at, n->misuse[MM_MISUSE_FOREIGN], n->misuse[MM_MISUSE_NOT_ALLOCATED], n->misuse[MM_MISUSE_INTERIOR], n->misuse[MM_MISUSE_NEVER],
            n->misuse[MM_MISUSE_DOUBLE_FREE]);
    fprintf(out, "%s %10s %12s %16s %9s %9s %9s\n", at, "class", "live", "granted", "pages", "blocks", "free");
    for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) {
        const struct mm_class_usage *k = &u->classes[c];
        if (!has_row(k)) continue;
        fprintf(out, "%s %10u %12" PRIu64 " %16" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n", at, mm_class_bytes(c), k->live, k->bytes, k->pages,
                k->blocks, k->free_blocks);
    }
    fprintf(out, "%s %10s %12" PRIu64 " %16" PRIu64 " %9" PRIu64 "\n", at, "spans", u->spans, u->span_pages * (uint64_t)MM_PAGE_BYTES, u->span_pages);
    fprintf(out, "%s %10s %12" PRIu64 " %16" PRIu64 " %9" PRIu64 "\n", at, "runs", u->runs, u->run_segments * (uint64_t)MM_SEGMENT_BYTES,
            u->run_segments * MM_SEGMENT_PAGES);
}

/* ---- JSON and CSV: the same numbers in both ---- */

enum item_kind { COUNT, SHARE, UNKNOWN };
struct item {
    const char *name;
    enum item_kind kind;
    uint64_t value; /* a share is in millionths, so that no locale's decimal point is printed */
};

static struct item share_item(const char *name, double share) {
    return (struct item){name, share < 0 ? UNKNOWN : SHARE, share < 0 ? 0 : (uint64_t)(share * 1e6 + 0.5)};
}

/* The values of a heap as a whole. */
#define ITEMS_MAX 40
static size_t items_of(const struct mm_host_stats *s, struct item *items) {
    const struct mm_host_counts *n = &s->counts;
    const struct item counts[] = {
        {"heap_bytes", COUNT, n->heap_bytes},
        {"peak_heap_bytes", COUNT, s->peak_heap_bytes},
        {"metadata_bytes", COUNT, n->metadata_bytes},
        {"reserved_bytes", COUNT, n->reserved_bytes},
        {"segment_bytes", COUNT, MM_SEGMENT_BYTES},
        {"page_bytes", COUNT, MM_PAGE_BYTES},
        {"paged_segments", COUNT, s->usage.paged_segments},
        {"run_segments", COUNT, s->usage.run_segments},
        {"free_segments", COUNT, s->usage.free_segments},
        {"spare_segments", COUNT, s->spare_segments},
        {"largest_free_segments", COUNT, s->usage.largest_free},
        {"class_pages", COUNT, s->usage.small_pages},
        {"span_pages", COUNT, s->usage.span_pages},
        {"free_pages", COUNT, s->usage.free_pages},
        {"spans", COUNT, s->usage.spans},
        {"runs", COUNT, s->usage.runs},
        {"live_objects", s->has_live_count ? COUNT : UNKNOWN, s->live_count},
        {"peak_live_objects", UNKNOWN, 0},
        {"live_bytes", COUNT, s->live_bytes},
        {"peak_live_bytes", UNKNOWN, 0},
        {"asked_bytes", s->has_asked ? COUNT : UNKNOWN, s->asked_bytes},
        {"held_bytes", COUNT, s->held_bytes},
        share_item("internal_fragmentation", mm_stats_internal(s)),
        share_item("external_fragmentation", mm_stats_external(s)),
        {"growth_count", COUNT, s->growth_count},
        {"wait_count", COUNT, s->wait_count},
        {"waited_ns", COUNT, s->waited_ns},
        {"given_back_bytes", COUNT, s->given_back_bytes},
        {"null_count", COUNT, n->null_count},
        {"null_first_bytes", n->null_count ? COUNT : UNKNOWN, n->null_first_bytes},
        {"misuse_foreign", COUNT, n->misuse[MM_MISUSE_FOREIGN]},
        {"misuse_not_allocated", COUNT, n->misuse[MM_MISUSE_NOT_ALLOCATED]},
        {"misuse_interior", COUNT, n->misuse[MM_MISUSE_INTERIOR]},
        {"misuse_never", COUNT, n->misuse[MM_MISUSE_NEVER]},
        {"misuse_double_free", COUNT, n->misuse[MM_MISUSE_DOUBLE_FREE]},
        {"misuse_overrun", s->has_asked ? COUNT : UNKNOWN, n->misuse[MM_MISUSE_OVERRUN]},
        {"misuse_after_free", s->has_asked ? COUNT : UNKNOWN, n->misuse[MM_MISUSE_AFTER_FREE]},
    };
    _Static_assert(sizeof counts / sizeof *counts <= ITEMS_MAX, "room for all");
    memcpy(items, counts, sizeof counts);
    return sizeof counts / sizeof *counts;
}

/* The values of a size class. */
#define CLASS_ITEMS 5
static void class_items(const struct mm_class_usage *k, struct item items[CLASS_ITEMS]) {
    const struct item counts[CLASS_ITEMS] = {
        {"live_objects", COUNT, k->live}, {"live_bytes", COUNT, k->bytes},        {"pages", COUNT, k->pages},
        {"blocks", COUNT, k->blocks},     {"free_blocks", COUNT, k->free_blocks},
    };
    memcpy(items, counts, sizeof counts);
}

static void write_value(struct item item, const char *unknown, FILE *out) {
    if (item.kind == UNKNOWN) fputs(unknown, out);
    else if (item.kind == SHARE) fprintf(out, "%" PRIu64 ".%06" PRIu64, item.value / 1000000, item.value % 1000000);
    else fprintf(out, "%" PRIu64, item.value);
}

/* Writes the name of a kernel (an identifier, or a demangled C++ name) in quotes, or null. */
static void write_name(const char *name, FILE *out) {
    if (!*name) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') fputc('\\', out);
        fputc((unsigned char)*name < 0x20 ? '?' : *name, out);
    }
    fputc('"', out);
}

static void write_json(const struct mm_host_stats *s, FILE *out) {
    struct item items[ITEMS_MAX], of_class[CLASS_ITEMS];
    const size_t count = items_of(s, items);
    fprintf(out, "{\"mm_statistics\":1,\"version\":\"" MM_VERSION "\",\"process\":%ld,\"device\":%d,\"allocator\":\"%s\"", (long)getpid(), s->device,
            s->allocator);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, ",\"%s\":", items[i].name);
        write_value(items[i], "null", out);
    }
    fputs(",\"null_first_kernel\":", out);
    write_name(s->null_first_kernel, out);
    fputs(",\"classes\":[", out);
    const char *comma = "";
    for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) {
        if (!has_row(&s->usage.classes[c])) continue;
        class_items(&s->usage.classes[c], of_class);
        fprintf(out, "%s{\"slice_bytes\":%u", comma, mm_class_bytes(c));
        for (size_t i = 0; i < CLASS_ITEMS; i++) {
            fprintf(out, ",\"%s\":", of_class[i].name);
            write_value(of_class[i], "null", out);
        }
        fputs("}", out);
        comma = ",";
    }
    fputs("]}\n", out);
}

/* Writes one row for each number, so that the columns do not depend on the number of classes. An empty value is not counted. */
static void write_csv(const struct mm_host_stats *s, FILE *out) {
    struct item items[ITEMS_MAX], of_class[CLASS_ITEMS];
    const size_t count = items_of(s, items);
    fprintf(out, "%ld,%d,,allocator,%s\n", (long)getpid(), s->device, s->allocator);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%ld,%d,,%s,", (long)getpid(), s->device, items[i].name);
        write_value(items[i], "", out);
        fputs("\n", out);
    }
    fprintf(out, "%ld,%d,,null_first_kernel,", (long)getpid(), s->device);
    if (s->null_first_kernel[0]) write_name(s->null_first_kernel, out); /* quoted, since it may contain commas; it contains no quotes */
    fputs("\n", out);
    for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) {
        if (!has_row(&s->usage.classes[c])) continue;
        class_items(&s->usage.classes[c], of_class);
        for (size_t i = 0; i < CLASS_ITEMS; i++) {
            fprintf(out, "%ld,%d,%u,%s,", (long)getpid(), s->device, mm_class_bytes(c), of_class[i].name);
            write_value(of_class[i], "", out);
            fputs("\n", out);
        }
    }
}

void mm_stats_write(const struct mm_host_stats *s, enum mm_stats_form form, bool is_first, FILE *out) {
    if (form == MM_STATS_TEXT) write_text(s, out);
    if (form == MM_STATS_JSON) write_json(s, out);
    if (form == MM_STATS_CSV && is_first) fputs(MM_STATS_CSV_HEADER, out);
    if (form == MM_STATS_CSV) write_csv(s, out);
}
