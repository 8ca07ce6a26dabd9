// Operators on single values.

// y += b of its channel; `plane` values of a channel lie side by side.
template <class T> __device__ void bias_add(T* y, const float* b, Int n, Int channels, Int plane) {
    EACH(i, n) write(y + i, read(y + i) + b[i / plane % channels]);
}
template <class T> __device__ void relu(const T* x, T* y, Int n) {
    EACH(i, n) write(y + i, fmaxf(read(x + i), 0));
}
template <class T> __device__ void relu_backward(const T* y, const T* dy, T* dx, Int n) {
    EACH(i, n) write(dx + i, read(y + i) > 0 ? read(dy + i) : 0);
}
// x·Φ(x) with Φ by tanh (Hendrycks and Gimpel, 2016).
__device__ __forceinline__ float gelu_tanh(float x) {
    return tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
}
template <class T> __device__ void gelu(const T* x, T* y, Int n) {
    EACH(i, n) {
        float v = read(x + i);
        write(y + i, 0.5f * v * (1 + gelu_tanh(v)));
    }
}
template <class T> __device__ void gelu_backward(const T* x, const T* dy, T* dx, Int n) {
    EACH(i, n) {
        float v = read(x + i), t = gelu_tanh(v);
        float inner = 0.7978845608f * (1 + 3 * 0.044715f * v * v);
        write(dx + i, read(dy + i) * 0.5f * (1 + t + v * (1 - t * t) * inner));
    }
}
template <class T> __device__ void add(const T* a, const T* b, T* y, Int n) {
    EACH(i, n) write(y + i, read(a + i) + read(b + i));
}
template <class T> __device__ void narrow(const float* x, T* y, Int n) {
    EACH(i, n) write(y + i, x[i]);
}
template <class T> __device__ void widen(const T* x, float* y, Int n) {
    EACH(i, n) y[i] = read(x + i);
}

#define P(T) (T* y, const float* b, Int n, Int channels, Int plane)
BOTH(bias_add, P, (y, b, n, channels, plane))
#undef P
#define P(T) (const T* x, T* y, Int n)
BOTH(relu, P, (x, y, n))
BOTH(gelu, P, (x, y, n))
#undef P
#define P(T) (const T* at, const T* dy, T* dx, Int n)
BOTH(relu_backward, P, (at, dy, dx, n))
BOTH(gelu_backward, P, (at, dy, dx, n))
BOTH(add, P, (at, dy, dx, n))
#undef P
#define P(T) (const float* x, T* y, Int n)
BOTH(narrow, P, (x, y, n))
#undef P
#define P(T) (const T* x, float* y, Int n)
BOTH(widen, P, (x, y, n))
#undef P
