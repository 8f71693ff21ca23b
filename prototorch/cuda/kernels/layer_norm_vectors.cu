// The gradients of layer norm's gamma and beta: sums over rows of g (x - mean) scale and of g, by tiles of columns and chunks of rows.
typedef typename arithmetic<X>::type A;
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
typedef pack<X, PACK> XS;

KERNEL layer_vectors(index rows, index chunks, index chunk, const X* g, const X* x, const A* stats, A* part) {
    __shared__ A exchange[2 * PACK * EXCHANGE];
    const column_tile t = column_tile_of_thread();
    for (index i = blockIdx.x; i < chunks * t.tiles; i += gridDim.x) {
        const index c = (i % t.tiles * t.vectors + t.lane) * PACK, k = i / t.tiles, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A sums[2 * PACK];
        for (int j = 0; j < 2 * PACK; j++) sums[j] = 0;
        if (t.group < t.groups && c < C)
            for (index r = begin + t.group; r < end; r += t.groups * ROWS_AHEAD_OF_SEVERAL) {
                XS gs[ROWS_AHEAD_OF_SEVERAL], xs[ROWS_AHEAD_OF_SEVERAL];
                A mean[ROWS_AHEAD_OF_SEVERAL], scale[ROWS_AHEAD_OF_SEVERAL];
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD_OF_SEVERAL; u++) if (r + u * t.groups < end) {
                    const index row = r + u * t.groups;
                    gs[u] = *(const XS*)(g + row * C + c);
                    xs[u] = *(const XS*)(x + row * C + c);
                    mean[u] = stats[row];
                    scale[u] = stats[rows + row];
                }
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD_OF_SEVERAL; u++) if (r + u * t.groups < end)
                    for (int j = 0; j < PACK; j++) {
                        const A v = get(gs[u].v[j]);
                        sums[j] += v;
                        sums[PACK + j] += v * ((A)get(xs[u].v[j]) - mean[u]) * scale[u];
                    }
            }
        sum_groups(sums, exchange, t);
        if (t.group == 0 && c < C)
            for (int j = 0; j < PACK; j++) { part[k * C + c + j] = sums[j]; part[(chunks + k) * C + c + j] = sums[PACK + j]; }
    }
}
// a block for each column
KERNEL layer_end(index chunks, const A* part, W* dgamma, W* dbeta) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index c = blockIdx.x; c < C; c += gridDim.x) {
        A sum = 0, both = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) { sum += part[k * C + c]; both += part[(chunks + k) * C + c]; }
        sum = block_sum(sum, shared);
        both = block_sum(both, shared);
        if (threadIdx.x == 0) { put(dgamma[c], both); put(dbeta[c], sum); }
    }
}
