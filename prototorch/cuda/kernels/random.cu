// Philox4x64-10: the words that NumPy's generator gives for the key (seed, site) and the counter (0, 0, step, 0).
struct words { u64 v[4]; };

FN words drawn(u64 block, const u64* key, u64 site) {
    u64 c0 = block + 1, c1 = 0, c2 = key[1], c3 = 0, k0 = key[0], k1 = site;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const u64 h0 = __umul64hi(c0, 0xD2E7470EE14C6C93ull), l0 = c0 * 0xD2E7470EE14C6C93ull;
        const u64 h1 = __umul64hi(c2, 0xCA5A826395121157ull), l1 = c2 * 0xCA5A826395121157ull;
        c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
        k0 += 0x9E3779B97F4A7C15ull; k1 += 0xBB67AE8584CAA73Bull;
    }
    words w = {{c0, c1, c2, c3}};
    return w;
}
// a word by a number that is known at run time only: an index into the array would put it into memory (a stack frame)
FN u64 word_of(const words& w, u32 k) {
    const u64 low = k & 1 ? w.v[1] : w.v[0], high = k & 1 ? w.v[3] : w.v[2];
    return k & 2 ? high : low;
}

template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };

#ifdef DROPOUT
typedef typename arithmetic<X>::type A;
#define RUN (16 / (int)sizeof(X))
typedef pack<X, RUN> XS;

// 16 bits for each element; a thread does the 16 elements of one count
KERNEL dropout(u64 blocks, u64 n, const X* x, const u64* key, X* y, u64 site, u32 least, A scale) {
    for (u64 b = (u64)blockIdx.x * blockDim.x + threadIdx.x; b < blocks; b += (u64)gridDim.x * blockDim.x) {
        const words w = drawn(b, key, site);
        if (b * 16 + 16 <= n) {
#pragma unroll
            for (int part = 0; part < 16 / RUN; part++) {
                const XS seen = *(const XS*)(x + b * 16 + part * RUN);
                XS out;
#pragma unroll
                for (int j = 0; j < RUN; j++) {
                    const int e = part * RUN + j;
                    const bool kept = (w.v[e / 4] >> 16 * (e % 4) & 0xffff) >= least;
                    put(out.v[j], (A)get(seen.v[j]) * (kept ? scale : (A)0));
                }
                *(XS*)(y + b * 16 + part * RUN) = out;
            }
        } else {
            for (u32 e = 0; e < 16 && b * 16 + e < n; e++) {
                const bool kept = (word_of(w, e / 4) >> 16 * (e % 4) & 0xffff) >= least;
                put(y[b * 16 + e], (A)get(x[b * 16 + e]) * (kept ? scale : (A)0));
            }
        }
    }
}

// the same where elements share draws, or are not in the order of the draws: element i has the draw at place_of(i)
FN u64 place_of(u64 i) { u64 at = 0; PLACE return at; }
KERNEL dropout_placed(u64 n, const X* x, const u64* key, X* y, u64 site, u32 least, A scale) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        const u64 e = place_of(i);
        const words w = drawn(e / 16, key, site);
        const bool kept = (word_of(w, e / 4 % 4) >> 16 * (e % 4) & 0xffff) >= least;
        put(y[i], (A)get(x[i]) * (kept ? scale : (A)0));
    }
}
#else
// 32 bits for each element, the low half of a word first; a thread does the 8 elements of one count
KERNEL random_bits(u64 n, const u64* key, u32* out, u64 site) {
    for (u64 b = (u64)blockIdx.x * blockDim.x + threadIdx.x; b * 8 < n; b += (u64)gridDim.x * blockDim.x) {
        const words w = drawn(b, key, site);
        pack<u32, 4> made[2];
#pragma unroll
        for (int e = 0; e < 8; e++) made[e / 4].v[e % 4] = (u32)(w.v[e / 2] >> 32 * (e % 2));
        if (b * 8 + 8 <= n) {
            *(pack<u32, 4>*)(out + b * 8) = made[0];
            *(pack<u32, 4>*)(out + b * 8 + 4) = made[1];
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) if (b * 8 + e < n) out[b * 8 + e] = made[e / 4].v[e % 4];
        }
    }
}
typedef typename arithmetic<X>::type A;
#define RUN (16 / (int)sizeof(X))
typedef pack<X, RUN> XS;
KERNEL random_uniform(u64 n, const u64* key, X* out, u64 site, A low, A width, A below) {
    for (u64 b = (u64)blockIdx.x * blockDim.x + threadIdx.x; b * 8 < n; b += (u64)gridDim.x * blockDim.x) {
        const words w = drawn(b, key, site);
        XS made[8 / RUN];
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const A unit = (A)((u32)(w.v[e / 2] >> 32 * (e % 2)) >> 8) * (A)5.9604644775390625e-8;
            put(made[e / RUN].v[e % RUN], PLAIN ? unit : min_nan(unit * width + low, below));
        }
        if (b * 8 + 8 <= n) {
#pragma unroll
            for (int part = 0; part < 8 / RUN; part++) *(XS*)(out + b * 8 + part * RUN) = made[part];
        } else {
#pragma unroll
            for (int e = 0; e < 8; e++) if (b * 8 + e < n) out[b * 8 + e] = made[e / RUN].v[e % RUN];
        }
    }
}
#endif
