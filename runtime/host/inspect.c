/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* open_memstream */
#include "runtime/host/inspect.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host/env.h"
#include "runtime/host/fail.h"
#include "runtime/host/file.h"
#include "runtime/host/leaks.h"
#include "runtime/host/map_series.h"
#include "runtime/host/report.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"
#include "runtime/host/stats.h"
#include "runtime/host/trace.h"

bool mm_inspect_has_found;

bool mm_inspect_try_path(const char *pattern, CUdevice device, uint64_t launch, char *path, size_t path_bytes) {
    size_t n = 0;
    for (const char *at = pattern; *at; at++) {
        char value[24] = {*at, 0};
        const char next = *at == '%' ? at[1] : 0;
        if (next == 'p') snprintf(value, sizeof value, "%ld", (long)getpid());
        else if (next == 'd') snprintf(value, sizeof value, "%d", device);
        else if (next == 'l') snprintf(value, sizeof value, "%" PRIu64, launch);
        if (next && strchr("pdl%", next)) at++;
        if (n + strlen(value) >= path_bytes) return false;
        n += (size_t)snprintf(path + n, path_bytes - n, "%s", value);
    }
    path[n] = 0;
    return true;
}

static bool say_too_long(const char *what) {
    mm_host_say("cannot write %s: the name of the file is too long", what);
    return false;
}

/* The path of a picture or of statistics. If it is too long, prints a message and returns false. */
static bool try_path(const char *what, const char *pattern, CUdevice device, uint64_t launch, char path[PATH_MAX]) {
    return mm_inspect_try_path(pattern, device, launch, path, PATH_MAX) || say_too_long(what);
}

/* The file for a heap's or a pool's picture or trace. name (NULL: none) comes before the suffix: that of an allocator other than the default, or of the pool, since
 * one context may have all of them. */
static bool try_named_path(const char *what, const char *pattern, CUdevice device, const char *name, uint64_t launch, char path[PATH_MAX]) {
    char named[PATH_MAX];
    if (!try_path(what, pattern, device, launch, path)) return false;
    if (!name) return true;
    const char *const slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const size_t stem = dot ? (size_t)(dot - path) : strlen(path), name_bytes = strlen(name), rest = strlen(path + stem);
    if (stem + 1 + name_bytes + rest >= sizeof named) return say_too_long(what);
    memcpy(named, path, stem), named[stem] = '.';
    memcpy(named + stem + 1, name, name_bytes), memcpy(named + stem + 1 + name_bytes, path + stem, rest + 1);
    strcpy(path, named);
    return true;
}

#define PICTURE "a picture"
void mm_inspect_picture(CUdevice device, const char *name, uint64_t launch, const char *text, size_t bytes) {
    char path[PATH_MAX];
    if (try_named_path(PICTURE, mm_host_env_get()->heap_map, device, name, launch, path)) mm_file_try_write(PICTURE, path, text, bytes, false);
}

/* Whether there is a picture of each launch. */
static bool has_launches(const char *pattern) {
    for (const char *at = strchr(pattern, '%'); at && at[1]; at = strchr(at + 2, '%'))
        if (at[1] == 'l') return true;
    return false;
}

static void drop_text(struct mm_host_text *t) {
    free(t->text);
    t->text = NULL;
}

/* What the title of a heap's output begins with. */
struct heap_title {
    char text[120];
};
static struct heap_title title_of(const struct mm_host_heap *h) {
    struct heap_title t;
    snprintf(t.text, sizeof t.text, "Heap of device %d%s%s, process %ld", h->device, h->sibling ? ", " : "", h->sibling ? h->sibling : "", (long)getpid());
    return t;
}

/* The stream has the contents of a file: ends it. Drops them if they are not complete. stream: NULL: none. */
static void end_text(struct mm_host_text *t, FILE *stream, bool is_complete, struct mm_driver_error *error) {
    const bool has_memory = !stream || fclose(stream) == 0;
    if (!has_memory) mm_driver_lacks_memory(error);
    if (!has_memory || !is_complete) drop_text(t);
}

/* Collects the trace and the profile, as far as they are wanted. Each is kept even if the other fails. */
static void take_events(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    const struct mm_host_env *env = mm_host_env_get();
    struct mm_host_seen *const seen = &h->seen;
    const struct heap_title title = title_of(h);
    drop_text(&seen->trace), drop_text(&seen->profile);
    struct mm_trace_out out = {.title = title.text};
    if (env->trace) out.trace = open_memstream(&seen->trace.text, &seen->trace.bytes);
    if (env->profile) out.profile = open_memstream(&seen->profile.text, &seen->profile.bytes);
    if ((env->trace && !out.trace) || (env->profile && !out.profile)) mm_driver_lacks_memory(error);
    if (out.trace || out.profile) mm_trace_take(d, h, &out, error);
    end_text(&seen->trace, out.trace, out.has_trace, error);
    end_text(&seen->profile, out.profile, out.has_profile, error);
    seen->trace_sum = out.sum;
}

