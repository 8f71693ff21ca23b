// Rows of N adjacent elements, ROW_THREADS threads for each: a part of a warp, a warp, or several. A thread keeps EACH_VECTORS vectors
// of VEC elements in registers, so that a row is read once. Sums are combined by shuffles and, over several warps, in shared memory,
// always in one order. All threads of a block go through the loop over rows together: ``here`` says whether there is a row.
typedef typename arithmetic<X>::type A;
template <class T, int N_> struct alignas(sizeof(T) * N_) pack { T v[N_]; };
typedef pack<X, VEC> XS;
#define VALUES (EACH_VECTORS * VEC)
#define EACH_ROW_OF_BLOCK(row, here) \
    for (index first_row = (index)blockIdx.x * (blockDim.x / ROW_THREADS); first_row < rows; \
         first_row += (index)gridDim.x * (blockDim.x / ROW_THREADS)) \
        for (index row = first_row + threadIdx.x / ROW_THREADS, here = row < rows, once = 1; once; once = 0)
// where vector k of this thread begins in a row
#define BEGIN_OF(k) (((i32)(threadIdx.x % ROW_THREADS) + (k) * ROW_THREADS) * VEC)

#define OVER_LANES(combine) \
    _Pragma("unroll") \
    for (int apart = 1; apart < (ROW_THREADS < 32 ? ROW_THREADS : 32); apart *= 2) { \
        const A other = __shfl_xor_sync(0xffffffffu, v, apart); \
        v = combine; \
    }
#if ROW_THREADS > 32
#define OVER_WARPS(combine) \
    const u32 first = threadIdx.x / ROW_THREADS * (ROW_THREADS / 32); \
    __syncthreads(); \
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v; \
    __syncthreads(); \
    v = of_warps[first]; \
    for (u32 k = 1; k < ROW_THREADS / 32; k++) { const A other = of_warps[first + k]; v = combine; }
#else
#define OVER_WARPS(combine)
#endif

FN A row_sum(A v, A* of_warps) {
    OVER_LANES(v + other)
    OVER_WARPS(v + other)
    return v;
}
FN A row_max(A v, A* of_warps) {
    OVER_LANES(max_nan(v, other))
    OVER_WARPS(max_nan(v, other))
    return v;
}
// this thread's elements of a row; ``rest`` where there are none
FN void read_row(const X* row, bool here, A (&v)[VALUES], A rest) {
#pragma unroll
    for (int k = 0; k < EACH_VECTORS; k++) {
        if (here && BEGIN_OF(k) < N) {
            const XS seen = *(const XS*)(row + BEGIN_OF(k));
#pragma unroll
            for (int j = 0; j < VEC; j++) v[k * VEC + j] = get(seen.v[j]);
        } else {
#pragma unroll
            for (int j = 0; j < VEC; j++) v[k * VEC + j] = rest;
        }
    }
}
FN void write_row(X* row, bool here, const A (&v)[VALUES]) {
#pragma unroll
    for (int k = 0; k < EACH_VECTORS; k++) if (here && BEGIN_OF(k) < N) {
        XS out;
#pragma unroll
        for (int j = 0; j < VEC; j++) put(out.v[j], v[k * VEC + j]);
        *(XS*)(row + BEGIN_OF(k)) = out;
    }
}
