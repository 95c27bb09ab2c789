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
  int64_t columns = block.columns, size = block.rows * columns;
  float* x = x_.data();
  for (int r = 0; r < block.rows; r++) {
    int64_t i = block.begin + r * block.stride;
    kernels_.look_ahead(gradient + i, columns, adam.scale, 1 - settings.momentum, momentum + i, x + r * columns);
  }
  float length = float(std::sqrt(kernels_.sum_of_squares(x, size)));
  float factor = 1 / (settings.margin * length + settings.tiny);
  for (int64_t i = 0; i < size; i++) x[i] *= factor;
  for (int round = 0; round < settings.rounds; round++) improve(settings.polynomials + 3 * round, block);
  float step = adam.rate * settings.size * std::sqrt(float(block.high()));
  float kept = 1 - adam.rate * adam.decays[block.parameter];
  for (int r = 0; r < block.rows; r++) {
    int64_t i = block.begin + r * block.stride;
    kernels_.step(x_.data() + r * columns, columns, step, kept, adam.keep, weights + i, average + i);
  }
}

void Orthogonal::improve(const float* abc, const Block& block) {
  float *x = x_.data(), *square = square_.data(), *next = next_.data();
  int rows = block.rows, columns = block.columns, low = int(block.low());
  if (rows > columns) {  // x^T x, which stands on x's right
    products_.pack(x, columns, 1, rows, columns, packed_.data());
    products_.multiply({x, 1, columns}, columns, packed_.data(), rows, columns, square, low, nullptr, false);
  } else {
    products_.pack(x, 1, columns, columns, rows, packed_.data());
    products_.multiply({x, columns, 1}, rows, packed_.data(), columns, rows, square, low, nullptr, false);
  }
  products_.pack(square, low, 1, low, low, packed_.data());
  products_.multiply({square, low, 1}, low, packed_.data(), low, low, next, low, nullptr, false);
  for (int64_t i = 0; i < int64_t(low) * low; i++) square[i] = abc[1] * square[i] + abc[2] * next[i];
  for (int64_t i = 0; i < low; i++) square[i * low + i] += abc[0];
  if (rows > columns) {
    products_.pack(square, low, 1, low, low, packed_.data());
    products_.multiply({x, columns, 1}, rows, packed_.data(), low, columns, next, columns, nullptr, false);
  } else {
    products_.pack(x, columns, 1, rows, columns, packed_.data());
    products_.multiply({square, low, 1}, low, packed_.data(), low, columns, next, columns, nullptr, false);
  }
  std::swap(x_, next_);
}

}  // namespace dragoman
