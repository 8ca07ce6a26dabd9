// Updates of parameters, all of a network at once; parameters and their averages in 4 bytes.

extern "C" __global__ void zero(float* x, Int n) { EACH(i, n) x[i] = 0; }
// Gradient descent with momentum.
extern "C" __global__ void momentum(float* w, float* velocity, const float* gradient, Int n, float rate, float keep) {
    EACH(i, n) {
        float v = keep * velocity[i] + gradient[i];
        velocity[i] = v, w[i] -= rate * v;
    }
}
// Counts steps on the device, so that a recorded step can be replayed.
extern "C" __global__ void count(float* steps) {
    if (threadIdx.x == 0) *steps += 1;
}
// Adam (Kingma and Ba, 2015).
extern "C" __global__ void adam(float* w, float* mean, float* square, const float* gradient, const float* steps, Int n,
                                float rate, float keep, float keep_square) {
    float one = 1 - powf(keep, *steps), two = 1 - powf(keep_square, *steps);
    EACH(i, n) {
        float g = gradient[i];
        float m = keep * mean[i] + (1 - keep) * g, s = keep_square * square[i] + (1 - keep_square) * g * g;
        mean[i] = m, square[i] = s;
        w[i] -= rate / one * m / (sqrtf(s / two) + 1e-8f);
    }
}
// Synchronous model averaging (Koliousis et al., Crossbow, VLDB 2019, section 3.2): a replica is drawn to the
// central model by a share of their distance, and the central model's correction collects that.
extern "C" __global__ void draw_near(float* replica, const float* central, float* correction, Int n, float share) {
    EACH(i, n) {
        float c = share * (replica[i] - central[i]);
        replica[i] -= c, correction[i] += c;
    }
}
// The central model moves by the correction and by a share of its last move.
extern "C" __global__ void move_central(float* central, float* last, float* correction, Int n, float keep) {
    EACH(i, n) {
        float now = central[i], next = now + correction[i] + keep * (now - last[i]);
        last[i] = now, central[i] = next, correction[i] = 0;
    }
}
