// Sums over a batch for each channel, in two passes: `splits` partial sums of each channel, then their
// sum. The order of additions is always the same, so that a step can be repeated bit by bit.

// f(i, j) for the places i and channels j of a block's part of [samples, channels, plane]: a block for
// each channel and split.
template <class F>
__device__ __forceinline__ void planes(Int samples, Int channels, Int plane, Int splits, F f) {
    unsigned channel = blockIdx.x % channels, split = blockIdx.x / channels, side = plane;
    unsigned all = samples * plane, part = (all + splits - 1) / splits;
    unsigned end = min(all, (split + 1) * part);
    for (unsigned e = split * part + threadIdx.x; e < end; e += blockDim.x)
        f((Int)(e / side * channels + channel) * plane + e % side, channel);
}
// Keeps the block's sums of two values; the second begins behind all first ones.
__device__ __forceinline__ void keep_two(float* partial, float a, float b, Int channels, Int splits) {
    a = block_sum(a), b = block_sum(b);
    if (threadIdx.x == 0) partial[blockIdx.x] = a, partial[channels * splits + blockIdx.x] = b;
}
template <class T>
__device__ void plane_sums(const T* dy, float* partial, Int samples, Int channels, Int plane, Int splits) {
    float sum = 0;
    planes(samples, channels, plane, splits, [&](Int i, Int) { sum += read(dy + i); });
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
// f(row, column) for a block's part of [rows, columns]: 32 columns and one split; the threads that share a
// column add up their results, two for each, in the first of them.
template <class F>
__device__ __forceinline__ void columns_of(float* partial, Int rows, Int columns, Int splits, int sums, F f) {
    __shared__ float near[8][32], far[8][32];
    Int wide = (columns + 31) / 32, split = blockIdx.x / wide;
    Int column = blockIdx.x % wide * 32 + threadIdx.x % 32;
    Int part = (rows + splits - 1) / splits, end = min(rows, (split + 1) * part);
    float a = 0, b = 0;
    if (column < columns)
        for (Int row = split * part + threadIdx.x / 32; row < end; row += 8) f(row, column, a, b);
    near[threadIdx.x / 32][threadIdx.x % 32] = a, far[threadIdx.x / 32][threadIdx.x % 32] = b;
    __syncthreads();
    if (threadIdx.x >= 32 || column >= columns) return;
    for (int i = 1; i < 8; ++i) a += near[i][threadIdx.x], b += far[i][threadIdx.x];
    partial[split * columns + column] = a;
    if (sums == 2) partial[(splits + split) * columns + column] = b;
}
template <class T> __device__ void column_sums(const T* dy, float* partial, Int rows, Int columns, Int splits) {
    columns_of(partial, rows, columns, splits, 1,
               [&](Int row, Int column, float& a, float&) { a += read(dy + row * columns + column); });
}
extern "C" __global__ void add_partials(const float* partial, float* sums, Int channels, Int splits) {
    EACH(c, channels) {
        float sum = 0;
        for (Int split = 0; split < splits; ++split) sum += partial[split * channels + c];
        sums[c] = sum;
    }
}

#define P(T) (const T* dy, float* partial, Int samples, Int channels, Int plane, Int splits)
BOTH(plane_sums, P, (dy, partial, samples, channels, plane, splits))
#undef P
#define P(T) (const T* dy, float* partial, Int rows, Int columns, Int splits)
BOTH(column_sums, P, (dy, partial, rows, columns, splits))
#undef P