/* what: "a trace" or "a profile". pattern: NULL: it is not wanted. */
static void write_events(const struct mm_host_heap *h, const char *what, const char *pattern, const struct mm_host_text *t) {
    const struct mm_trace_sum *s = &h->seen.trace_sum;
    char path[PATH_MAX];
    if (!pattern) return;
    if (!t->text) mm_host_say("device %d: no %s (%s)", h->device, what + 2, h->seen.error.call ? h->seen.error.call : "the context had ended");
    if (!t->text || !try_named_path(what, pattern, h->device, h->sibling, 0, path)) return;
    if (!mm_file_try_write(what, path, t->text, t->bytes, false)) return;
    mm_host_say("device %d: %s in %s: %llu mallocs, %llu NULLs, %llu frees; %llu events dropped, %llu left out", h->device, what + 2, path,
                (unsigned long long)s->mallocs, (unsigned long long)s->nulls, (unsigned long long)s->frees, (unsigned long long)s->dropped,
                (unsigned long long)s->left_out);
}

/* The map of the heap as it is now. NULL: there is none. */
static struct mm_map *map_of(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    struct mm_snapshot s;
    if (!mm_snapshot_try_take(d, h, &s, error)) return NULL;
    struct mm_map *map = mm_map_take(&s);
    mm_snapshot_drop(&s);
    return map;
}

/* A picture of the heap: *text, which is NULL before; if it fails, prints why, and *text is NULL. */
static bool try_map(const struct mm_driver *d, struct mm_host_heap *h, const char *when, char **text, size_t *bytes, struct mm_driver_error *error) {
    char title[200];
    struct mm_map *map = map_of(d, h, error);
    FILE *out = map ? open_memstream(text, bytes) : NULL;
    snprintf(title, sizeof title, "%s, %s", title_of(h).text, when);
    if (out) mm_map_write(map, title, out);
    free(map);
    if (out && fclose(out) == 0) return true;
    mm_host_say("device %d: no picture (%s)", h->device, error->call ? error->call : "malloc");
    free(*text);
    *text = NULL;
    return false;
}

static void write_series(struct mm_host_heap *h) {
    struct mm_host_text t = {NULL, 0};
    char path[PATH_MAX];
    if (!mm_map_series_has_any(&h->seen.series)) return;
    FILE *out = open_memstream(&t.text, &t.bytes);
    if (out) mm_map_series_write(&h->seen.series, title_of(h).text, out);
    if (!out || fclose(out) != 0) mm_host_say("device %d: no series of maps (malloc)", h->device);
    else if (try_named_path(PICTURE, mm_host_env_get()->map_series, h->device, h->sibling, 0, path)) mm_file_try_write(PICTURE, path, t.text, t.bytes, false);
    free(t.text);
    mm_map_series_drop(&h->seen.series);
}

void mm_inspect_take(const struct mm_driver *d, struct mm_host_heap *h) {
    const struct mm_host_env *env = mm_host_env_get();
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    struct mm_driver_visit visit;
    const bool is_checked = h->guard != 0;
    if ((env->stats == MM_STATS_NONE && !is_checked && !env->heap_map && !env->map_series && !h->ref.fail && !h->trace) || h->kind == MM_HOST_HEAP_ABSENT)
        return;
    if (!mm_driver_try_enter(d, h->context, &visit)) return;
    struct mm_host_seen *seen = &h->seen;
    if (h->trace) take_events(d, h, &error);
    seen->has_fail = h->ref.fail && mm_fail_try_take(d, h, &seen->fail, &error);
    if (env->stats != MM_STATS_NONE || is_checked) {
        if (!seen->stats) seen->stats = (struct mm_host_stats *)malloc(sizeof *seen->stats);
        if (is_checked && !seen->leaks) seen->leaks = (struct mm_leaks *)malloc(sizeof *seen->leaks);
        else if (is_checked && seen->has_leaks) mm_leaks_drop(seen->leaks);
        seen->has_stats = seen->stats && (seen->leaks || !is_checked) && mm_stats_try_take(d, h, seen->stats, seen->leaks, &error);
        seen->has_leaks = seen->has_stats && is_checked;
    }
    if (env->map_series) mm_map_series_end(&seen->series, map_of(d, h, &error));
    if (env->heap_map && !has_launches(env->heap_map)) {
        free(seen->map);
        seen->map = NULL;
        try_map(d, h, "at the end", &seen->map, &seen->map_bytes, &error);
    }
    mm_driver_leave(d, &visit);
    seen->error = error;
}

void mm_inspect_statistics(CUdevice device, mm_inspect_writer *writer, void *argument) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *const pattern = mm_host_env_get()->stats_file;
    char path[PATH_MAX] = "", *text = NULL;
    size_t bytes = 0;
    if (pattern && !try_path("statistics", pattern, device, 0, path)) return;
    FILE *out = open_memstream(&text, &bytes);
    pthread_mutex_lock(&lock);
    if (out) writer(argument, !mm_file_was_written(path), out);
    if (!out || fclose(out) != 0) mm_host_say("device %d: no statistics (malloc)", device);
    else if (pattern ? mm_file_try_write("statistics", path, text, bytes, mm_file_was_written(path)) : mm_host_say_text(text, bytes)) mm_file_note(path);
    pthread_mutex_unlock(&lock);
    free(text);
}

