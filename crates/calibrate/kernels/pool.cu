// Pooling of square images, planes after one another.

// The largest of each window; `chosen` is its place in the window, the first of equals.
template <class T>
__device__ void max_pool(const T* x, T* y, unsigned char* chosen, Int n, Int side, Int out, Int window,
                         Int stride, Int padding) {
    EACH(i, n) {
        Int left = i % out * stride - padding, top = i / out % out * stride - padding;
        const T* plane = x + i / (out * out) * side * side;
        float best = 0;
        int at = -1;
        for (int k = 0; k < window * window; ++k) {
            Int row = top + k / window, column = left + k % window;
            if (row < 0 || row >= side || column < 0 || column >= side) continue;
            float v = read(plane + row * side + column);
            if (at < 0 || v > best) best = v, at = k;
        }
        write(y + i, best);
        chosen[i] = at;
    }
}
// Each value looks for the windows that chose it, so that nothing is added by several threads.
template <class T>
__device__ void max_pool_backward(const unsigned char* chosen, const T* dy, T* dx, Int n, Int side, Int out,
                                  Int window, Int stride, Int padding) {
    EACH(i, n) {
        Int column = i % side + padding, row = i / side % side + padding, plane = i / (side * side);
        float sum = 0;
        for (Int r = row < window ? 0 : (row - window) / stride + 1; r <= row / stride && r < out; ++r)
            for (Int c = column < window ? 0 : (column - window) / stride + 1; c <= column / stride && c < out; ++c) {
                Int o = (plane * out + r) * out + c;
                if (chosen[o] == (row - r * stride) * window + column - c * stride) sum += read(dy + o);
            }
        write(dx + i, sum);
    }
}
// The mean of each plane: a warp for each.
template <class T> __device__ void average(const T* x, T* y, Int planes, Int plane) {
    for (Int i = ((Int)blockIdx.x * blockDim.x + threadIdx.x) / 32; i < planes; i += (Int)gridDim.x * blockDim.x / 32) {
        float sum = 0;
        for (Int j = threadIdx.x % 32; j < plane; j += 32) sum += read(x + i * plane + j);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) write(y + i, sum / plane);
    }
}
template <class T> __device__ void average_backward(const T* dy, T* dx, Int n, Int plane) {
    EACH(i, n) write(dx + i, read(dy + i / plane) / plane);
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
