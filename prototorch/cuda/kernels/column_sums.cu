// Sums of the columns of a matrix [rows, C], by tiles of columns and chunks of rows (column_tiles.cuh).
typedef typename arithmetic<X>::type A;
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
typedef pack<X, PACK> XS;

KERNEL column_sums(index rows, index chunks, index chunk, const X* x, A* part) {
    __shared__ A exchange[PACK * EXCHANGE];
    const column_tile t = column_tile_of_thread();
    for (index i = blockIdx.x; i < chunks * t.tiles; i += gridDim.x) {
        const index c = (i % t.tiles * t.vectors + t.lane) * PACK, k = i / t.tiles, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A total[PACK];
        for (int j = 0; j < PACK; j++) total[j] = 0;
        if (t.group < t.groups && c < C)
            for (index r = begin + t.group; r < end; r += t.groups * ROWS_AHEAD) {
                XS seen[ROWS_AHEAD];
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD; u++)
                    if (r + u * t.groups < end) seen[u] = *(const XS*)(x + (r + u * t.groups) * C + c);
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD; u++) if (r + u * t.groups < end)
                    for (int j = 0; j < PACK; j++) total[j] += (A)get(seen[u].v[j]);
            }
        sum_groups(total, exchange, t);
        if (t.group == 0 && c < C) for (int j = 0; j < PACK; j++) part[k * C + c + j] = total[j];
    }
}
// a block for each column
KERNEL column_sums_end(index chunks, const A* part, Y* y) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index c = blockIdx.x; c < C; c += gridDim.x) {
        A total = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) total += part[k * C + c];
        total = block_sum(total, shared);
        if (threadIdx.x == 0) put(y[c], END);
    }
}
