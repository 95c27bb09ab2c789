// Updates of matrices in which all directions move alike; src/dragoman/train/orthogonal.py says what is computed.
#pragma once

#include <cstddef>
#include <vector>

#include "../../include/dragoman.h"
#include "../buffer.h"
#include "kernels.h"

namespace dragoman {

// A part of a matrix, which lies alike in the weights, the gradient and all that is kept of the matrix.
struct Block {
  int parameter;
  int64_t begin;
  int rows, columns;
  int64_t stride;

  int64_t low() const { return rows < columns ? rows : columns; }
  int64_t high() const { return rows < columns ? columns : rows; }
  int64_t cost() const { return low() * low() * (low() + 2 * high()); }
};

// All blocks of a parameter of `count` numbers; none if it is Adam's.
std::vector<Block> cut(int parameter, int64_t count, const dragoman_block& shape);

// One thread's room for it.
class Orthogonal {
 public:
  Orthogonal(const TrainKernels& kernels, const Products& products) : kernels_(kernels), products_(products) {}

  // Makes room, so that nothing can fail once weights are being moved.
  void reserve(const Block& block);

  // Moves one block; the pointers are to the beginning of the matrix.
  void update(const Block& block, const dragoman_adam& adam, const dragoman_orthogonal& settings, const float* gradient,
              float* weights, float* momentum, float* average);

 private:
  // x, which lies as the block does, becomes a x + b x x^T x + c x x^T x x^T x.
  void improve(const float* abc, const Block& block);

  const TrainKernels& kernels_;
  const Products& products_;
  Buffer<float> x_, square_, next_;
  Buffer<std::byte> packed_;
};

}  // namespace dragoman
