// Rows that are sorted by their keys are joined, key by key, in a fixed order: a thread joins the runs of equal keys in
// CHUNK neighbours, writes those that end inside, and hands on its first and its last run as two rows of the next level.
// Values are [outer, count, INNER]; ADDRESS says where element c of a row of out lies, by o and row; a key of at least
// ROWS is dropped.
#define NONE ((K)-1)
#define AHEAD 8
typedef typename arithmetic<X>::type A;

FN void write_run(X* out, K key, index o, index c, A v) {
    if (key >= ROWS) return;
    const index row = (index)key;
    X& to = out[ADDRESS];
#if ONTO
    put(to, (A)(JOIN((A)get(to), v)));
#else
    put(to, v);
#endif
}
// next_keys, next: the rows of the next level; 0 on the last one, which has one chunk
template <class V> FN void join_chunk(index i, u32 n, u32 chunk, u32 chunks, const K* keys, const i32* order,
                                      const V* values, K* next_keys, A* next, X* out) {
    const index c = i % INNER, o = i / INNER / chunks, rows = 2 * (index)chunks;
    const u32 number = i / INNER % chunks, begin = number * chunk, end = begin + chunk < n ? begin + chunk : n;
    K run = NONE;
    A joined = 0;
    bool first = true;
    for (u32 p = begin; p < end; p += AHEAD) {
        K key[AHEAD];
        A v[AHEAD];
#pragma unroll
        for (u32 e = 0; e < AHEAD; e++) {
            const u32 q = p + e < end ? p + e : end - 1;
            key[e] = p + e < end ? keys[q] : NONE;
            v[e] = (A)get(values[(o * n + (order ? (index)order[q] : (index)q)) * INNER + c]);
        }
#pragma unroll
        for (u32 e = 0; e < AHEAD; e++) {
            if (key[e] == NONE) continue;
            if (key[e] == run) { joined = JOIN(joined, v[e]); continue; }
            if (run != NONE) {
                if (first && next) {
                    next[(o * rows + 2 * number) * INNER + c] = joined;
                    if (!o && !c) next_keys[2 * number] = run;
                } else write_run(out, run, o, c, joined);
                first = false;
            }
            run = key[e];
            joined = v[e];
        }
    }
    if (!next) {
        if (run != NONE) write_run(out, run, o, c, joined);
        return;
    }
    const u32 at = 2 * number + !first;
    next[(o * rows + at) * INNER + c] = joined;
    if (!o && !c) {
        next_keys[at] = run;
        if (first) next_keys[2 * number + 1] = NONE;
    }
}
KERNEL join_sorted(index count, u32 n, u32 chunk, u32 chunks, const K* keys, const i32* order, const X* values,
                   K* next_keys, A* next, X* out) {
    EACH(i, count) join_chunk(i, n, chunk, chunks, keys, order, values, next_keys, next, out);
}
KERNEL join_parts(index count, u32 n, u32 chunk, u32 chunks, const K* keys, const A* parts, K* next_keys, A* next,
                  X* out) {
    EACH(i, count) join_chunk(i, n, chunk, chunks, keys, (const i32*)0, parts, next_keys, next, out);
}
