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
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* A vector's numbers, the vectors that 32 numbers make, and the rows of x whose sums the registers hold: beside one row
 * of the matrix, and beside BLOCK of them. */
#if defined(__AVX512F__)
#define LANES 16
#define EACH(M) M(0) M(1)
#define AT_ONCE 8
#define TILE 6
#elif defined(__AVX__)
#define LANES 8
#define EACH(M) M(0) M(1) M(2) M(3)
#define AT_ONCE 2
#define TILE 3
#else
#define LANES 4
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define AT_ONCE 2
#define TILE 3
#endif
#define VECTORS (32 / LANES)
#define BLOCK 4  /* rows of the matrix that a thread takes at a time */
#define MANY 12  /* rows of x from which on a block is widened once for all of them */
#define CHUNK 96 /* rows of x that stay in the cache while the matrix passes by */

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef float four __attribute__((vector_size(16)));
typedef int32_t integers __attribute__((vector_size(4 * LANES)));

/* a · b + c, rounded once where the processor can. Said by name: left to itself a compiler joins the two in one loop and
 * not in another, and a row would get other bits by the loop that it falls into. So -ffp-contract=off for all the rest. */
INLINE floats multiply_add(floats a, floats b, floats c) {
#if defined(__AVX512F__)
    return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

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
INLINE void of_scales(const uint16_t *scales, int64_t n, int is_half, float *out) {
    for (int64_t i = 0; i < n; i++) {
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
INLINE floats widen_int8(const void *row, int64_t at, int k) {
    return __builtin_convertvector(of_codes((const int8_t *)row + at + LANES * k), floats);
}

INLINE integers nibbles(const void *row, int64_t at, int k) {
    integers pairs = of_pairs((const uint8_t *)row + at / 2 + LANES * (k % (VECTORS / 2)));
    return k < VECTORS / 2 ? pairs & 15 : pairs >> 4;
}

INLINE floats widen_uint4(const void *row, int64_t at, int k) {
    return __builtin_convertvector(nibbles(row, at, k), floats);
}

INLINE floats widen_int4(const void *row, int64_t at, int k) {
    return __builtin_convertvector(nibbles(row, at, k) - 8, floats);
}

INLINE floats widen_float32(const void *row, int64_t at, int k) { return load((const float *)row + at + LANES * k); }

INLINE floats widen_bfloat16(const void *row, int64_t at, int k) {
    const uint16_t *from = (const uint16_t *)row + at + LANES * k;
    uint32_t wide[LANES];
    for (int j = 0; j < LANES; j++) wide[j] = (uint32_t)from[j] << 16;
    floats v;
    memcpy(&v, wide, sizeof v);
    return v;
}

typedef floats (*widener)(const void *, int64_t, int);

/* Vector k of 32 weights: a code c stands for scales[g] · c + minima[g], g its group; without scales, for c. */
INLINE floats weights(widener widen, const void *row, int64_t at, int k, const float *scales, const float *minima,
                      int64_t g) {
#if defined(__AVX512F__)
    /* 16 codes have 16 values: made once a group, and looked up by the low 4 bits of a number. */
    if (widen == widen_int4 || widen == widen_uint4) {
        floats values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        if (widen == widen_int4) values -= 8;
        if (scales) values *= scales[g];
        if (minima) values += minima[g];
        integers pairs = of_pairs((const uint8_t *)row + at / 2);
        return (floats)_mm512_permutexvar_ps((__m512i)(k ? pairs >> 4 : pairs), (__m512)values);
    }
#endif
    floats w = widen(row, at, k);
    if (scales) w *= scales[g];
    if (minima) w += minima[g];
    return w;
}

/* y[r] = row · x[r] for n rows of x. */
#define STEP(k)                                                                                                        \
    {                                                                                                                  \
        floats w = weights(widen, row, at, k, scales, minima, g);                                                      \
        for (int r = 0; r < n; r++) parts[r][k] = multiply_add(w, load(x + r * D + at + LANES * k), parts[r][k]);                               \
    }

INLINE void dot(widener widen, const float *x, int n, int64_t D, const void *row, const float *scales,
                const float *minima, int64_t group, float *y, int64_t out) {
    floats parts[AT_ONCE > 4 ? AT_ONCE : 4][VECTORS] = {{{0}}};
    for (int64_t g = 0, at = 0; at < D; g++)
        for (int64_t end = at + group; at < end; at += 32) {
            EACH(STEP)
        }
    for (int r = 0; r < n; r++) y[r * out] = sum(parts[r]);
}

/* All rows of x, many at once and then one by one: constants, so that the sums stay in registers. */
INLINE void dots(widener widen, const float *x, int64_t n, int64_t D, const void *row, const float *scales,
                 const float *minima, int64_t group, float *y, int64_t out) {
    int64_t r = 0;
    for (; r + AT_ONCE <= n; r += AT_ONCE) dot(widen, x + r * D, AT_ONCE, D, row, scales, minima, group, y + r * out, out);
    for (; AT_ONCE > 4 && r + 4 <= n; r += 4) dot(widen, x + r * D, 4, D, row, scales, minima, group, y + r * out, out);
    for (; r < n; r++) dot(widen, x + r * D, 1, D, row, scales, minima, group, y + r * out, out);
}

/* A row of weights as floats. */
#define WIDEN_STEP(k)                                                                                                  \
    {                                                                                                                  \
        floats w = weights(widen, row, at, k, scales, minima, g);                                                      \
        memcpy(wide + at + LANES * k, &w, sizeof w);                                                                   \
    }

INLINE void widen_row(widener widen, int64_t D, const void *row, const float *scales, const float *minima,
                      int64_t group, float *wide) {
    for (int64_t g = 0, at = 0; at < D; g++)
        for (int64_t end = at + group; at < end; at += 32) {
            EACH(WIDEN_STEP)
        }
}

/* y[r][c] = wide[c] · x[r] for n rows of x and a block of weights: the sums of `dot`, one vector of them at a time. */
INLINE void tile(const float *x, int n, int64_t D, const float *wide, float *y, int64_t out) {
    floats parts[TILE][BLOCK][VECTORS];
    for (int k = 0; k < VECTORS; k++) {
        floats sums[TILE][BLOCK] = {{{0}}};
        for (int64_t at = LANES * k; at < D; at += 32)
            for (int r = 0; r < n; r++)
                for (int c = 0; c < BLOCK; c++)
                    sums[r][c] = multiply_add(load(wide + c * D + at), load(x + r * D + at), sums[r][c]);
        for (int r = 0; r < n; r++)
            for (int c = 0; c < BLOCK; c++) parts[r][c][k] = sums[r][c];
    }
    for (int r = 0; r < n; r++)
        for (int c = 0; c < BLOCK; c++) y[r * out + c] = sum(parts[r][c]);
}

/* `rows` rows of the matrix, BLOCK at most, times n rows of x. */
INLINE void block(widener widen, const float *x, int64_t n, int64_t D, const char *matrix, int64_t row_bytes,
                  const uint16_t *scales, const uint16_t *minima, int64_t group, int is_half, int64_t rows, float *y,
                  int64_t out) {
    const int64_t G = D / group;
    const int whole = n >= MANY && rows == BLOCK;
    float scale[G], minimum[G], wide[whole ? BLOCK * D : 1], last[BLOCK];
    const int one = scales && !minima && G == 1; /* a scale a row: applied to the sum, not to each code */
    for (int64_t c = 0; c < rows; c++) {
        const void *row = matrix + c * row_bytes;
        if (scales) of_scales(scales + c * G, G, is_half, scale);
        if (minima) of_scales(minima + c * G, G, is_half, minimum);
        if (one) last[c] = scale[0];
        if (whole && one)
            widen_row(widen, D, row, 0, 0, group, wide + c * D);
        else if (whole)
            widen_row(widen, D, row, scales ? scale : 0, minima ? minimum : 0, group, wide + c * D);
        else if (one)
            dots(widen, x, n, D, row, 0, 0, group, y + c, out);
        else
            dots(widen, x, n, D, row, scales ? scale : 0, minima ? minimum : 0, group, y + c, out);
    }
    int64_t r = 0;
    for (; whole && r + TILE <= n; r += TILE) tile(x + r * D, TILE, D, wide, y + r * out, out);
    for (; whole && r < n; r++) tile(x + r * D, 1, D, wide, y + r * out, out);
    for (r = 0; one && r < n; r++)
        for (int64_t c = 0; c < rows; c++) y[r * out + c] *= last[c];
}

/* x (n, D), a matrix (out, D) -> y (n, out). Scales and minima (out, D / group) of 16 bits, where there are any. */
#define PRODUCT(NAME, WIDEN, BITS, SCALES, MINIMA)                                                                     \
    void NAME(const float *x, int64_t n, int64_t D, const char *matrix, const uint16_t *scales,                        \
              const uint16_t *minima, int64_t group, int is_half, int64_t out, float *y, int threads) {                \
        const int64_t G = D / group, row_bytes = D * BITS / 8;                                                         \
        for (int64_t first = 0; first < n; first += CHUNK) {                                                           \
            const int64_t rows = n - first < CHUNK ? n - first : CHUNK;                                                \
            _Pragma("omp parallel for schedule(static) num_threads(threads)") for (int64_t o = 0; o < out; o += BLOCK) \
                block(WIDEN, x + first * D, rows, D, matrix + o * row_bytes, row_bytes, SCALES ? scales + o * G : 0,   \
                      MINIMA ? minima + o * G : 0, group, is_half, out - o < BLOCK ? out - o : BLOCK,                  \
                      y + first * out + o, out);                                                                       \
        }                                                                                                              \
    }

PRODUCT(product_float32, widen_float32, 32, 0, 0)
PRODUCT(product_bfloat16, widen_bfloat16, 16, 0, 0)
PRODUCT(product_int8, widen_int8, 8, 1, 0)  /* codes -128 to 127 */
PRODUCT(product_int4, widen_int4, 4, 1, 0)  /* codes -8 to 7, kept as 0 to 15 */
PRODUCT(product_uint4, widen_uint4, 4, 1, 1) /* codes 0 to 15 and minima */

/* Of each 32 numbers those at even places, then those at odd: what codes that lie two by two in bytes are times. */
void even_then_odd(const float *x, int64_t n, float *y) {
    for (int64_t at = 0; at < n; at += 32)
        for (int j = 0; j < 16; j++) {
            y[at + j] = x[at + 2 * j];
            y[at + 16 + j] = x[at + 2 * j + 1];
        }
}
