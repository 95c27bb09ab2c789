// The feed-forward network's activations, and their gated forms.
#pragma once

#include "../include/dragoman.h"
#include "simd.h"

namespace DRAGOMAN_KERNELS {

static ALWAYS_INLINE Floats relu(Floats x) { return x < 0.0f ? Floats{} : x; }

static ALWAYS_INLINE Floats silu(Floats x) { return x / (1.0f + exponential(-x)); }

// x Phi(x), with Abramowitz and Stegun's formula 7.1.26 for the error function (absolute error below 1.5e-7).
static ALWAYS_INLINE Floats gelu(Floats x) {
  Floats z = abs(x) * 0.70710678f;
  Floats t = 1.0f / (1.0f + 0.3275911f * z);
  Floats p = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  Floats erf = 1.0f - p * exponential(-z * z);
  return 0.5f * x * (1.0f + (x < 0.0f ? -erf : erf));
}

template <typename F>
static void each(const float* rows, int stride, int count, int first, int last, int linear, float* out, int out_stride, F f) {
  for (int r = 0; r < count; r++, rows += stride, out += out_stride)
    for (int i = first; i < last; i += kLanes) {
      Floats x = f(load(rows + i));
      if (!linear) {
        store(out + i, x);
      } else if (i + kLanes <= linear) {
        store(out + i, x * load(rows + linear + i));
      } else {  // the gate's last columns are not a whole vector, and what follows them is the linear part
        for (int k = 0; i + k < linear; k++) out[i + k] = x[k] * rows[linear + i + k];
      }
    }
}

static void activate(const float* rows, int stride, int count, int first, int last, int width, int kind, float* out,
                     int out_stride) {
  bool is_gated = kind == DRAGOMAN_SWIGLU || kind == DRAGOMAN_GEGLU;
  int linear = is_gated ? width : 0;
  if (kind == DRAGOMAN_RELU) each(rows, stride, count, first, last, linear, out, out_stride, relu);
  if (kind == DRAGOMAN_SWIGLU) each(rows, stride, count, first, last, linear, out, out_stride, silu);
  if (kind == DRAGOMAN_GELU || kind == DRAGOMAN_GEGLU) each(rows, stride, count, first, last, linear, out, out_stride, gelu);
}

}  // namespace DRAGOMAN_KERNELS
