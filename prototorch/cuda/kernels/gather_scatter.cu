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
        for (i32 e = 0; e < PICKS; e++) {
            const i64 at = indices[row * PICKS + e];
            if (at == k || at + WIDTH == k) sum += (A)get(values[row * PICKS + e]);
        }
        put(out[i], sum);
    }
}
KERNEL one_hot(index n, const L* indices, X* out) {
    EACH(i, n) put(out[i], (i64)indices[i / WIDTH] == (i64)(i % WIDTH) ? (A)1 : (A)0);
}
KERNEL iota(index n, X* out) { EACH(i, n) put(out[i], (A)i); }
