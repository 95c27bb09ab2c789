// The dot product instructions of ARMv8.2 take signed bytes on both sides.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kLargest = 127, kFlip = 0, kInputs = 4;

struct Activation {
  int8x16_t value;
};

static ALWAYS_INLINE Activation activation(const int8_t* at) { return {vreinterpretq_s8_s32(vdupq_n_s32(load_four(at)))}; }

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, const int8_t* weights) {
  return (Ints)vdotq_s32((int32x4_t)sum, a.value, (int8x16_t)load_ints(weights));
}

}  // namespace DRAGOMAN_KERNELS
