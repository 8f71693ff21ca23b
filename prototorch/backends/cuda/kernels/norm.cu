// Normalisation. Batch norm: x lies as [outer, C, INNER]; statistics of each channel are partial ones of chunks (count,
// mean, sum of squares around it), taken together afterwards, so that large means do no harm.
typedef typename arithmetic<X>::type A;
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
typedef pack<X, PACK> XS;

FN A root(A v) { return (A)1 / sqrt_of(v); }

// partial statistics of each channel: part[0] means, part[1] squares; neighbouring threads have neighbouring channels (INNER = 1)
KERNEL stats_last(index rows, index chunks, index chunk, const X* x, A* part) {
    EACH(i, chunks * (C / PACK)) {
        const index c = i % (C / PACK) * PACK, k = i / (C / PACK), begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A mean[PACK], square[PACK];
        for (int j = 0; j < PACK; j++) { mean[j] = 0; square[j] = 0; }
#pragma unroll 4
        for (index r = begin; r < end; r++) {
            const XS seen = *(const XS*)(x + r * C + c);
            const A by = (A)1 / (A)(r - begin + 1);
            for (int j = 0; j < PACK; j++) {
                const A v = get(seen.v[j]), off = v - mean[j];
                mean[j] += off * by;
                square[j] += off * (v - mean[j]);
            }
        }
        for (int j = 0; j < PACK; j++) { part[k * C + c + j] = mean[j]; part[(chunks + k) * C + c + j] = square[j]; }
    }
}

// the same where a channel's elements lie in runs of INNER: a block for a chunk of a channel
KERNEL stats_first(index rows, index chunks, index chunk, const X* x, A* part) {
    __shared__ A room[MEET];
    for (index i = blockIdx.x; i < chunks * C; i += gridDim.x) {
        const index c = i % C, k = i / C, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A sum = 0;
        for (index r = begin + threadIdx.x; r < end; r += blockDim.x) sum += (A)get(x[(r / INNER * C + c) * INNER + r % INNER]);
        const A mean = met_sum(sum, room) / (A)(end - begin);
        A square = 0;
        for (index r = begin + threadIdx.x; r < end; r += blockDim.x) {
            const A off = (A)get(x[(r / INNER * C + c) * INNER + r % INNER]) - mean;
            square += off * off;
        }
        square = met_sum(square, room);
        if (threadIdx.x == 0) { part[k * C + c] = mean; part[(chunks + k) * C + c] = square; }
    }
}

// a block for each channel
KERNEL stats_end(index rows, index chunks, index chunk, const A* part, M* mean_out, M* var_out, A* mean_to, A* var_to) {
    __shared__ A room[MEET];
    for (index c = blockIdx.x; c < C; c += gridDim.x) {
        A sum = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) {
            const index count = (k + 1) * chunk < rows ? chunk : rows - k * chunk;
            sum += part[k * C + c] * (A)count;
        }
        const A mean = met_sum(sum, room) / (A)rows;
        A square = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) {
            const index count = (k + 1) * chunk < rows ? chunk : rows - k * chunk;
            const A off = part[k * C + c] - mean;
            square += part[(chunks + k) * C + c] + off * off * (A)count;
        }
        const A var = met_sum(square, room) / (A)rows;
        if (threadIdx.x == 0) { put(mean_out[c], mean); put(var_out[c], var); mean_to[c] = mean; var_to[c] = var; }
    }
}

KERNEL normalise(index n, const X* x, const W* gamma, const W* beta, const V* mean, const V* var, X* y, A eps) {
    EACH(i, n) {
        const index at = i * PACK;
        const XS seen = *(const XS*)(x + at);
        XS out;
        for (int j = 0; j < PACK; j++) {
            const index c = (at + j) / INNER % C;
            put(out.v[j], ((A)get(seen.v[j]) - (A)get(mean[c])) * (root((A)get(var[c]) + eps) * (A)get(gamma[c])) + (A)get(beta[c]));
        }
        *(XS*)(y + at) = out;
    }
}

