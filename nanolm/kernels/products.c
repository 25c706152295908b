/* Products of a few rows with a large matrix, x · Ŵᵀ, that read the matrix as it is kept: floats of 32 or 16 bits, codes
 * of 8 or 4. A decode step waits for these bytes; widening them in registers costs nothing beside that.
 *
 * Every output is one row of the matrix times one row of x, summed in 32 partial sums whatever stands beside it, so a
 * row of x gets the same bits alone and in any batch, with any number of threads. Rows of the matrix are shared out among
 * threads. D is a multiple of 32, and so is a group.
 *
 * Vector types are those of GCC and Clang, as wide as the processor's registers.
 */
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* A vector's numbers, the vectors that 32 numbers make, and the rows of x whose sums the registers hold. */
#if defined(__AVX512F__)
#define LANES 16
#define EACH(M) M(0) M(1)
#define AT_ONCE 8
#elif defined(__AVX__)
#define LANES 8
#define EACH(M) M(0) M(1) M(2) M(3)
#define AT_ONCE 2
#else
#define LANES 4
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define AT_ONCE 2
#endif
#define VECTORS (32 / LANES)

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef float four __attribute__((vector_size(16)));
typedef int32_t integers __attribute__((vector_size(4 * LANES)));

INLINE floats load(const float *p) {
    floats v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Of 32 partial sums, added by halves: the same bits whatever a vector holds. */
INLINE float sum(const floats *parts) {
    floats v[VECTORS];
    memcpy(v, parts, sizeof v);
    for (int half = VECTORS / 2; half; half /= 2)
        for (int k = 0; k < half; k++) v[k] += v[k + half];
    four q[LANES / 4];
    memcpy(q, v, sizeof q);
    for (int half = LANES / 8; half; half /= 2)
        for (int k = 0; k < half; k++) q[k] += q[k + half];
    return (q[0][0] + q[0][2]) + (q[0][1] + q[0][3]);
}

/* n scales of 16 bits as floats: bfloat16, the upper half of a float, or half, whose exponent is 112 less. */
INLINE void of_scales(const uint16_t *scales, long n, int is_half, float *out) {
    for (long i = 0; i < n; i++) {
        uint32_t bits = scales[i];
        uint32_t wide = is_half ? (bits & 0x7fff) << 13 : bits << 16, sign = (bits & 0x8000) << 16;
        float f;
        memcpy(&f, &wide, 4);
        f *= is_half ? 0x1p112f : 1.0f;
        memcpy(&wide, &f, 4);
        wide |= sign;
        memcpy(out + i, &wide, 4);
    }
}

/* Bytes as integers. The loop becomes one instruction; conversions of vector types are taken apart by some compilers. */
#define BYTES(NAME, TYPE)                                                                                              \
    INLINE integers NAME(const TYPE *from) {                                                                           \
        int32_t wide[LANES];                                                                                           \
        for (int j = 0; j < LANES; j++) wide[j] = from[j];                                                             \
        integers whole;                                                                                                \
        memcpy(&whole, wide, sizeof whole);                                                                            \
        return whole;                                                                                                  \
    }

BYTES(of_codes, int8_t)
BYTES(of_pairs, uint8_t)

/* Vector k of 32 numbers of a matrix's row, from number `at` on. In 4 bits byte j of 16 holds numbers j and j + 16. */
INLINE floats widen_int8(const void *row, long at, int k) {
    return __builtin_convertvector(of_codes((const int8_t *)row + at + LANES * k), floats);
}

INLINE floats widen_int4(const void *row, long at, int k) {
    integers pairs = of_pairs((const uint8_t *)row + at / 2 + LANES * (k % (VECTORS / 2)));
    return __builtin_convertvector(k < VECTORS / 2 ? pairs & 15 : pairs >> 4, floats);
}

INLINE floats widen_float32(const void *row, long at, int k) { return load((const float *)row + at + LANES * k); }

INLINE floats widen_bfloat16(const void *row, long at, int k) {
    const uint16_t *from = (const uint16_t *)row + at + LANES * k;
    uint32_t wide[LANES];
    for (int j = 0; j < LANES; j++) wide[j] = (uint32_t)from[j] << 16;
    floats v;
    memcpy(&v, wide, sizeof v);
    return v;
}

/* y[r] = row · x[r] for n rows of x. A code c stands for scales[g] · c + minima[g], g its group; without scales, for c. */
#define STEP(k)                                                                                                        \
    {                                                                                                                  \
        floats w = widen(row, at, k);                                                                                  \
        if (scales) w *= scales[g];                                                                                    \
        if (minima) w += minima[g];                                                                                    \
        for (int r = 0; r < n; r++) parts[r][k] += w * load(x + r * D + at + LANES * k);                               \
    }

INLINE void dot(floats (*widen)(const void *, long, int), const float *x, int n, long D, const void *row,
                const float *scales, const float *minima, long group, float *y, long stride) {
    floats parts[AT_ONCE > 4 ? AT_ONCE : 4][VECTORS] = {{{0}}};
    for (long g = 0, at = 0; at < D; g++)
        for (long end = at + group; at < end; at += 32) {
            EACH(STEP)
        }
    for (int r = 0; r < n; r++) y[r * stride] = sum(parts[r]);
}

/* All rows of x, many at once and then one by one: constants, so that the sums stay in registers. */
INLINE void dots(floats (*widen)(const void *, long, int), const float *x, long n, long D, const void *row,
                 const float *scales, const float *minima, long group, float *y, long out) {
    long r = 0;
    for (; r + AT_ONCE <= n; r += AT_ONCE) dot(widen, x + r * D, AT_ONCE, D, row, scales, minima, group, y + r * out, out);
    for (; AT_ONCE > 4 && r + 4 <= n; r += 4) dot(widen, x + r * D, 4, D, row, scales, minima, group, y + r * out, out);
    for (; r < n; r++) dot(widen, x + r * D, 1, D, row, scales, minima, group, y + r * out, out);
}

/* x (n, D), w (out, D) -> y (n, out). */
#define PRODUCT(NAME, TYPE, WIDEN)                                                                                     \
    void NAME(const float *x, long n, long D, const TYPE *w, long out, float *y, int threads) {                        \
        _Pragma("omp parallel for schedule(static) num_threads(threads)") for (long o = 0; o < out; o++)               \
            dots(WIDEN, x, n, D, w + o * D, 0, 0, D, y + o, out);                                                      \
    }

PRODUCT(product_float32, float, widen_float32)
PRODUCT(product_bfloat16, uint16_t, widen_bfloat16)

/* codes (out, D), -127 to 127; scales (out, D / group) of 16 bits. */
void product_int8(const float *x, long n, long D, const int8_t *codes, const uint16_t *scales, long group, int is_half,
                  long out, float *y, int threads) {
    const long G = D / group;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long o = 0; o < out; o++) {
        float scale[G];
        of_scales(scales + o * G, G, is_half, scale);
        dots(widen_int8, x, n, D, codes + o * D, scale, 0, group, y + o, out);
    }
}

/* codes 0 to 15, bytes (out, D / 2); scales and minima (out, D / group). */
void product_int4(const float *x, long n, long D, const uint8_t *codes, const uint16_t *scales, const uint16_t *minima,
                  long group, int is_half, long out, float *y, int threads) {
    const long G = D / group;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long o = 0; o < out; o++) {
        float scale[G], minimum[G];
        of_scales(scales + o * G, G, is_half, scale);
        of_scales(minima + o * G, G, is_half, minimum);
        dots(widen_int4, x, n, D, codes + o * (D / 2), scale, minimum, group, y + o, out);
    }
}
