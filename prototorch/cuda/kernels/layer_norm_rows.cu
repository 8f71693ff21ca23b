// Layer norm with a warp, or a part of one, for a row (row_per_warp.cuh). The row is read once.
FN A root(A v) { return (A)1 / sqrt_of(v); }
#define WEIGHTS_AT_ONCE (VEC < 16 / (int)sizeof(W) ? VEC : 16 / (int)sizeof(W))
// this thread's elements of gamma or beta
FN void read_weights(const W* from, A (&v)[VALUES]) {
#pragma unroll
    for (int k = 0; k < EACH_VECTORS; k++) if (BEGIN_OF(k) < N)
#pragma unroll
        for (int j = 0; j < VEC; j += WEIGHTS_AT_ONCE) {
            const pack<W, WEIGHTS_AT_ONCE> seen = *(const pack<W, WEIGHTS_AT_ONCE>*)(from + BEGIN_OF(k) + j);
#pragma unroll
            for (int i = 0; i < WEIGHTS_AT_ONCE; i++) v[k * VEC + j + i] = get(seen.v[i]);
        }
}
FN void statistics(const A (&v)[VALUES], A eps, A* of_warps, A& mean, A& scale) {
    A sum = 0;
#pragma unroll
    for (int j = 0; j < VALUES; j++) sum += v[j];
    mean = row_sum(sum, of_warps) / (A)N;
    A square = 0;
#pragma unroll
    for (int k = 0; k < EACH_VECTORS; k++) if (BEGIN_OF(k) < N)
#pragma unroll
        for (int j = 0; j < VEC; j++) { const A off = v[k * VEC + j] - mean; square += off * off; }
    scale = root(row_sum(square, of_warps) / (A)N + eps);
}

KERNEL layer_rows(index rows, const X* x, const W* gamma, const W* beta, X* y, A eps) {
    __shared__ A of_warps[32];
    A factor[VALUES], shift[VALUES];
    if (VALUES <= 8) { read_weights(gamma, factor); read_weights(beta, shift); }
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES], mean, scale;
        read_row(x + row * N, here, v, 0);
        statistics(v, eps, of_warps, mean, scale);
        if (VALUES > 8) { read_weights(gamma, factor); read_weights(beta, shift); }
#pragma unroll
        for (int j = 0; j < VALUES; j++) v[j] = (v[j] - mean) * scale * factor[j] + shift[j];
        write_row(y + row * N, here, v);
    }
}

// dx, and each row's mean and scale for the gradients of the vectors
KERNEL layer_rows_grad(index rows, const X* g, const X* x, const W* gamma, X* dx, A* stats, A eps) {
    __shared__ A of_warps[32];
    A factor[VALUES];
    for (int j = 0; j < VALUES; j++) factor[j] = 0;
    if (VALUES <= 8) read_weights(gamma, factor);
    EACH_ROW_OF_BLOCK(row, here) {
        A v[VALUES], gradient[VALUES], mean, scale;
        read_row(x + row * N, here, v, 0);
        read_row(g + row * N, here, gradient, 0);
        statistics(v, eps, of_warps, mean, scale);
        if (VALUES > 8) read_weights(gamma, factor);
        A one = 0, two = 0;
#pragma unroll
        for (int j = 0; j < VALUES; j++) {
            gradient[j] *= factor[j];
            v[j] = (v[j] - mean) * scale;
            one += gradient[j];
            two += gradient[j] * v[j];
        }
        one = row_sum(one, of_warps) / (A)N;
        two = row_sum(two, of_warps) / (A)N;
#pragma unroll
        for (int j = 0; j < VALUES; j++) v[j] = scale * (gradient[j] - one - v[j] * two);
        write_row(dx + row * N, here, v);
        if (here && threadIdx.x % ROW_THREADS == 0) { stats[row] = mean; stats[rows + row] = scale; }
    }
}
