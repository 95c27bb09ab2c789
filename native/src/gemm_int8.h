// Matrix products of int8 rows and int8 weights, exact in 32 bits, on the dot product of four bytes that each
// instruction set has in its own file.
//
// A panel of the weights (16 columns, [inputs64 / 4][16][4]) is one cache line for each four inputs: it is read from
// front to back, stays in the first-level cache while all rows pass it, and four bytes of a row serve 16 columns.
#pragma once

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(DRAGOMAN_EMULATE_VNNI)
#include "dot_vnni.h"
#elif defined(__AVX2__)
#include "dot_avx2.h"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "dot_neon.h"
#else
#include "dot_portable.h"
#endif
#include <type_traits>

#include "kernels.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Matrix;

constexpr int kVectors = 16 / kLanes;  // of one line of a panel

static void quantize(const float* rows, int count, int stride, int width, int8_t* out, float* scales) {
  typedef int8_t Bytes __attribute__((vector_size(kLanes)));
  for (int r = 0; r < count; r++, rows += stride, out += width) {
    Floats most = {};
    for (int i = 0; i < width; i += kLanes) most = max(abs(load(rows + i)), most);
    float range = largest(most);
    float factor = range > 0 ? 127 / range : 0;
    scales[r] = range / 127;
    for (int i = 0; i < width; i += kLanes) {
      Bytes bytes = __builtin_convertvector(nearest(load(rows + i) * factor) ^ kFlip, Bytes);
      memcpy(out + i, &bytes, sizeof bytes);
    }
  }
}

// Whole sums into floats: both scales, then the bias.
static ALWAYS_INLINE Floats finish(Ints sum, float scale, const Matrix& m, int column) {
  if (kFlip) sum -= load_ints(m.sums + column) << 7;
  Floats x = __builtin_convertvector(sum, Floats) * (load(m.scales + column) * scale);
  return m.bias ? x + load(m.bias + column) : x;
}

template <int kRows, int kPanels>
static void tile(const int8_t* rows, const float* scales, int width, const Matrix& m, int column, float* out, int stride) {
  Ints sums[kRows][kPanels][kVectors] = {};
  const int8_t* weights = static_cast<const int8_t*>(m.weights) + int64_t(column) * width;
  for (int i = 0; i < width; i += 4) {
    Ints line[kPanels][kVectors];
    for (int p = 0; p < kPanels; p++)
      for (int v = 0; v < kVectors; v++) line[p][v] = load_ints(weights + (int64_t(p) * width + i) * 16 + 4 * kLanes * v);
    for (int r = 0; r < kRows; r++) {
      int32_t four;
      memcpy(&four, rows + int64_t(r) * width + i, 4);
      Activation a(four);
      for (int p = 0; p < kPanels; p++)
        for (int v = 0; v < kVectors; v++) sums[r][p][v] = dot(sums[r][p][v], a, line[p][v]);
    }
  }
  for (int r = 0; r < kRows; r++)
    for (int p = 0; p < kPanels; p++)
      for (int v = 0; v < kVectors; v++) {
        int at = 16 * p + kLanes * v;
        store(out + int64_t(r) * stride + at, finish(sums[r][p][v], scales[r], m, column + at));
      }
}

template <int kRows, int kPanels>
static void columns_of(const int8_t* rows, const float* scales, int width, const Matrix& m, int first, int last, float* out,
                       int stride) {
  int column = first;
  for (; column + 16 * kPanels <= last; column += 16 * kPanels)
    tile<kRows, kPanels>(rows, scales, width, m, column, out + column - first, stride);
  for (; column < last; column += 16) tile<kRows, 1>(rows, scales, width, m, column, out + column - first, stride);
}

// As many sums as the registers hold: 16 of 32 bytes, 32 of 64 bytes and on ARM.
constexpr int kPanelsAtOnce = kLanes == 16 ? 2 : 1;
constexpr int kRowsAtOnce = kLanes == 16 ? 8 : 4;

[[maybe_unused]] static void multiply_int8_by_dots(const int8_t* rows, const float* scales, int count, const Matrix& m, int first, int last,
                                  float* out, int stride) {
  int width = dragoman::padded(m.inputs, dragoman::kWidth);
  const int step = 16 * kPanelsAtOnce;
  for (int column = first; column < last; column += step) {
    int end = column + step < last ? column + step : last;
    int r = 0;
    for (; r + kRowsAtOnce <= count; r += kRowsAtOnce)
      columns_of<kRowsAtOnce, kPanelsAtOnce>(rows + int64_t(r) * width, scales + r, width, m, column, end,
                                             out + int64_t(r) * stride + column - first, stride);
    auto rest = [&](auto tall) {
      constexpr int kTall = decltype(tall)::value;
      if (count - r >= kTall) {
        columns_of<kTall, kPanelsAtOnce>(rows + int64_t(r) * width, scales + r, width, m, column, end,
                                         out + int64_t(r) * stride + column - first, stride);
        r += kTall;
      }
    };
    if (kRowsAtOnce > 4) rest(std::integral_constant<int, 4>());
    rest(std::integral_constant<int, 2>());
    rest(std::integral_constant<int, 1>());
  }
}

}  // namespace DRAGOMAN_KERNELS
