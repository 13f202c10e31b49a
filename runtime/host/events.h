/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Walks the events that the device recorded (runtime/checked/trace.h), for a trace (trace_write.h) or a profile (profile.h). Plain C, without the driver.
 *
 * A free is matched with its malloc by the address. Frees of what was not live, and events that a stopped kernel left incomplete, are left out. */
#ifndef MM_HOST_EVENTS_H
#define MM_HOST_EVENTS_H

#include <stdbool.h>

#include "runtime/core/layout.h"

/* What was recorded. */
struct mm_trace_sum {
    uint64_t mallocs, nulls, frees; /* nulls: requests that got NULL */
    uint64_t dropped;               /* events for which the device had no room: the last ones */
    uint64_t left_out;              /* frees of what was not live, and events that a stopped kernel left incomplete */
};

/* Called for each event that counts, in order, and for each mm_reset, after which nothing is live. launch: its number, counted from 0 in the order of submission among launches with events. mark: of a malloc that got
 * memory, receives a value of the visitor's, at most 2^64 - 2, which its free finds there. Returns whether the walk goes on. */
typedef bool mm_events_visitor(void *argument, const struct mm_trace_event *event, uint64_t launch, uint64_t *mark);

/* Walks `count` events, after which `dropped` events are missing. Returns false if the host has no memory, or the visitor returned false. */
bool mm_events_try_walk(const struct mm_trace_event *events, uint64_t count, uint64_t dropped, struct mm_trace_sum *sum, mm_events_visitor *visitor,
                        void *argument);

/* What an event is: a free; a malloc that got NULL; mm_reset; else a malloc that got memory. */
static inline bool mm_event_is_free(const struct mm_trace_event *e) { return (e->what & 0xff) == MM_TRACE_FREE; }
static inline bool mm_event_is_reset(const struct mm_trace_event *e) { return (e->what & 0xff) == MM_TRACE_RESET; }
static inline bool mm_event_is_null(const struct mm_trace_event *e) { return (e->what & 0xff) == MM_TRACE_MALLOC && e->address == 0; }
/* The low bits of its launch's number on the device (mm_grid). */
static inline uint32_t mm_event_grid(const struct mm_trace_event *e) { return (uint32_t)(e->what >> MM_TRACE_GRID_SHIFT); }

#endif
