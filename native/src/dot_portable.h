// For every processor: the even and the odd bytes as 16-bit numbers, multiplied and added in the compiler's own vectors.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kFlip = 0;

struct Activation {
  Ints bytes[4];
  explicit ALWAYS_INLINE Activation(const int8_t* at) {
    for (int i = 0; i < 4; i++) bytes[i] = int32_t(at[i]) - Ints{};
  }
};

// Byte i of four, counted from the lowest, since the files of this project are little endian.
static ALWAYS_INLINE Ints byte(Ints four, int i) { return (Ints)((Bits)four << (24 - 8 * i)) >> 24; }

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, Ints weights) {
  for (int i = 0; i < 4; i++) sum += a.bytes[i] * byte(weights, i);
  return sum;
}

}  // namespace DRAGOMAN_KERNELS
