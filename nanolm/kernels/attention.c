/* Attention of the newest tokens of many requests over keys and values where they lie: in blocks all over a pool, or in
 * rows. Nothing is gathered, nothing is padded, and codes of 8 bits are widened in registers.
 *
 * A query's scores, their sum and its weighted sum of values are taken by position, in one order, whoever else is
 * served, however the blocks lie and with any number of threads: the same bits alone and in a batch. H is a multiple of 32.
 */
#include "vectors.h"
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_thread_num() 0
#endif

#define QUERIES (AT_ONCE > 2 ? 4 : 2) /* that read a key together: their sums stay in registers */
#define RUN 16 /* scores that are finished together */

/* Keys or values of one layer. Numbers of position s of head k in block b begin at ((k · heads + b · blocks + s) · H). */
typedef struct {
    const char *numbers;
    const uint16_t *scales; /* bfloat16, one a position and head; or none */
} store;

typedef struct {
    store keys, values;
    const int64_t *tables, *lengths; /* (B, M) blocks; positions that a row's first query sees. No tables: row b is block b */
    int64_t N, K, T, H, M, length;   /* lengths of all rows, where there are no others */
    int64_t block_size, heads, blocks; /* positions of a block, from head to head, from block to block */
    float scale;
} layout;

INLINE floats all(float f) { return f - (floats){0}; }

/* e^x for x of 0 or less, within two units of the last place; 0 below -87; NaN stays (Cephes, expf). */
INLINE floats exponential(floats x) {
    const floats magic = all(12582912.0f); /* 1.5 · 2^23: adding it rounds to a whole number */
    const integers under = x < -87.0f;
    x = (floats)(~under & (integers)x);
    const floats n = (x * 1.44269504f + magic) - magic;
    floats r = multiply_add(n, all(-0.693359375f), x), y = all(1.9875691500e-4f);
    r = multiply_add(n, all(2.12194440e-4f), r);
    y = multiply_add(y, r, all(1.3981999507e-3f));
    y = multiply_add(y, r, all(8.3334519073e-3f));
    y = multiply_add(y, r, all(4.1665795894e-2f));
    y = multiply_add(y, r, all(1.6666665459e-1f));
    y = multiply_add(y, r, all(5.0000001201e-1f));
    y = multiply_add(y * r, r, r + 1.0f);
    y *= (floats)((__builtin_convertvector(n, integers) + 127) << 23);
    return (floats)(~under & (integers)y);
}

/* scores[0 … length) -> their exponentials over the largest, zeros up to `padded`; returns 1 / their sum. */
INLINE float softmax(float *scores, int64_t length, int64_t padded) {
    for (int64_t s = length; s < padded; s++) scores[s] = -__builtin_inff();
    floats most = load(scores), parts[VECTORS] = {{0}};
    for (int64_t s = LANES; s < padded; s += LANES) {
        const floats v = load(scores + s);
        const integers more = v > most;
        most = (floats)((more & (integers)v) | (~more & (integers)most));
    }
    float largest = most[0];
    for (int j = 1; j < LANES; j++) largest = most[j] > largest ? most[j] : largest;
    for (int64_t s = 0; s < padded; s += 32)
        for (int k = 0; k < VECTORS; k++) {
            const floats p = exponential(load(scores + s + LANES * k) - largest);
            memcpy(scores + s + LANES * k, &p, sizeof p);
            parts[k] += p;
        }
    return 1.0f / sum(parts);
}

INLINE float factor(const uint16_t *scales, int64_t place) {
    float f;
    of_scales(scales + place, 1, 0, &f);
    return f;
}

/* p[r · padded + i] = scale · q[r] · key of place first + i, for `count` keys side by side. */
#define SCORE_STEP(k)                                                                                                  \
    {                                                                                                                  \
        const floats key = widen(row, at, k);                                                                          \
        for (int r = 0; r < n; r++) parts[r][k] = multiply_add(key, load(q + r * H + at + LANES * k), parts[r][k]);    \
    }

INLINE void scores(widener widen, int64_t bytes, const layout *of, int64_t first, int64_t count, const float *q, int n,
                   float *p, int64_t padded) {
    const int64_t H = of->H;
    float quarters[4][RUN][4];
    for (int64_t i = 0; i < count; i++) {
        const char *row = of->keys.numbers + (first + i) * H * bytes;
        floats parts[4][VECTORS] = {{{0}}};
        for (int64_t at = 0; at < H; at += 32) {
            EACH(SCORE_STEP)
        }
        for (int r = 0; r < n; r++) {
            const four folded = fold(parts[r]);
            memcpy(quarters[r][i], &folded, sizeof folded);
        }
    }
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < count; i++) {
            const float *f = quarters[r][i];
            p[r * padded + i] = ((f[0] + f[2]) + (f[1] + f[3])) * of->scale;
        }
    if (of->keys.scales)
        for (int64_t i = 0; i < count; i++) {
            const float scale = factor(of->keys.scales, first + i);
            for (int r = 0; r < n; r++) p[r * padded + i] *= scale;
        }
}

