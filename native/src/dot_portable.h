// For every processor: one byte of the four after the other, in the compiler's own vectors.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kFlip = 0;
constexpr int kCopies = 1;

struct Activation {
  Ints bytes[4];
  ALWAYS_INLINE Activation(const int8_t* at, int) {
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
