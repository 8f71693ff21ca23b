// C = A B over the last two axes for any strides, by tiles in shared memory: what cuDNN does not take. A block makes a
// tile of TILE x TILE, each of its (TILE / WORK)^2 threads WORK x WORK elements of it. Batches have up to two axes.

#define SIDE (TILE / WORK)
#undef KERNEL
#define KERNEL extern "C" __global__ __launch_bounds__(SIDE * SIDE) void
typedef typename arithmetic<X>::type A;

KERNEL matmul(index tiles, index rows, index columns, i32 m, i32 n, i32 k, index inner,
              i64 a0, i64 a1, i64 am, i64 ak, i64 b0, i64 b1, i64 bk, i64 bn,
              const X* a, const X* b, X* c) {
    __shared__ A left[DEPTH][TILE + 1];
    __shared__ A right[DEPTH][TILE + 1];
    const i32 row = threadIdx.x / SIDE, column = threadIdx.x % SIDE;
    for (index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const index batch = tile / (rows * columns), place = tile % (rows * columns);
        const i32 top = place / columns * TILE, side = place % columns * TILE;
        const X* from_a = a + (i64)(batch / inner) * a0 + (i64)(batch % inner) * a1;
        const X* from_b = b + (i64)(batch / inner) * b0 + (i64)(batch % inner) * b1;
        A sum[WORK][WORK];
        for (i32 i = 0; i < WORK; i++) for (i32 j = 0; j < WORK; j++) sum[i][j] = 0;
        for (i32 start = 0; start < k; start += DEPTH) {
            for (i32 e = threadIdx.x; e < DEPTH * TILE; e += SIDE * SIDE) {
                // neighbouring threads read neighbouring memory, whichever way the operand lies
                const i32 ka = ak == 1 ? e % DEPTH : e / TILE, ma = ak == 1 ? e / DEPTH : e % TILE;
                const i32 kb = bk == 1 ? e % DEPTH : e / TILE, nb = bk == 1 ? e / DEPTH : e % TILE;
                const bool in_a = top + ma < m && start + ka < k, in_b = side + nb < n && start + kb < k;
                left[ka][ma] = in_a ? get(from_a[(top + ma) * am + (start + ka) * ak]) : (A)0;
                right[kb][nb] = in_b ? get(from_b[(start + kb) * bk + (side + nb) * bn]) : (A)0;
            }
            __syncthreads();
#pragma unroll
            for (i32 d = 0; d < DEPTH; d++) {
                A l[WORK], r[WORK];
                for (i32 i = 0; i < WORK; i++) { l[i] = left[d][row + i * SIDE]; r[i] = right[d][column + i * SIDE]; }
                for (i32 i = 0; i < WORK; i++) for (i32 j = 0; j < WORK; j++) sum[i][j] += l[i] * r[j];
            }
            __syncthreads();
        }
        for (i32 i = 0; i < WORK; i++) for (i32 j = 0; j < WORK; j++) {
            const i32 y = top + row + i * SIDE, x = side + column + j * SIDE;
            if (y < m && x < n) put(c[((i64)batch * m + y) * n + x], sum[i][j]);
        }
    }
}
