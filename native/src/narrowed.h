// int8 weights with fewer bits than a folder has, for instruction sets that take no more of them.
#pragma once

#include "buffer.h"
#include "kernels.h"

namespace dragoman {

struct Narrowed {
  Buffer<int8_t> weights;
  Buffer<float> scales;
  Buffer<int32_t> sums;

  // Whole numbers of magnitude kLargestWeight become whole numbers of magnitude `most`, rounded to the nearest.
  Narrowed(const Matrix& m, int most) {
    constexpr int kLine = 4 * kPanel;
    // In 256ths, so that 16 bits hold the product: 8 or 16 weights at a time.
    int16_t share = int16_t(256 * most / kLargestWeight);
    int outputs = padded(m.outputs, kPanel), lines = padded(m.inputs, kWidth) / 4;
    const int8_t* from = static_cast<const int8_t*>(m.weights);
    int8_t* to = weights.reserve(size_t(outputs / kPanel) * lines * kLine);
    scales.reserve(size_t(outputs));
    sums.reserve(size_t(outputs));
    for (int first = 0; first < outputs; first += kPanel) {
      int32_t places[kLine] = {};
      for (int line = 0; line < lines; line++, from += kLine, to += kLine)
        for (int i = 0; i < kLine; i++) {
          to[i] = int8_t(int16_t(from[i] * share + 128) >> 8);
          places[i] += to[i];
        }
      for (int o = 0; o < kPanel; o++) {
        scales.data()[first + o] = m.scales[first + o] * 256 / share;
        sums.data()[first + o] = places[4 * o] + places[4 * o + 1] + places[4 * o + 2] + places[4 * o + 3];
      }
    }
  }

  // The matrix with these weights.
  Matrix matrix(Matrix m) const {
    m.weights = weights.data(), m.scales = scales.data(), m.sums = sums.data();
    return m;
  }
};

}  // namespace dragoman
