// The dot product instructions of ARMv8.2 take signed bytes on both sides.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kFlip = 0;
constexpr int kCopies = 1;

struct Activation {
  int8x16_t value;
  ALWAYS_INLINE Activation(const int8_t* at, int) : value(vreinterpretq_s8_s32(vdupq_n_s32(load_four(at)))) {}
};

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, Ints weights) {
  return (Ints)vdotq_s32((int32x4_t)sum, a.value, (int8x16_t)weights);
}

}  // namespace DRAGOMAN_KERNELS
