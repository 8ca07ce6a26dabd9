// Kernels that convert a batch, as copied to the GPU, into a network's input. If the batch has more or fewer values
// than the input, evenly spaced values of the batch are taken.

// From 0 to 255 to -1 to 1.
extern "C" __global__ void spread_values(const unsigned char* bytes, Int count, float* values, Int n) {
    EACH(i, n) values[i] = bytes[i * count / n] / 127.5f - 1;
}
// Decoded images have normalised values already.
extern "C" __global__ void spread_floats(const float* from, Int count, float* values, Int n) {
    EACH(i, n) values[i] = from[i * count / n];
}
// A byte is a token.
extern "C" __global__ void spread_tokens(const unsigned char* bytes, Int count, int* tokens, Int n, Int kinds) {
    EACH(i, n) tokens[i] = bytes[i * count / n] % kinds;
}
