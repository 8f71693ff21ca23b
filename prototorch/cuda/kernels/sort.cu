// Sorting rows of N elements by a radix sort of keys in the elements' order, and looking up positions in sorted rows.
typedef typename arithmetic<X>::type A;

// numbers without a sign in the order of the elements: NaN last, -0 as 0
#if IS_FLOAT
FN K order_of(X x) {
    const A v = get(x);
    if (is_nan(v)) return (K)-1 >> (8 * sizeof(K) - VALUE_BITS);
    B bits;
    if (v == (A)0) bits = 0;
    else bits = *(const B*)&x;
    const B sign = (B)1 << (VALUE_BITS - 1);
    return (K)(B)(bits & sign ? ~bits : bits | sign);
}
#else
FN K order_of(X x) { return (K)(B)((B)x ^ (IS_SIGNED ? (B)1 << (VALUE_BITS - 1) : 0)); }
#endif

// the row in front of the bits of the element
KERNEL sort_keys(index n, const X* x, K* keys) {
    EACH(i, n) {
        const K mask = (K)-1 >> (8 * sizeof(K) - VALUE_BITS);
        K key = order_of(x[i]);
        if (DESCENDING && !(NAN_LAST && key == mask)) key = ~key & mask;
        keys[i] = key | (ROWS > 1 ? (K)(i / N) << (VALUE_BITS % (8 * sizeof(K))) : 0);
    }
}
// the first PER_ROW of each row
KERNEL sort_gather(index n, const X* x, const i32* positions, X* values, I* indices) {
    EACH(i, n) {
        const i32 from = positions[i / PER_ROW * N + i % PER_ROW];
        values[i] = x[from];
        indices[i] = (I)(from % N);
    }
}

FN bool less(A a, A b) { return a < b || (is_nan(b) && !is_nan(a)); }
// elements [N], or [rows, N] with SHARED 0; the number of elements before each value
KERNEL searchsorted(index n, const X* elements, const X* values, i64* y) {
    EACH(i, n) {
        const X* row = elements + (SHARED ? 0 : i / PER_ROW * N);
        const A v = get(values[i]);
        i64 begin = 0, end = N;
        while (begin < end) {
            const i64 middle = (begin + end) / 2;
            const A e = get(row[middle]);
            if (RIGHT ? !less(v, e) : less(e, v)) begin = middle + 1;
            else end = middle;
        }
        y[i] = begin;
    }
}
