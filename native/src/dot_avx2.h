// AVX2 without VNNI. Its product of unsigned and signed bytes saturates at 16 bits: |a| * (w with the sign of a) keeps
// 2 * 127 * 127 below 32768, so that the sums are exact. (Widening the weights to 16 bits needs no signs, but was slower.)
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kFlip = 0;

struct Activation {
  __m256i value, magnitude;
  explicit ALWAYS_INLINE Activation(const int8_t* at)
      : value(_mm256_set1_epi32(load_four(at))), magnitude(_mm256_abs_epi8(value)) {}
};

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, Ints weights) {
  __m256i pairs = _mm256_maddubs_epi16(a.magnitude, _mm256_sign_epi8((__m256i)weights, a.value));
  return sum + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

}  // namespace DRAGOMAN_KERNELS
