#include "orthogonal.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dragoman {

std::vector<Block> cut(int parameter, int64_t count, const dragoman_block& shape) {
  std::vector<Block> blocks;
  if (!shape.rows) return blocks;
  int64_t stride = shape.stride;
  for (int64_t row = 0; row < count / stride; row += shape.rows)
    for (int64_t column = 0; column < stride; column += shape.columns)
      blocks.push_back({parameter, row * stride + column, shape.rows, shape.columns, stride});
  return blocks;
}

void Orthogonal::reserve(const Block& block) {
  int64_t low = block.low(), high = block.high();
  x_.reserve(size_t(low * high));
  next_.reserve(size_t(low * high));
  square_.reserve(size_t(low * low));
  packed_.reserve(size_t(std::max(products_.packed_bytes(int(low), int(high)), products_.packed_bytes(int(high), int(low)))));
}

void Orthogonal::update(const Block& block, const dragoman_adam& adam, const dragoman_orthogonal& settings,
                        const float* gradient, float* weights, float* momentum, float* average) {
  int64_t low = block.low(), high = block.high();
  bool is_tall = block.rows > block.columns;
  int64_t row_step = is_tall ? 1 : high, column_step = is_tall ? high : 1;
  float* x = x_.data();
  float fresh = 1 - settings.momentum;
  for (int r = 0; r < block.rows; r++)
    for (int c = 0; c < block.columns; c++) {
      int64_t i = block.begin + r * block.stride + c;
      float g = adam.scale * gradient[i];
      momentum[i] += fresh * (g - momentum[i]);
      x[r * row_step + c * column_step] = momentum[i] + fresh * (g - momentum[i]);
    }
  float length = float(std::sqrt(kernels_.sum_of_squares(x, low * high)));
  float factor = 1 / (settings.margin * length + settings.tiny);
  for (int64_t i = 0; i < low * high; i++) x[i] *= factor;
  for (int round = 0; round < settings.rounds; round++) improve(settings.polynomials + 3 * round, int(low), int(high));
  x = x_.data();
  float step = adam.rate * settings.size * std::sqrt(float(high)), kept = 1 - adam.rate * adam.decays[block.parameter];
  for (int r = 0; r < block.rows; r++)
    for (int c = 0; c < block.columns; c++) {
      int64_t i = block.begin + r * block.stride + c;
      weights[i] = kept * weights[i] - step * x[r * row_step + c * column_step];
      average[i] = adam.keep * average[i] + (1 - adam.keep) * weights[i];
    }
}

void Orthogonal::improve(const float* abc, int low, int high) {
  float *x = x_.data(), *square = square_.data(), *next = next_.data();
  products_.pack(x, 1, high, high, low, packed_.data());
  products_.multiply({x, high, 1}, low, packed_.data(), high, low, square, low, nullptr, false);
  products_.pack(square, low, 1, low, low, packed_.data());
  products_.multiply({square, low, 1}, low, packed_.data(), low, low, next, low, nullptr, false);
  for (int64_t i = 0; i < int64_t(low) * low; i++) square[i] = abc[1] * square[i] + abc[2] * next[i];
  for (int64_t i = 0; i < low; i++) square[i * low + i] += abc[0];
  products_.pack(x, high, 1, low, high, packed_.data());
  products_.multiply({square, low, 1}, low, packed_.data(), low, high, next, high, nullptr, false);
  std::swap(x_, next_);
}

}  // namespace dragoman
