// Softmax and its losses along an axis of n: one block for each row. The stride between elements of a row is INNER.
typedef typename arithmetic<X>::type A;
#define EACH_ROW(row) for (index row = blockIdx.x; row < rows; row += gridDim.x)
#define EACH_K(k) for (i32 k = threadIdx.x; k < n; k += blockDim.x)

FN float exp_of(float v) { return expf(v); }
FN double exp_of(double v) { return exp(v); }
FN float log_of(float v) { return logf(v); }
FN double log_of(double v) { return log(v); }
FN index first_of(index row, i32 n) { return row / INNER * INNER * n + row % INNER; }

FN A top_of(const X* x, i32 n, A* shared) {
    A top = -INF;
    EACH_K(k) top = max_nan(top, (A)get(x[(index)k * INNER]));
    return block_max(top, shared);
}
FN A total_of(const X* x, i32 n, A top, A* shared) {
    A total = 0;
    EACH_K(k) total += exp_of((A)get(x[(index)k * INNER]) - top);
    return block_sum(total, shared);
}

KERNEL softmax(index rows, i32 n, const X* x, X* y) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    EACH_ROW(row) {
        const index at = first_of(row, n);
        const A top = top_of(x + at, n, shared), total = total_of(x + at, n, top, shared);
        EACH_K(k) put(y[at + (index)k * INNER], exp_of((A)get(x[at + (index)k * INNER]) - top) / total);
    }
}

KERNEL log_softmax(index rows, i32 n, const X* x, X* y) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    EACH_ROW(row) {
        const index at = first_of(row, n);
        const A top = top_of(x + at, n, shared), total = log_of(total_of(x + at, n, top, shared));
        EACH_K(k) put(y[at + (index)k * INNER], (A)get(x[at + (index)k * INNER]) - top - total);
    }
}

KERNEL softmax_grad(index rows, i32 n, const X* g, const X* y, X* dx) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    EACH_ROW(row) {
        const index at = first_of(row, n);
        A both = 0;
        EACH_K(k) both += (A)get(g[at + (index)k * INNER]) * (A)get(y[at + (index)k * INNER]);
        both = block_sum(both, shared);
        EACH_K(k) put(dx[at + (index)k * INNER], ((A)get(g[at + (index)k * INNER]) - both) * (A)get(y[at + (index)k * INNER]));
    }
}

// scores to weights, in place: y = softmax(x * scale), where the score of a masked key is very small
// row = (batch, head, query): MASK* are the mask's strides along batch, head, query and key
KERNEL attend(index rows, i32 n, const X* x, X* y, A scale, i32 queries, i32 heads,
              i32 causal, const bool* mask, i64 m0, i64 m1, i64 m2, i64 m3) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    EACH_ROW(row) {
        const X* from = x + row * n;
        const i32 query = row % queries;
        const i32 last = causal ? query + n - queries : n;
        const bool* seen = mask ? mask + row / queries / heads * m0 + row / queries % heads * m1 + query * m2 : mask;
        A top = -INF;
#define SCORE(k) (k <= last && (!mask || seen[k * m3]) ? (A)get(from[k]) * scale : (A)-1e9f)
        EACH_K(k) top = max_nan(top, SCORE(k));
        top = block_max(top, shared);
        A total = 0;
        EACH_K(k) total += exp_of(SCORE(k) - top);
        total = block_sum(total, shared);
        EACH_K(k) put(y[row * n + k], exp_of(SCORE(k) - top) / total);
    }
}

KERNEL sparse_softmax_cross_entropy(index rows, i32 n, const X* x, const L* labels, X* loss) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    EACH_ROW(row) {
        const X* from = x + row * n;
        const A top = top_of(from, n, shared), total = log_of(total_of(from, n, top, shared));
        const i64 label = labels[row];
        if (threadIdx.x == 0) {
            if (label >= 0 && label < n) put(loss[row], -((A)get(from[label]) - top - total));
            else put(loss[row], (A)NOT_A_NUMBER);
        }
    }
}

KERNEL sparse_softmax_cross_entropy_grad(index rows, i32 n, const X* g, const X* x, const L* labels, X* dx) {
    __shared__ A shared[MAX_BLOCK_THREADS];
    EACH_ROW(row) {
        const X* from = x + row * n;
        const A top = top_of(from, n, shared), total = total_of(from, n, top, shared), by = get(g[row]);
        const i64 label = labels[row];
        EACH_K(k) put(dx[row * n + k], (exp_of((A)get(from[k]) - top) / total - (k == label ? (A)1 : (A)0)) * by);
    }
}
