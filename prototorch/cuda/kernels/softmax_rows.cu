// Softmax and its losses with a warp, or a part of one, for a row (row_per_warp.cuh): a row is read once, and each exponential computed
// once.
FN float exp_of(float v) { return expf(v); }
FN double exp_of(double v) { return exp(v); }
FN float log_of(float v) { return logf(v); }
FN double log_of(double v) { return log(v); }
FN A largest_of(const A (&v)[VALUES], A* of_warps) {
    A top = -INF;
#pragma unroll
    for (int j = 0; j < VALUES; j++) top = max_nan(top, v[j]);
    return row_max(top, of_warps);
}
// v becomes exp(v - top), which is 0 where the row has no element; their sum
FN A exponentials(A (&v)[VALUES], A top, A* of_warps) {
    A total = 0;
#pragma unroll
    for (int k = 0; k < EACH_VECTORS; k++) if (BEGIN_OF(k) < N)
#pragma unroll
        for (int j = 0; j < VEC; j++) { v[k * VEC + j] = exp_of(v[k * VEC + j] - top); total += v[k * VEC + j]; }
    return row_sum(total, of_warps);
}

KERNEL softmax_rows(index rows, const X* x, X* y) {
    __shared__ A of_warps[32];
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES];
        read_row(x + row * N, here, v, -INF);
        const A top = largest_of(v, of_warps), total = exponentials(v, top, of_warps);
#pragma unroll
        for (int j = 0; j < VALUES; j++) v[j] /= total;
        write_row(y + row * N, here, v);
    }
}

KERNEL log_softmax_rows(index rows, const X* x, X* y) {
    __shared__ A of_warps[32];
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES], shifted[VALUES];
        read_row(x + row * N, here, v, -INF);
        const A top = largest_of(v, of_warps);
#pragma unroll
        for (int j = 0; j < VALUES; j++) shifted[j] = v[j] - top;
        const A total = log_of(exponentials(v, top, of_warps));
#pragma unroll
        for (int j = 0; j < VALUES; j++) shifted[j] -= total;
        write_row(y + row * N, here, shifted);
    }
}

KERNEL softmax_rows_grad(index rows, const X* g, const X* y, X* dx) {
    __shared__ A of_warps[32];
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES], gradient[VALUES], both = 0;
        read_row(y + row * N, here, v, 0);
        read_row(g + row * N, here, gradient, 0);
#pragma unroll
        for (int j = 0; j < VALUES; j++) both += gradient[j] * v[j];
        both = row_sum(both, of_warps);
#pragma unroll
        for (int j = 0; j < VALUES; j++) v[j] *= gradient[j] - both;
        write_row(dx + row * N, here, v);
    }
}

// scores to weights, in place: see ``attend`` in softmax.cu
KERNEL attend_rows(index rows, const X* x, X* y, A scale, i32 queries, i32 heads, i32 causal, const bool* mask, i64 m0, i64 m1, i64 m2,
                   i64 m3) {
    __shared__ A of_warps[32];
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES];
        read_row(x + row * N, here, v, 0);
        const i32 query = row % queries, last = causal ? query + N - queries : N;
        const bool* seen = mask ? mask + row / queries / heads * m0 + row / queries % heads * m1 + query * m2 : mask;
#pragma unroll
        for (int k = 0; k < EACH_VECTORS; k++)
#pragma unroll
            for (int j = 0; j < VEC; j++) {
                const i32 key = BEGIN_OF(k) + j;
                A& score = v[k * VEC + j];
                if (!here || key >= N) score = -INF;
                else score = key <= last && (!mask || seen[key * m3]) ? score * scale : (A)-1e9f;
            }
        const A top = largest_of(v, of_warps), total = exponentials(v, top, of_warps);
#pragma unroll
        for (int j = 0; j < VALUES; j++) v[j] /= total;
        write_row(y + row * N, here, v);
    }
}

KERNEL sparse_softmax_cross_entropy_rows(index rows, const X* x, const L* labels, X* loss) {
    __shared__ A of_warps[32];
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES];
        read_row(x + row * N, here, v, -INF);
        const A top = largest_of(v, of_warps), total = log_of(exponentials(v, top, of_warps));
        if (here && threadIdx.x % ROW_THREADS == 0) {
            const i64 label = labels[row];
            if (label >= 0 && label < N) put(loss[row], -((A)get(x[row * N + label]) - top - total));
            else put(loss[row], (A)NOT_A_NUMBER);
        }
    }
}

KERNEL sparse_softmax_cross_entropy_rows_grad(index rows, const X* g, const X* x, const L* labels, X* dx) {
    __shared__ A of_warps[32];
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES];
        read_row(x + row * N, here, v, -INF);
        const A top = largest_of(v, of_warps), total = exponentials(v, top, of_warps);
        const A by = here ? (A)get(g[row]) : (A)0;
        const i64 label = here ? (i64)labels[row] : -1;
#pragma unroll
        for (int k = 0; k < EACH_VECTORS; k++)
#pragma unroll
            for (int j = 0; j < VEC; j++)
                v[k * VEC + j] = (v[k * VEC + j] / total - (BEGIN_OF(k) + j == label ? (A)1 : (A)0)) * by;
        write_row(dx + row * N, here, v);
    }
}
