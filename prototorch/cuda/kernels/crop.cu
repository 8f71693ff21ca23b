// A crop of each image, at an offset of its own: x [N, C, H, W], y [N, C, HEIGHT, WIDTH]; a thread writes PACK neighbours of a row.
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };

// a crop that would reach beyond the border is moved inside
FN index inside(i32 first, i32 spare) { return first < 0 ? 0 : first < spare ? first : spare; }

KERNEL crop(index n, const X* x, const i32* top, const i32* left, X* y) {
    EACH(i, n) {
        const index e = i * PACK, column = e % WIDTH, row = e / WIDTH % HEIGHT, plane = e / WIDTH / HEIGHT, sample = plane / C;
        const X* from = x + (plane * H + inside(top[sample], H - HEIGHT) + row) * W + inside(left[sample], W - WIDTH) + column;
        pack<X, PACK> out;
        for (int j = 0; j < PACK; j++) out.v[j] = from[j];
        *(pack<X, PACK>*)(y + e) = out;
    }
}
