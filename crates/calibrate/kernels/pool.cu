// Pooling of square images, planes after one another.

// The largest of each window; `chosen` is its place in the window, the first of equals.
template <class T>
__device__ void max_pool(const T* x, T* y, unsigned char* chosen, Int n, int side, int out, int window, int stride,
                         int padding) {
    EACH(i, n) {
        Int line = over(i, out), image = over(line, out);
        int left = (i - line * out) * stride - padding, top = (line - image * out) * stride - padding, at = -1;
        const T* plane = x + image * side * side;
        float best = 0;
        for (int r = max(top, 0); r < min(top + window, side); ++r)
            for (int c = max(left, 0); c < min(left + window, side); ++c) {
                float v = read(plane + r * side + c);
                if (at < 0 || v > best) best = v, at = (r - top) * window + c - left;
            }
        write(y + i, best);
        chosen[i] = at;
    }
}
// The first window that has this row or column, counted from the edge of the padding.
__device__ __forceinline__ int first_window(int at, int window, int stride) {
    return at < window ? 0 : (at - window) / stride + 1;
}
// Each thread computes the gradients of a pack of N inputs of a row: it adds up the gradients of all windows whose
// maximum is one of these inputs. So no two threads add to the same gradient, and no atomics are needed.
template <int N, class T>
__device__ void max_pool_backward_by(const unsigned char* chosen, const T* dy, T* dx, Int n, int side, int out,
                                     int window, int stride, int padding) {
    EACH(i, n / N) {
        Int line = over(i * N, side), plane = over(line, side);
        int column = i * N - line * side + padding, row = line - plane * side + padding;
        int rows = min(row / stride + 1, out), columns = min((column + N - 1) / stride + 1, out);
        float sums[N] = {};
        for (int r = first_window(row, window, stride); r < rows; ++r)
            for (int c = first_window(column, window, stride); c < columns; ++c) {
                Int o = (plane * out + r) * out + c;
                int place = chosen[o] - (row - r * stride) * window, k = place + c * stride - column;
                float d = read(dy + o);
#pragma unroll
                for (int j = 0; j < N; ++j) sums[j] += place >= 0 && place < window && j == k ? d : 0;
            }
        map_pack<N>(dx + i * N, [&](int k) { return sums[k]; });
    }
}
template <class T>
__device__ void max_pool_backward(const unsigned char* chosen, const T* dy, T* dx, Int n, Int side, Int out,
                                  Int window, Int stride, Int padding) {
    if (side % PACK<T> == 0)
        max_pool_backward_by<PACK<T>>(chosen, dy, dx, n, side, out, window, stride, padding);
    else
        max_pool_backward_by<1>(chosen, dy, dx, n, side, out, window, stride, padding);
}
// The mean of each plane: a warp for each.
template <class T> __device__ void average(const T* x, T* y, Int planes, int plane) {
    EACH(i, 32 * planes) {
        const T* from = x + i / 32 * plane;
        float sum = 0;
        for (int j = threadIdx.x % 32; j < plane; j += 32) sum += read(from + j);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) write(y + i / 32, sum / plane);
    }
}
template <class T> __device__ void average_backward(const T* dy, T* dx, Int n, Int plane) {
    EACH(i, n) write(dx + i, read(dy + over(i, plane)) / plane);
}

#define P(T) (const T* x, T* y, unsigned char* chosen, Int n, Int side, Int out, Int window, Int stride, Int padding)
BOTH(max_pool, P, (x, y, chosen, n, side, out, window, stride, padding))
#undef P
#define P(T) (const unsigned char* chosen, const T* dy, T* dx, Int n, Int side, Int out, Int window, Int stride, Int padding)
BOTH(max_pool_backward, P, (chosen, dy, dx, n, side, out, window, stride, padding))
#undef P
#define P(T) (const T* x, T* y, Int n, Int plane)
BOTH(average, P, (x, y, n, plane))
BOTH(average_backward, P, (x, y, n, plane))
#undef P
