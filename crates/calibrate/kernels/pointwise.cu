// Operators on single values.

// y[i] = f(x[i]...) for each i below n: in packs of N, the last values one by one.
template <int N, class T, class F, class... X>
__device__ __forceinline__ void map(T* y, Int n, F f, const X*... x) {
    EACH(i, n / N) map_pack<N>(y + i * N, [&](int, auto... v) { return f(v...); }, load<N>(x + i * N)...);
    EACH(i, n % N) write(y + n / N * N + i, f(read(x + n / N * N + i)...));
}
// y[i] = f(x[i]..., g) for each i below n, where `channel(c)` returns the g of all values of channel c; `plane`
// values of a channel lie side by side.
template <class T, class G, class F, class... X>
__device__ __forceinline__ void map_channels(T* y, Int n, Int channels, Int plane, G channel, F f, const X*... x) {
    constexpr int N = PACK<T>;
    EACH(i, n / N) {
        Int whole = over(i * N, plane), row = over(whole, channels);
        int c = whole - row * channels, left = min(plane - (i * N - whole * plane), (Int)N);
        auto g = channel(c);
        if (left == N) {
            map_pack<N>(y + i * N, [&](int, auto... v) { return f(v..., g); }, load<N>(x + i * N)...);
            continue;
        }
        auto next = [&](int k, auto... v) {
            if (k == left) {
                c = c + 1 < channels ? c + 1 : 0, left += min(plane, (Int)N);
                g = channel(c);
            }
            return f(v..., g);
        };
        map_pack<N>(y + i * N, next, load<N>(x + i * N)...);
    }
    EACH(k, n % N) {
        Int i = n / N * N + k;
        write(y + i, f(read(x + i)..., channel(i / plane % channels)));
    }
}
// y += b of its channel.
template <class T> __device__ void bias_add(T* y, const float* b, Int n, Int channels, Int plane) {
    constexpr int N = PACK<T>;
    auto add = [](float v, float of) { return v + of; };
    if (plane > 1 || channels % N) return map_channels(y, n, channels, plane, [=](int c) { return b[c]; }, add, y);
    EACH(i, n / N) {
        Int at = i * N, c = at - over(at, channels) * channels;
        map_pack<N>(y + at, [=](int, float v, float of) { return v + of; }, load<N>(y + at), load<N>(b + c));
    }
}
template <class T> __device__ void relu(const T* x, T* y, Int n) {
    map<PACK<T>>(y, n, [](float v) { return fmaxf(v, 0); }, x);
}
template <class T> __device__ void relu_backward(const T* y, const T* dy, T* dx, Int n) {
    map<PACK<T>>(dx, n, [](float v, float d) { return v > 0 ? d : 0; }, y, dy);
}
// Φ(x) of x·Φ(x), approximated by (1 + tanh u) / 2 (Hendrycks and Gimpel, 2016), which is 1 / (1 + exp(-2u)).
__device__ __forceinline__ float gelu_share(float x) {
    return 1 / (1 + exp2f(-2.3022081985f * (x + 0.044715f * x * x * x)));
}
template <class T> __device__ void gelu(const T* x, T* y, Int n) {
    map<PACK<T>>(y, n, [](float v) { return v * gelu_share(v); }, x);
}
template <class T> __device__ void gelu_backward(const T* x, const T* dy, T* dx, Int n) {
    auto slope = [](float v, float d) {
        float share = gelu_share(v), inner = 1.5957691216f * (1 + 3 * 0.044715f * v * v);
        return d * (share + v * share * (1 - share) * inner);
    };
    map<PACK<T>>(dx, n, slope, x, dy);
}
template <class T> __device__ void add(const T* a, const T* b, T* y, Int n) {
    map<PACK<T>>(y, n, [](float v, float w) { return v + w; }, a, b);
}
template <class T> __device__ void narrow(const float* x, T* y, Int n) {
    map<4>(y, n, [](float v) { return v; }, x);
}
template <class T> __device__ void widen(const T* x, float* y, Int n) {
    map<4>(y, n, [](float v) { return v; }, x);
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
