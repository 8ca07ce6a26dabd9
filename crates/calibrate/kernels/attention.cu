// What a transformer needs between its products of matrices.

// Index map between two layouts: rows [samples, length, parts, heads, head], in which the parts (query, key, value) lie
// side by side, and one matrix [length, head] for each part, sample and head. For each pack, calls f(i, at) with its
// index i in the matrices and its index `at` in the rows; f copies one way or the other. Each part has n values. A
// thread computes the indices of a pack by division once, and by addition for the other parts.
template <int N, class F>
__device__ __forceinline__ void for_heads(Int n, Int length, Int heads, Int head, Int parts, F f) {
    Int packs = head / N;
    EACH(i, n / N) {
        Int line = over(i, packs), matrix = over(line, length), sample = over(matrix, heads);
        Int row = sample * length + line - matrix * length, h = matrix - sample * heads;
        Int at = (row * parts * heads + h) * packs + i - line * packs;
        for (int part = 0; part < parts; ++part) f(i + part * (n / N), at + part * heads * packs);
    }
}
template <int N, class T>
__device__ void split_by(const Pack<T, N>* x, Pack<T, N>* y, Int n, Int length, Int heads, Int head, Int parts) {
    for_heads<N>(n, length, heads, head, parts, [=](Int i, Int at) { y[i] = x[at]; });
}
template <int N, class T>
__device__ void merge_by(const Pack<T, N>* x, Pack<T, N>* y, Int n, Int length, Int heads, Int head, Int parts) {
    for_heads<N>(n, length, heads, head, parts, [=](Int i, Int at) { y[at] = x[i]; });
}
template <class T>
__device__ void split_heads(const T* x, T* y, Int n, Int length, Int heads, Int head, Int parts) {
    using Packs = Pack<T, PACK<T>>;
    using One = Pack<T, 1>;
    if (head % PACK<T> == 0)
        split_by((const Packs*)x, (Packs*)y, n, length, heads, head, parts);
    else
        split_by((const One*)x, (One*)y, n, length, heads, head, parts);
}
template <class T>
__device__ void merge_heads(const T* x, T* y, Int n, Int length, Int heads, Int head, Int parts) {
    using Packs = Pack<T, PACK<T>>;
    using One = Pack<T, 1>;
    if (head % PACK<T> == 0)
        merge_by((const Packs*)x, (Packs*)y, n, length, heads, head, parts);
    else
        merge_by((const One*)x, (One*)y, n, length, heads, head, parts);
}
// Zeros a row behind the packs that hold its first `seen` values, up to the end of the row. Returns the number of
// values in these packs.
template <int N, class T> __device__ __forceinline__ int zero_unseen(T* row, int seen, int length) {
    int packs = (seen + N - 1) / N;
    map_row<N>(row + packs * N, length - packs * N, [](int) { return 0.0f; });
    return packs * N;
}
// Scores to weights, in place: a row, which a block works on, looks at those up to itself.
template <int N, class T> __device__ void soften_by(T* scores, int length, float scale) {
    T* row = scores + blockIdx.x * (Int)length;
    int seen = blockIdx.x % length + 1, near = zero_unseen<N>(row, seen, length);
    float top = read(row), sum = 0, rate = scale * 1.4426950409f;
    over_row<N>(near, [&](int j, float v) { top = j < seen ? fmaxf(top, v) : top; }, row);
    top = block_max(top);
    auto weight = [=](int j, float v) { return j < seen ? exp2f((v - top) * rate) : 0; };
    over_row<N>(near, [&](int j, float v) { sum += weight(j, v); }, row);
    float share = 1 / block_sum(sum);
    map_row<N>(row, near, [=](int j, float v) { return weight(j, v) * share; }, row);
}
template <class T> __device__ void soften(T* scores, Int length, float scale) {
    if (length % PACK<T> == 0)
        soften_by<PACK<T>>(scores, length, scale);
    else
        soften_by<1>(scores, length, scale);
}
// Backward pass of the causal softmax: replaces the gradients of the weights by the gradients of the scores, in place.
// Weights of masked (later) positions are zero.
template <int N, class T> __device__ void harden_by(const T* weights, T* gradients, int length, float scale) {
    const T* w = weights + blockIdx.x * (Int)length;
    T* d = gradients + blockIdx.x * (Int)length;
    int near = zero_unseen<N>(d, blockIdx.x % length + 1, length);
    float level = 0;
    over_row<N>(near, [&](int, float w, float d) { level += w * d; }, w, d);
    level = block_sum(level);
    map_row<N>(d, near, [=](int, float w, float d) { return w * (d - level) * scale; }, w, d);
}
template <class T> __device__ void harden(const T* weights, T* gradients, Int length, float scale) {
    if (length % PACK<T> == 0)
        harden_by<PACK<T>>(weights, gradients, length, scale);
    else
        harden_by<1>(weights, gradients, length, scale);
}
// A vector for each token plus one for each place.
template <int N, class T>
__device__ void embed_by(const int* tokens, const float* table, T* y, Int n, Int kinds, Int length, Int width) {
    EACH(i, n / N) {
        Int row = over(i * N, width), j = i * N - row * width, place = row - over(row, length) * length;
        map_pack<N>(y + i * N, [](int, float a, float b) { return a + b; }, load<N>(table + tokens[row] * width + j),
                    load<N>(table + (kinds + place) * width + j));
    }
}
template <class T>
__device__ void embed(const int* tokens, const float* table, T* y, Int n, Int kinds, Int length, Int width) {
    if (width % PACK<T> == 0)
        embed_by<PACK<T>>(tokens, table, y, n, kinds, length, width);
    else
        embed_by<1>(tokens, table, y, n, kinds, length, width);
}
// The table's gradient, which must be zero before. Additions for a token come in any order.
template <class T>
__device__ void embed_backward(const int* tokens, const T* dy, float* d_table, Int n, Int kinds, Int length, Int width) {
    EACH(i, n) {
        Int row = over(i, width);
        atomicAdd(d_table + tokens[row] * width + i - row * width, read(dy + i));
    }
    Int stride = length * width;
    int samples = over(n, stride);
    EACH(i, stride) {
        float sum = 0;
#pragma unroll 4
        for (int sample = 0; sample < samples; ++sample) sum += read(dy + sample * stride + i);
        d_table[kinds * width + i] = sum;
    }
}

#define P(T) (const T* x, T* y, Int n, Int length, Int heads, Int head, Int parts)
BOTH(split_heads, P, (x, y, n, length, heads, head, parts))
BOTH(merge_heads, P, (x, y, n, length, heads, head, parts))
#undef P
#define P(T) (T* scores, Int length, float scale)
BOTH(soften, P, (scores, length, scale))
#undef P
#define P(T) (const T* weights, T* gradients, Int length, float scale)
BOTH(harden, P, (weights, gradients, length, scale))
#undef P
#define P(T) (const int* tokens, const float* table, T* y, Int n, Int kinds, Int length, Int width)
BOTH(embed, P, (tokens, table, y, n, kinds, length, width))
#undef P
#define P(T) (const int* tokens, const T* dy, float* d_table, Int n, Int kinds, Int length, Int width)
BOTH(embed_backward, P, (tokens, dy, d_table, n, kinds, length, width))
#undef P
