// Pictures seen through an affine map each, a thread a pixel of all channels. Places are worked out in double and
// without fused multiply-adds, as on the CPU, so that both read the same pixels.
// H, W, C: sizes; CHANNEL, PIXEL: how far apart channels and pixels lie; MODE: 0 constant, 1 nearest, 2 reflect, 3 wrap.
typedef typename arithmetic<X>::type A;

FN double times(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}
FN double plus(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dadd_rn(a, b);
#else
    return a + b;
#endif
}
FN double seen_at(const M* row, double i, double j) {
    return plus(plus(times(get(row[0]), i), times(get(row[1]), j)), get(row[2]));
}
// the pixel that stands for a place on an axis
FN i32 within(double at, i32 size) {
#if MODE == 3
    at = floor_rest(at, (double)size);
#elif MODE == 2
    at = floor_rest(at, 2.0 * size);
    if (at >= size) at = 2.0 * size - 1 - at;
#endif
    return at > 0 ? at < size - 1 ? (i32)at : size - 1 : 0;
}

KERNEL affine_sample(index n, const X* x, const M* matrices, X* y, A fill) {
    EACH(p, n) {
        const index sample = p / (H * W);
        const i32 i = p % (H * W) / W, j = p % W;
        const X* from = x + sample * ((index)C * H * W);
        X* to = y + sample * ((index)C * H * W) + (index)(p % (H * W)) * PIXEL;
        const double down = seen_at(matrices + sample * 6, i, j), right = seen_at(matrices + sample * 6 + 3, i, j);
#if NEAREST
        const int corners = 1;
        const double top = rint(down), left = rint(right), below = 0, beside = 0;
#else
        const int corners = 4;
        const double top = floor(down), left = floor(right), below = down - top, beside = right - left;
#endif
        index at[corners];
        A share[corners];
        bool inside[corners];
        for (int k = 0; k < corners; k++) {
            const double r = top + k / 2, c = left + k % 2;
            inside[k] = MODE || (r >= 0 && r < H && c >= 0 && c < W);
            at[k] = ((index)within(r, H) * W + within(c, W)) * PIXEL;
            share[k] = (A)times(k / 2 ? below : 1 - below, k % 2 ? beside : 1 - beside);
        }
        for (i32 channel = 0; channel < C; channel++) {
            A total = 0;
            for (int k = 0; k < corners; k++)
                total += (inside[k] ? (A)get(from[at[k] + (index)channel * CHANNEL]) : fill) * share[k];
            put(to[(index)channel * CHANNEL], total);
        }
    }
}
