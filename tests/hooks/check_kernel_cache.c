/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of the hooks' two tables, known kernels and handles, against a plain model. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "interpose/preload/handles.h"
#include "interpose/preload/kernel_cache.h"
#include "tests/runner.h"

/* Few kernels in many contexts, so that pairs that differ only in the context collide in the table. */
enum { KERNELS = 16, CONTEXTS = 32, OWNERS = 5, STEPS = 200000 };

static void *kernel_at(int i) { return (void *)(uintptr_t)(0x10000 + 16 * i); }
static void *context_at(int i) { return (void *)(uintptr_t)(0x7000 + 64 * (i * 2654435761u % 65536)); }
static void *owner_at(int i) { return i ? (void *)(uintptr_t)(0x500 + i) : NULL; }

static void forget_all(void) {
    for (int c = 0; c < CONTEXTS; c++) mm_kernel_cache_forget_context(context_at(c));
}

START_TEST(known_is_as_the_model) {
    static int owner_of[KERNELS][CONTEXTS]; /* 0: absent, else owner + 1 */
    unsigned seed = 12345;
    for (int step = 0; step < STEPS; step++) {
        int k = rand_r(&seed) % KERNELS, c = rand_r(&seed) % CONTEXTS, o = rand_r(&seed) % OWNERS;
        int dice = rand_r(&seed) % 1000;
        if (dice < 5) {
            mm_kernel_cache_forget_context(context_at(c));
            for (int i = 0; i < KERNELS; i++) owner_of[i][c] = 0;
        } else if (dice < 10 && o) {
            mm_kernel_cache_forget_owner(owner_at(o));
            for (int i = 0; i < KERNELS; i++)
                for (int j = 0; j < CONTEXTS; j++)
                    if (owner_of[i][j] == o + 1 || owner_of[i][j] == 1) owner_of[i][j] = 0;
        } else if (dice < 11) {
            forget_all();
            for (int i = 0; i < KERNELS; i++)
                for (int j = 0; j < CONTEXTS; j++) owner_of[i][j] = 0;
        } else {
            if (!owner_of[k][c]) owner_of[k][c] = o + 1;
            mm_kernel_cache_insert(kernel_at(k), context_at(c), owner_at(o));
        }
        k = rand_r(&seed) % KERNELS, c = rand_r(&seed) % CONTEXTS;
        ck_assert_int_eq(mm_kernel_cache_has(kernel_at(k), context_at(c)), owner_of[k][c] != 0);
    }
    ck_assert(mm_kernel_cache_current->mask + 1 <= 2048); /* forgetting and inserting do not grow the table */
}
END_TEST

/* The same kernels in other contexts: pairs never inserted are never found (I1), whatever the table does. */
static int stop;

static void *reader(void *unused) {
    long wrong = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        for (int k = 0; k < KERNELS; k++)
            for (int c = 0; c < CONTEXTS; c++) wrong += (k + c) % 2 && mm_kernel_cache_has(kernel_at(k), context_at(c));
    (void)unused;
    return (void *)wrong;
}

START_TEST(readers_find_nothing_that_was_not_there) {
    pthread_t readers[3];
    unsigned seed = 99;
    stop = 0;
    forget_all();
    for (int i = 0; i < 3; i++) ck_assert(pthread_create(&readers[i], NULL, reader, NULL) == 0);
    for (int step = 0; step < 400000; step++) {
        int k = rand_r(&seed) % KERNELS, c = rand_r(&seed) % CONTEXTS;
        if ((k + c) % 2 == 0) mm_kernel_cache_insert(kernel_at(k), context_at(c), owner_at(1 + k % 4));
        if (step % 64 == 0) mm_kernel_cache_forget_owner(owner_at(1 + rand_r(&seed) % 4));
        if (step % 1000 == 0) forget_all();
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) {
        void *wrong = NULL;
        pthread_join(readers[i], &wrong);
        ck_assert_msg(wrong == NULL, "%ld pairs found that were never inserted", (long)wrong);
    }
}
END_TEST

START_TEST(handles_are_as_the_model) {
    static struct mm_handle model[4096];
    unsigned seed = 4711;
    for (int step = 0; step < STEPS; step++) {
        int i = rand_r(&seed) % 4096;
        void *handle = (void *)(uintptr_t)(0x100 + 16 * i);
        if (step % 997 == 0) {
            uintptr_t owner = 1 + (uintptr_t)(rand_r(&seed) % 7);
            mm_handle_forget_owner((void *)owner);
            for (int j = 0; j < 4096; j++)
                if (model[j].owner == owner) model[j].kind = MM_HANDLE_UNKNOWN;
        } else if (step % 499 == 0) {
            uintptr_t context = (uintptr_t)(rand_r(&seed) % 6); /* 0: no context, and nothing is forgotten */
            mm_handle_forget_context((void *)context);
            for (int j = 0; j < 4096; j++)
                if (context && model[j].context == context) model[j].kind = MM_HANDLE_UNKNOWN;
        } else if (step % 3) {
            model[i].kind = (enum mm_handle_kind)(1 + rand_r(&seed) % 4);
            model[i].owner = 1 + (uintptr_t)(rand_r(&seed) % 7);
            model[i].context = (uintptr_t)(rand_r(&seed) % 6);
            mm_handle_record(handle, model[i].kind, (void *)model[i].owner, (void *)model[i].context);
        }
        struct mm_handle found = mm_handle_find(handle);
        ck_assert_int_eq(found.kind, model[i].kind);
        if (found.kind) ck_assert_uint_eq(found.owner, model[i].owner);
    }
    mm_handle_record(NULL, MM_HANDLE_KERNEL, (void *)1, NULL);
    ck_assert_int_eq(mm_handle_find(NULL).kind, MM_HANDLE_UNKNOWN);
    ck_assert_int_eq(mm_handle_find((void *)1).kind, MM_HANDLE_UNKNOWN);
}
END_TEST

int main(void) {
    Suite *s = suite_create("known");
    TCase *c = tcase_create("known");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, known_is_as_the_model);
    tcase_add_test(c, readers_find_nothing_that_was_not_there);
    tcase_add_test(c, handles_are_as_the_model);
    suite_add_tcase(s, c);
    return suite_run(s);
}
