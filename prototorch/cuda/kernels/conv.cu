// Convolution and its two gradients as products of matrices that are never stored (implicit GEMM), in up to three
// spatial dimensions (DIMS: one dimension is three of which two have size 1), with groups, for any strides in memory.
//
//   FORWARD      y[pixel, filter]        = sum over (channel, tap)  x[pixel moved by tap, channel] * w[filter, channel, tap]
//   INPUT_GRAD   dx[pixel, channel]      = sum over (filter, tap)   g[pixel moved back, filter]    * w[filter, channel, tap]
//   WEIGHT_GRAD  dw[filter, channel tap] = sum over pixels          g[pixel, filter]               * x[pixel moved, channel]
//
// A block makes a tile of TILE_M x TILE_N, each of its SIDE x SIDE threads WORK_M x WORK_N elements of it. For the
// gradient of the weights the pixels are split into SPLITS chunks, whose sums `sum_splits` adds in a fixed order.

#define TILE_M (SIDE * WORK_M)
#define TILE_N (SIDE * WORK_N)
#define TAPS (K0 * K1 * K2)
#define OUT (O0 * O1 * O2)
#define IN (I0 * I1 * I2)
#undef KERNEL
#define KERNEL extern "C" __global__ __launch_bounds__(SIDE * SIDE) void
typedef typename arithmetic<X>::type A;

// a reduced index as channel and tap: neighbouring indices are neighbours in memory
#if LAST
#define CHANNEL(k, channels) ((k) % (channels))
#define TAP(k, channels) ((k) / (channels))
#else
#define CHANNEL(k, channels) ((k) / TAPS)
#define TAP(k, channels) ((k) % TAPS)
#endif

// an element of x for a pixel of y and a tap; 0 in the padding
FN A input_at(const X* x, i32 group, index pixel, i32 c, i32 tap) {
    const index n = pixel / OUT;
    const i32 o = (i32)(pixel % OUT);
    const i32 i0 = o / (O1 * O2) * S0 - P0 + tap / (K1 * K2) * D0;
    const i32 i1 = o / O2 % O1 * S1 - P1 + tap / K2 % K1 * D1;
    const i32 i2 = o % O2 * S2 - P2 + tap % K2 * D2;
    if (i0 < 0 || i0 >= I0 || i1 < 0 || i1 >= I1 || i2 < 0 || i2 >= I2) return 0;
    return get(x[n * XN + (index)(group * C + c) * XC + (index)i0 * X0 + (index)i1 * X1 + (index)i2 * X2]);
}
// an element of g for a pixel of x and a tap; 0 where no window has this tap there
FN A gradient_at(const X* g, i32 group, index pixel, i32 f, i32 tap) {
    const index n = pixel / IN;
    const i32 i = (i32)(pixel % IN);
    const i32 t0 = i / (I1 * I2) + P0 - tap / (K1 * K2) * D0;
    const i32 t1 = i / I2 % I1 + P1 - tap / K2 % K1 * D1;
    const i32 t2 = i % I2 + P2 - tap % K2 * D2;
    if (t0 < 0 || t0 % S0 || t0 / S0 >= O0 || t1 < 0 || t1 % S1 || t1 / S1 >= O1 || t2 < 0 || t2 % S2 || t2 / S2 >= O2) return 0;
    return get(g[n * YN + (index)(group * F + f) * YC + (index)(t0 / S0) * Y0 + (index)(t1 / S1) * Y1 + (index)(t2 / S2) * Y2]);
}
FN index output_place(i32 group, index pixel, i32 f) {
    const i32 o = (i32)(pixel % OUT);
    return pixel / OUT * YN + (index)(group * F + f) * YC + (index)(o / (O1 * O2)) * Y0 + (index)(o / O2 % O1) * Y1 + (index)(o % O2) * Y2;
}
FN index input_place(i32 group, index pixel, i32 c) {
    const i32 i = (i32)(pixel % IN);
    return pixel / IN * XN + (index)(group * C + c) * XC + (index)(i / (I1 * I2)) * X0 + (index)(i / I2 % I1) * X1 + (index)(i % I2) * X2;
}
FN index weight_place(i32 group, i32 f, i32 c, i32 tap) { return ((index)(group * F + f) * C + c) * TAPS + tap; }

