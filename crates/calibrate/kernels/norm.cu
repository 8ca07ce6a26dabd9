// Batch norm (Ioffe and Szegedy, 2015) and layer norm (Ba, Kiros and Hinton, 2016). `moments` are all means,
// then all 1/sd.
#define EPSILON 1e-5f

// Sums of distances from the channel's first value, so that a large mean cancels nothing.
template <class T>
__device__ void batch_sums(const T* x, float* partial, Int samples, Int channels, Int plane, Int splits) {
    float first = read(x + blockIdx.x % channels * plane), a = 0, b = 0;
    auto sum = [&](float v) {
        float d = v - first;
        a += d, b += d * d;
    };
    planes(samples, channels, plane, splits, sum, x);
    keep_two(partial, a, b, channels, splits);
}
template <class T>
__device__ void batch_moments(const T* x, const float* partial, float* moments, Int channels, Int plane, Int splits,
                              Int count) {
    EACH(c, channels) {
        float a = 0, b = 0;
#pragma unroll 4
        for (int split = 0; split < splits; ++split) {
            a += partial[split * channels + c];
            b += partial[(splits + split) * channels + c];
        }
        a /= count, b /= count;
        moments[c] = read(x + c * plane) + a;
        moments[channels + c] = 1 / sqrtf(fmaxf(b - a * a, 0) + EPSILON);
    }
}
// Coefficients of a channel, the same for all of its values. Forward: y = (x - mean) * slope + shift. Backward:
// dx = dy * slope + (x - mean) * tilt + shift.
struct Line { float mean, slope, tilt, shift; };
template <class T>
__device__ void batch_norm(const T* x, const float* scale, const float* shift, const float* moments, T* y, Int n,
                           Int channels, Int plane) {
    auto line = [=](int c) { return Line{moments[c], moments[channels + c] * scale[c], 0, shift[c]}; };
    auto f = [](float v, const Line& line) { return (v - line.mean) * line.slope + line.shift; };
    map_channels(y, n, channels, plane, line, f, x);
}
// Of the gradient: its product with the normalised values, and itself.
template <class T>
__device__ void batch_gradient_sums(const T* x, const T* dy, const float* moments, float* partial, Int samples,
                                    Int channels, Int plane, Int splits) {
    float mean = moments[blockIdx.x % channels], rate = moments[channels + blockIdx.x % channels], a = 0, b = 0;
    auto sum = [&](float v, float d) { a += d * (v - mean), b += d; };
    planes(samples, channels, plane, splits, sum, x, dy);
    keep_two(partial, a * rate, b, channels, splits);
}
template <class T>
__device__ void batch_norm_backward(const T* x, const T* dy, const float* scale, const float* moments,
                                    const float* d_scale, const float* d_shift, T* dx, Int n, Int channels, Int plane,
                                    Int count) {
    float share = 1.0f / count;
    auto line = [=](int c) {
        float rate = moments[channels + c], slope = scale[c] * rate, less = -slope * share;
        return Line{moments[c], slope, less * rate * d_scale[c], less * d_shift[c]};
    };
    auto f = [](float v, float d, const Line& line) {
        return d * line.slope + ((v - line.mean) * line.tilt + line.shift);
    };
    map_channels(dx, n, channels, plane, line, f, x, dy);
}
// A block for each row.
template <int N, class T>
__device__ void layer_norm_by(const T* x, const float* scale, const float* shift, float* moments, T* y, Int rows,
                              int width) {
    const T* row = x + blockIdx.x * (Int)width;
    float sum = 0, square = 0;
    over_row<N>(width, [&](int, float v) { sum += v; }, row);
    float mean = block_sum(sum) / width;
    over_row<N>(width, [&](int, float v) { square += (v - mean) * (v - mean); }, row);
    float rate = 1 / sqrtf(block_sum(square) / width + EPSILON);
    auto f = [=](int, float v, float a, float b) { return (v - mean) * rate * a + b; };
    map_row<N>(y + blockIdx.x * (Int)width, width, f, row, scale, shift);
    if (threadIdx.x == 0) moments[blockIdx.x] = mean, moments[rows + blockIdx.x] = rate;
}
template <class T>
__device__ void layer_norm(const T* x, const float* scale, const float* shift, float* moments, T* y, Int rows,
                           Int width) {
    if (width % PACK<T> == 0)
        layer_norm_by<PACK<T>>(x, scale, shift, moments, y, rows, width);
    else
        layer_norm_by<1>(x, scale, shift, moments, y, rows, width);
}
template <int N, class T>
__device__ void layer_norm_backward_by(const T* x, const T* dy, const float* scale, const float* moments, T* dx,
                                       Int rows, int width) {
    const T *row = x + blockIdx.x * (Int)width, *d = dy + blockIdx.x * (Int)width;
    float mean = moments[blockIdx.x], rate = moments[rows + blockIdx.x], level = 0, tilt = 0;
    auto sum = [&](int, float v, float d, float a) { level += d * a, tilt += d * a * (v - mean) * rate; };
    over_row<N>(width, sum, row, d, scale);
    level = block_sum(level) / width, tilt = block_sum(tilt) / width;
    auto f = [=](int, float v, float d, float a) { return rate * (d * a - level - (v - mean) * rate * tilt); };
    map_row<N>(dx + blockIdx.x * (Int)width, width, f, row, d, scale);
}
template <class T>
__device__ void layer_norm_backward(const T* x, const T* dy, const float* scale, const float* moments, T* dx, Int rows,
                                    Int width) {
    if (width % PACK<T> == 0)
        layer_norm_backward_by<PACK<T>>(x, dy, scale, moments, dx, rows, width);
    else
        layer_norm_backward_by<1>(x, dy, scale, moments, dx, rows, width);
}
template <class T>
__device__ void layer_gradient_sums(const T* x, const T* dy, const float* moments, float* partial, Int rows, Int width,
                                    Int splits) {
    auto sum = [&](int row, unsigned j, float& a, float& b) {
        float d = read(dy + row * width + j);
        a += d * (read(x + row * width + j) - moments[row]) * moments[rows + row], b += d;
    };
    columns_of(partial, partial + splits * width, rows, width, splits, sum);
}