/* n queries of one head of keys, their first S positions: scores, then values by them. */
#define VALUE_STEP(k)                                                                                                  \
    {                                                                                                                  \
        const floats v = widen(row, at, k);                                                                            \
        for (int r = 0; r < n; r++) parts[r][k] = multiply_add(v, all(p[r * padded + s + i]), parts[r][k]);             \
    }

INLINE void some_queries(widener widen, int64_t bytes, const layout *of, int64_t b, int64_t head, const float *q, int n,
                         const int64_t *lengths, float *p, float *out) {
    const int64_t H = of->H, S = lengths[n - 1], padded = (S + 31) / 32 * 32, size = of->block_size;
    const int64_t *table = of->tables ? of->tables + b * of->M : &b;
    float inverse[4];
    for (int64_t s = 0; s < S; s += size) {
        const int64_t first = head * of->heads + table[s / size] * of->blocks, count = S - s < size ? S - s : size;
        if (s + size < S && size <= RUN) { /* blocks lie apart: the next one's lines are asked for while this one is used */
            const int64_t next = head * of->heads + table[s / size + 1] * of->blocks;
            for (int64_t at = 0; at < size * H * bytes; at += 64) {
                __builtin_prefetch(of->keys.numbers + next * H * bytes + at);
                __builtin_prefetch(of->values.numbers + next * H * bytes + at);
            }
        }
        for (int64_t i = 0; i < count; i += RUN)
            scores(widen, bytes, of, first + i, count - i < RUN ? count - i : RUN, q, n, p + s + i, padded);
    }
    for (int r = 0; r < n; r++) inverse[r] = softmax(p + r * padded, lengths[r], padded);
    if (of->values.scales)
        for (int64_t s = 0; s < S; s++) {
            const float scale = factor(of->values.scales, head * of->heads + table[s / size] * of->blocks + s % size);
            for (int r = 0; r < n; r++) p[r * padded + s] *= scale;
        }
    for (int64_t at = 0; at < H; at += 32) {
        floats parts[4][VECTORS] = {{{0}}};
        for (int64_t s = 0; s < S; s += size) {
            const int64_t first = head * of->heads + table[s / size] * of->blocks, count = S - s < size ? S - s : size;
            for (int64_t i = 0; i < count; i++) {
                const char *row = of->values.numbers + (first + i) * H * bytes;
                EACH(VALUE_STEP)
            }
        }
        for (int r = 0; r < n; r++)
            for (int k = 0; k < VECTORS; k++) {
                const floats y = parts[r][k] * inverse[r];
                memcpy(out + r * H + at + LANES * k, &y, sizeof y);
            }
    }
}

/* All G · T queries that read one head of one row: query t of a head sees t positions more than its first. */
INLINE void one_head(widener widen, int64_t bytes, const layout *of, int64_t b, int64_t head, const float *q, float *p,
                     float *out) {
    const int64_t rows = of->N / of->K * of->T, base = (b * of->K + head) * rows, seen = of->lengths ? of->lengths[b] : of->length;
    int64_t lengths[4];
    for (int64_t r = 0; r < rows;) {
        /* Queries of one head stand in the order of their positions, the last of a few sees most. */
        int n = 1;
        lengths[0] = seen + r % of->T;
        while (n < QUERIES && r + n < rows && seen + (r + n) % of->T >= lengths[n - 1]) {
            lengths[n] = seen + (r + n) % of->T;
            n++;
        }
        const float *from = q + (base + r) * of->H;
        float *to = out + (base + r) * of->H;
        if (n == 4)
            some_queries(widen, bytes, of, b, head, from, 4, lengths, p, to);
        else if (n == 3)
            some_queries(widen, bytes, of, b, head, from, 3, lengths, p, to);
        else if (n == 2)
            some_queries(widen, bytes, of, b, head, from, 2, lengths, p, to);
        else
            some_queries(widen, bytes, of, b, head, from, 1, lengths, p, to);
        r += n;
    }
}

/* q (B, N, T, H) -> out, of the same shape. `scratch` has room for 4 · (longest row up to 31 more) floats a thread. */
#define ATTEND(NAME, WIDEN, BYTES)                                                                                     \
    void NAME(const float *q, int64_t B, const layout *of, float *scratch, int64_t room, float *out, int threads) {    \
        _Pragma("omp parallel for schedule(dynamic) num_threads(threads)") for (int64_t i = 0; i < B * of->K; i++)     \
            one_head(WIDEN, BYTES, of, i / of->K, i % of->K, q, scratch + omp_get_thread_num() * room, out);           \
    }

ATTEND(attend_float32, widen_float32, 4)
ATTEND(attend_bfloat16, widen_bfloat16, 2)
ATTEND(attend_int8, widen_int8, 1)
