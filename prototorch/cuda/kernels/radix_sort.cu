// A stable radix sort of keys and their positions, from the lowest bits up: in each pass a tile of TILE keys counts its
// digits of BITS bits, the counts are summed over all tiles, and each key goes to its place. No atomics: a thread counts
// its own neighbours, so that keys that are equal keep their order.
#define DIGITS (1 << BITS)
#define MOST_THREADS 256

// the count of a digit by a thread, digit first; two spare elements after each DIGITS keep threads in banks of their own
FN u32 slot(u32 digit, u32 thread) {
    const u32 i = digit * blockDim.x + thread;
    return i + (i >> BITS) * 2;
}
FN u32 digit_of(K key, u32 shift) { return (u32)(key >> shift) & (DIGITS - 1); }

// each thread counts the digits of its part of a tile
FN void count_digits(u32 n, u32 begin, u32 shift, const K* keys, u16* counts) {
    const u32 each = TILE / blockDim.x, first = begin + threadIdx.x * each;
    for (u32 d = 0; d < DIGITS; d++) counts[slot(d, threadIdx.x)] = 0;
    for (u32 p = first; p < first + each && p < n; p++) counts[slot(digit_of(keys[p], shift), threadIdx.x)]++;
}
// counts become the sums of those before them
FN void sum_before(u16* counts, u32* sums) {
    u32 sum = 0;
    const u32 begin = threadIdx.x << BITS, end = begin + DIGITS;
    for (u32 i = begin; i < end; i++) sum += counts[i + (i >> BITS) * 2];
    sums[threadIdx.x] = sum;
    for (u32 step = 1; step < blockDim.x; step *= 2) {
        __syncthreads();
        const u32 other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
    }
    __syncthreads();
    u32 before = sums[threadIdx.x] - sum;
    for (u32 i = begin; i < end; i++) {
        const u32 mine = counts[i + (i >> BITS) * 2];
        counts[i + (i >> BITS) * 2] = (u16)before;
        before += mine;
    }
}
// each key of a tile goes to the place of its digit; starts: what is added for a digit
FN void move_keys(u32 n, u32 begin, u32 shift, const K* keys, const i32* from, u16* counts, const u32* starts, K* to,
                  i32* positions) {
    const u32 each = TILE / blockDim.x, first = begin + threadIdx.x * each;
    for (u32 p = first; p < first + each && p < n; p++) {
        const K key = keys[p];
        const u32 d = digit_of(key, shift), s = slot(d, threadIdx.x), at = starts[d] + counts[s];
        counts[s]++;
        to[at] = key;
        positions[at] = from ? from[p] : (i32)p;
    }
}

// totals [DIGITS, tiles]: how often each digit is in a tile
KERNEL sort_count(u32 n, u32 tiles, u32 shift, const K* keys, u32* totals) {
    __shared__ u16 counts[(DIGITS + 2) * MOST_THREADS];
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        count_digits(n, tile * TILE, shift, keys, counts);
        __syncthreads();
        for (u32 d = threadIdx.x; d < DIGITS; d += blockDim.x) {
            u32 sum = 0;
            for (u32 t = 0; t < blockDim.x; t++) sum += counts[slot(d, t)];
            totals[d * tiles + tile] = sum;
        }
        __syncthreads();
    }
}
// totals become the sums of those before them, by one block
KERNEL sort_sum(u32 count, u32* totals) {
    __shared__ u32 sums[MOST_THREADS];
    if (blockIdx.x) return;
    const u32 each = (count + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * each;
    u32 sum = 0;
    for (u32 i = begin; i < begin + each && i < count; i++) sum += totals[i];
    sums[threadIdx.x] = sum;
    for (u32 step = 1; step < blockDim.x; step *= 2) {
        __syncthreads();
        const u32 other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += other;
    }
    u32 before = sums[threadIdx.x] - sum;
    for (u32 i = begin; i < begin + each && i < count; i++) {
        const u32 mine = totals[i];
        totals[i] = before;
        before += mine;
    }
}
// from: the positions before this pass; 0 in the first one, where they are 0, 1, 2, ...
KERNEL sort_move(u32 n, u32 tiles, u32 shift, const K* keys, const i32* from, const u32* totals, K* to, i32* positions) {
    __shared__ u16 counts[(DIGITS + 2) * MOST_THREADS];
    __shared__ u32 sums[MOST_THREADS], starts[DIGITS];
    for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        count_digits(n, tile * TILE, shift, keys, counts);
        __syncthreads();
        sum_before(counts, sums);
        __syncthreads();
        for (u32 d = threadIdx.x; d < DIGITS; d += blockDim.x)
            starts[d] = totals[d * tiles + tile] - counts[slot(d, 0)];
        __syncthreads();
        move_keys(n, tile * TILE, shift, keys, from, counts, starts, to, positions);
        __syncthreads();
    }
}
// all passes over at most TILE keys, by one block: one, other are two places for the keys, the first pass reads one
KERNEL sort_tile(u32 n, u32 passes, K* one, i32* one_positions, K* other, i32* other_positions) {
    __shared__ u16 counts[(DIGITS + 2) * MOST_THREADS];
    __shared__ u32 sums[MOST_THREADS], starts[DIGITS];
    if (blockIdx.x) return;
    for (u32 d = threadIdx.x; d < DIGITS; d += blockDim.x) starts[d] = 0;
    for (u32 pass = 0; pass < passes; pass++) {
        K *from = pass % 2 ? other : one, *to = pass % 2 ? one : other;
        i32 *old = pass % 2 ? other_positions : one_positions, *made = pass % 2 ? one_positions : other_positions;
        count_digits(n, 0, pass * BITS, from, counts);
        __syncthreads();
        sum_before(counts, sums);
        __syncthreads();
        move_keys(n, 0, pass * BITS, from, pass ? old : 0, counts, starts, to, made);
        __syncthreads();
    }
}
