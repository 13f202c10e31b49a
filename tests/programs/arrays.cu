/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
// Arrays of classes. If a class has a constructor and no destructor, nvcc 13 stores the count of elements in front of malloc's memory.
struct word {
    unsigned limb[8];
    __device__ word() {}
};
struct pair {
    int a, b;
    __device__ pair() : a(3), b(4) {}
};
struct counted {
    unsigned limb[8];
    __device__ counted() {}
    __device__ ~counted() { limb[0] = 0; }
};
struct own {
    unsigned limb[8];
    __device__ own() {}
    __device__ static void *operator new[](size_t n);
};
__device__ __noinline__ void *own::operator new[](size_t n) { return malloc(n); }

__global__ void one(unsigned n, word **out) { *out = new word[n]; }
__global__ void fixed(word **out) { *out = new word[2]; }
__global__ void init(unsigned n, pair **out) { out[threadIdx.x] = new pair[n]; }
__global__ void several(unsigned n, word **out) {
    for (unsigned i = 0; i < n; i++) {
        word *a = new word[i + 1], *b = new word[n];
        for (unsigned k = 0; k <= i; k++) a[k].limb[1] = b[k].limb[0] = k;
        out[2 * i] = a, out[2 * i + 1] = b;
    }
}
__global__ void branches(unsigned n, word **out) {
    word *w = n & 1 ? new word[n] : new word[2];
    w[1].limb[0] = 7;
    *out = w;
}
__global__ void by_own_operator(unsigned n, own **out) { *out = new own[n]; }

// These stay: the count of the ABI, which delete[] reads, and a program's own writes in front of its pointers.
__global__ void with_destructor(unsigned n, counted **out) { *out = new counted[n]; }
__global__ void without_it(counted **out) { delete[] * out; }
__global__ void users(unsigned n, unsigned long long **out) {
    unsigned long long *p = (unsigned long long *)malloc(n) + 1, *q = out[5];
    p[-1] = n, q[-1] = 3;
    *out = p;
}

int main() { return 0; }