#define P(T) (const T* x, float* partial, Int samples, Int channels, Int plane, Int splits)
BOTH(batch_sums, P, (x, partial, samples, channels, plane, splits))
#undef P
#define P(T) (const T* x, const float* partial, float* moments, Int channels, Int plane, Int splits, Int count)
BOTH(batch_moments, P, (x, partial, moments, channels, plane, splits, count))
#undef P
#define P(T) (const T* x, const float* scale, const float* shift, const float* moments, T* y, Int n, Int channels, Int plane)
BOTH(batch_norm, P, (x, scale, shift, moments, y, n, channels, plane))
#undef P
#define P(T) (const T* x, const T* dy, const float* moments, float* partial, Int samples, Int channels, Int plane, Int splits)
BOTH(batch_gradient_sums, P, (x, dy, moments, partial, samples, channels, plane, splits))
#undef P
#define P(T) (const T* x, const T* dy, const float* scale, const float* moments, const float* d_scale, \
              const float* d_shift, T* dx, Int n, Int channels, Int plane, Int count)
BOTH(batch_norm_backward, P, (x, dy, scale, moments, d_scale, d_shift, dx, n, channels, plane, count))
#undef P
#define P(T) (const T* x, const float* scale, const float* shift, float* moments, T* y, Int rows, Int width)
BOTH(layer_norm, P, (x, scale, shift, moments, y, rows, width))
#undef P
#define P(T) (const T* x, const T* dy, const float* scale, const float* moments, T* dx, Int rows, Int width)
BOTH(layer_norm_backward, P, (x, dy, scale, moments, dx, rows, width))
#undef P
#define P(T) (const T* x, const T* dy, const float* moments, float* partial, Int rows, Int width, Int splits)
BOTH(layer_gradient_sums, P, (x, dy, moments, partial, rows, width, splits))
#undef P
