// Matrix products in float32: the right factor in panels as wide as two vectors, the left one as it lies in memory, or,
// where its columns lie together, a few rows at a time copied side by side.
#pragma once

#include "../simd.h"
#include "kernels.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Left;

constexpr int kPanelWidth = 2 * kLanes;
constexpr int kTall = kLanes == 16 ? 12 : 6;  // rows of a tile: its sums fill the registers
constexpr int kDeep = 256;                    // inner numbers at a time: a panel of them stays in the first-level cache
constexpr int kMany = 40 * kTall;             // rows at a time: their part of the left factor stays in the second

static int64_t packed_bytes(int inner, int columns) { return 4 * int64_t(inner) * dragoman::up(columns, kPanelWidth); }

// kRound: to numbers that bfloat16 has.
template <bool kRound>
static ALWAYS_INLINE float rounded(float x) {
  if constexpr (!kRound) return x;
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  memcpy(&x, &bits, 4);
  return x;
}

template <bool kRound>
static void pack(const float* from, int64_t inner_stride, int64_t column_stride, int inner, int columns, void* packed) {
  float* to = static_cast<float*>(packed);
  for (int first = 0; first < columns; first += kPanelWidth, from += kPanelWidth * column_stride) {
    int wide = columns - first < kPanelWidth ? columns - first : kPanelWidth;
    if (!kRound && column_stride == 1 && wide == kPanelWidth) {
      for (int k = 0; k < inner; k++, to += kPanelWidth) memcpy(to, from + k * inner_stride, 4 * kPanelWidth);
      continue;
    }
    for (int n = 0; n < kPanelWidth; n++) {
      const float* column = from + n * column_stride;
      for (int k = 0; k < inner; k++) to[int64_t(k) * kPanelWidth + n] = n < wide ? rounded<kRound>(column[k * inner_stride]) : 0;
    }
    to += int64_t(inner) * kPanelWidth;
  }
}

struct Patch {
  const float* left;
  int64_t row_stride;
  const float* panel;
  int inner;
  float* out;
  int64_t stride;
  const float* bias;
  bool is_added;
  int columns;
};

template <int kRows, bool kBeside>
static ALWAYS_INLINE void tile(const Patch& t) {
  Floats sums[kRows][2] = {};
  const float* panel = t.panel;
  const float* left = t.left;
  for (int k = 0; k < t.inner; k++, panel += kPanelWidth, left += kBeside ? kRows : 1) {
    Floats low = load(panel), high = load(panel + kLanes);
    for (int r = 0; r < kRows; r++) {
      float x = left[kBeside ? r : r * t.row_stride];
      sums[r][0] += x * low;
      sums[r][1] += x * high;
    }
  }
  for (int r = 0; r < kRows; r++) {
    float* out = t.out + r * t.stride;
    if (t.columns == kPanelWidth) {
      Floats low = sums[r][0], high = sums[r][1];
      if (t.bias) low += load(t.bias), high += load(t.bias + kLanes);
      if (t.is_added) low += load(out), high += load(out + kLanes);
      store(out, low);
      store(out + kLanes, high);
    } else {
      alignas(64) float line[kPanelWidth];
      store(line, sums[r][0]);
      store(line + kLanes, sums[r][1]);
      for (int n = 0; n < t.columns; n++) out[n] = line[n] + (t.bias ? t.bias[n] : 0) + (t.is_added ? out[n] : 0);
    }
  }
}

// Rows from `done` on, as many tiles of kRows as there are.
template <int kRows>
static void rows_of_tiles(Patch t, int& done, int rows) {
  for (; done + kRows <= rows; done += kRows) {
    Patch one = t;
    one.left += done * t.row_stride;
    one.out += done * t.stride;
    tile<kRows, false>(one);
  }
}

// Where the left factor's columns lie together, rows are copied side by side, as many as a tile has, once for all panels.
// Returns where the next ones go.
template <int kRows, bool kRound>
static float* side_by_side(const Left& left, int& done, int rows, int inner, float* to) {
  for (; done + kRows <= rows; done += kRows) {
    const float* from = left.data + done;
    for (int k = 0; k < inner; k++, to += kRows, from += left.inner_stride)
      for (int r = 0; r < kRows; r++) to[r] = rounded<kRound>(from[r]);
  }
  return to;
}

// As rows_of_tiles, of rows that stand side by side.
template <int kRows>
static const float* rows_beside(Patch t, const float* beside, int& done, int rows) {
  for (; done + kRows <= rows; done += kRows, beside += kRows * t.inner) {
    Patch one = t;
    one.left = beside;
    one.out += done * t.stride;
    tile<kRows, true>(one);
  }
  return beside;
}

