// VNNI multiplies four unsigned by four signed bytes and adds them up: activations are kept with 128 added, which the
// sums of the weights take back (see finish in part.h).
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

constexpr int kLargest = 127, kFlip = 128, kInputs = 4;

struct Activation {
  Ints value;
};

static ALWAYS_INLINE Activation activation(const int8_t* at) { return {load_four(at) - Ints{}}; }

static ALWAYS_INLINE Ints dot(Ints sum, const Activation& a, const int8_t* weights) {
  Ints line = load_ints(weights);
#if defined(DRAGOMAN_EMULATE_VNNI)
  uint8_t left[4 * kLanes];
  int8_t right[4 * kLanes];
  memcpy(left, &a.value, sizeof left);
  memcpy(right, &line, sizeof right);
  for (int i = 0; i < 4 * kLanes; i++) sum[i / 4] += left[i] * right[i];
  return sum;
#elif defined(__AVX512VNNI__)
  return (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a.value, (__m512i)line);
#else
  return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a.value, (__m256i)line);
#endif
}

}  // namespace DRAGOMAN_KERNELS
