// Matrix products in float32. Each result is one sum over the inputs in their order, whatever the rows beside it, so that
// a sentence alone and in a batch get the same bits.
#pragma once

#include <type_traits>

#include "kernels.h"
#include "simd.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Matrix;

template <int kRows>
static void float_tile(const float* rows, int stride, int width, const Matrix& m, int column, float* out, int out_stride) {
  constexpr int kVectors = 16 / kLanes;
  Floats sums[kRows][kVectors] = {};
  const float* weights = static_cast<const float*>(m.weights) + int64_t(column) * width;
  for (int i = 0; i < width; i++, weights += 16) {
    Floats line[kVectors];
    for (int v = 0; v < kVectors; v++) line[v] = load(weights + kLanes * v);
    for (int r = 0; r < kRows; r++)
      for (int v = 0; v < kVectors; v++) sums[r][v] += rows[int64_t(r) * stride + i] * line[v];
  }
  for (int r = 0; r < kRows; r++)
    for (int v = 0; v < kVectors; v++) {
      Floats x = sums[r][v];
      store(out + int64_t(r) * out_stride + kLanes * v, m.bias ? x + load(m.bias + column + kLanes * v) : x);
    }
}

static void multiply_float(const float* rows, int stride, int count, const Matrix& m, int first, int last, float* out,
                           int out_stride) {
  constexpr int kRows = kLanes == 16 ? 12 : kLanes == 8 ? 6 : 3;
  int width = dragoman::padded(m.inputs, dragoman::kWidth);
  for (int column = first; column < last; column += 16) {
    int r = 0;
    float* to = out + column - first;
    auto block = [&](auto tall) {
      constexpr int kTall = decltype(tall)::value;
      for (; r + kTall <= count; r += kTall)
        float_tile<kTall>(rows + int64_t(r) * stride, stride, width, m, column, to + int64_t(r) * out_stride, out_stride);
    };
    block(std::integral_constant<int, kRows>());
    block(std::integral_constant<int, 2>());
    block(std::integral_constant<int, 1>());
  }
}

}  // namespace DRAGOMAN_KERNELS