static void write_stats(void *stats, bool is_first, FILE *out) { mm_stats_write((const struct mm_host_stats *)stats, mm_host_env_get()->stats, is_first, out); }

static void say_leak(const struct mm_host_heap *h, const struct mm_leak *leak) {
    char of[60] = "of a size that is not known, at most";
    if (leak->class_ < MM_CLASS_COUNT) snprintf(of, sizeof of, "of size class %u,", mm_class_bytes(leak->class_));
    else if (leak->class_ == MM_CLASS_COUNT) snprintf(of, sizeof of, "in pages of their own,");
    mm_host_say("device %d: leak: %llu objects %s %llu bytes, allocated by kernel %s", h->device, (unsigned long long)leak->count, of,
                (unsigned long long)leak->bytes, leak->kernel);
}

/* Prints the findings of a checked run, and a last line even if there are none. */
static void say_leaks(const struct mm_host_heap *h) {
    const struct mm_leaks *l = h->seen.leaks;
    const uint64_t *misuse = h->seen.stats->counts.misuse, late = l->overrun_count + l->after_free_count;
    unsigned long long frees = 0, left = 0;
    for (int kind = 1; kind < MM_MISUSE_OVERRUN; kind++) frees += misuse[kind];
    const unsigned long long overruns = misuse[MM_MISUSE_OVERRUN] + l->overrun_count, writes = misuse[MM_MISUSE_AFTER_FREE] + l->after_free_count;
    for (uint64_t i = 0; i < late && i < MM_REPORTS; i++) mm_report_line(h, &l->found[i], true);
    for (size_t i = 0; i < l->leak_count && i < MM_HOST_LEAKS_TOLD; i++) say_leak(h, &l->leak[i]);
    for (size_t i = MM_HOST_LEAKS_TOLD; i < l->leak_count; i++) left += l->leak[i].count;
    if (left) mm_host_say("device %d: leak: %llu other objects", h->device, left);
    mm_host_say("device %d: checked: %llu leaks of %llu bytes, %llu writes past the end, %llu writes after free, %llu misuses of free", h->device,
                (unsigned long long)l->count, (unsigned long long)l->bytes, overruns, writes, frees);
    if (l->count || overruns || writes || frees) mm_inspect_has_found = true;
}

void mm_inspect_write(struct mm_host_heap *h) {
    const struct mm_host_env *env = mm_host_env_get();
    struct mm_host_seen *seen = &h->seen;
    if (h->ref.fail && h->kind != MM_HOST_HEAP_ABSENT) mm_fail_say(h);
    if (seen->has_leaks) say_leaks(h);
    else if (h->guard) mm_host_say("device %d: not checked for leaks (%s)", h->device, seen->error.call ? seen->error.call : "the context had ended");
    if (env->stats != MM_STATS_NONE && h->kind != MM_HOST_HEAP_ABSENT) {
        if (seen->has_stats) mm_inspect_statistics(h->device, write_stats, seen->stats);
        else mm_host_say("device %d: no statistics (%s)", h->device, seen->error.call ? seen->error.call : "the context had ended");
    }
    if (seen->map) mm_inspect_picture(h->device, h->sibling, 0, seen->map, seen->map_bytes);
    write_series(h);
    if (h->trace) write_events(h, "a trace", env->trace, &seen->trace), write_events(h, "a profile", env->profile, &seen->profile);
    if (seen->has_leaks) mm_leaks_drop(seen->leaks);
    drop_text(&seen->trace), drop_text(&seen->profile), free(seen->stats), free(seen->leaks), free(seen->map);
    memset(seen, 0, sizeof *seen);
}

bool mm_inspect_wants_launches(void) {
    const struct mm_host_env *env = mm_host_env_get();
    return env->map_series || (env->heap_map && has_launches(env->heap_map));
}

bool mm_inspect_wants_launch(struct mm_host_heap *h, uint64_t *frame) {
    const struct mm_host_env *env = mm_host_env_get();
    *frame = 0;
    if (h->kind == MM_HOST_HEAP_ABSENT) return false;
    if (env->map_series) *frame = mm_map_series_count(&h->seen.series);
    return *frame || (env->heap_map && has_launches(env->heap_map));
}

void mm_inspect_launch(const struct mm_driver *d, struct mm_host_heap *h, uint64_t launch, uint64_t frame) {
    const struct mm_host_env *env = mm_host_env_get();
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    char when[60], *text = NULL;
    size_t bytes = 0;
    if (h->kind == MM_HOST_HEAP_ABSENT) return;
    if (frame) mm_map_series_add(&h->seen.series, frame, map_of(d, h, &error));
    if (!env->heap_map || !has_launches(env->heap_map)) return;
    snprintf(when, sizeof when, "after launch %" PRIu64, launch);
    if (try_map(d, h, when, &text, &bytes, &error)) mm_inspect_picture(h->device, h->sibling, launch, text, bytes);
    free(text);
}
