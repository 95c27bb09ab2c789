// Part of a product of int8 numbers, on its way through the caches: some rows, some columns, and of the inputs those from
// `begin` on. As long as there are more inputs to come, the sums wait in `partial`.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Matrix;

constexpr int kMostColumns = 64;  // of a part

// Whole sums into floats: both scales, then the bias. Activations that were flipped (see quantize) have 128 added.
static ALWAYS_INLINE Floats finish(Ints sum, bool is_flipped, float scale, const Matrix& m, int column) {
  if (is_flipped) sum -= load_ints(m.sums + column) << 7;
  Floats x = __builtin_convertvector(sum, Floats) * (load(m.scales + column) * scale);
  return m.bias ? x + load(m.bias + column) : x;
}

struct Part {
  const int8_t* rows;
  int row_bytes;
  bool is_flipped, is_signed_apart;  // how activations are written: see the files of the instruction sets
  const float* scales;
  const Matrix& m;
  int width, begin, depth, column;
  int32_t* partial;
  float* out;
  int stride;

  const int8_t* row(int at) const { return rows + int64_t(at) * row_bytes + begin; }

  // The first panel of some columns; the next one follows `width` lines of 16 bytes later.
  const int8_t* weights(int at) const { return static_cast<const int8_t*>(m.weights) + int64_t(at) * width + 16 * begin; }

  // What a row with its signs apart has behind it: the sum of the magnitudes of its negative numbers.
  int32_t negatives(int at) const { return load_four(rows + int64_t(at + 1) * row_bytes - dragoman::kWidth); }

  ALWAYS_INLINE void put(int row, int at, Ints sum) const {
    int32_t* waiting = partial + row * kMostColumns + at - column;
    if (begin) sum += load_ints(waiting);
    if (begin + depth == width && is_signed_apart) sum += negatives(row);
    if (begin + depth == width)
      store(out + int64_t(row) * stride + at - column, finish(sum, is_flipped, scales[row], m, at));
    else
      memcpy(waiting, &sum, sizeof sum);
  }
};

}  // namespace DRAGOMAN_KERNELS
