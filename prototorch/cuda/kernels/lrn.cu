// Local response normalisation: channels lie STEP elements apart, there are C of them; the window is SIZE.
typedef typename arithmetic<X>::type A;

// base ^ -beta; the common exponents by roots
FN A shrunk(A base) { return POWER; }
FN A inverse(A base) { return INVERSE; }

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

// The same without the base kept: a thread does PACK neighbouring channels and sees those around them; the gradient makes
// the bases again.
#define HALF (SIZE / 2)
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
typedef pack<X, PACK> XS;

// channels c - N to c + PACK + N of a place; 0 beyond the ends
template <int N> FN void around(const X* from, index at, i32 c, A* v) {
#if PACK > 1
    const i32 far = (N + PACK - 1) / PACK;
#pragma unroll
    for (i32 q = -far; q <= far; q++) {
        const bool inside = c + q * PACK >= 0 && c + q * PACK < C;
        XS seen;
        if (inside) seen = *(const XS*)(from + (i64)at + q * PACK);
#pragma unroll
        for (i32 j = 0; j < PACK; j++) {
            const i32 k = q * PACK + j + N;
            if (k >= 0 && k < PACK + 2 * N) v[k] = inside ? (A)get(seen.v[j]) : (A)0;
        }
    }
#else
#pragma unroll
    for (i32 d = -N; d <= N; d++) v[d + N] = c + d >= 0 && c + d < C ? (A)get(from[(i64)at + (i64)d * STEP]) : (A)0;
#endif
}

KERNEL lrn_recompute(index n, const X* x, X* y, A scale, A k) {
    EACH(i, n) {
        const index at = i * PACK;
        A v[PACK + 2 * HALF];
        around<HALF>(x, at, at / STEP % C, v);
        XS out;
#pragma unroll
        for (i32 j = 0; j < PACK; j++) {
            A sum = 0;
#pragma unroll
            for (i32 d = 0; d <= 2 * HALF; d++) sum += v[j + d] * v[j + d];
            put(out.v[j], v[j + HALF] * shrunk(sum * scale + k));
        }
        *(XS*)(y + at) = out;
    }
}

KERNEL lrn_recompute_grad(index n, const X* g, const X* x, X* dx, A scale, A k, A factor) {
    EACH(i, n) {
        const index at = i * PACK;
        const i32 c = at / STEP % C;
        A v[PACK + 4 * HALF], grad[PACK + 2 * HALF], through[PACK];
        around<2 * HALF>(x, at, c, v);
        around<HALF>(g, at, c, grad);
#pragma unroll
        for (i32 m = 0; m < PACK + 2 * HALF; m++) {
            A sum = 0;
#pragma unroll
            for (i32 d = 0; d <= 2 * HALF; d++) sum += v[m + d] * v[m + d];
            const A base = sum * scale + k, scaled = grad[m] * shrunk(base);
            if (m >= HALF && m < PACK + HALF) through[m - HALF] = scaled;
            grad[m] = scaled * v[m + HALF] * inverse(base);
        }
        XS out;
#pragma unroll
        for (i32 j = 0; j < PACK; j++) {
            A sum = 0;
#pragma unroll
            for (i32 d = 0; d <= 2 * HALF; d++) sum += grad[j + d];
            const A own = v[j + 2 * HALF], made = through[j] - own * sum * factor;
            put(out.v[j], ACTIVATION_MASK && !(own > 0) ? (A)0 : made);
        }
        *(XS*)(dx + at) = out;
    }
}
