// Updates of parameters, all of a network at once; parameters and their averages in 4 bytes.

__device__ __forceinline__ void store(float* p, const Pack<float, 4>& x) { *(Pack<float, 4>*)p = x; }
__device__ __forceinline__ void store(const float*, const Pack<float, 4>&) {}
// Calls f(x[i]...) for each i below n: in packs, and the last values one by one. f may change the values of those
// arrays that are not const.
template <class F, class... X> __device__ __forceinline__ void change(Int n, F f, X*... x) {
    auto packs = [&](Int i, auto... values) {
#pragma unroll
        for (int k = 0; k < 4; ++k) f(values.v[k]...);
        (store(x + i * 4, values), ...);
    };
    EACH(i, n / 4) packs(i, load<4>(x + i * 4)...);
    EACH(i, n % 4) f(x[n / 4 * 4 + i]...);
}
extern "C" __global__ void zero(float* x, Int n) {
    change(n, [](float& x) { x = 0; }, x);
}
// Gradient descent with momentum.
extern "C" __global__ void momentum(float* w, float* velocity, const float* gradient, Int n, float rate, float keep) {
    auto step = [=](float& w, float& velocity, const float& gradient) {
        velocity = keep * velocity + gradient;
        w -= rate * velocity;
    };
    change(n, step, w, velocity, gradient);
}
// Counts steps on the device, so that a recorded step can be replayed.
extern "C" __global__ void count(float* steps) {
    if (threadIdx.x == 0) *steps += 1;
}
// Adam (Kingma and Ba, 2015).
extern "C" __global__ void adam(float* w, float* mean, float* square, const float* gradient, const float* steps, Int n,
                                float rate, float keep, float keep_square) {
    float one = rate / (1 - powf(keep, *steps)), two = 1 / (1 - powf(keep_square, *steps));
    auto step = [=](float& w, float& mean, float& square, const float& g) {
        mean = keep * mean + (1 - keep) * g, square = keep_square * square + (1 - keep_square) * g * g;
        w -= one * mean / (sqrtf(square * two) + 1e-8f);
    };
    change(n, step, w, mean, square, gradient);
}
// Synchronous model averaging (Koliousis et al., Crossbow, VLDB 2019, section 3.2): a replica is drawn to the
// central model by a share of their distance, and the central model's correction collects that.
extern "C" __global__ void draw_near(float* replica, const float* central, float* correction, Int n, float share) {
    auto draw = [=](float& replica, const float& central, float& correction) {
        float c = share * (replica - central);
        replica -= c, correction += c;
    };
    change(n, draw, replica, central, correction);
}
// The central model moves by the correction and by a share of its last move.
extern "C" __global__ void move_central(float* central, float* last, float* correction, Int n, float keep) {
    auto move = [=](float& central, float& last, float& correction) {
        float now = central;
        central = now + correction + keep * (now - last);
        last = now, correction = 0;
    };
    change(n, move, central, last, correction);
}
