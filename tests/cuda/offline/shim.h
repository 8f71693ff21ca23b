// What stands for CUDA where a kernel is translated for the CPU.
#include <math.h>
#define _STRINGS_H 1
#include <type_traits>
#include <utility>

struct dim { unsigned x; };
static thread_local dim threadIdx, blockIdx, blockDim, gridDim;
static thread_local void (*shim_meet)(int line);
static thread_local void (*shim_meet_warp)(int line, unsigned mask, const char* wrong);
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __restrict__
#define __syncthreads() shim_meet(__LINE__)
#define __syncwarp() shim_meet_warp(__LINE__, 0xffffffffu, 0)
#define __shfl_xor_sync(mask, v, lanes) shim_exchange(mask, v, lanes, __LINE__)
static inline float __int_as_float(int v) { float r; __builtin_memcpy(&r, &v, 4); return r; }
static inline int __float_as_int(float v) { int r; __builtin_memcpy(&r, &v, 4); return r; }
static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
static inline double rsqrt(double v) { return 1.0 / sqrt(v); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}

// A shuffle: the lanes that the mask names put their values into an array, meet, read their partner's, and meet again. A value that
// was not put there in this exchange is one of a lane that takes no part, which CUDA leaves undefined.
static struct { unsigned long long bits; unsigned round; int line; } shim_lanes[1024];
static thread_local unsigned shim_round;
template <class T> static T shim_exchange(unsigned mask, T v, int lanes, int line) {
    unsigned self = threadIdx.x, partner = self ^ lanes;
    shim_lanes[self].bits = 0;
    __builtin_memcpy(&shim_lanes[self].bits, &v, sizeof(T));
    shim_lanes[self].round = ++shim_round;
    shim_lanes[self].line = line;
    shim_meet_warp(line, mask, mask >> self % 32 & 1 ? 0 : "a lane shuffles that its mask does not name");
    bool there = lanes < 32 && partner < blockDim.x && mask >> partner % 32 & 1 && shim_lanes[partner].round == shim_round &&
                 shim_lanes[partner].line == line;
    T other = v;
    if (there) __builtin_memcpy(&other, &shim_lanes[partner].bits, sizeof(T));
    shim_meet_warp(line, mask, there ? 0 : "a shuffle reads a lane that takes no part in it");
    return other;
}

// The team says which thread of which block the caller is, and how it meets the others.
extern "C" void shim_set(unsigned thread, unsigned block, unsigned threads, unsigned blocks, void (*meet)(int),
                         void (*meet_warp)(int, unsigned, const char*)) {
    threadIdx.x = thread; blockIdx.x = block; blockDim.x = threads; gridDim.x = blocks;
    shim_meet = meet; shim_meet_warp = meet_warp; shim_round = 0;
}
// Arguments are given as a driver takes them: the address of each. Their sizes and kinds are told, since nothing else
// would notice a number of the wrong type.
template <class... P, size_t... I> static void shim_play(void (*kernel)(P...), void** given, std::index_sequence<I...>) {
    kernel(*(P*)given[I]...);
}
template <class... P> static void shim_play(void (*kernel)(P...), void** given) {
    shim_play(kernel, given, std::index_sequence_for<P...>());
}
template <class... P> static int shim_kinds(void (*)(P...), char* kinds) {
    const char each[] = {(char)(sizeof(P) + 16 * std::is_floating_point<P>::value + 32 * std::is_pointer<P>::value)..., 0};
    __builtin_memcpy(kinds, each, sizeof...(P));
    return sizeof...(P);
}
#define SHIM_ENTRY(name) \
    extern "C" void play_##name(void** shim_given) { shim_play(name, shim_given); } \
    extern "C" int kinds_##name(char* shim_told) { return shim_kinds(name, shim_told); }
