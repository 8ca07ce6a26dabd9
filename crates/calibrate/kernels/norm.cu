// Batch norm (Ioffe and Szegedy, 2015) and layer norm (Ba, Kiros and Hinton, 2016). `moments` are all means,
// then all 1/sd.
#define EPSILON 1e-5f

// Sums of distances from the channel's first value, so that a large mean cancels nothing.
template <class T>
__device__ void batch_sums(const T* x, float* partial, Int samples, Int channels, Int plane, Int splits) {
    float first = read(x + blockIdx.x % channels * plane), a = 0, b = 0;
    planes(samples, channels, plane, splits, [&](Int i, Int) {
        float d = read(x + i) - first;
        a += d, b += d * d;
    });
    keep_two(partial, a, b, channels, splits);
}
template <class T>
__device__ void batch_moments(const T* x, const float* partial, float* moments, Int channels, Int plane, Int splits,
                              Int count) {
    EACH(c, channels) {
        float a = 0, b = 0;
        for (Int split = 0; split < splits; ++split) {
            a += partial[split * channels + c];
            b += partial[(splits + split) * channels + c];
        }
        a /= count, b /= count;
        moments[c] = read(x + c * plane) + a;
        moments[channels + c] = 1 / sqrtf(fmaxf(b - a * a, 0) + EPSILON);
    }
}
template <class T>
__device__ void batch_norm(const T* x, const float* scale, const float* shift, const float* moments, T* y, Int n,
                           Int channels, Int plane) {
    EACH(i, n) {
        Int c = i / plane % channels;
        write(y + i, (read(x + i) - moments[c]) * moments[channels + c] * scale[c] + shift[c]);
    }
}
// Of the gradient: its product with the normalised values, and itself.
template <class T>
__device__ void batch_gradient_sums(const T* x, const T* dy, const float* moments, float* partial, Int samples,
                                    Int channels, Int plane, Int splits) {
    float mean = moments[blockIdx.x % channels], rate = moments[channels + blockIdx.x % channels], a = 0, b = 0;
    planes(samples, channels, plane, splits, [&](Int i, Int) {
        float d = read(dy + i);
        a += d * (read(x + i) - mean) * rate, b += d;
    });
    keep_two(partial, a, b, channels, splits);
}
template <class T>
__device__ void batch_norm_backward(const T* x, const T* dy, const float* scale, const float* moments,
                                    const float* d_scale, const float* d_shift, T* dx, Int n, Int channels, Int plane,
                                    Int count) {
    EACH(i, n) {
        Int c = i / plane % channels;
        float rate = moments[channels + c], normal = (read(x + i) - moments[c]) * rate;
        write(dx + i, scale[c] * rate * (read(dy + i) - (d_shift[c] + normal * d_scale[c]) / count));
    }
}
// A block for each row.
template <class T>
__device__ void layer_norm(const T* x, const float* scale, const float* shift, float* moments, T* y, Int rows,
                           Int width) {
    const T* row = x + blockIdx.x * width;
    float sum = 0, square = 0;
    EACH_OF_BLOCK(j, width) sum += read(row + j);
    float mean = block_sum(sum) / width;
    EACH_OF_BLOCK(j, width) {
        float d = read(row + j) - mean;
        square += d * d;
    }
    float rate = 1 / sqrtf(block_sum(square) / width + EPSILON);
    EACH_OF_BLOCK(j, width) write(y + blockIdx.x * width + j, (read(row + j) - mean) * rate * scale[j] + shift[j]);
    if (threadIdx.x == 0) moments[blockIdx.x] = mean, moments[rows + blockIdx.x] = rate;
}
template <class T>
__device__ void layer_norm_backward(const T* x, const T* dy, const float* scale, const float* moments, T* dx, Int rows,
                                    Int width) {
    const T *row = x + blockIdx.x * width, *d = dy + blockIdx.x * width;
    float mean = moments[blockIdx.x], rate = moments[rows + blockIdx.x], level = 0, tilt = 0;
    EACH_OF_BLOCK(j, width) {
        float g = read(d + j) * scale[j];
        level += g, tilt += g * (read(row + j) - mean) * rate;
    }
    level = block_sum(level) / width, tilt = block_sum(tilt) / width;
    EACH_OF_BLOCK(j, width)
        write(dx + blockIdx.x * width + j,
              rate * (read(d + j) * scale[j] - level - (read(row + j) - mean) * rate * tilt));
}
template <class T>
__device__ void layer_gradient_sums(const T* x, const T* dy, const float* moments, float* partial, Int rows, Int width,
                                    Int splits) {
    columns_of(partial, rows, width, splits, 2, [&](Int row, Int j, float& a, float& b) {
        float d = read(dy + row * width + j);
        a += d * (read(x + row * width + j) - moments[row]) * moments[rows + row], b += d;
    });
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
