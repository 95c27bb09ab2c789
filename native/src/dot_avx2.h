// AVX2 without VNNI. Its product of unsigned and signed bytes saturates at 16 bits, so activations come as magnitudes:
// 2 * 127 * 128 fits. The sign goes to the weight: with s = -1 where a is negative and else 0,
//
//   a w = |a| (w ^ s) + |a| [a < 0]
//
// since w ^ -1 = -w - 1. The exclusive or runs beside the products where the instruction made for it, vpsignb, competes
// with them; and the second part, summed, does not depend on w: it is one number a row, written behind it.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kFlip = 0;
constexpr int kCopies = 2;  // a row of magnitudes, then one of signs

struct Activation {
  Ints magnitude, sign;
  ALWAYS_INLINE Activation(const int8_t* at, int width)
      : magnitude(load_four(at) - Ints{}), sign(load_four(at + width) - Ints{}) {}
};

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, Ints weights) {
  __m256i pairs = _mm256_maddubs_epi16((__m256i)a.magnitude, (__m256i)(weights ^ a.sign));
  return sum + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

}  // namespace DRAGOMAN_KERNELS
