/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the pool (MM_POOL) with several devices: a free waits for the contexts of all of them. */
#include "client_pool.h"

#include <pthread.h>
#include <unistd.h>

static int synchronisations;
static void count_synchronisation(void) { synchronisations++; }

/* Work of one device may use memory of another: a free waits for both. With peer access the pool hands out nothing more. */
static void devices(int argc, char **argv) {
    CUcontext first = client_start(), second;
    (void)argc, (void)argv;
    const CUdeviceptr a = allocate(KIB), large = allocate(4 * MIB);
    OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    OK(cu.cuCtxSetCurrent(second));
    const CUdeviceptr b = allocate(KIB);
    standin->submitted++;
    standin->at_synchronize = count_synchronisation;
    OK(cu.cuMemFree(b));
    CHECK(synchronisations == 2 && standin->finished == standin->submitted && standin->frees == 0 && allocate(KIB) == b);
    CHECK(cu.cuCtxEnablePeerAccess(first, 1) != CUDA_SUCCESS); /* even so */
    const int before = standin->allocations;
    const CUdeviceptr c = allocate(KIB);
    CHECK(standin->allocations == before + 1);
    OK(cu.cuMemFree(c));
    CHECK(standin->allocations == before);
    OK(cu.cuMemFree(large));
    CHECK(standin->allocations == before - 1);
    standin->submitted++;
    OK(cu.cuMemFree(a));
    CHECK(standin->finished == standin->submitted);
    OK(cu.cuDevicePrimaryCtxRelease(1));
    OK(cu.cuCtxSetCurrent(first));
}

/* A free waits for two devices in turn: that of a context without the allocation first. */
static CUdeviceptr a_block_of_the_other(CUcontext first) {
    CUcontext other;
    OK(cu.cuDevicePrimaryCtxRetain(&other, 1));
    OK(cu.cuCtxSetCurrent(other));
    OK(cu.cuMemFree(allocate(4 * MIB))); /* in async this is pending, or was */
    const CUdeviceptr block = allocate(4 * MIB);
    OK(cu.cuCtxSetCurrent(first));
    OK(cu.cuMemFree(allocate(KIB)));
    standin->submitted++;
    return block;
}

/* While it waits for the first one, the allocation's context is about to end. */
static pthread_t ender;
static bool is_over, ended_early;
static void *ends_the_context(void *unused) {
    OK(cu.cuDevicePrimaryCtxRelease(1));
    if (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) __atomic_store_n(&ended_early, true, __ATOMIC_RELEASE);
    return unused;
}
static void end_the_other(void) {
    if (synchronisations++ != 0) return;
    CHECK(pthread_create(&ender, NULL, ends_the_context, NULL) == 0);
    usleep(50000);
    CHECK(!__atomic_load_n(&ended_early, __ATOMIC_ACQUIRE));
}
static void count_last(void) { __atomic_store_n(&is_over, synchronisations == 2, __ATOMIC_RELEASE); }
static void devices_ending(int argc, char **argv) {
    (void)argc, (void)argv;
    const CUdeviceptr block = a_block_of_the_other(client_start());
    standin->before_synchronize = end_the_other, standin->at_synchronize = count_last;
    OK(cu.cuMemFree(block));
    pthread_join(ender, NULL);
    CHECK(synchronisations == 2 && !ended_early && standin->finished == standin->submitted);
}

/* While it waits for the first one, a stream begins to capture. The free does not break that, and its memory waits for all devices. So does that of another
 * free, in the capture: the driver waits for one of them. */
static CUstream captured_stream;
static void begin_capture(void) {
    if (synchronisations++ == 0) OK(cu.cuStreamBeginCapture(captured_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}
static void devices_captured(int argc, char **argv) {
    CUcontext first = client_start(), other;
    CUgraph graph;
    (void)argc, (void)argv;
    const CUdeviceptr block = a_block_of_the_other(first);
    OK(cu.cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuDevicePrimaryCtxRetain(&other, 1));
    OK(cu.cuCtxSetCurrent(other));
    const CUdeviceptr part = allocate(3 * KIB);
    standin->at_synchronize = begin_capture;
    OK(cu.cuMemFree(block));
    CHECK(synchronisations == 1);
    const long frees = standin->frees;
    OK(cu.cuMemFree(part));
    CHECK(standin->frees == frees + 1 && !standin->capture_broken);
    OK(cu.cuStreamEndCapture(captured_stream, &graph));
    CHECK(allocate(4 * MIB) != block && allocate(3 * KIB) != part);
    OK(cu.cuMemFree(allocate(KIB))); /* waits for both */
    CHECK(synchronisations == 3 && allocate(4 * MIB) == block && allocate(3 * KIB) == part);
}

/* While a call releases a reference to the other device's context, which lives on, that context is not waited for; so a free does not end then. */
static CUdeviceptr to_free;
static int releases, in_release;
static void free_in_release(void) {
    if (releases++ == 0) return; /* mm's, which looked for the context */
    OK(cu.cuMemFree(to_free));
    in_release = synchronisations;
}
static void devices_released(int argc, char **argv) {
    CUcontext first = client_start(), other;
    (void)argc, (void)argv;
    a_block_of_the_other(first);
    OK(cu.cuDevicePrimaryCtxRetain(&other, 1));
    to_free = allocate(4 * MIB);
    standin->at_synchronize = count_synchronisation, standin->at_end = free_in_release;
    OK(cu.cuDevicePrimaryCtxRelease(1));
    CHECK(releases == 2 && in_release == 1 && allocate(4 * MIB) != to_free);
    OK(cu.cuMemFree(allocate(KIB))); /* waits for both */
    CHECK(synchronisations == 3 && allocate(4 * MIB) == to_free);
    standin->at_end = NULL;
}

const struct scenario client_pool_devices_scenarios[] = {
    {"pool-devices", devices},
    {"pool-devices-ending", devices_ending},
    {"pool-devices-captured", devices_captured},
    {"pool-devices-released", devices_released},
    {NULL, NULL},
};
