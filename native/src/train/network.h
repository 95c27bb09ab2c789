// The model as the training sees it: where its numbers lie, and its matrices packed for the products of both directions.
#pragma once

#include <cstddef>
#include <vector>

#include "../../include/dragoman.h"
#include "../buffer.h"
#include "kernels.h"

namespace dragoman {

using Sizes = dragoman_network;

// Parameters by their numbers; -1: there is none.
struct Linear {
  int weight = -1, bias = -1;
  int inputs = 0, outputs = 0;
  Buffer<std::byte> forward, back;  // packed: W^T for x W^T, W for dy W
};

struct Norm {
  int gamma = -1, beta = -1;
};

// Sub-layers, each with the norm of its residual connection.
struct AttentionPart {
  Linear query, key_value, output;
  Norm norm;
};

struct FeedForwardPart {
  Linear inner, outer;
  Norm norm;
};

struct EncoderPart {
  AttentionPart self;
  FeedForwardPart feed_forward;
};

struct DecoderPart {
  AttentionPart self, cross;
  FeedForwardPart feed_forward;
};

class Network {
 public:
  Network(const dragoman_network& network, const TrainKernels& kernels);

  // Packs this member's share of every matrix; to be done after each change of the weights.
  void pack(int member, int members);

  const float* weights(int parameter) const { return weights_[parameter]; }
  int64_t count(int parameter) const { return counts_[parameter]; }
  int parameters() const { return int(weights_.size()); }
  bool is_gated() const { return sizes.activation == DRAGOMAN_SWIGLU || sizes.activation == DRAGOMAN_GEGLU; }
  const Products& products() const { return sizes.is_half ? kernels.halves : kernels.floats; }

  const Sizes sizes;
  const TrainKernels& kernels;
  int src_embedding, tgt_embedding;
  int src_positions, tgt_positions;  // -1: fixed
  const float *src_table, *tgt_table;
  Linear output;
  std::vector<EncoderPart> encoder;
  std::vector<DecoderPart> decoder;
  Norm encoder_norm, decoder_norm;  // with norm_first

 private:
  Linear linear(int inputs, int outputs, bool has_bias = true);
  Norm norm();
  AttentionPart attention();
  FeedForwardPart feed_forward();
  void prepare(Linear& one, int inputs, int outputs);

  std::vector<const float*> weights_;
  std::vector<int64_t> counts_;
  std::vector<Linear*> linears_;
  int next_ = 0;
};

}  // namespace dragoman