#if DIRECTION == 0  // x, w -> y
#define ROWS ((index)BATCH * OUT)
#define COLUMNS F
#define DEPTH_OF ((index)C * TAPS)
#define LEFT(m, k) input_at(a, group, m, CHANNEL((i32)(k), C), TAP((i32)(k), C))
#define RIGHT(k, n) get(b[weight_place(group, n, CHANNEL((i32)(k), C), TAP((i32)(k), C))])
#define PLACE(m, n) output_place(group, m, n)
#elif DIRECTION == 1  // g, w -> dx
#define ROWS ((index)BATCH * IN)
#define COLUMNS C
#define DEPTH_OF ((index)F * TAPS)
#define LEFT(m, k) gradient_at(a, group, m, CHANNEL((i32)(k), F), TAP((i32)(k), F))
#define RIGHT(k, n) get(b[weight_place(group, CHANNEL((i32)(k), F), n, TAP((i32)(k), F))])
#define PLACE(m, n) input_place(group, m, n)
#else  // x, g -> dw
#define ROWS ((index)F)
#define COLUMNS (C * TAPS)
#define DEPTH_OF ((index)BATCH * OUT)
#define LEFT(m, k) get(b[output_place(group, k, (i32)(m))])
#define RIGHT(k, n) input_at(a, group, k, (n) / TAPS, (n) % TAPS)
#define PLACE(m, n) ((index)split * GROUPS * F * COLUMNS + ((index)(group * F) + m) * COLUMNS + n)
#endif
#define REDUCED_FIRST (DIRECTION == 2 ? !LAST : LAST)  // whether threads side by side read neighbours along k

KERNEL conv(index tiles, index rows, index columns, index chunk, const X* a, const X* b, Y* y) {
    __shared__ A left[DEPTH][TILE_M + 1];
    __shared__ A right[DEPTH][TILE_N + 1];
    const i32 row = threadIdx.x / SIDE, column = threadIdx.x % SIDE;
    for (index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const index top = tile / columns % rows * TILE_M;
        const i32 side = (i32)(tile % columns) * TILE_N;
        const i32 group = (i32)(tile / (columns * rows) % GROUPS), split = (i32)(tile / (columns * rows * GROUPS));
        const index first = split * chunk, last = first + chunk < DEPTH_OF ? first + chunk : DEPTH_OF;
        A sum[WORK_M][WORK_N];
        for (i32 i = 0; i < WORK_M; i++) for (i32 j = 0; j < WORK_N; j++) sum[i][j] = 0;
        for (index start = first; start < last; start += DEPTH) {
            for (i32 e = threadIdx.x; e < DEPTH * TILE_M; e += SIDE * SIDE) {
                const i32 d = REDUCED_FIRST ? e % DEPTH : e / TILE_M, m = REDUCED_FIRST ? e / DEPTH : e % TILE_M;
                left[d][m] = top + m < ROWS && start + d < last ? LEFT(top + m, start + d) : (A)0;
            }
            for (i32 e = threadIdx.x; e < DEPTH * TILE_N; e += SIDE * SIDE) {
                const i32 d = REDUCED_FIRST ? e % DEPTH : e / TILE_N, n = REDUCED_FIRST ? e / DEPTH : e % TILE_N;
                right[d][n] = side + n < COLUMNS && start + d < last ? RIGHT(start + d, side + n) : (A)0;
            }
            __syncthreads();
#pragma unroll
            for (i32 d = 0; d < DEPTH; d++) {
                A l[WORK_M], r[WORK_N];
                for (i32 i = 0; i < WORK_M; i++) l[i] = left[d][row + i * SIDE];
                for (i32 j = 0; j < WORK_N; j++) r[j] = right[d][column + j * SIDE];
                for (i32 i = 0; i < WORK_M; i++) for (i32 j = 0; j < WORK_N; j++) sum[i][j] += l[i] * r[j];
            }
            __syncthreads();
        }
        for (i32 i = 0; i < WORK_M; i++) for (i32 j = 0; j < WORK_N; j++) {
            const index m = top + row + i * SIDE;
            const i32 n = side + column + j * SIDE;
            if (m < ROWS && n < COLUMNS) put(y[PLACE(m, n)], sum[i][j]);
        }
    }
}
