// Data movement. One array is traversed in order; OFFSET computes the offset in the other from the coordinates. X is an
// unsigned integer of the elements' size.
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
typedef pack<X, PACK> XS;

FN i64 offset_of(index i) { i64 at = 0; OFFSET return at; }

KERNEL gather(index n, const X* in, X* out, i64 base) {
    EACH(i, n) *(XS*)(out + i * PACK) = *(const XS*)(in + base + offset_of(i * PACK));
}
KERNEL place(index n, const X* in, X* out, i64 base) {
    EACH(i, n) *(XS*)(out + base + offset_of(i * PACK)) = *(const XS*)(in + i * PACK);
}
KERNEL fill(index n, X* out, u64 value) {
    EACH(i, n) out[i] = (X)value;
}
// [batches, rows, columns] to [batches, columns, rows], by tiles
KERNEL turn(index tiles, index down, index across, i32 rows, i32 columns, const X* in, X* out) {
    __shared__ X shared[32][33];
    for (index tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const index batch = tile / (down * across), top = tile / across % down * 32, side = tile % across * 32;
        const X* from = in + batch * rows * columns;
        X* to = out + batch * rows * columns;
        for (i32 e = threadIdx.x; e < 1024; e += blockDim.x) {
            const index r = top + e / 32, c = side + e % 32;
            if (r < rows && c < columns) shared[e / 32][e % 32] = from[r * columns + c];
        }
        __syncthreads();
        for (i32 e = threadIdx.x; e < 1024; e += blockDim.x) {
            const index c = side + e / 32, r = top + e % 32;
            if (r < rows && c < columns) to[c * rows + r] = shared[e % 32][e / 32];
        }
        __syncthreads();
    }
}
// out [outer, COUNT, INNER] takes row table[k] of in [outer, ROWS, INNER]
KERNEL rows_from(index n, const X* in, X* out, const i32* table) {
    EACH(i, n) {
        const index e = i * PACK, inner = e % INNER, k = e / INNER % COUNT, o = e / INNER / COUNT;
        *(XS*)(out + e) = *(const XS*)(in + (o * ROWS + table[k]) * INNER + inner);
    }
}
