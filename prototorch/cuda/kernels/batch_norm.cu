// Batch norm. x lies as [outer, C, INNER]; statistics of each channel are partial ones of chunks (count, mean, sum of squares
// around it), taken together afterwards, so that large means do no harm. What each channel needs in the sweep that follows is
// made once, by the launch that takes them together.
typedef typename arithmetic<X>::type A;
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
typedef pack<X, PACK> XS;

FN A root(A v) { return (A)1 / sqrt_of(v); }
#ifdef ACTIVATION_MASK
// a gradient masked by the derivative of the activation that followed; y is its input
FN A masked_gradient(A g, A y) { return ACTIVATION_MASK ? g : (A)0; }
#endif

// partial statistics of each channel: part[0] means, part[1] squares; neighbouring threads have neighbouring channels (INNER = 1)
KERNEL stats_last(index rows, index chunks, index chunk, const X* x, A* part) {
    __shared__ A exchange[(2 * PACK + 1) * EXCHANGE];
    const column_tile t = column_tile_of_thread();
    for (index i = blockIdx.x; i < chunks * t.tiles; i += gridDim.x) {
        const index c = (i % t.tiles * t.vectors + t.lane) * PACK, k = i / t.tiles, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A mean[PACK], square[PACK], count = 0;
        for (int j = 0; j < PACK; j++) { mean[j] = 0; square[j] = 0; }
        if (t.group < t.groups && c < C)
            for (index r = begin + t.group; r < end; r += t.groups * ROWS_AHEAD) {
                XS seen[ROWS_AHEAD];
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD; u++)
                    if (r + u * t.groups < end) seen[u] = *(const XS*)(x + (r + u * t.groups) * C + c);
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD; u++) if (r + u * t.groups < end) {
                    count += 1;
                    const A by = (A)1 / count;
                    for (int j = 0; j < PACK; j++) {
                        const A v = get(seen[u].v[j]), off = v - mean[j];
                        mean[j] += off * by;
                        square[j] += off * (v - mean[j]);
                    }
                }
            }
        combine_moments(mean, square, count, exchange, t);
        if (t.group == 0 && c < C)
            for (int j = 0; j < PACK; j++) { part[k * C + c + j] = mean[j]; part[(chunks + k) * C + c + j] = square[j]; }
    }
}

// the same where a channel's elements lie in runs of INNER: a block for a chunk of a channel
KERNEL stats_first(index rows, index chunks, index chunk, const X* x, A* part) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index i = blockIdx.x; i < chunks * C; i += gridDim.x) {
        const index c = i % C, k = i / C, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A sum = 0;
        for (index r = begin + threadIdx.x; r < end; r += blockDim.x) sum += (A)get(x[(r / INNER * C + c) * INNER + r % INNER]);
        const A mean = block_sum(sum, shared) / (A)(end - begin);
        A square = 0;
        for (index r = begin + threadIdx.x; r < end; r += blockDim.x) {
            const A off = (A)get(x[(r / INNER * C + c) * INNER + r % INNER]) - mean;
            square += off * off;
        }
        square = block_sum(square, shared);
        if (threadIdx.x == 0) { part[k * C + c] = mean; part[(chunks + k) * C + c] = square; }
    }
}

// a block for each channel
KERNEL stats_end(index rows, index chunks, index chunk, const A* part, M* mean_out, M* var_out, const W* gamma, A eps,
                 A* mean_to, A* scale_to) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index c = blockIdx.x; c < C; c += gridDim.x) {
        A sum = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) {
            const index count = (k + 1) * chunk < rows ? chunk : rows - k * chunk;
            sum += part[k * C + c] * (A)count;
        }
        const A mean = block_sum(sum, shared) / (A)rows;
        A square = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) {
            const index count = (k + 1) * chunk < rows ? chunk : rows - k * chunk;
            const A off = part[k * C + c] - mean;
            square += part[(chunks + k) * C + c] + off * off * (A)count;
        }
        const A var = block_sum(square, shared) / (A)rows;
        if (threadIdx.x == 0) { put(mean_out[c], mean); put(var_out[c], var); mean_to[c] = mean; scale_to[c] = root(var + eps) * (A)get(gamma[c]); }
    }
}

