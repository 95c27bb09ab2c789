// For every processor: one byte of the four after the other, in the compiler's own vectors.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kLargest = 127, kFlip = 0, kInputs = 4;

struct Activation {
  Ints bytes[4];
};

static ALWAYS_INLINE Activation activation(const int8_t* at) {
  Activation a;
  for (int i = 0; i < 4; i++) a.bytes[i] = int32_t(at[i]) - Ints{};
  return a;
}

// Byte i of four, counted from the lowest, since the files of this project are little endian.
static ALWAYS_INLINE Ints byte(Ints four, int i) { return (Ints)((Bits)four << (24 - 8 * i)) >> 24; }

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, const int8_t* weights) {
  Ints line = load_ints(weights);
  for (int i = 0; i < 4; i++) sum += a.bytes[i] * byte(line, i);
  return sum;
}

}  // namespace DRAGOMAN_KERNELS
