// Pooling in up to three spatial dimensions. The geometry is macros: I* sizes of the input, O* of the output, K* window,
// S* strides, P* padding before, E* padding after; D, H, W from the slowest axis; C channels. With PACK > 1 (channels last)
// neighbouring channels are done together. Each element is made by one thread, in a fixed order: no atomics.

template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
typedef typename arithmetic<X>::type A;
typedef pack<X, PACK> XS;
typedef pack<i32, PACK> NS;

struct place { i32 c, d, h, w; index b; };

FN place place_of(index i, i32 d, i32 h, i32 w) {
    place p;
#if CHANNELS_LAST
    p.c = i % (C / PACK) * PACK; i /= C / PACK;
    p.w = i % w; i /= w;
    p.h = i % h; i /= h;
    p.d = i % d; p.b = i / d;
#else
    p.w = i % w; i /= w;
    p.h = i % h; i /= h;
    p.d = i % d; i /= d;
    p.c = i % C; p.b = i / C;
#endif
    return p;
}

FN index at(place p, i32 d, i32 h, i32 w, i32 nd, i32 nh, i32 nw) {
#if CHANNELS_LAST
    return (((p.b * nd + d) * nh + h) * nw + w) * C + p.c;
#else
    return (((p.b * C + p.c) * nd + d) * nh + h) * nw + w;
#endif
}

// of the windows along an axis, the first and the last that cover a place
FN i32 first_window(i32 p, i32 k, i32 s, i32 lo) { i32 a = p + lo - k + 1; return a <= 0 ? 0 : (a + s - 1) / s; }
FN i32 last_window(i32 p, i32 s, i32 lo, i32 n) { i32 a = (p + lo) / s; return a < n ? a : n - 1; }

// elements of a window along an axis that count for a mean
FN i32 counted(i32 o, i32 n, i32 k, i32 s, i32 lo, i32 hi) {
#if INCLUDE_PAD
    i32 first = -lo, last = n + hi;
#else
    i32 first = 0, last = n;
#endif
    i32 a = o * s - lo, b = a + k;
    a = a > first ? a : first;
    b = b < last ? b : last;
    return b - a > 1 ? b - a : 1;
}
FN A divisor(i32 d, i32 h, i32 w) {
    return (A)(counted(d, ID, KD, SD, PD, ED) * counted(h, IH, KH, SH, PH, EH) * counted(w, IW, KW, SW, PW, EW));
}

KERNEL max_pool(index n, const X* x, X* y, i32* number) {
    EACH(i, n) {
        const place p = place_of(i, OD, OH, OW);
        A best[PACK];
        NS chosen;
        for (int j = 0; j < PACK; j++) { best[j] = -INF; chosen.v[j] = 0; }
        for (i32 kd = 0; kd < KD; kd++) {
            const i32 d = p.d * SD - PD + kd;
            if (d < 0 || d >= ID) continue;
            for (i32 kh = 0; kh < KH; kh++) {
                const i32 h = p.h * SH - PH + kh;
                if (h < 0 || h >= IH) continue;
                for (i32 kw = 0; kw < KW; kw++) {
                    const i32 w = p.w * SW - PW + kw;
                    if (w < 0 || w >= IW) continue;
                    const XS seen = *(const XS*)(x + at(p, d, h, w, ID, IH, IW));
                    for (int j = 0; j < PACK; j++) {
                        const A v = get(seen.v[j]);
                        if (v > best[j] || (v != v && best[j] == best[j])) {
                            best[j] = v;
                            chosen.v[j] = (kd * KH + kh) * KW + kw;
                        }
                    }
                }
            }
        }
        const index to = at(p, p.d, p.h, p.w, OD, OH, OW);
        XS out;
        for (int j = 0; j < PACK; j++) put(out.v[j], best[j]);
        *(XS*)(y + to) = out;
        *(NS*)(number + to) = chosen;
    }
}

