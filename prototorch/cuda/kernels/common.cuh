// The prelude of every kernel source: element types, arithmetic in float (double for double), indices.
// No header is included, so that it compiles wherever NVRTC does; the tests compile the same text with a C++ compiler.

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };

#define FN static __device__ __forceinline__
#define KERNEL extern "C" __global__ void
// a grid-stride loop: every kernel is correct for any grid and block
#define EACH(i, n) for (index i = (index)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (index)gridDim.x * blockDim.x)
#define INF __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

FN float get(f16 v) {
#ifdef __CUDA_ARCH__
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
    return r;
#else
    u32 sign = (u32)(v.bits & 0x8000) << 16, rest = v.bits & 0x7fff;
    if (rest >= 0x7c00) return __int_as_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    float size = rest >= 0x400 ? __int_as_float((rest << 13) + (112 << 23)) : (float)rest * 5.9604644775390625e-8f;
    return sign ? -size : size;
#endif
}
FN float get(bf16 v) { return __int_as_float((u32)v.bits << 16); }
FN float get(float v) { return v; }
FN double get(double v) { return v; }
FN bool get(bool v) { return v; }
FN i8 get(i8 v) { return v; }
FN u8 get(u8 v) { return v; }
FN i16 get(i16 v) { return v; }
FN u16 get(u16 v) { return v; }
FN i32 get(i32 v) { return v; }
FN u32 get(u32 v) { return v; }
FN i64 get(i64 v) { return v; }
FN u64 get(u64 v) { return v; }

FN void put(f16& to, float v) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(v));
#else
    u32 all = __float_as_int(v), sign = all >> 16 & 0x8000, rest = all & 0x7fffffff;
    if (rest > 0x7f800000) to.bits = 0x7e00;
    else if (rest >= 0x477ff000) to.bits = sign | 0x7c00;  // rounds to 65536 or more
    else if (rest >= 0x38800000) to.bits = sign | ((rest - (112 << 23) + 0xfff + (rest >> 13 & 1)) >> 13);
    else {  // subnormal: let the addition of a power of two round
        float moved = __int_as_float(rest) + 0.5f;
        to.bits = sign | (__float_as_int(moved) - __float_as_int(0.5f));
    }
#endif
}
FN void put(bf16& to, float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(v));
#else
    u32 all = __float_as_int(v);
    if ((all & 0x7fffffff) > 0x7f800000) to.bits = 0x7fc0;
    else to.bits = (u16)((all + 0x7fff + (all >> 16 & 1)) >> 16);
#endif
}
template <class A> FN void put(float& to, A v) { to = (float)v; }
template <class A> FN void put(double& to, A v) { to = (double)v; }
template <class A> FN void put(bool& to, A v) { to = v != (A)0; }
template <class A> FN void put(i8& to, A v) { to = (i8)v; }
template <class A> FN void put(u8& to, A v) { to = (u8)v; }
template <class A> FN void put(i16& to, A v) { to = (i16)v; }
template <class A> FN void put(u16& to, A v) { to = (u16)v; }
template <class A> FN void put(i32& to, A v) { to = (i32)v; }
template <class A> FN void put(u32& to, A v) { to = (u32)v; }
template <class A> FN void put(i64& to, A v) { to = (i64)v; }
template <class A> FN void put(u64& to, A v) { to = (u64)v; }

FN float rounded_f16(float v) { f16 r; put(r, v); return get(r); }
FN float rounded_bf16(float v) { bf16 r; put(r, v); return get(r); }

// the type arithmetic is done in
template <class T> struct arithmetic { typedef T type; };
template <> struct arithmetic<f16> { typedef float type; };
template <> struct arithmetic<bf16> { typedef float type; };

// NaN wins, as in NumPy
template <class A> FN A max_nan(A a, A b) { return a > b || a != a ? a : b; }
template <class A> FN A min_nan(A a, A b) { return a < b || a != a ? a : b; }
template <class A> FN A sign(A a) { return a > (A)0 ? (A)1 : a < (A)0 ? (A)-1 : a; }
FN u8 sign(u8 a) { return a > 0; }
FN u16 sign(u16 a) { return a > 0; }
FN u32 sign(u32 a) { return a > 0; }
FN u64 sign(u64 a) { return a > 0; }
template <class A> FN A abs_of(A a) { return a < (A)0 ? -a : a; }
FN float abs_of(float a) { return fabsf(a); }
FN double abs_of(double a) { return fabs(a); }
FN float floor_div(float a, float b) { return floorf(a / b); }
FN double floor_div(double a, double b) { return floor(a / b); }
template <class A> FN A floor_div(A a, A b) { A q = a / b; return q * b != a && (a < (A)0) != (b < (A)0) ? q - 1 : q; }
FN float floor_mod(float a, float b) { float r = fmodf(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
FN double floor_mod(double a, double b) { double r = fmod(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
template <class A> FN A floor_mod(A a, A b) { A r = a % b; return r != 0 && (r < (A)0) != (b < (A)0) ? r + b : r; }
FN float pow_of(float a, float b) { return powf(a, b); }
FN double pow_of(double a, double b) { return pow(a, b); }
template <class A> FN A pow_of(A a, A b) { A r = 1; for (; b > (A)0; b >>= 1) { if (b & 1) r *= a; a *= a; } return r; }
FN bool is_finite(float a) { return fabsf(a) < INF; }
FN bool is_finite(double a) { return fabs(a) < (double)INF; }
template <class A> FN bool is_nan(A a) { return a != a; }
