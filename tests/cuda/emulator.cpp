// Executes the calls of a training step without a GPU: kernels from their own source, with a coroutine for
// each thread of a block; GEMMs and convolutions by their definition. Slow, for small networks.
//
// emulator CALLS MEMORY: reads the calls as text and the memory as bytes; writes the memory back.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <setjmp.h>
#include <string>
#include <tuple>
#include <ucontext.h>
#include <vector>

// Built-in variables, keywords and functions that CUDA adds to C++.
struct Index { unsigned x; };
static Index threadIdx, blockIdx, blockDim, gridDim;
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
static unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
static float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
using std::max;
using std::min;
static float atomicAdd(float* to, float x) { float was = *to; *to += x; return was; }

static void fail(const std::string& what) {
    std::cerr << what << "\n";
    exit(1);
}

// Threads of a block take turns: each runs to the next barrier or its end. Each is a coroutine that is
// created once and used for all blocks; longjmp switches between them, since switching contexts needs system calls.
struct Thread {
    jmp_buf place;
    ucontext_t start;
    std::vector<char> stack;
    bool begun, ended;
};
static jmp_buf scheduler;
static std::vector<Thread> threads(256);
static std::function<void()> work;
static bool at_barrier;
static void pause() {
    unsigned self = threadIdx.x;
    if (!_setjmp(threads[self].place)) _longjmp(scheduler, 1);
    threadIdx.x = self;
}
static void __syncthreads() {
    at_barrier = true;
    pause();
}
static float lanes[256];
static float __shfl_xor_sync(unsigned, float x, int apart) {
    unsigned self = threadIdx.x;
    lanes[self] = x;
    __syncthreads();
    float y = lanes[self ^ apart];
    __syncthreads();
    return y;
}
static void body() {
    for (unsigned self = threadIdx.x;; threadIdx.x = self) {
        work();
        threads[self].ended = true;
        pause();
    }
}
static void resume(Thread& thread) {
    if (_setjmp(scheduler)) return;
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    thread.stack.resize(1 << 15);
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.data(), thread.start.uc_stack.ss_size = thread.stack.size();
    makecontext(&thread.start, body, 0);
    setcontext(&thread.start);
}
static void run(unsigned blocks, unsigned size) {
    gridDim.x = blocks, blockDim.x = size;
    if (size > threads.size()) fail("more threads in a block than there are");
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (Thread& thread : threads) thread.ended = false;
        for (unsigned left = size, waiting = 0; left; waiting = 0) {
            unsigned running = left;
            for (threadIdx.x = 0; threadIdx.x < size; ++threadIdx.x) {
                unsigned t = threadIdx.x;
                if (threads[t].ended) continue;
                at_barrier = false;
                resume(threads[t]);
                threadIdx.x = t;
                left -= threads[t].ended, waiting += at_barrier;
            }
            // On a device, a barrier that not all threads reach would hang.
            if (waiting && waiting != running) fail("threads part at a barrier");
        }
    }
}

#include "kernels.inc"

struct Word { std::string text; };
static char* memory;
template <class T> struct Get { static T of(const Word& w) {
    if (w.text[0] != (std::is_same<T, float>::value ? 'f' : 'i')) fail("wrong word " + w.text);
    return std::is_same<T, float>::value ? (T)strtof(w.text.c_str() + 2, 0) : (T)strtoll(w.text.c_str() + 2, 0, 10); } };
template <class T> struct Get<T*> { static T* of(const Word& w) {
    if (w.text[0] != 'a') fail("wrong word " + w.text);
    return (T*)(memory + strtoll(w.text.c_str() + 2, 0, 10)); } };
template <class... A, size_t... I>
static void call(void (*kernel)(A...), const std::vector<Word>& words, unsigned blocks, unsigned size, std::index_sequence<I...>) {
    std::tuple<A...> a(Get<A>::of(words[I])...);
    work = [&] { kernel(std::get<I>(a)...); };
    run(blocks, size);
}
using Launch = std::function<void(const std::vector<Word>&, unsigned, unsigned)>;
template <class... A> static Launch launch(void (*kernel)(A...)) {
    return [=](const std::vector<Word>& words, unsigned blocks, unsigned size) {
        if (words.size() != sizeof...(A)) fail("wrong number of words");
        call(kernel, words, blocks, size, std::index_sequence_for<A...>());
    };
}
static std::map<std::string, Launch> kernels = {
#define KERNEL(name) {#name, launch(name)},
#include "table.inc"
};