#ifdef ACTIVATION_MASK
#define GIVEN const W* gamma, const W* beta,
#else
#define GIVEN
#endif
// partial sums of g and of g times x without its mean
KERNEL grads_last(index rows, index chunks, index chunk, const X* g, const X* x, const V* mean, const V* var, GIVEN A eps, A* part) {
    __shared__ A exchange[2 * PACK * EXCHANGE];
    const column_tile t = column_tile_of_thread();
    for (index i = blockIdx.x; i < chunks * t.tiles; i += gridDim.x) {
        const index c = (i % t.tiles * t.vectors + t.lane) * PACK, k = i / t.tiles, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A sums[2 * PACK];
        for (int j = 0; j < 2 * PACK; j++) sums[j] = 0;
        if (t.group < t.groups && c < C) {
            A middle[PACK];
            for (int j = 0; j < PACK; j++) middle[j] = get(mean[c + j]);
#ifdef ACTIVATION_MASK
            A scale[PACK], shift[PACK];
            for (int j = 0; j < PACK; j++) {
                scale[j] = root((A)get(var[c + j]) + eps) * (A)get(gamma[c + j]);
                shift[j] = get(beta[c + j]);
            }
#endif
            for (index r = begin + t.group; r < end; r += t.groups * ROWS_AHEAD_OF_SEVERAL) {
                XS gs[ROWS_AHEAD_OF_SEVERAL], xs[ROWS_AHEAD_OF_SEVERAL];
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD_OF_SEVERAL; u++) if (r + u * t.groups < end) {
                    gs[u] = *(const XS*)(g + (r + u * t.groups) * C + c);
                    xs[u] = *(const XS*)(x + (r + u * t.groups) * C + c);
                }
#pragma unroll
                for (int u = 0; u < ROWS_AHEAD_OF_SEVERAL; u++) if (r + u * t.groups < end)
                    for (int j = 0; j < PACK; j++) {
                        const A off = (A)get(xs[u].v[j]) - middle[j];
#ifdef ACTIVATION_MASK
                        const A v = masked_gradient(get(gs[u].v[j]), off * scale[j] + shift[j]);
#else
                        const A v = get(gs[u].v[j]);
#endif
                        sums[j] += v;
                        sums[PACK + j] += v * off;
                    }
            }
        }
        sum_groups(sums, exchange, t);
        if (t.group == 0 && c < C)
            for (int j = 0; j < PACK; j++) { part[k * C + c + j] = sums[j]; part[(chunks + k) * C + c + j] = sums[PACK + j]; }
    }
}
KERNEL grads_first(index rows, index chunks, index chunk, const X* g, const X* x, const V* mean, const V* var, GIVEN A eps, A* part) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index i = blockIdx.x; i < chunks * C; i += gridDim.x) {
        const index c = i % C, k = i / C, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        const A middle = get(mean[c]);
#ifdef ACTIVATION_MASK
        const A scale = root((A)get(var[c]) + eps) * (A)get(gamma[c]), shift = get(beta[c]);
#endif
        A sum = 0, both = 0;
        for (index r = begin + threadIdx.x; r < end; r += blockDim.x) {
            const index at = (r / INNER * C + c) * INNER + r % INNER;
            const A off = (A)get(x[at]) - middle;
#ifdef ACTIVATION_MASK
            const A v = masked_gradient(get(g[at]), off * scale + shift);
#else
            const A v = get(g[at]);
#endif
            sum += v;
            both += v * off;
        }
        sum = block_sum(sum, shared);
        both = block_sum(both, shared);
        if (threadIdx.x == 0) { part[k * C + c] = sum; part[(chunks + k) * C + c] = both; }
    }
}
// the gradients of the vectors, and what dx = a (g - b - (x - mean) d) needs of each channel: a, b, d, mean. A gradient may
// lie over the mean or the variance, which nobody reads afterwards.
KERNEL grads_end(index chunks, const A* part, const W* gamma, const V* mean, const V* var, W* dgamma, W* dbeta, A* own,
                 A eps, A by) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index c = blockIdx.x; c < C; c += gridDim.x) {
        A sum = 0, both = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) { sum += part[k * C + c]; both += part[(chunks + k) * C + c]; }
        sum = block_sum(sum, shared);
        both = block_sum(both, shared);
        if (threadIdx.x == 0) {
            const A scale = root((A)get(var[c]) + eps);
            own[c] = scale * (A)get(gamma[c]);
            own[C + c] = sum * by;
            own[2 * C + c] = both * scale * scale * by;
            own[3 * C + c] = get(mean[c]);
            put(dbeta[c], sum);
            put(dgamma[c], both * scale);
        }
    }
}
