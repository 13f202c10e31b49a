/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A profile as a text, and as stacks in lines, which tools for flame graphs read. */
#include <inttypes.h>
#include <string.h>

#include "runtime/host/profile.h"
#include "runtime/host/say.h"

static bool ends_with(const char *path, const char *ending) {
    const size_t n = strlen(path), length = strlen(ending);
    return n > length && strcmp(path + n - length, ending) == 0;
}

bool mm_profile_try_write(const struct mm_profile *p, const char *path, const char *title, FILE *out) {
    const bool is_gzip = ends_with(path, ".pb.gz");
    if (is_gzip || ends_with(path, ".pb") || ends_with(path, ".pprof")) return mm_profile_try_write_pprof(p, title, is_gzip, out);
    if (ends_with(path, ".folded")) mm_profile_write_folded(p, out);
    else if (ends_with(path, ".svg")) mm_profile_write_svg(p, title, out);
    else mm_profile_write_text(p, title, out);
    return true;
}

static void write_row(const struct mm_profile_kernel *k, FILE *out) {
    fprintf(out, "%12" PRIu64 " %18" PRIu64 " %10" PRIu64 " %12" PRIu64 " %12" PRIu64 " %18" PRIu64 " %18" PRIu64 "  %s\n", k->all.mallocs, k->all.bytes,
            k->nulls, k->frees, k->all.live, k->all.live_bytes, k->most_bytes, k->name);
}

void mm_profile_write_text(const struct mm_profile *p, const char *title, FILE *out) {
    const struct mm_profile_kernel all = {.name = "all kernels", .nulls = p->sum.nulls, .frees = p->sum.frees, .most_bytes = p->most_bytes, .all = p->all};
    fprintf(out, "%s: requests of kernels\n", title);
    fprintf(out, "bytes: as requested; live: allocated by the kernel, and not freed at the end; most bytes: live at once; frees: by the kernel\n");
    fprintf(out, "not counted: %" PRIu64 " later events, %" PRIu64 " frees of what was not live\n\n", p->sum.dropped, p->sum.left_out);
    fprintf(out, "%12s %18s %10s %12s %12s %18s %18s  %s\n", "mallocs", "bytes", "NULLs", "frees", "live", "live bytes", "most bytes", "kernel");
    for (size_t i = 0; i < p->count; i++) write_row(&p->kernels[i], out);
    write_row(&all, out);
    fprintf(out, "\n%12s %18s %12s %18s %12s  %s\n", "mallocs", "bytes", "live", "live bytes", "sizes up to", "kernel");
    for (size_t i = 0; i < p->count; i++)
        for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++) {
            const struct mm_profile_counts *n = &p->kernels[i].sizes[s];
            if (!n->mallocs) continue;
            fprintf(out, "%12" PRIu64 " %18" PRIu64 " %12" PRIu64 " %18" PRIu64 " %12" PRIu64 "  %s\n", n->mallocs, n->bytes, n->live, n->live_bytes,
                    mm_profile_size(s), p->kernels[i].name);
        }
}

/* A name without the character that separates frames. */
static void write_frame(const char *name, FILE *out) {
    for (; *name; name++) fputc(*name == ';' || *name == '\n' ? ':' : *name, out);
}

void mm_profile_write_folded(const struct mm_profile *p, FILE *out) {
    for (size_t i = 0; i < p->count; i++)
        for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++) {
            if (!p->kernels[i].sizes[s].bytes) continue;
            write_frame(p->kernels[i].name, out);
            fprintf(out, ";up to %s %" PRIu64 "\n", mm_host_size(mm_profile_size(s)).text, p->kernels[i].sizes[s].bytes);
        }
}
