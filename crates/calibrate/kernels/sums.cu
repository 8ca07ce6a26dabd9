// Sums over a batch for each channel, in two passes: `splits` partial sums of each channel, then their
// sum. The order of additions is always the same, so that a step can be repeated bit by bit.

// Calls f(x...) for a block's share of [samples, channels, plane]; there is one block for each channel and split. If
// planes are not a multiple of the pack size (not WHOLE), a pack at the edge of a plane also holds values of a
// neighbouring channel; these are skipped.
template <bool WHOLE, class F, class T, class... X>
__device__ __forceinline__ void planes_by(Int samples, Int channels, Int plane, Int splits, F f, const T* x,
                                          const X*... more) {
    constexpr int N = PACK<T>;
    unsigned channel = blockIdx.x % channels, split = blockIdx.x / channels, side = plane;
    unsigned packs = WHOLE ? side / N : (side + 2 * N - 2) / N, all = samples * packs;
    unsigned part = (all + splits - 1) / splits, end = min(all, (split + 1) * part);
#pragma unroll(WHOLE ? 4 : 1)
    for (unsigned e = split * part + threadIdx.x; e < end; e += blockDim.x) {
        unsigned sample = e / packs, pack = e - sample * packs;
        Int start = (sample * channels + channel) * plane, at = (start / N + pack) * N;
        int skipped = WHOLE ? 0 : start - at;
        if (!WHOLE && skipped + (int)side <= 0) continue;
        auto visit = [&](int k, auto... v) {
            if (WHOLE || (unsigned)(k - skipped) < side) f(v...);
        };
        for_pack<N>(visit, load<N>(x + at), load<N>(more + at)...);
    }
}
template <class F, class T, class... X>
__device__ __forceinline__ void planes(Int samples, Int channels, Int plane, Int splits, F f, const T* x,
                                       const X*... more) {
    if (plane % PACK<T> == 0)
        planes_by<true>(samples, channels, plane, splits, f, x, more...);
    else
        planes_by<false>(samples, channels, plane, splits, f, x, more...);
}
// Keeps the block's sums of two values; the second begins behind all first ones.
__device__ __forceinline__ void keep_two(float* partial, float a, float b, Int channels, Int splits) {
    a = block_sum(a), b = block_sum(b);
    if (threadIdx.x == 0) partial[blockIdx.x] = a, partial[channels * splits + blockIdx.x] = b;
}
template <class T>
__device__ void plane_sums(const T* dy, float* partial, Int samples, Int channels, Int plane, Int splits) {
    float sum = 0;
    planes(samples, channels, plane, splits, [&](float d) { sum += d; }, dy);
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
// Sums two quantities per column, which f(row, column, a, b) adds to a and b, over a block's share of [rows, columns]:
// 32 columns and one split of the rows. Eight threads share a column; the first of them adds up their sums. `second`
// may be null.
template <class F>
__device__ __forceinline__ void columns_of(float* first, float* second, Int rows, Int columns, Int splits, F f) {
    __shared__ float near[8][32], far[8][32];
    unsigned wide = (columns + 31) / 32, split = blockIdx.x / wide, column = blockIdx.x % wide * 32 + threadIdx.x % 32;
    int part = over(rows + splits - 1, splits), end = min(rows, (Int)(split + 1) * part);
    float a = 0, b = 0;
    if (column < columns)
#pragma unroll 4
        for (int row = split * part + threadIdx.x / 32; row < end; row += 8) f(row, column, a, b);
    near[threadIdx.x / 32][threadIdx.x % 32] = a, far[threadIdx.x / 32][threadIdx.x % 32] = b;
    __syncthreads();
    if (threadIdx.x >= 32 || column >= columns) return;
    for (int i = 1; i < 8; ++i) a += near[i][threadIdx.x], b += far[i][threadIdx.x];
    first[split * columns + column] = a;
    if (second) second[split * columns + column] = b;
}
template <class T> __device__ void column_sums(const T* dy, float* partial, Int rows, Int columns, Int splits) {
    auto sum = [&](int row, unsigned column, float& a, float&) { a += read(dy + row * columns + column); };
    columns_of(partial, nullptr, rows, columns, splits, sum);
}
// Adds up the partial sums of one value, or of two.
extern "C" __global__ void add_partials(const float* partial, float* sums, Int channels, Int splits) {
    auto sum = [&](int split, unsigned c, float& a, float&) { a += partial[split * channels + c]; };
    columns_of(sums, nullptr, splits, channels, 1, sum);
}
extern "C" __global__ void add_two_partials(const float* partial, float* first, float* second, Int channels,
                                            Int splits) {
    auto sum = [&](int split, unsigned c, float& a, float& b) {
        a += partial[split * channels + c], b += partial[(splits + split) * channels + c];
    };
    columns_of(first, second, splits, channels, 1, sum);
}

#define P(T) (const T* dy, float* partial, Int samples, Int channels, Int plane, Int splits)
BOTH(plane_sums, P, (dy, partial, samples, channels, plane, splits))
#undef P
#define P(T) (const T* dy, float* partial, Int rows, Int columns, Int splits)
BOTH(column_sums, P, (dy, partial, rows, columns, splits))
#undef P
