// What happens to each row alone: layer norm and embedding.
#pragma once

#include <cmath>

#include "simd.h"

namespace DRAGOMAN_KERNELS {

// LayerNorm(x) = (x - mean) / sqrt(variance + 1e-5) * gamma + beta, the variance as the mean of squared differences.
static void norm(float* x, const float* y, int count, int stride, int width, const float* gamma, const float* beta, float* out) {
  int even = width / kLanes * kLanes;
  for (int r = 0; r < count; r++, x += stride, out += stride) {
    Floats sums = {}, squares = {};
    float rest = 0;
    if (y) {
      for (int i = 0; i < stride; i += kLanes) store(x + i, load(x + i) + load(y + i));
      y += stride;
    }
    for (int i = 0; i < even; i += kLanes) sums += load(x + i);
    for (int i = even; i < width; i++) rest += x[i];
    float mean = (sum(sums) + rest) / width;
    rest = 0;
    for (int i = 0; i < even; i += kLanes) {
      Floats away = load(x + i) - mean;
      squares += away * away;
    }
    for (int i = even; i < width; i++) rest += (x[i] - mean) * (x[i] - mean);
    float factor = 1 / std::sqrt((sum(squares) + rest) / width + 1e-5f);
    for (int i = 0; i < even; i += kLanes) store(out + i, (load(x + i) - mean) * factor * load(gamma + i) + load(beta + i));
    for (int i = even; i < width; i++) out[i] = (x[i] - mean) * factor * gamma[i] + beta[i];
  }
}

static void embed(const float* embedding, const float* position, float factor, int width, int stride, float* x) {
  for (int i = 0; i < width; i++) x[i] = embedding[i] * factor + position[i];
  for (int i = width; i < stride; i++) x[i] = 0;  // may be NaN from a sentence before
}

}  // namespace DRAGOMAN_KERNELS
