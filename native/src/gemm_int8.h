// Matrix products of int8 rows and int8 weights, exact in 32 bits, on the dot product of four bytes that each
// instruction set has in its own file: kInputs bytes of a row serve 16 columns.
//
// A panel of the weights (16 columns, [inputs64 / 4][16][4]) is one cache line for each four inputs, read from front to
// back. 32 or 64 columns and 512 inputs stay in the first-level cache while all rows pass; 128 rows stay in the second-level
// cache while all columns pass.
#pragma once

#include <algorithm>

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__) || defined(DRAGOMAN_EMULATE_VNNI)
#include "dot_vnni.h"
#elif defined(__AVX2__)
#include "dot_avx2.h"
#elif defined(__ARM_FEATURE_DOTPROD)
#include "dot_neon.h"
#else
#include "dot_portable.h"
#endif
#include "part.h"

namespace DRAGOMAN_KERNELS {

constexpr int kVectors = 16 / kLanes;                // of one line of a panel
// As many sums as the registers hold. A square tile loads least for its products: 2 rows and 4 vectors of 32 bytes.
constexpr int kPanelsAtOnce = kLanes >= 8 ? 2 : 1;
constexpr int kRowsAtOnce = kLanes == 16 ? 8 : kLanes == 8 ? 2 : 4;

constexpr int kGroup = kLanes == 16 ? 64 : 32;
constexpr int kDepth = 512;
constexpr int kTall = 128;

static_assert(kGroup <= kMostColumns);

// Into whole numbers up to kLargest, written with kFlip added: as signed bytes, since what packs them may cut off what is
// beyond 127.
static void quantize(const float* rows, int count, int stride, int width, int8_t* out, float* scales) {
  for (int r = 0; r < count; r++, rows += stride, out += width) {
    Floats most = {}, nothing = {};
    for (int i = 0; i < width; i += kLanes) {
      most = max(abs(load(rows + i)), most);
      nothing += load(rows + i) * 0.0f;  // NaN if any of them is not finite: then so is all that comes of this row
    }
    float range = largest(most);
    float factor = range > 0 ? kLargest / range : 0;
    scales[r] = range / kLargest + sum(nothing);
    for (int i = 0; i < width; i += kLanes) store_bytes(out + i, (nearest(load(rows + i) * factor) + kFlip) << 24 >> 24);
  }
}

// The loops over rows, panels and vectors are written out by the compiler, so that all sums stay in registers.
template <int kRows, int kPanels>
static void tile(const Part& part, int row, int column) {
  Ints sums[kRows][kPanels][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; p++)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; v++) sums[r][p][v] = Ints{};

  const int8_t* weights = part.weights(column);
  const int8_t* rows = part.row(row);
  for (int i = 0; i < part.depth; i += kInputs) {
    Activation of_row[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; r++) of_row[r] = activation(rows + int64_t(r) * part.width + i);
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; p++)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; v++)
#pragma GCC unroll 16
        for (int r = 0; r < kRows; r++)
          sums[r][p][v] = dot(sums[r][p][v], of_row[r], weights + (int64_t(p) * part.width + i) * 16 + 4 * kLanes * v);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; p++)
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; v++) part.put(row + r, column + 16 * p + kLanes * v, sums[r][p][v]);
}

// Asks for some rows' share of the weights that come next, so that these are in the cache when their turn comes: a few
// rows are multiplied faster than their weights arrive.
static ALWAYS_INLINE void fetch_ahead(const Part& part, int row, int rows, int count) {
  int lines = part.depth / 4, from = lines * row / count, to = lines * (row + rows) / count;
  for (int p = 0; p < part.next_panels; p++)
    for (int i = from; i < to; i++) __builtin_prefetch(part.next + 16 * int64_t(p) * part.width + 64 * i);
}

template <int kRows>
static int some_rows(const Part& part, int row, int count, int last) {
  for (; row + kRows <= count; row += kRows) {
    int column = part.column;
    fetch_ahead(part, row, kRows, count);
    for (; column + 16 * kPanelsAtOnce <= last; column += 16 * kPanelsAtOnce) tile<kRows, kPanelsAtOnce>(part, row, column);
    if (column < last) tile<kRows, 1>(part, row, column);
  }
  return row;
}

[[maybe_unused]] static void multiply_int8_by_rows(const int8_t* rows, const float* scales, int count, const Matrix& m, int first,
                                                   int last, float* out, int stride) {
  alignas(64) int32_t partial[kTall * kMostColumns];
  int width = dragoman::padded(m.inputs, dragoman::kWidth);
  for (int above = 0; above < count; above += kTall)
    for (int column = first; column < last; column += kGroup)
      for (int begin = 0; begin < width; begin += kDepth) {
        Part part{rows + int64_t(above) * width,
                  scales + above,
                  m,
                  width,
                  begin,
                  std::min(kDepth, width - begin),
                  column,
                  partial,
                  out + int64_t(above) * stride + column - first,
                  stride};
        int tall = std::min(kTall, count - above), end = std::min(last, column + kGroup);
        if (begin + kDepth < width)
          part.next = part.weights(column) + 16 * kDepth, part.next_panels = (end - column) / 16;
        else if (end < last)
          part.next = part.weights(end) - 16 * begin, part.next_panels = (std::min(last, end + kGroup) - end) / 16;
        int row = some_rows<kRowsAtOnce>(part, 0, tall, end);
        if (kRowsAtOnce > 4) row = some_rows<4>(part, row, tall, end);
        row = some_rows<2>(part, row, tall, end);
        some_rows<1>(part, row, tall, end);
      }
}

}  // namespace DRAGOMAN_KERNELS