template <bool kRound>
static void multiply_across(Left left, int rows, const float* packed, int depth, int inner, int columns, float* out,
                            int64_t stride, const float* bias, bool is_added) {
  alignas(64) static thread_local float beside[kMany * kDeep];
  for (int first = 0; first < rows; first += kMany) {
    int many = rows - first < kMany ? rows - first : kMany, done = 0;
    Left part = {left.data + first, 1, left.inner_stride};
    float* to = side_by_side<kTall, kRound>(part, done, many, inner, beside);
    to = side_by_side<4, kRound>(part, done, many, inner, to);
    to = side_by_side<2, kRound>(part, done, many, inner, to);
    side_by_side<1, kRound>(part, done, many, inner, to);
    for (int n = 0; n < columns; n += kPanelWidth) {
      int wide = columns - n < kPanelWidth ? columns - n : kPanelWidth;
      Patch t = {nullptr, 1, packed + int64_t(n) * depth, inner, out + first * stride + n, stride,
                 bias ? bias + n : nullptr, is_added, wide};
      done = 0;
      const float* from = rows_beside<kTall>(t, beside, done, many);
      from = rows_beside<4>(t, from, done, many);
      from = rows_beside<2>(t, from, done, many);
      rows_beside<1>(t, from, done, many);
    }
  }
}

static void multiply_along(Left left, int rows, const float* packed, int depth, int inner, int columns, float* out,
                           int64_t stride, const float* bias, bool is_added) {
  for (int first = 0; first < rows; first += kMany) {
    int last = first + kMany < rows ? first + kMany : rows;
    for (int n = 0; n < columns; n += kPanelWidth) {
      int wide = columns - n < kPanelWidth ? columns - n : kPanelWidth, done = first;
      Patch t = {left.data, left.row_stride, packed + int64_t(n) * depth, inner, out + n, stride,
                bias ? bias + n : nullptr, is_added, wide};
      rows_of_tiles<kTall>(t, done, last);
      rows_of_tiles<4>(t, done, last);
      rows_of_tiles<2>(t, done, last);
      rows_of_tiles<1>(t, done, last);
    }
  }
}

static void multiply(Left left, int rows, const void* packed, int inner, int columns, float* out, int64_t stride,
                     const float* bias, bool is_added) {
  const float* panels = static_cast<const float*>(packed);
  for (int k = 0; k < inner || k == 0; k += kDeep) {
    int deep = inner - k < kDeep ? inner - k : kDeep;
    Left part = {left.data + k * left.inner_stride, left.row_stride, left.inner_stride};
    const float* from = panels + int64_t(k) * kPanelWidth;
    if (left.inner_stride == 1)
      multiply_along(part, rows, from, inner, deep, columns, out, stride, k ? nullptr : bias, is_added || k);
    else
      multiply_across<false>(part, rows, from, inner, deep, columns, out, stride, k ? nullptr : bias, is_added || k);
  }
}

// The same on numbers rounded to bfloat16; sums stay float32. What the instructions for it compute, at float32's speed.
[[maybe_unused]] static void multiply_rounded(Left left, int rows, const void* packed, int inner, int columns, float* out, int64_t stride,
                             const float* bias, bool is_added) {
  const float* panels = static_cast<const float*>(packed);
  for (int k = 0; k < inner || k == 0; k += kDeep) {
    int deep = inner - k < kDeep ? inner - k : kDeep;
    const float* from = panels + int64_t(k) * kPanelWidth;
    Left part = {left.data + k * left.inner_stride, left.row_stride, left.inner_stride};
    if (left.inner_stride != 1) {
      multiply_across<true>(part, rows, from, inner, deep, columns, out, stride, k ? nullptr : bias, is_added || k);
      continue;
    }
    alignas(64) float copy[kTall * kDeep];
    for (int first = 0; first < rows; first += kTall) {
      int tall = rows - first < kTall ? rows - first : kTall;
      for (int r = 0; r < tall; r++)
        for (int i = 0; i < deep; i++) copy[r * kDeep + i] = rounded<true>(part.data[(first + r) * part.row_stride + i]);
      multiply_along({copy, kDeep, 1}, tall, from, inner, deep, columns, out + first * stride, stride, k ? nullptr : bias,
                     is_added || k);
    }
  }
}

}  // namespace DRAGOMAN_KERNELS
