// Images sampled through an affine map each, a thread for all channels of a pixel, and its gradient. Coordinates are computed in double and
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
// the pixel that is read for a coordinate of an axis
FN i32 within(double at, i32 size) {
#if MODE == 3
    at = floor_mod(at, (double)size);
#elif MODE == 2
    at = floor_mod(at, 2.0 * size);
    if (at >= size) at = 2.0 * size - 1 - at;
#endif
    return at > 0 ? at < size - 1 ? (i32)at : size - 1 : 0;
}

#if NEAREST
#define CORNERS 1
#else
#define CORNERS 4
#endif
// the pixels that an output pixel is interpolated from, and their weights
struct Corners {
    i32 row[CORNERS], column[CORNERS];
    A share[CORNERS];
    bool inside[CORNERS];
};
FN Corners corners_of(const M* map, i32 i, i32 j) {
    const double down = seen_at(map, i, j), right = seen_at(map + 3, i, j);
#if NEAREST
    const double top = rint(down), left = rint(right), below = 0, beside = 0;
#else
    const double top = floor(down), left = floor(right), below = down - top, beside = right - left;
#endif
    Corners made;
#pragma unroll
    for (int k = 0; k < CORNERS; k++) {
        const double r = top + k / 2, c = left + k % 2;
        made.inside[k] = MODE || (r >= 0 && r < H && c >= 0 && c < W);
        made.row[k] = within(r, H);
        made.column[k] = within(c, W);
        made.share[k] = (A)times(k / 2 ? below : 1 - below, k % 2 ? beside : 1 - beside);
    }
    return made;
}

KERNEL affine_sample(index n, const X* x, const M* matrices, X* y, A fill) {
    EACH(p, n) {
        const index sample = p / (H * W);
        const i32 i = p % (H * W) / W, j = p % W;
        const X* from = x + sample * ((index)C * H * W);
        X* to = y + sample * ((index)C * H * W) + (index)(p % (H * W)) * PIXEL;
        const Corners seen = corners_of(matrices + sample * 6, i, j);
        for (i32 channel = 0; channel < C; channel++) {
            A total = 0;
#pragma unroll
            for (int k = 0; k < CORNERS; k++) {
                const index at = ((index)seen.row[k] * W + seen.column[k]) * PIXEL + (index)channel * CHANNEL;
                total += (seen.inside[k] ? (A)get(from[at]) : fill) * seen.share[k];
            }
            put(to[(index)channel * CHANNEL], total);
        }
    }
}

// The gradient: a thread owns a row of an image and adds the contributions to it in the order of the output pixels, so
// that the sums have the same bits in every run. ``sums`` holds the partial sums; it may be y.
KERNEL affine_sample_grad(index n, const X* g, const M* matrices, A* sums, X* y) {
    EACH(p, n) {
        const index sample = p / H, begin = sample * ((index)C * H * W), here = begin + p % H * W * PIXEL;
        const i32 mine = p % H;
        for (i32 channel = 0; channel < C; channel++)
            for (i32 j = 0; j < W; j++) sums[here + (index)j * PIXEL + (index)channel * CHANNEL] = 0;
        for (i32 i = 0; i < H; i++) for (i32 j = 0; j < W; j++) {
            const Corners seen = corners_of(matrices + sample * 6, i, j);
            const X* from = g + begin + ((index)i * W + j) * PIXEL;
#pragma unroll
            for (int k = 0; k < CORNERS; k++) {
                if (seen.row[k] != mine || !seen.inside[k]) continue;
                A* to = sums + here + (index)seen.column[k] * PIXEL;
                for (i32 channel = 0; channel < C; channel++)
                    to[(index)channel * CHANNEL] += (A)get(from[(index)channel * CHANNEL]) * seen.share[k];
            }
        }
        for (i32 channel = 0; channel < C; channel++)
            for (i32 j = 0; j < W; j++) {
                const index at = here + (index)j * PIXEL + (index)channel * CHANNEL;
                put(y[at], sums[at]);
            }
    }
}
