/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Coroutines: functions with a stack each, which give control to each other. swapcontext would do, but it makes a system call for the signal mask
 * each time, which took half of the time of the suites that switch at every step. So ucontext only enters a new stack.
 */
#ifndef MM_UNIT_COROUTINE_H
#define MM_UNIT_COROUTINE_H

#include <stddef.h>
#include <ucontext.h>

struct unit_coroutine {
    void *place[5]; /* where it goes on (__builtin_setjmp) */
    ucontext_t entry;
    void (*run)(void *);
    void *arg;
    struct unit_coroutine *next; /* goes on when run returns */
    int is_new;
};
static struct unit_coroutine *unit_coroutine_entered;

/* `from` is the running one; returns when it gets control again. */
__attribute__((noinline)) static void unit_coroutine_switch(struct unit_coroutine *from, struct unit_coroutine *to) {
    if (__builtin_setjmp(from->place) != 0) return;
    if (!to->is_new) __builtin_longjmp(to->place, 1);
    to->is_new = 0;
    unit_coroutine_entered = to;
    setcontext(&to->entry);
}

static void unit_coroutine_main(void) {
    struct unit_coroutine *me = unit_coroutine_entered;
    me->run(me->arg);
    unit_coroutine_switch(me, me->next);
}

/* Makes a coroutine that does run(arg) on that stack when control is given to it, and gives control to `next` in the end. */
__attribute__((unused)) static void unit_coroutine_make(struct unit_coroutine *c, char *stack, size_t bytes, void (*run)(void *), void *arg,
                                                        struct unit_coroutine *next) {
    getcontext(&c->entry);
    c->entry.uc_stack.ss_sp = stack, c->entry.uc_stack.ss_size = bytes, c->entry.uc_link = NULL;
    makecontext(&c->entry, unit_coroutine_main, 0);
    c->run = run, c->arg = arg, c->next = next, c->is_new = 1;
}

#endif
