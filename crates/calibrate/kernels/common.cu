// What all kernels share: numbers in 4 or 2 bytes, sums over a block. No header is included, so that
// NVRTC needs no path; sums are taken in 4 bytes whatever the numbers are stored in.
typedef long long Int;
typedef unsigned short bf16;

__device__ __forceinline__ float read(const float* p) { return *p; }
__device__ __forceinline__ float read(const bf16* p) { return __uint_as_float((unsigned)*p << 16); }
__device__ __forceinline__ void write(float* p, float x) { *p = x; }
// To the nearest, ties to even; what is no number stays none.
__device__ __forceinline__ void write(bf16* p, float x) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(*p) : "f"(x));
#else
    unsigned bits = __float_as_uint(x);
    *p = x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
}
// a / b for a, b >= 0. Divides as 32-bit integers if both fit, because 64-bit division is slow on a GPU.
__device__ __forceinline__ Int over(Int a, Int b) {
    return (a | b) >> 32 ? a / b : (unsigned)a / (unsigned)b;
}

// Loops over all i below n, distributed over all threads of all blocks. The loop is not unrolled: an unrolled loop
// first divides to find its number of iterations.
#define EACH(i, n) \
    _Pragma("unroll 1") \
    for (Int i = (Int)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (Int)gridDim.x * blockDim.x)
// Each i below n, shared among the threads of a block.
#define EACH_OF_BLOCK(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
// A kernel for both kinds of numbers: `name_f32` and `name_bf16`.
#define BOTH(name, parameters, arguments) \
    extern "C" __global__ void name##_f32 parameters(float) { name arguments; } \
    extern "C" __global__ void name##_bf16 parameters(bf16) { name arguments; }

__device__ __forceinline__ float warp_sum(float x) {
    for (int apart = 16; apart; apart >>= 1) x += __shfl_xor_sync(~0u, x, apart);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
    for (int apart = 16; apart; apart >>= 1) x = fmaxf(x, __shfl_xor_sync(~0u, x, apart));
    return x;
}
// All threads of the block get the sum; every warp adds the warps' sums, so that none waits alone.
__device__ __forceinline__ float block_sum(float x) {
    __shared__ float sums[32];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : 0);
}
__device__ __forceinline__ float block_max(float x) {
    __shared__ float tops[32];
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_max(threadIdx.x % 32 < blockDim.x / 32 ? tops[threadIdx.x % 32] : x);
}

// Numbers that a thread loads or stores at once, PACK of them in 16 bytes. A pack starts at a multiple of its size.
template <class T> constexpr int PACK = 16 / sizeof(T);
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack { T v[N]; };
template <int N, class T> __device__ __forceinline__ Pack<T, N> load(const T* p) { return *(const Pack<T, N>*)p; }

// f(k, x[k]...) for the N numbers of each pack.
template <int N, class F, class... X> __device__ __forceinline__ void for_pack(F f, const Pack<X, N>&... x) {
#pragma unroll
    for (int k = 0; k < N; ++k) f(k, read(x.v + k)...);
}
// y[k] = f(k, x[k]...) for the N numbers of each pack.
template <int N, class T, class F, class... X>
__device__ __forceinline__ void map_pack(T* y, F f, const Pack<X, N>&... x) {
    Pack<T, N> out;
#pragma unroll
    for (int k = 0; k < N; ++k) write(out.v + k, f(k, read(x.v + k)...));
    *(Pack<T, N>*)y = out;
}
// f(j, x[j]...) for a row's places j below n, in packs of N, shared among the threads of a block.
template <int N, class F, class... X> __device__ __forceinline__ void over_row(int n, F f, const X*... x) {
    EACH_OF_BLOCK(p, n / N) for_pack<N>([&](int k, auto... v) { f(p * N + k, v...); }, load<N>(x + p * N)...);
}
// y[j] = f(j, x[j]...) for a row's places j below n, in packs of N, shared among the threads of a block.
template <int N, class T, class F, class... X>
__device__ __forceinline__ void map_row(T* y, int n, F f, const X*... x) {
    EACH_OF_BLOCK(p, n / N)
        map_pack<N>(y + p * N, [&](int k, auto... v) { return f(p * N + k, v...); }, load<N>(x + p * N)...);
}
