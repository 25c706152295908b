/* Vectors as wide as the processor's registers (the vector types of GCC and Clang), numbers as they are kept, and 32
 * partial sums that are added up in one order, whatever the processor and whatever else is computed.
 */
#ifndef NANOLM_VECTORS
#define NANOLM_VECTORS
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

/* 32 partial sums, added by halves down to four: the same bits whatever a vector holds. */
INLINE four fold(const floats *parts) {
    floats v[VECTORS];
    memcpy(v, parts, sizeof v);
    for (int half = VECTORS / 2; half; half /= 2)
        for (int k = 0; k < half; k++) v[k] += v[k + half];
    four q[LANES / 4];
    memcpy(q, v, sizeof q);
    for (int half = LANES / 8; half; half /= 2)
        for (int k = 0; k < half; k++) q[k] += q[k + half];
    return q[0];
}

INLINE float sum(const floats *parts) {
    const four q = fold(parts);
    return (q[0] + q[2]) + (q[1] + q[3]);
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

/* Vector k of 32 numbers of a matrix's row, from number `at` on. */
INLINE floats widen_int8(const void *row, int64_t at, int k) {
    return __builtin_convertvector(of_codes((const int8_t *)row + at + LANES * k), floats);
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

#endif
