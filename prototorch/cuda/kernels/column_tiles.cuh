// Reductions over the rows of a matrix [rows, C]. A block takes a chunk of the rows and a tile of TILE_VECTORS adjacent vectors of PACK
// columns. Its threads are groups of that many; group g takes the rows g, g + groups, ... of the chunk, so that a block reads adjacent
// memory at a time, whatever C is. The groups' results are combined in a fixed order. A block has at most COLUMN_TILE_THREADS threads.
#define COLUMN_TILE_THREADS 256
#define EXCHANGE (COLUMN_TILE_THREADS / 2)
// rows that a thread reads before it uses the first: of one array, of several
#define ROWS_AHEAD 4
#define ROWS_AHEAD_OF_SEVERAL 2
struct column_tile {
    u32 vectors, groups, lane, group;
    index tiles;
};

FN column_tile column_tile_of_thread() {
    column_tile t;
    t.vectors = TILE_VECTORS < blockDim.x ? TILE_VECTORS : blockDim.x;
    t.groups = blockDim.x / t.vectors;
    t.lane = threadIdx.x % t.vectors;
    t.group = threadIdx.x / t.vectors;
    t.tiles = (C / PACK + t.vectors - 1) / t.vectors;
    return t;
}
// the first distance of a reduction over groups: a power of two, at least half of them; 0 for a single one
FN u32 first_distance(u32 groups) {
    if (groups == 1) return 0;
    u32 half = 1;
    while (half * 2 < groups) half *= 2;
    return half;
}
// v summed over the groups, in the threads of group 0. exchange: N * EXCHANGE elements.
template <class A, int N> FN void sum_groups(A (&v)[N], A* exchange, const column_tile& t) {
    for (u32 half = first_distance(t.groups); half; half /= 2) {
        __syncthreads();
        if (t.group >= half && t.group < 2 * half && t.group < t.groups)
            for (int j = 0; j < N; j++) exchange[j * EXCHANGE + threadIdx.x - half * t.vectors] = v[j];
        __syncthreads();
        if (t.group < half && t.group + half < t.groups)
            for (int j = 0; j < N; j++) v[j] += exchange[j * EXCHANGE + threadIdx.x];
    }
}
// Means, sums of squares around them and a count, combined over the groups (Chan et al., 1979); in group 0.
// exchange: (2 * N + 1) * EXCHANGE elements.
template <class A, int N> FN void combine_moments(A (&mean)[N], A (&square)[N], A& count, A* exchange, const column_tile& t) {
    for (u32 half = first_distance(t.groups); half; half /= 2) {
        __syncthreads();
        if (t.group >= half && t.group < 2 * half && t.group < t.groups) {
            A* to = exchange + threadIdx.x - half * t.vectors;
            for (int j = 0; j < N; j++) { to[j * EXCHANGE] = mean[j]; to[(N + j) * EXCHANGE] = square[j]; }
            to[2 * N * EXCHANGE] = count;
        }
        __syncthreads();
        if (t.group < half && t.group + half < t.groups) {
            const A* from = exchange + threadIdx.x;
            const A other = from[2 * N * EXCHANGE];
            if (other > 0) {
                const A share = other / (count + other);
                for (int j = 0; j < N; j++) {
                    const A apart = from[j * EXCHANGE] - mean[j];
                    mean[j] += apart * share;
                    square[j] += from[(N + j) * EXCHANGE] + apart * apart * count * share;
                }
                count += other;
            }
        }
    }
}
