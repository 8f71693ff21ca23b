// The index of the largest element along an axis of n, the first among equals; NaN is larger than all. With LEAST the smallest.
typedef typename arithmetic<X>::type A;
#if LEAST
#define ABOVE(a, b) ((a) < (b))
#else
#define ABOVE(a, b) ((a) > (b))
#endif
FN bool before(A a, i32 i, A b, i32 j) {
    if (is_nan(a) || is_nan(b)) return is_nan(a) && (!is_nan(b) || i < j);
    return ABOVE(a, b) || (a == b && i < j);
}

KERNEL arg(index rows, i32 n, const X* x, i32* y) {
    __shared__ A best[1024];
    __shared__ i32 number[1024];
    for (index row = blockIdx.x; row < rows; row += gridDim.x) {
        const X* from = x + row / INNER * INNER * n + row % INNER;
        i32 at = threadIdx.x < n ? threadIdx.x : 0;
        A top = get(from[(index)at * INNER]);
        for (i32 k = at + blockDim.x; k < n; k += blockDim.x) {
            const A v = get(from[(index)k * INNER]);
            if (before(v, k, top, at)) { top = v; at = k; }
        }
        __syncthreads();
        best[threadIdx.x] = top;
        number[threadIdx.x] = at;
        for (u32 half = blockDim.x / 2; half; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) {
                const u32 other = threadIdx.x + half;
                if (before(best[other], number[other], best[threadIdx.x], number[threadIdx.x])) {
                    best[threadIdx.x] = best[other];
                    number[threadIdx.x] = number[other];
                }
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) y[row] = number[0];
    }
}
