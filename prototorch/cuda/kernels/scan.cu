// Scans of [outer, COUNT, INNER] along the middle: what has been read so far is a State, and STEP joins an element to it.
// A thread walks along a row; where rows are few and long, along a chunk of it: the states of whole chunks are scanned
// first. REVERSE walks from the end.
typedef typename arithmetic<X>::type A;
struct State { A v; i64 at; };

#define PLACE(k) ((o * COUNT + (REVERSE ? COUNT - 1 - (k) : (k))) * INNER + inner)
#if LOGARITHMS
FN A log_sum(A a, A b) {
    const A top = max_nan(a, b), gap = abs_of(a - b);
    return a == b && !is_finite(b) ? top : top + LOG1P(EXP(-gap));
}
#endif
// joins an element, or the state of a chunk, to the state of what comes before it; first: there is nothing before it
FN void step(State& s, A v, A factor, i64 at, bool first) {
    if (first) { s.v = v; s.at = at; return; }
    STEP
}
FN void scan_range(const X* x, const X* factors, X* y, i64* indices, State s, bool first, index o, index inner, index begin,
             index end) {
    for (index k = begin; k < end; k++) {
        step(s, (A)get(x[PLACE(k)]), factors ? (A)get(factors[PLACE(k)]) : (A)0, (i64)k, first);
        first = false;
        put(y[PLACE(k)], s.v);
        if (indices) indices[PLACE(k)] = s.at;
    }
}
KERNEL scan(index n, const X* x, const X* factors, X* y, i64* indices) {
    EACH(i, n) scan_range(x, factors, y, indices, State{(A)0, 0}, true, i / INNER, i % INNER, 0, COUNT);
}
// states [outer, chunks, INNER]
KERNEL scan_chunks(index n, index chunk, index chunks, const X* x, State* states) {
    EACH(i, n) {
        const index inner = i % INNER, number = i / INNER % chunks, o = i / INNER / chunks;
        const index begin = number * chunk, end = begin + chunk < COUNT ? begin + chunk : COUNT;
        State s = {(A)0, 0};
        for (index k = begin; k < end; k++) step(s, (A)get(x[PLACE(k)]), (A)0, (i64)k, k == begin);
        states[i] = s;
    }
}
KERNEL scan_states(index n, index chunks, State* states) {
    EACH(i, n) {
        const index inner = i % INNER, o = i / INNER;
        State s = {(A)0, 0};
        for (index number = 0; number < chunks; number++) {
            State& here = states[(o * chunks + number) * INNER + inner];
            step(s, here.v, (A)0, here.at, number == 0);
            here = s;
        }
    }
}
KERNEL scan_rest(index n, index chunk, index chunks, const X* x, const State* states, X* y, i64* indices) {
    EACH(i, n) {
        const index inner = i % INNER, number = i / INNER % chunks, o = i / INNER / chunks;
        const index begin = number * chunk, end = begin + chunk < COUNT ? begin + chunk : COUNT;
        const State s = number ? states[i - INNER] : State{(A)0, 0};
        scan_range(x, (const X*)0, y, indices, s, number == 0, o, inner, begin, end);
    }
}
