// Part of a product of int8 numbers, on its way through the caches: some rows, some columns, and of the inputs those from
// `begin` on. As long as there are more inputs to come, the sums wait in `partial`.
#pragma once

#include "kernels.h"
#include "simd.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Matrix;

constexpr int kMostColumns = 64;  // of a part

// Whole sums into floats: what was added to the activations is taken away; both scales, then the bias.
static ALWAYS_INLINE Floats finish(Ints sum, float scale, const Matrix& m, int column) {
  if (kFlip) sum -= load_ints(m.sums + column) * kFlip;
  Floats x = __builtin_convertvector(sum, Floats) * (load(m.scales + column) * scale);
  return m.bias ? x + load(m.bias + column) : x;
}

struct Part {
  const int8_t* rows;
  const float* scales;
  const Matrix& m;
  int width, begin, depth, column;
  int32_t* partial;
  float* out;
  int stride;
  const int8_t* next = nullptr;  // the weights of the part after this one
  int next_panels = 0;

  const int8_t* row(int at) const { return rows + int64_t(at) * width + begin; }

  // The first panel of some columns; the next one follows `width` lines of 16 bytes later.
  const int8_t* weights(int at) const { return static_cast<const int8_t*>(m.weights) + int64_t(at) * width + 16 * begin; }

  ALWAYS_INLINE void put(int row, int at, Ints sum) const {
    int32_t* waiting = partial + row * kMostColumns + at - column;
    if (begin) sum += load_ints(waiting);
    if (begin + depth == width)
      store(out + int64_t(row) * stride + at - column, finish(sum, scales[row], m, at));
    else
      memcpy(waiting, &sum, sizeof sum);
  }
};

}  // namespace DRAGOMAN_KERNELS