// Whether GEMMs round their factors to a mantissa of 10 bits, as tensor cores do in TF32.
static bool tf32;
static float seen(float x) {
    unsigned bits = __float_as_uint(x);
    return tf32 && std::isfinite(x) ? __uint_as_float((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu) : x;
}
static float get(long long at, long long i, int bytes) {
    return bytes == 4 ? read((float*)(memory + at) + i) : read((bf16*)(memory + at) + i);
}
static void put(long long at, long long i, int bytes, float x) {
    bytes == 4 ? write((float*)(memory + at) + i, x) : write((bf16*)(memory + at) + i, x);
}
static void product(std::istream& in, int bytes) {
    long long m, n, k, count, wide, at[3], turned[3], down[3], apart[3];
    in >> m >> n >> k >> count >> wide;
    for (int i = 0; i < 3; ++i) in >> at[i] >> turned[i] >> down[i] >> apart[i];
    auto place = [&](int i, long long b, long long r, long long c) {
        return b * apart[i] + (turned[i] ? c * down[i] + r : r * down[i] + c);
    };
    for (long long b = 0; b < count; ++b)
        for (long long r = 0; r < m; ++r)
            for (long long c = 0; c < n; ++c) {
                double sum = 0;
                for (long long j = 0; j < k; ++j)
                    sum += (double)seen(get(at[0], place(0, b, r, j), bytes)) * seen(get(at[1], place(1, b, j, c), bytes));
                put(at[2], place(2, b, r, c), wide ? 4 : bytes, sum);
            }
}
static void convolution(std::istream& in, int bytes) {
    long long from, to, side, kernel, stride, padding, samples, x, w, y;
    std::string way;
    in >> way >> from >> to >> side >> kernel >> stride >> padding >> samples >> x >> w >> y;
    long long out = (side + 2 * padding - kernel) / stride + 1;
    std::vector<double> sums(way == "forward" ? samples * to * out * out : way == "data" ? samples * from * side * side : to * from * kernel * kernel);
    for (long long s = 0; s < samples; ++s)
        for (long long o = 0; o < to; ++o)
            for (long long c = 0; c < from; ++c)
                for (long long p = 0; p < out * out; ++p)
                    for (long long q = 0; q < kernel * kernel; ++q) {
                        long long row = p / out * stride + q / kernel - padding, column = p % out * stride + q % kernel - padding;
                        if (row < 0 || row >= side || column < 0 || column >= side) continue;
                        long long i = ((s * from + c) * side + row) * side + column, f = (o * from + c) * kernel * kernel + q, j = (s * to + o) * out * out + p;
                        if (way == "forward") sums[j] += (double)seen(get(x, i, bytes)) * seen(get(w, f, bytes));
                        else if (way == "data") sums[i] += (double)seen(get(y, j, bytes)) * seen(get(w, f, bytes));
                        else sums[f] += (double)seen(get(y, j, bytes)) * seen(get(x, i, bytes));
                    }
    for (size_t i = 0; i < sums.size(); ++i) put(way == "forward" ? y : way == "data" ? x : w, i, bytes, sums[i]);
}
int main(int, char** names) {
    std::ifstream file(names[2], std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    memory = bytes.data();
    std::ifstream calls(names[1]);
    int width;
    calls >> width >> tf32;
    for (std::string kind; calls >> kind;) {
        if (kind == "product") product(calls, width);
        else if (kind == "convolution") convolution(calls, width);
        else {
            std::string name;
            unsigned blocks, size, count;
            calls >> name >> blocks >> size >> count;
            std::vector<Word> words(count);
            for (Word& word : words) calls >> word.text;
            if (!kernels.count(name)) fail("no kernel " + name);
            kernels[name](words, blocks, size);
        }
    }
    std::ofstream(names[2], std::ios::binary).write(bytes.data(), bytes.size());
}
