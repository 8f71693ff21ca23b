// Gathers and scattered sums, each sum by one thread in a fixed order.
typedef typename arithmetic<X>::type A;

// out [outer, ROWS, INNER]: row r is the sum of the rows list[from[r]] to list[from[r + 1]] of in [outer, COUNT, INNER]
KERNEL rows_to(index n, const X* in, X* out, const i32* from, const i32* list) {
    EACH(i, n) {
        const index inner = i % INNER, r = i / INNER % ROWS, o = i / INNER / ROWS;
        A sum = 0;
        for (i32 k = from[r]; k < from[r + 1]; k++) sum += get(in[(o * COUNT + list[k]) * INNER + inner]);
        put(out[i], sum);
    }
}

// rows of a table [rows, INNER]; NaN (or 0) for an index out of range
KERNEL take(index n, i64 rows, const X* table, const L* indices, X* out) {
    EACH(i, n) {
        const i64 row = indices[i / INNER];
        if (row >= 0 && row < rows) out[i] = table[row * INNER + i % INNER];
        else put(out[i], (A)MISSING);
    }
}

// Adding rows at their indices. Rows with one index are linked within chunks of NEAR and summed there; then the first
// ones of each chunk are linked over all chunks and their sums added. No chain is longer than NEAR plus the chunks.
#define NEAR 256

// the first row from a to b that has this index (and is the head of its chunk, where heads are given), or -1
FN i32 sought(const L* indices, const i32* heads, i64 mine, index a, index b) {
    for (index q = a; q < b; q += 8) {
        u32 hits = 0;
#pragma unroll
        for (u32 e = 0; e < 8; e++) if (q + e < b && (i64)indices[q + e] == mine && (!heads || heads[q + e])) hits |= 1u << e;
        for (u32 e = 0; hits && e < 8; e++) if (hits >> e & 1) return q + e;
    }
    return -1;
}
KERNEL chain_near(index n, i64 rows, const L* indices, i32* next, i32* head) {
    EACH(p, n) {
        const i64 mine = indices[p];
        const index begin = p / NEAR * NEAR, end = begin + NEAR < n ? begin + NEAR : n;
        const bool real = mine >= 0 && mine < rows;
        next[p] = real ? sought(indices, 0, mine, p + 1, end) : -1;
        head[p] = real && sought(indices, 0, mine, begin, p) < 0;
    }
}
KERNEL sums_near(index n, const X* values, const i32* next, const i32* head, A* part) {
    EACH(i, n) {
        const index p = i / INNER, c = i % INNER;
        if (!head[p]) continue;
        A sum = 0;
        for (i64 q = p; q >= 0; q = next[q]) sum += (A)get(values[q * INNER + c]);
        part[i] = sum;
    }
}
KERNEL chain_far(index n, const L* indices, const i32* head, i32* next, i32* lead) {
    EACH(p, n) {
        const i64 mine = indices[p];
        const index begin = p / NEAR * NEAR, end = begin + NEAR < n ? begin + NEAR : n;
        next[p] = head[p] ? sought(indices, head, mine, end, n) : -1;
        lead[p] = head[p] && sought(indices, head, mine, 0, begin) < 0;
    }
}
KERNEL embedding_grad(index n, const A* part, const L* indices, const i32* next, const i32* lead, X* out) {
    EACH(i, n) {
        const index p = i / INNER, c = i % INNER;
        if (!lead[p]) continue;
        A sum = 0;
        for (i64 q = p; q >= 0; q = next[q]) sum += part[q * INNER + c];
        put(out[(i64)indices[p] * INNER + c], sum);
    }
}
KERNEL zeros(index n, X* out) { EACH(i, n) put(out[i], (A)0); }

// along the last axis: x [rows, WIDTH], indices [rows, PICKS]
KERNEL take_along_axis(index n, const X* x, const L* indices, X* out) {
    EACH(i, n) {
        i64 k = indices[i];
        if (k < 0) k += WIDTH;
        if (k >= 0 && k < WIDTH) out[i] = x[i / PICKS * WIDTH + k];
        else put(out[i], (A)MISSING);
    }
}
KERNEL scatter_add_along_axis(index n, const X* values, const L* indices, X* out) {
    EACH(i, n) {
        const index row = i / WIDTH;
        const i64 k = i % WIDTH;
        A sum = 0;
        for (i32 e = 0; e < PICKS; e++) if ((i64)indices[row * PICKS + e] == k) sum += (A)get(values[row * PICKS + e]);
        put(out[i], sum);
    }
}
KERNEL one_hot(index n, const L* indices, X* out) {
    EACH(i, n) put(out[i], (i64)indices[i / WIDTH] == (i64)(i % WIDTH) ? (A)1 : (A)0);
}
KERNEL iota(index n, X* out) { EACH(i, n) put(out[i], (A)i); }

// cumulative sums of [outer, COUNT, INNER] along the middle
KERNEL cumsum(index n, const X* x, X* y) {
    EACH(i, n) {
        const index o = i / INNER, inner = i % INNER;
        A sum = 0;
        for (index k = 0; k < COUNT; k++) {
            const index at = (o * COUNT + (REVERSE ? COUNT - 1 - k : k)) * INNER + inner;
            sum += (A)get(x[at]);
            put(y[at], sum);
        }
    }
}
