/* Products of a few rows with a large matrix, x · Ŵᵀ, that read the matrix as it is kept: floats of 32 or 16 bits, codes
 * of 8 or 4. A decode step waits for these bytes; widening them in registers costs nothing beside that.
 *
 * Every output is one row of the matrix times one row of x, summed in 32 partial sums whatever stands beside it, so a
 * row of x gets the same bits alone and in any batch, with any number of threads. Rows of the matrix are shared out among
 * threads. D is a multiple of 32, and so is a group.
 */
#include "vectors.h"

#define BLOCK 4  /* rows of the matrix that a thread takes at a time */
#define MANY 12  /* rows of x from which on a block is widened once for all of them */
#define CHUNK 96 /* rows of x that stay in the cache while the matrix passes by */

/* In 4 bits byte j of 16 holds numbers j and j + 16. */
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
