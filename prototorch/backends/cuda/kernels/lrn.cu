// Local response normalisation: channels lie STEP elements apart, there are C of them; the window is SIZE.
typedef typename arithmetic<X>::type A;

// base ^ -beta; the common exponents by roots
FN A shrunk(A base) { return POWER; }

KERNEL lrn(index n, const X* x, X* y, X* base_out, A scale, A k) {
    EACH(i, n) {
        const i32 c = i / STEP % C;
        A sum = 0;
#pragma unroll
        for (i32 d = -(SIZE / 2); d <= SIZE / 2; d++) {
            if (c + d < 0 || c + d >= C) continue;
            const A v = get(x[(i64)i + (i64)d * STEP]);
            sum += v * v;
        }
        const A base = sum * scale + k;
        put(y[i], (A)get(x[i]) * shrunk(base));
        put(base_out[i], base);
    }
}

KERNEL lrn_grad(index n, const X* g, const X* x, const X* base, X* dx, A factor) {
    EACH(i, n) {
        const i32 c = i / STEP % C;
        A sum = 0;
#pragma unroll
        for (i32 d = -(SIZE / 2); d <= SIZE / 2; d++) {
            if (c + d < 0 || c + d >= C) continue;
            const i64 at = (i64)i + (i64)d * STEP;
            const A b = get(base[at]);
            sum += (A)get(g[at]) * shrunk(b) * (A)get(x[at]) / b;
        }
        put(dx[i], (A)get(g[i]) * shrunk((A)get(base[i])) - (A)get(x[i]) * sum * factor);
    }
}
