/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A string builder in each thread. Each thread writes the factorisation of its number, such as "60 = 2 * 2 * 3 * 5".
 *
 *   mmnvcc -arch=native -o strings strings.cu && ./strings
 *   nvcc -arch=native -o strings strings.cu && mmrun ./strings
 */
#include <cstdio>
#include <cstdlib>
#include <string>

/* A string that grows. After a failed malloc `text` is NULL, and further additions do nothing. */
class builder {
    char *text;
    unsigned length, room;

  public:
    __device__ builder() : text((char *)malloc(16)), length(0), room(16) {}
    __device__ void add(char c) {
        if (text && length + 1 == room) {
            char *larger = (char *)malloc(2 * room);
            for (unsigned i = 0; larger && i < length; i++) larger[i] = text[i];
            free(text);
            text = larger, room *= 2;
        }
        if (text) text[length++] = c;
    }
    __device__ void add(const char *s) {
        while (*s) add(*s++);
    }
    __device__ void add(unsigned n) {
        if (n > 9) add(n / 10);
        add((char)('0' + n % 10));
    }
    /* Ends the string and hands it out; the caller frees it. */
    __device__ char *finish() {
        if (text) text[length] = 0;
        return text;
    }
};

__global__ void write(char **strings, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    builder b;
    unsigned n = i + 2;
    b.add(n);
    b.add(" = ");
    for (unsigned p = 2; n > 1; p++)
        for (; n % p == 0; n /= p) {
            b.add(p);
            if (n != p) b.add(" * ");
        }
    strings[i] = b.finish();
}

/* The host cannot read a kernel's heap, so a kernel copies the strings out, `width` bytes each, and frees them. */
__global__ void copy(char **strings, unsigned count, char *out, unsigned width) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    char *to = out + (size_t)i * width;
    *to = 0;
    if (!strings[i]) return;
    for (unsigned k = 0; k < width && (to[k] = strings[i][k]); k++) continue;
    free(strings[i]);
}

static void must(cudaError_t error) {
    if (error == cudaSuccess) return;
    printf("strings: FAILED: %s\n", cudaGetErrorString(error));
    exit(1);
}

static std::string expected(unsigned number) {
    std::string s = std::to_string(number) + " = ";
    for (unsigned n = number, p = 2; n > 1; p++)
        for (; n % p == 0; n /= p) s += std::to_string(p) + (n != p ? " * " : "");
    return s;
}

int main() {
    const unsigned count = 20000, width = 128, cta = 256, grid = (count + cta - 1) / cta;
    char **strings, *out;
    must(cudaMalloc(&strings, count * sizeof *strings));
    must(cudaMallocManaged(&out, (size_t)count * width));
    write<<<grid, cta>>>(strings, count);
    copy<<<grid, cta>>>(strings, count, out, width);
    must(cudaDeviceSynchronize());
    for (unsigned i = 0; i < count; i++) {
        const char *s = out + (size_t)i * width;
        if (!*s) return printf("strings: FAILED: out of memory in thread %u\n", i), 1;
        if (s != expected(i + 2)) return printf("strings: FAILED: \"%s\", expected \"%s\"\n", s, expected(i + 2).c_str()), 1;
    }
    printf("strings: ok: %u strings, the last is %s\n", count, out + (size_t)(count - 1) * width);
    return 0;
}
