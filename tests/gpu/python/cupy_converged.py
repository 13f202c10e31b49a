# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many lanes of a warp are together after malloc and free, in kernels that the driver compiles from NVRTC's PTX."""
import cupy

SOURCE = r"""
__device__ unsigned long long lanes[4][33];
__device__ void note(int place) {
    const unsigned mask = __activemask();
    if ((threadIdx.x & 31) == __ffs(mask) - 1) atomicAdd(&lanes[place][__popc(mask)], 1ull);
}
extern "C" __global__ void all_lanes(int rounds) {
    for (int i = 0; i < rounds; i++) {
        __syncwarp();
        char *p = (char *)malloc(64 + (i & 7) * 16);
        note(0);
        if (p) *(volatile char *)p = 1;
        free(p);
        note(1);
    }
}
extern "C" __global__ void one_lane(int rounds) {
    for (int i = 0; i < rounds; i++) {
        __syncwarp();
        void *p = 0;
        if ((threadIdx.x & 31) == 0) p = malloc(100);
        note(2);
        __syncwarp();
        p = (void *)__shfl_sync(~0u, (unsigned long long)p, 0);
        if ((threadIdx.x & 31) == 31) free(p);
        note(3);
    }
}
"""
PLACES = ("all lanes: after malloc", "all lanes: after free", "one lane mallocs: after", "one lane frees: after")

module = cupy.RawModule(code=SOURCE)
for name in ("all_lanes", "one_lane"):
    module.get_function(name)((264,), (256,), (40,))
cupy.cuda.runtime.deviceSynchronize()
lanes = cupy.ndarray((4, 33), cupy.uint64, module.get_global("lanes")).get()
shares = [100.0 * row[32] / row.sum() for row in lanes]
for place, share in zip(PLACES, shares):
    print(f"{place:24} {share:5.1f} % whole warps")
assert min(shares) == 100, "warps are in pieces"
print("cupy", cupy.__version__, "converged ok")
