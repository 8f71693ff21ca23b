// Layer norm: x is [rows, n]; a block for each row. Sums are in the type of arithmetic, whatever that of the elements.
typedef typename arithmetic<X>::type A;

FN A root(A v) { return (A)1 / sqrt_of(v); }
// a row's mean, and 1 / deviation, for all threads of its block
FN void statistics(const X* from, i32 n, A eps, A* shared, A& mean, A& scale) {
    A sum = 0;
    for (i32 k = threadIdx.x; k < n; k += blockDim.x) sum += (A)get(from[k]);
    mean = block_sum(sum, shared) / (A)n;
    A square = 0;
    for (i32 k = threadIdx.x; k < n; k += blockDim.x) { const A off = (A)get(from[k]) - mean; square += off * off; }
    scale = root(block_sum(square, shared) / (A)n + eps);
}

KERNEL layer(index rows, i32 n, const X* x, const W* gamma, const W* beta, X* y, A eps) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index row = blockIdx.x; row < rows; row += gridDim.x) {
        const X* from = x + row * n;
        A mean, scale;
        statistics(from, n, eps, shared, mean, scale);
        for (i32 k = threadIdx.x; k < n; k += blockDim.x)
            put(y[row * n + k], ((A)get(from[k]) - mean) * scale * (A)get(gamma[k]) + (A)get(beta[k]));
    }
}
// dx, and each row's mean and scale for the gradients of the vectors
KERNEL layer_grad(index rows, i32 n, const X* g, const X* x, const W* gamma, X* dx, A* stats, A eps) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    for (index row = blockIdx.x; row < rows; row += gridDim.x) {
        const X *from = x + row * n, *grad = g + row * n;
        A mean, scale;
        statistics(from, n, eps, shared, mean, scale);
        A one = 0, two = 0;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) {
            const A scaled = (A)get(grad[k]) * (A)get(gamma[k]);
            one += scaled;
            two += scaled * ((A)get(from[k]) - mean) * scale;
        }
        one = block_sum(one, shared) / (A)n;
        two = block_sum(two, shared) / (A)n;
        for (i32 k = threadIdx.x; k < n; k += blockDim.x) {
            const A normal = ((A)get(from[k]) - mean) * scale;
            put(dx[row * n + k], scale * ((A)get(grad[k]) * (A)get(gamma[k]) - one - normal * two));
        }
        if (threadIdx.x == 0) { stats[row] = mean; stats[rows + row] = scale; }
    }
}
