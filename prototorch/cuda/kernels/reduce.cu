// Reductions. An output is an index of the kept axes (K* sizes, k* strides in the input), a reduced element an index of
// the reduced axes (R*, r*). Long reductions are split into chunks, whose partial results a second launch combines: the
// same split whatever the order of blocks, so that the bits are always the same.
typedef typename arithmetic<X>::type A;

FN A joined(A a, A b) { return JOIN; }

FN index kept_at(index o) {
    index at = 0;
#if KEPT > 2
    at += o % K2 * k2; o /= K2;
#endif
#if KEPT > 1
    at += o % K1 * k1; o /= K1;
#endif
    return at + o * k0;
}
FN index reduced_at(index r) {
    index at = 0;
#if REDUCED > 2
    at += r % R2 * r2; r /= R2;
#endif
#if REDUCED > 1
    at += r % R1 * r1; r /= R1;
#endif
    return at + r * r0;
}

// neighbouring threads have neighbouring outputs
KERNEL columns(index outputs, index n, index chunks, index chunk, const X* x, Y* y) {
    EACH(i, outputs * chunks) {
        const index o = i % outputs, begin = i / outputs * chunk;
        const index end = begin + chunk < n ? begin + chunk : n;
        const X* from = x + kept_at(o);
        A total = START;
#pragma unroll 4
        for (index r = begin; r < end; r++) total = joined(total, (A)get(from[reduced_at(r)]));
        put(y[i], END);
    }
}

// neighbouring threads have neighbouring elements of one output
KERNEL rows(index outputs, index n, index chunks, index chunk, const X* x, Y* y) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index i = blockIdx.x; i < outputs * chunks; i += gridDim.x) {
        const index o = i % outputs, begin = i / outputs * chunk;
        const index end = begin + chunk < n ? begin + chunk : n;
        const X* from = x + kept_at(o);
        A total = START;
#pragma unroll 4
        for (index r = begin + threadIdx.x; r < end; r += blockDim.x) total = joined(total, (A)get(from[reduced_at(r)]));
        __syncthreads();
        shared[threadIdx.x] = total;
        for (u32 half = blockDim.x / 2; half; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) shared[threadIdx.x] = joined(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
        total = shared[0];
        if (threadIdx.x == 0) put(y[i], END);
    }
}
