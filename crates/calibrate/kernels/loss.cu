// Softmax and cross-entropy: a block for each row of scores.
template <class T>
__device__ void cross_entropy(const T* scores, const int* targets, T* gradient, float* losses, Int classes, Int rows) {
    const T* row = scores + blockIdx.x * classes;
    int target = targets[blockIdx.x];
    float top = read(row), sum = 0;
    EACH_OF_BLOCK(j, classes) top = fmaxf(top, read(row + j));
    top = block_max(top);
    EACH_OF_BLOCK(j, classes) sum += expf(read(row + j) - top);
    sum = block_sum(sum);
    float share = 1 / sum;
    EACH_OF_BLOCK(j, classes)
        write(gradient + blockIdx.x * classes + j, (expf(read(row + j) - top) * share - (j == target)) / rows);
    if (threadIdx.x == 0) losses[blockIdx.x] = (logf(sum) - (read(row + target) - top)) / rows;
}
// The sum of n values, by one block.
extern "C" __global__ void total(const float* x, float* sum, Int n) {
    float part = 0;
    EACH_OF_BLOCK(i, n) part += x[i];
    part = block_sum(part);
    if (threadIdx.x == 0) *sum = part;
}

#define P(T) (const T* scores, const int* targets, T* gradient, float* losses, Int classes, Int rows)
BOTH(cross_entropy, P, (scores, targets, gradient, losses, classes, rows))
#undef P
