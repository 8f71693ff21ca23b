// The TAKEN largest elements of each row of n in descending order, the first among equals, NaN last: each is searched
// among those that come after the one before it.
typedef typename arithmetic<X>::type A;

FN bool earlier(A a, i32 i, A b, i32 j) {
    if (is_nan(a) || is_nan(b)) return is_nan(b) && (!is_nan(a) || i < j);
    return a > b || (a == b && i < j);
}

KERNEL top_k(index rows, i32 n, const X* x, X* values, i32* numbers) {
    __shared__ A best[1024];
    __shared__ i32 number[1024];
    for (index row = blockIdx.x; row < rows; row += gridDim.x) {
        const X* from = x + row * n;
        A last = 0;
        i32 before = -1;
        for (i32 round = 0; round < TAKEN; round++) {
            A top = 0;
            i32 at = -1;
            for (i32 k = threadIdx.x; k < n; k += blockDim.x) {
                const A v = get(from[k]);
                if (before >= 0 && !earlier(last, before, v, k)) continue;
                if (at < 0 || earlier(v, k, top, at)) { top = v; at = k; }
            }
            __syncthreads();
            best[threadIdx.x] = top;
            number[threadIdx.x] = at;
            for (u32 half = blockDim.x / 2; half; half /= 2) {
                __syncthreads();
                if (threadIdx.x < half) {
                    const u32 other = threadIdx.x + half;
                    const i32 mine = number[threadIdx.x], its = number[other];
                    if (its >= 0 && (mine < 0 || earlier(best[other], its, best[threadIdx.x], mine))) {
                        best[threadIdx.x] = best[other];
                        number[threadIdx.x] = its;
                    }
                }
            }
            __syncthreads();
            last = best[0];
            before = number[0];
            if (threadIdx.x == 0) {
                put(values[row * TAKEN + round], last);
                numbers[row * TAKEN + round] = before;
            }
        }
    }
}
