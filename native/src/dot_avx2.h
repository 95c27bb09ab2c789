// AVX2 without VNNI. Its product of unsigned and signed bytes adds up two of them in 16 bits, and saturates. Activations of
// 7 bits, with 64 added, and weights of 7 bits (see narrowed.h) leave room for four: 4 * 127 * 63 < 2^15. So two such products are added
// before they are widened to 32 bits, and every sum is exact.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kLargest = 63, kFlip = 64, kInputs = 8;

struct Activation {
  Ints first, second;
};

static ALWAYS_INLINE Activation activation(const int8_t* at) { return {load_four(at) - Ints{}, load_four(at + 4) - Ints{}}; }

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, const int8_t* weights) {
  __m256i first = _mm256_maddubs_epi16((__m256i)a.first, (__m256i)load_ints(weights));
  // The next line of the panel.
  __m256i second = _mm256_maddubs_epi16((__m256i)a.second, (__m256i)load_ints(weights + 64));
  return sum + (Ints)_mm256_madd_epi16(_mm256_add_epi16(first, second), _mm256_set1_epi16(1));
}

}  // namespace DRAGOMAN_KERNELS
