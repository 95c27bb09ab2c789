// A model: the caller's plan, checked, with the sizes that follow from it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"
#include "narrowed.h"

namespace dragoman {

struct EncoderLayer {
  const Matrix *qkv, *out, *inner, *outer;
  const dragoman_norm *attention, *feed_forward;
};

struct DecoderLayer {
  const Matrix *qkv, *out, *cross_query, *cross_kv, *cross_out, *inner, *outer;
  const dragoman_norm *attention, *cross, *feed_forward;
};

struct Model {
  explicit Model(const dragoman_plan& plan);  // throws std::invalid_argument

  dragoman_plan plan;
  std::vector<Matrix> matrices;
  std::vector<Narrowed> narrowed;  // weights of matrices, where the kernels take fewer bits than the plan has
  std::vector<dragoman_norm> norms;
  std::vector<EncoderLayer> encoder;
  std::vector<DecoderLayer> decoder;
  const Matrix* output;
  const dragoman_norm *encoder_norm, *decoder_norm;  // NULL in a post-norm model
  std::vector<uint8_t> never;                        // [vocabulary, padded]: padding, BOS, ids without a piece

  int head;    // width of a head, padded
  int heads;   // all heads side by side: the H of the plan
  // From row to row of hidden states, of projected ones, of what attention gathered, and inside the feed-forward network.
  int width, projected, mixed, inner;
  float scale;  // 1 / sqrt(d_k)
  const AttentionKernels* attention;

  // Bytes that keys and values of a token take, and those of a source. A cell is one line longer than it need be: if
  // cells lay whole pages apart, the same head of all of them would compete for the same few places in the cache.
  int64_t cell_bytes() const { return numbers() * attention->bytes + 64; }
  int64_t memory_bytes(int length) const { return numbers() * attention->bytes * padded(length, 16); }

 private:
  int64_t numbers() const { return int64_t(decoder.size()) * 2 * heads; }
};

}  // namespace dragoman