// partial sums of g and of g times the normalised x
KERNEL grads_last(index rows, index chunks, index chunk, const X* g, const X* x, const V* mean, const V* var, A eps, A* part) {
    EACH(i, chunks * (C / PACK)) {
        const index c = i % (C / PACK) * PACK, k = i / (C / PACK), begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        A sum[PACK], both[PACK], middle[PACK];
        for (int j = 0; j < PACK; j++) { sum[j] = 0; both[j] = 0; middle[j] = get(mean[c + j]); }
#pragma unroll 4
        for (index r = begin; r < end; r++) {
            const XS gs = *(const XS*)(g + r * C + c), xs = *(const XS*)(x + r * C + c);
            for (int j = 0; j < PACK; j++) {
                const A v = get(gs.v[j]);
                sum[j] += v;
                both[j] += v * ((A)get(xs.v[j]) - middle[j]);
            }
        }
        for (int j = 0; j < PACK; j++) {
            part[k * C + c + j] = sum[j];
            part[(chunks + k) * C + c + j] = both[j] * root((A)get(var[c + j]) + eps);
        }
    }
}
KERNEL grads_first(index rows, index chunks, index chunk, const X* g, const X* x, const V* mean, const V* var, A eps, A* part) {
    __shared__ A room[MEET];
    for (index i = blockIdx.x; i < chunks * C; i += gridDim.x) {
        const index c = i % C, k = i / C, begin = k * chunk;
        const index end = begin + chunk < rows ? begin + chunk : rows;
        const A middle = get(mean[c]);
        A sum = 0, both = 0;
        for (index r = begin + threadIdx.x; r < end; r += blockDim.x) {
            const index at = (r / INNER * C + c) * INNER + r % INNER;
            const A v = get(g[at]);
            sum += v;
            both += v * ((A)get(x[at]) - middle);
        }
        sum = met_sum(sum, room);
        both = met_sum(both, room);
        if (threadIdx.x == 0) { part[k * C + c] = sum; part[(chunks + k) * C + c] = both * root((A)get(var[c]) + eps); }
    }
}
KERNEL grads_end(index chunks, const A* part, W* dgamma, W* dbeta, A* sums) {
    __shared__ A room[MEET];
    for (index c = blockIdx.x; c < C; c += gridDim.x) {
        A sum = 0, both = 0;
        for (index k = threadIdx.x; k < chunks; k += blockDim.x) { sum += part[k * C + c]; both += part[(chunks + k) * C + c]; }
        sum = met_sum(sum, room);
        both = met_sum(both, room);
        if (threadIdx.x == 0) { put(dbeta[c], sum); put(dgamma[c], both); sums[c] = sum; sums[C + c] = both; }
    }
}
KERNEL grads_apply(index n, const X* g, const X* x, const W* gamma, const V* mean, const V* var, const A* sums, X* dx, A eps, A by) {
    EACH(i, n) {
        const index at = i * PACK;
        const XS gs = *(const XS*)(g + at), xs = *(const XS*)(x + at);
        XS out;
        for (int j = 0; j < PACK; j++) {
            const index c = (at + j) / INNER % C;
            const A scale = root((A)get(var[c]) + eps), normal = ((A)get(xs.v[j]) - (A)get(mean[c])) * scale;
            put(out.v[j], scale * (A)get(gamma[c]) * ((A)get(gs.v[j]) - sums[c] * by - normal * (sums[C + c] * by)));
        }
        *(XS*)(dx + at) = out;
    }
}

// Layer norm: x lies as [rows, n]; a block for each row.
KERNEL layer(index rows, i32 n, const X* x, const W* gamma, const W* beta, X* y, A eps) {
    __shared__ A room[MEET];
    for (index row = blockIdx.x; row < rows; row += gridDim.x) {
        const X* from = x + row * n;
        A sum = 0;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) sum += (A)get(from[k]);
        const A mean = met_sum(sum, room) / (A)n;
        A square = 0;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) { const A off = (A)get(from[k]) - mean; square += off * off; }
        const A scale = root(met_sum(square, room) / (A)n + eps);
        for (i32 k = threadIdx.x; k < n; k += blockDim.x)
            put(y[row * n + k], ((A)get(from[k]) - mean) * scale * (A)get(gamma[k]) + (A)get(beta[k]));
    }
}
// dx, and each row's mean and scale for the gradients of the vectors
KERNEL layer_grad(index rows, i32 n, const X* g, const X* x, const W* gamma, X* dx, A* stats, A eps) {
    __shared__ A room[MEET];
    for (index row = blockIdx.x; row < rows; row += gridDim.x) {
        const X *from = x + row * n, *grad = g + row * n;
        A sum = 0;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) sum += (A)get(from[k]);
        const A mean = met_sum(sum, room) / (A)n;
        A square = 0;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) { const A off = (A)get(from[k]) - mean; square += off * off; }
        const A scale = root(met_sum(square, room) / (A)n + eps);
        A one = 0, two = 0;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) {
            const A scaled = (A)get(grad[k]) * (A)get(gamma[k]);
            one += scaled;
            two += scaled * ((A)get(from[k]) - mean) * scale;
        }
        one = met_sum(one, room) / (A)n;
        two = met_sum(two, room) / (A)n;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) {
            const A normal = ((A)get(from[k]) - mean) * scale;
            put(dx[row * n + k], scale * ((A)get(grad[k]) * (A)get(gamma[k]) - one - normal * two));
        }
        if (threadIdx.x == 0) { stats[row] = mean; stats[rows + row] = scale; }
    }
}
KERNEL layer_vectors(index rows, i32 n, index chunks, index chunk, const X* g, const X* x, const A* stats, A* part) {
    EACH(i, chunks * n) {
        const index c = i % n, k = i / n, begin = k * chunk, end = begin + chunk < rows ? begin + chunk : rows;
        A sum = 0, both = 0;
        for (index r = begin; r < end; r++) {
            const A v = get(g[r * n + c]);
            sum += v;
            both += v * ((A)get(x[r * n + c]) - stats[r]) * stats[rows + r];
        }
        part[k * n + c] = sum;
        part[(chunks + k) * n + c] = both;
    }
}
KERNEL layer_end(index n, index chunks, const A* part, W* dgamma, W* dbeta) {
    EACH(c, n) {
        A sum = 0, both = 0;
        for (index k = 0; k < chunks; k++) { sum += part[k * n + c]; both += part[(chunks + k) * n + c]; }
        put(dgamma[c], both);
        put(dbeta[c], sum);
    }
}
