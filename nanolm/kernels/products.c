/* Products of a few rows with a large matrix, x · Ŵᵀ, that read the matrix as it is kept: floats of 32 or 16 bits, codes
 * of 8 or 4. A decode step waits for these bytes; widening them in registers costs nothing beside that.
 *
 * Every output is one row of the matrix times one row of x, summed in 32 partial sums whatever stands beside it, so a
 * row of x gets the same bits alone and in any batch, with any number of threads. Rows of the matrix are shared out among
 * threads. D is a multiple of 32, and so is a group.
 *
 * Vector types are those of GCC and Clang; a processor with shorter registers gets several instructions for one.
 */
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
/* Rows of x that share one widening: as many as the registers hold sums for. */
#ifdef __AVX512F__
#define AT_ONCE 8
#else
#define AT_ONCE 4
#endif

typedef float f16 __attribute__((vector_size(64)));
typedef float f8 __attribute__((vector_size(32)));
typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef uint32_t u16 __attribute__((vector_size(64)));
typedef uint16_t h16 __attribute__((vector_size(32)));

INLINE f16 load(const float *p) {
    f16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE float sum(f16 v) {
    f8 a, b;
    memcpy(&a, &v, 32);
    memcpy(&b, (char *)&v + 32, 32);
    a += b;
    f4 c, d;
    memcpy(&c, &a, 16);
    memcpy(&d, (char *)&a + 16, 16);
    c += d;
    return (c[0] + c[1]) + (c[2] + c[3]);
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

/* The first or the second 16 of 32 numbers of a matrix's row, from number `at` on. In 4 bits byte j holds j and j + 16. */
INLINE f16 widen_float32(const void *row, long at, int k) { return load((const float *)row + at + 16 * k); }

INLINE f16 widen_bfloat16(const void *row, long at, int k) {
    h16 bits;
    memcpy(&bits, (const uint16_t *)row + at + 16 * k, sizeof bits);
    u16 wide = __builtin_convertvector(bits, u16) << 16;
    f16 v;
    memcpy(&v, &wide, sizeof v);
    return v;
}

/* Bytes are widened by loops, of which a compiler makes one instruction; conversions of vector types it takes apart. */
#define WIDEN_BYTES(NAME, TYPE, VALUE)                                                                                 \
    INLINE f16 NAME(const TYPE *bytes) {                                                                               \
        int32_t wide[16];                                                                                              \
        for (int j = 0; j < 16; j++) wide[j] = VALUE;                                                                  \
        i16 whole;                                                                                                     \
        memcpy(&whole, wide, sizeof whole);                                                                            \
        return __builtin_convertvector(whole, f16);                                                                    \
    }

WIDEN_BYTES(of_codes, int8_t, bytes[j])
WIDEN_BYTES(of_low_nibbles, uint8_t, bytes[j] & 15)
WIDEN_BYTES(of_high_nibbles, uint8_t, bytes[j] >> 4)

INLINE f16 widen_int8(const void *row, long at, int k) { return of_codes((const int8_t *)row + at + 16 * k); }

INLINE f16 widen_int4(const void *row, long at, int k) {
    const uint8_t *bytes = (const uint8_t *)row + at / 2;
    return k ? of_high_nibbles(bytes) : of_low_nibbles(bytes);
}

/* y[r] = row · x[r] for n rows of x. A code c stands for scales[g] · c + minima[g], g its group; without scales, for c. */
#define DOT(NAME, WIDEN)                                                                                               \
    INLINE void NAME(const float *x, int n, long D, const void *row, const float *scales, const float *minima,         \
                     long group, float *y, long stride) {                                                              \
        f16 even[AT_ONCE] = {{0}}, odd[AT_ONCE] = {{0}};                                                               \
        for (long g = 0, at = 0; at < D; g++)                                                                          \
            for (long end = at + group; at < end; at += 32) {                                                          \
                f16 w = WIDEN(row, at, 0), v = WIDEN(row, at, 1);                                                      \
                if (scales) w *= scales[g], v *= scales[g];                                                            \
                if (minima) w += minima[g], v += minima[g];                                                            \
                for (int r = 0; r < n; r++) even[r] += w * load(x + r * D + at);                                       \
                for (int r = 0; r < n; r++) odd[r] += v * load(x + r * D + at + 16);                                   \
            }                                                                                                          \
        for (int r = 0; r < n; r++) y[r * stride] = sum(even[r] + odd[r]);                                             \
    }

DOT(dot_float32, widen_float32)
DOT(dot_bfloat16, widen_bfloat16)
DOT(dot_int8, widen_int8)
DOT(dot_int4, widen_int4)

/* All rows of x, AT_ONCE by AT_ONCE and then one by one: constants, so that the sums stay in registers. */
#define TILES(DOT, SCALES, MINIMA)                                                                                     \
    int r = 0;                                                                                                         \
    for (; r + AT_ONCE <= n; r += AT_ONCE)                                                                             \
        DOT(x + r * D, AT_ONCE, D, row, SCALES, MINIMA, group, y + r * out + o, out);                                  \
    for (; r + 4 <= n; r += 4) DOT(x + r * D, 4, D, row, SCALES, MINIMA, group, y + r * out + o, out);                 \
    for (; r < n; r++) DOT(x + r * D, 1, D, row, SCALES, MINIMA, group, y + r * out + o, out);

/* x (n, D), w (out, D) -> y (n, out). */
#define PRODUCT(NAME, TYPE, DOT)                                                                                       \
    void NAME(const float *x, long n, long D, const TYPE *w, long out, float *y, int threads) {                        \
        const long group = D;                                                                                          \
        _Pragma("omp parallel for schedule(static) num_threads(threads)") for (long o = 0; o < out; o++) {             \
            const TYPE *row = w + o * D;                                                                               \
            TILES(DOT, 0, 0)                                                                                           \
        }                                                                                                              \
    }

PRODUCT(product_float32, float, dot_float32)
PRODUCT(product_bfloat16, uint16_t, dot_bfloat16)

/* codes (out, D), -127 to 127; scales (out, D / group) of 16 bits. */
void product_int8(const float *x, long n, long D, const int8_t *codes, const uint16_t *scales, long group, int is_half,
                  long out, float *y, int threads) {
    const long G = D / group;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long o = 0; o < out; o++) {
        const int8_t *row = codes + o * D;
        float scale[G];
        of_scales(scales + o * G, G, is_half, scale);
        TILES(dot_int8, scale, 0)
    }
}

/* codes 0 to 15, bytes (out, D / 2); scales and minima (out, D / group). */
void product_int4(const float *x, long n, long D, const uint8_t *codes, const uint16_t *scales, const uint16_t *minima,
                  long group, int is_half, long out, float *y, int threads) {
    const long G = D / group;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long o = 0; o < out; o++) {
        const uint8_t *row = codes + o * (D / 2);
        float scale[G], minimum[G];
        of_scales(scales + o * G, G, is_half, scale);
        of_scales(minima + o * G, G, is_half, minimum);
        TILES(dot_int4, scale, minimum)
    }
}