KERNEL max_pool_grad(index n, const X* g, const i32* number, X* dx) {
    EACH(i, n) {
        const place p = place_of(i, ID, IH, IW);
        A sum[PACK];
        for (int j = 0; j < PACK; j++) sum[j] = 0;
        for (i32 d = last_window(p.d, SD, PD, OD); d >= first_window(p.d, KD, SD, PD); d--)
            for (i32 h = last_window(p.h, SH, PH, OH); h >= first_window(p.h, KH, SH, PH); h--)
                for (i32 w = last_window(p.w, SW, PW, OW); w >= first_window(p.w, KW, SW, PW); w--) {
                    const i32 mine = ((p.d + PD - d * SD) * KH + p.h + PH - h * SH) * KW + p.w + PW - w * SW;
                    const index from = at(p, d, h, w, OD, OH, OW);
                    const NS chosen = *(const NS*)(number + from);
                    const XS seen = *(const XS*)(g + from);
                    for (int j = 0; j < PACK; j++) if (chosen.v[j] == mine) sum[j] += get(seen.v[j]);
                }
        XS out;
        for (int j = 0; j < PACK; j++) put(out.v[j], sum[j]);
        *(XS*)(dx + at(p, p.d, p.h, p.w, ID, IH, IW)) = out;
    }
}

KERNEL gather_pool_indices(index n, const X* x, const i32* number, X* y) {
    EACH(i, n) {
        const place p = place_of(i, OD, OH, OW);
        const index to = at(p, p.d, p.h, p.w, OD, OH, OW);
        const NS chosen = *(const NS*)(number + to);
        XS out;
        for (int j = 0; j < PACK; j++) {
            const i32 k = chosen.v[j];
            const i32 d = p.d * SD - PD + k / (KH * KW), h = p.h * SH - PH + k / KW % KH, w = p.w * SW - PW + k % KW;
            const bool inside = d >= 0 && d < ID && h >= 0 && h < IH && w >= 0 && w < IW;
            place q = p;
            q.c = p.c + j;
            put(out.v[j], inside ? get(x[at(q, d, h, w, ID, IH, IW)]) : (A)0);
        }
        *(XS*)(y + to) = out;
    }
}

KERNEL avg_pool(index n, const X* x, X* y) {
    EACH(i, n) {
        const place p = place_of(i, OD, OH, OW);
        A sum[PACK];
        for (int j = 0; j < PACK; j++) sum[j] = 0;
        for (i32 kd = 0; kd < KD; kd++) {
            const i32 d = p.d * SD - PD + kd;
            if (d < 0 || d >= ID) continue;
            for (i32 kh = 0; kh < KH; kh++) {
                const i32 h = p.h * SH - PH + kh;
                if (h < 0 || h >= IH) continue;
                for (i32 kw = 0; kw < KW; kw++) {
                    const i32 w = p.w * SW - PW + kw;
                    if (w < 0 || w >= IW) continue;
                    const XS seen = *(const XS*)(x + at(p, d, h, w, ID, IH, IW));
                    for (int j = 0; j < PACK; j++) sum[j] += get(seen.v[j]);
                }
            }
        }
        const A by = divisor(p.d, p.h, p.w);
        XS out;
        for (int j = 0; j < PACK; j++) put(out.v[j], sum[j] / by);
        *(XS*)(y + at(p, p.d, p.h, p.w, OD, OH, OW)) = out;
    }
}

KERNEL avg_pool_grad(index n, const X* g, X* dx) {
    EACH(i, n) {
        const place p = place_of(i, ID, IH, IW);
        A sum[PACK];
        for (int j = 0; j < PACK; j++) sum[j] = 0;
        for (i32 d = last_window(p.d, SD, PD, OD); d >= first_window(p.d, KD, SD, PD); d--)
            for (i32 h = last_window(p.h, SH, PH, OH); h >= first_window(p.h, KH, SH, PH); h--)
                for (i32 w = last_window(p.w, SW, PW, OW); w >= first_window(p.w, KW, SW, PW); w--) {
                    const XS seen = *(const XS*)(g + at(p, d, h, w, OD, OH, OW));
                    const A by = divisor(d, h, w);
                    for (int j = 0; j < PACK; j++) sum[j] += get(seen.v[j]) / by;
                }
        XS out;
        for (int j = 0; j < PACK; j++) put(out.v[j], sum[j]);
        *(XS*)(dx + at(p, p.d, p.h, p.w, ID, IH, IW)) = out;
    }
}
