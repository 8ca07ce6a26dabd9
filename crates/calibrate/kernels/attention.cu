// What a transformer needs between its products of matrices.

// The place in [rows, parts, heads, head] of the value i in [parts, samples, heads, length, head].
__device__ __forceinline__ Int beside(Int i, Int length, Int heads, Int head, Int rows, Int parts) {
    Int d = i % head, row = i / head % length, h = i / (head * length) % heads;
    Int sample = i / (head * length * heads) % (rows / length), part = i / (head * heads * rows);
    return (((sample * length + row) * parts + part) * heads + h) * head + d;
}
// Rows of parts side by side (query, key, value) become a matrix for each part, sample and head; and back.
template <class T>
__device__ void split_heads(const T* x, T* y, Int n, Int length, Int heads, Int head, Int rows, Int parts) {
    EACH(i, n) y[i] = x[beside(i, length, heads, head, rows, parts)];
}
template <class T>
__device__ void merge_heads(const T* x, T* y, Int n, Int length, Int heads, Int head, Int rows, Int parts) {
    EACH(i, n) y[beside(i, length, heads, head, rows, parts)] = x[i];
}
// Scores to weights, in place: a row, which a block works on, looks at those up to itself.
template <class T> __device__ void soften(T* scores, Int length, float scale) {
    T* row = scores + blockIdx.x * length;
    Int seen = blockIdx.x % length + 1;
    float top = read(row), sum = 0;
    EACH_OF_BLOCK(j, seen) top = fmaxf(top, read(row + j));
    top = block_max(top);
    EACH_OF_BLOCK(j, seen) sum += expf((read(row + j) - top) * scale);
    float share = 1 / block_sum(sum);
    EACH_OF_BLOCK(j, length) write(row + j, j < seen ? expf((read(row + j) - top) * scale) * share : 0);
}
// Gradients of weights to gradients of scores, in place.
template <class T> __device__ void harden(const T* weights, T* gradients, Int length, float scale) {
    const T* w = weights + blockIdx.x * length;
    T* d = gradients + blockIdx.x * length;
    float level = 0;
    EACH_OF_BLOCK(j, length) level += read(w + j) * read(d + j);
    level = block_sum(level);
    EACH_OF_BLOCK(j, length) write(d + j, read(w + j) * (read(d + j) - level) * scale);
}
// A vector for each token plus one for each place.
template <class T>
__device__ void embed(const int* tokens, const float* table, T* y, Int n, Int kinds, Int length, Int width) {
    EACH(i, n) {
        Int row = i / width, j = i % width;
        write(y + i, table[tokens[row] * width + j] + table[(kinds + row % length) * width + j]);
    }
}
// The table's gradient, which must be zero before. Additions for a token come in any order.
template <class T>
__device__ void embed_backward(const int* tokens, const T* dy, float* d_table, Int n, Int kinds, Int length, Int width) {
    EACH(i, n) atomicAdd(d_table + tokens[i / width] * width + i % width, read(dy + i));
    EACH(i, length * width) {
        float sum = 0;
        for (Int at = i; at < n; at += length * width) sum += read(dy + at);
        d_table[kinds * width + i] = sum;
    }
}

#define P(T) (const T* x, T* y, Int n, Int length, Int heads, Int head, Int rows, Int parts)
BOTH(split_heads, P, (x, y, n, length, heads, head, rows, parts))
BOTH(merge_heads, P, (x, y, n, length, heads, head, rows, parts))
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
