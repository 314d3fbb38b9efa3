// cub_sort.cu - how fast CUB sorts keys with row numbers, beside `build/gpu/sorted --large` (scripts/gpu-test sort).
//
//     nvcc -O3 -arch=native bench/gpu/cub_sort.cu -o cub_sort && ./cub_sort 100000000
//
// Random keys of 32 and 64 bits, in device memory before and after; the median of five.

#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <cub/cub.cuh>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t result_ = (call);                                                                            \
        if (result_ != cudaSuccess) {                                                                                  \
            printf("failed: %s: %s\n", #call, cudaGetErrorString(result_));                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { N_TIMES = 5 };

template <typename Key> __global__ void fill(Key *keys, unsigned *rows, size_t n)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        unsigned long long x = (i + 1) * 0x9E3779B97F4A7C15ull;
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
        keys[i] = (Key)(x ^ x >> 27), rows[i] = (unsigned)i;
    }
}

template <typename Key> static void measure(size_t n)
{
    Key      *keys, *keys_out;
    unsigned *rows, *rows_out;
    void     *scratch = nullptr;
    size_t    bytes = 0;
    float     times[N_TIMES];
    cudaEvent_t begin, end;
    MUST(cudaMalloc(&keys, n * sizeof *keys));
    MUST(cudaMalloc(&keys_out, n * sizeof *keys));
    MUST(cudaMalloc(&rows, n * sizeof *rows));
    MUST(cudaMalloc(&rows_out, n * sizeof *rows));
    MUST(cudaEventCreate(&begin));
    MUST(cudaEventCreate(&end));
    fill<<<1024, 256>>>(keys, rows, n);
    MUST(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, keys_out, rows, rows_out, n));
    MUST(cudaMalloc(&scratch, bytes));
    for (int t = 0; t < N_TIMES; t++) {
        MUST(cudaEventRecord(begin));
        MUST(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, keys_out, rows, rows_out, n));
        MUST(cudaEventRecord(end));
        MUST(cudaEventSynchronize(end));
        MUST(cudaEventElapsedTime(&times[t], begin, end));
    }
    std::sort(times, times + N_TIMES);
    printf("cub  %11zu keys of %zu bits: kernels %.3f ms, %.2f G keys/s\n", n, 8 * sizeof(Key), times[N_TIMES / 2],
           n / times[N_TIMES / 2] / 1e6);
    MUST(cudaFree(scratch));
    MUST(cudaFree(keys));
    MUST(cudaFree(keys_out));
    MUST(cudaFree(rows));
    MUST(cudaFree(rows_out));
}

int main(int n_args, char **args)
{
    const size_t most = n_args > 1 ? strtoull(args[1], nullptr, 10) : 100000000;
    for (size_t n = 100000; n <= most; n *= 10) measure<unsigned>(n);
    for (size_t n = 100000; n <= most; n *= 10) measure<unsigned long long>(n);
    return 0;
}
