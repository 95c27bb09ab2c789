// Vectors of one width for all kernels: the compiler's own vector types, so that the same lines become AVX-512, AVX2,
// NEON or plain SSE2, by the flags with which kernels.cpp is compiled.
//
// Everything that rounds is written so that all widths give the same bits where the order of the sums allows it.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef DRAGOMAN_LANES
#if defined(__AVX512F__)
#define DRAGOMAN_LANES 16
#elif defined(__AVX2__)
#define DRAGOMAN_LANES 8
#else
#define DRAGOMAN_LANES 4
#endif
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace DRAGOMAN_KERNELS {

constexpr int kLanes = DRAGOMAN_LANES;

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Bits __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

// A key or value as it is kept: the upper half of a float.
struct BFloat16 {
  uint16_t bits;
};

static ALWAYS_INLINE Floats load(const float* from) {
  Floats x;
  memcpy(&x, from, sizeof x);
  return x;
}

// Of 32-byte vectors the compiler takes halves and bytes apart number by number, where AVX2 has an instruction for all.
static ALWAYS_INLINE Floats load(const BFloat16* from) {
#if DRAGOMAN_LANES == 8
  Bits wide = (Bits)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  Halves x;
  memcpy(&x, from, sizeof x);
  Bits wide = __builtin_convertvector(x, Bits);
#endif
  return (Floats)(wide << 16);
}

// Numbers of one byte each.
static ALWAYS_INLINE void store_bytes(void* to, Ints x) {
#if DRAGOMAN_LANES == 8
  __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
  _mm_storel_epi64(static_cast<__m128i*>(to), _mm_packs_epi16(halves, halves));
#else
  typedef int8_t Bytes __attribute__((vector_size(kLanes)));
  Bytes bytes = __builtin_convertvector(x, Bytes);
  memcpy(to, &bytes, sizeof bytes);
#endif
}

static ALWAYS_INLINE int32_t load_four(const int8_t* from) {
  int32_t four;
  memcpy(&four, from, sizeof four);
  return four;
}

static ALWAYS_INLINE Ints load_ints(const void* from) {
  Ints x;
  memcpy(&x, from, sizeof x);
  return x;
}

static ALWAYS_INLINE void store(float* to, Floats x) { memcpy(to, &x, sizeof x); }

// Rounds to the nearest, ties to even; what is not finite is the caller's concern. The instruction for it makes zeros of
// numbers below 2^-126.
static ALWAYS_INLINE void store(BFloat16* to, Floats x) {
#if defined(__AVX512BF16__)
  __m256bh halves = _mm512_cvtneps_pbh((__m512)x);
#else
  Bits bits = (Bits)x;
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
#if DRAGOMAN_LANES == 8
  __m128i low = _mm256_castsi256_si128((__m256i)bits), high = _mm256_extracti128_si256((__m256i)bits, 1);
  __m128i halves = _mm_packus_epi32(low, high);
#else
  Halves halves = __builtin_convertvector(bits, Halves);
#endif
#endif
  memcpy(to, &halves, sizeof halves);
}

static ALWAYS_INLINE Floats splat(float x) { return x - (Floats){}; }

// a > b ? a : b, so b where either is NaN; of 64-byte vectors the compiler makes a comparison and a choice. (With a mask
// of ones, for gcc 12 warns of its own header for the plain form.)
#if DRAGOMAN_LANES == 16 && defined(__AVX512F__)
static ALWAYS_INLINE Floats max(Floats a, Floats b) { return (Floats)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b); }
static ALWAYS_INLINE Floats min(Floats a, Floats b) { return (Floats)_mm512_maskz_min_ps(0xffff, (__m512)a, (__m512)b); }
#else
static ALWAYS_INLINE Floats max(Floats a, Floats b) { return a > b ? a : b; }
static ALWAYS_INLINE Floats min(Floats a, Floats b) { return a < b ? a : b; }
#endif
static ALWAYS_INLINE Floats abs(Floats x) { return (Floats)((Bits)x & 0x7fffffffu); }

// Nearest whole number of |x| < 2^22, ties to even: adding 1.5 * 2^23 leaves no room for a fraction.
constexpr float kRounder = 12582912.0f;
static ALWAYS_INLINE Ints nearest(Floats x) { return (Ints)(x + kRounder) - (Ints)splat(kRounder); }

// Four numbers of a vector's: its halves joined, and theirs.
template <typename F>
static ALWAYS_INLINE auto join_quarters(Floats x, [[maybe_unused]] F join) {
#if DRAGOMAN_LANES == 16
  auto h = join(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7), __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  Floats h = x;
#endif
#if DRAGOMAN_LANES >= 8
  return join(__builtin_shufflevector(h, h, 0, 1, 2, 3), __builtin_shufflevector(h, h, 4, 5, 6, 7));
#else
  return h;
#endif
}

template <typename F>
static ALWAYS_INLINE float fold(Floats x, F join) {
  auto q = join_quarters(x, join);
  q = join(q, __builtin_shufflevector(q, q, 2, 3, 0, 1));
  return join(q[0], q[1]);
}

static ALWAYS_INLINE float sum(Floats x) {
  return fold(x, [](auto a, auto b) { return a + b; });
}

static ALWAYS_INLINE float largest(Floats x) {
  return fold(x, [](auto a, auto b) { return a > b ? a : b; });
}

// The sums of four vectors, side by side: half the work of one after the other.
static ALWAYS_INLINE void store_sums(float* to, Floats w, Floats x, Floats y, Floats z) {
  auto add = [](auto one, auto other) { return one + other; };
  auto a = join_quarters(w, add), b = join_quarters(x, add), c = join_quarters(y, add), d = join_quarters(z, add);
  auto ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  auto cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  auto all = __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  memcpy(to, &all, sizeof all);
}

// e^x: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (relative error below 3e-7); 0 below -87, at most e^88.
static ALWAYS_INLINE Floats exponential(Floats x) {
  Floats inside = min(splat(88.0f), max(splat(-87.0f), x));  // in this order NaN stays NaN, so that it is noticed
  Floats rounded = inside * 1.44269504f + kRounder, whole = rounded - kRounder;
  Floats f = inside - whole * 0.693359375f + whole * 2.12194440e-4f;
  Floats p = splat(1.0f / 720);
  p = p * f + 1.0f / 120;
  p = p * f + 1.0f / 24;
  p = p * f + 1.0f / 6;
  p = p * f + 0.5f;
  p = p * f + 1.0f;
  p = p * f + 1.0f;
  p *= (Floats)(((Bits)rounded << 23) + (127u << 23));  // the lowest bits of `rounded` are n
  return x < -87.0f ? Floats{} : p;
}

}  // namespace DRAGOMAN_KERNELS
