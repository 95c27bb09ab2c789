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
  for (int r = 0; r < count; r++, rows += stride, out += width) {
    Floats most = {};
    for (int i = 0; i < width; i += kLanes) most = max(abs(load(rows + i)), most);
    float range = largest(most);
    float factor = range > 0 ? 127 / range : 0;
    scales[r] = range / 127;
    for (int i = 0; i < width; i += kLanes) {
      Ints whole = nearest(load(rows + i) * factor);
      store_bytes(out + i, kFlip ? (whole ^ kFlip) << 24 >> 24 : whole);
    }
  }
}

// Whole sums into floats: both scales, then the bias.
static ALWAYS_INLINE Floats finish(Ints sum, float scale, const Matrix& m, int column) {
  if (kFlip) sum -= load_ints(m.sums + column) << 7;
  Floats x = __builtin_convertvector(sum, Floats) * (load(m.scales + column) * scale);
  return m.bias ? x + load(m.bias + column) : x;
}

// Part of a product: some rows, some columns, and of the inputs those from `begin` on. As long as there are more inputs to
// come, the sums wait in `partial`.
struct Part {
  const int8_t* rows;
  const float* scales;
  const Matrix& m;
  int width, begin, depth, column;
  int32_t* partial;
  float* out;
  int stride;
};

constexpr int kPanelsAtOnce = kLanes == 16 ? 2 : 1;  // as many sums as the registers hold: 16 of 32 bytes, 32 of 64 bytes
constexpr int kRowsAtOnce = kLanes == 16 ? 8 : 4;
constexpr int kGroup = 2 * 16 * kPanelsAtOnce;  // columns whose weights stay in the first-level cache while all rows pass
constexpr int kDepth = 512;                     // inputs, likewise
constexpr int kTall = 128;                      // rows that stay in the second-level cache while all columns pass

// The loops over rows, panels and vectors are written out by the compiler, so that all sums stay in registers.
template <int kRows, int kPanels>
static void tile(const Part& part, int row, int column) {
  Ints sums[kRows][kPanels][kVectors];
  int32_t* partial = part.partial + row * kGroup + column - part.column;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; p++)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; v++)
        sums[r][p][v] = part.begin ? load_ints(partial + r * kGroup + 16 * p + kLanes * v) : Ints{};

  const int8_t* weights = static_cast<const int8_t*>(part.m.weights) + int64_t(column) * part.width + 16 * part.begin;
  const int8_t* rows = part.rows + int64_t(row) * part.width + part.begin;
  for (int i = 0; i < part.depth; i += 4) {
    Ints line[kPanels][kVectors];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; p++)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; v++) line[p][v] = load_ints(weights + (int64_t(p) * part.width + i) * 16 + 4 * kLanes * v);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; r++) {
      Activation a(rows + int64_t(r) * part.width + i);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; p++)
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; v++) sums[r][p][v] = dot(sums[r][p][v], a, line[p][v]);
    }
  }

  bool is_last = part.begin + part.depth == part.width;
  float* out = part.out + int64_t(row) * part.stride + column - part.column;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; p++)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; v++) {
        int at = 16 * p + kLanes * v;
        if (is_last)
          store(out + int64_t(r) * part.stride + at, finish(sums[r][p][v], part.scales[row + r], part.m, column + at));
        else
          memcpy(partial + r * kGroup + at, &sums[r][p][v], sizeof(Ints));
      }
}

template <int kRows>
static int some_rows(const Part& part, int row, int count, int last) {
  for (; row + kRows <= count; row += kRows) {
    int column = part.column;
    for (; column + 16 * kPanelsAtOnce <= last; column += 16 * kPanelsAtOnce) tile<kRows, kPanelsAtOnce>(part, row, column);
    if (column < last) tile<kRows, 1>(part, row, column);
  }
  return row;
}

[[maybe_unused]] static void multiply_int8_by_dots(const int8_t* rows, const float* scales, int count, const Matrix& m, int first,
                                                   int last, float* out, int stride) {
  alignas(64) int32_t partial[kTall * kGroup];
  int width = dragoman::padded(m.inputs, dragoman::kWidth);
  for (int above = 0; above < count; above += kTall) {
    int tall = count - above < kTall ? count - above : kTall;
    for (int column = first; column < last; column += kGroup)
      for (int begin = 0; begin < width; begin += kDepth) {
        Part part{rows + int64_t(above) * width, scales + above, m,      width, begin, width - begin < kDepth ? width - begin : kDepth,
                  column,                        partial,        out + int64_t(above) * stride + column - first, stride};
        int end = column + kGroup < last ? column + kGroup : last;
        int row = some_rows<kRowsAtOnce>(part, 0, tall, end);
        if (kRowsAtOnce > 4) row = some_rows<4>(part, row, tall, end);
        row = some_rows<2>(part, row, tall, end);
        some_rows<1>(part, row, tall, end);
      }
  }
}

}  // namespace DRAGOMAN_KERNELS
