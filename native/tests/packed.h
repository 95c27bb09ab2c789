// A matrix in the layout of dragoman.h, with its numbers as they are multiplied.
#pragma once

#include <cstring>
#include <vector>

#include "check.h"
#include "kernels.h"

struct PackedMatrix {
  std::vector<float> dense;  // [outputs][inputs]
  std::vector<int8_t> bytes;
  std::vector<float> floats, scales, bias;
  std::vector<int32_t> sums;
  dragoman_matrix matrix;

  PackedMatrix(Random& random, int outputs, int inputs, bool is_int8, float scale = 1, bool has_bias = true,
               int largest = dragoman::kLargestWeight) {
    int width = dragoman::padded(inputs, dragoman::kWidth), columns = dragoman::padded(outputs, dragoman::kPanel);
    dense.resize(size_t(outputs) * inputs);
    bytes.resize(is_int8 ? size_t(columns) * width : 0);
    floats.resize(is_int8 ? 0 : size_t(columns) * width);
    scales.assign(columns, 0);
    sums.assign(columns, 0);
    bias.assign(columns, 0);
    for (int o = 0; o < outputs; o++) {
      scales[o] = scale * (1 + random.below(100)) / (100.0f * largest);
      bias[o] = has_bias ? scale * random.normal() : 0;
      for (int i = 0; i < inputs; i++) {
        size_t panel = size_t(o / 16) * width * 16;
        if (is_int8) {
          int8_t byte = int8_t(random.below(2 * largest + 1) - largest);
          bytes[panel + size_t(i / 4) * 64 + (o % 16) * 4 + i % 4] = byte;
          sums[o] += byte;
          dense[size_t(o) * inputs + i] = byte * scales[o];
        } else {
          dense[size_t(o) * inputs + i] = floats[panel + size_t(i) * 16 + o % 16] = scale * random.normal();
        }
      }
    }
    const void* weights = is_int8 ? static_cast<const void*>(bytes.data()) : floats.data();
    matrix = {is_int8, outputs, inputs, weights, is_int8 ? scales.data() : nullptr, is_int8 ? sums.data() : nullptr, bias.data()};
  }
  PackedMatrix(const PackedMatrix&) = delete;
};
