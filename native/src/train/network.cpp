#include "network.h"

#include <algorithm>
#include <stdexcept>

namespace dragoman {
namespace {

constexpr int kShare = 64;  // columns that are packed by one member: a whole number of panels everywhere

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

}  // namespace

Network::Network(const dragoman_network& n, const TrainKernels& kernels)
    : sizes(n), kernels(kernels), weights_(n.weights, n.weights + n.parameters), counts_(n.counts, n.counts + n.parameters) {
  require(n.num_heads > 0 && n.d_model % (n.num_heads * kBlock) == 0 && n.d_ff % kBlock == 0,
          "the training kernels need widths of heads and of the feed-forward network that are multiples of 16");
  auto own = [&](int index) { return n.first[index]; };
  src_embedding = own(0), tgt_embedding = own(1);
  src_positions = own(3), tgt_positions = own(4);
  src_table = src_positions < 0 ? n.src_positions : weights(src_positions);
  tgt_table = tgt_positions < 0 ? n.tgt_positions : weights(tgt_positions);
  output.weight = own(2);
  next_ = n.first[5];
  for (int i = 0; i < n.num_encoder_layers; i++) {
    EncoderPart& l = encoder.emplace_back();
    l.self = attention(), l.feed_forward = feed_forward();
  }
  for (int i = 0; i < n.num_decoder_layers; i++) {
    DecoderPart& l = decoder.emplace_back();
    l.self = attention(), l.cross = attention(), l.feed_forward = feed_forward();
  }
  if (n.norm_first) encoder_norm = norm(), decoder_norm = norm();
  require(next_ == n.parameters, "the number of parameters does not fit the sizes");
  prepare(output, n.d_model, n.tgt_vocab);
  auto all = [&](AttentionPart& a) {
    prepare(a.query, n.d_model, n.d_model), prepare(a.key_value, n.d_model, 2 * n.d_model), prepare(a.output, n.d_model, n.d_model);
  };
  auto both = [&](FeedForwardPart& f) {
    prepare(f.inner, n.d_model, is_gated() ? 2 * n.d_ff : n.d_ff), prepare(f.outer, n.d_ff, n.d_model);
  };
  for (EncoderPart& l : encoder) all(l.self), both(l.feed_forward);
  for (DecoderPart& l : decoder) all(l.self), all(l.cross), both(l.feed_forward);
}

Linear Network::linear(int inputs, int outputs, bool has_bias) {
  Linear one;
  one.weight = next_++;
  if (has_bias) one.bias = next_++;
  one.inputs = inputs, one.outputs = outputs;
  return one;
}

Norm Network::norm() {
  Norm one;
  one.gamma = next_++, one.beta = next_++;
  return one;
}

AttentionPart Network::attention() {
  int d = sizes.d_model;
  AttentionPart part;
  part.query = linear(d, d), part.key_value = linear(d, 2 * d), part.output = linear(d, d);
  part.norm = norm();
  return part;
}

FeedForwardPart Network::feed_forward() {
  FeedForwardPart part;
  part.inner = linear(sizes.d_model, is_gated() ? 2 * sizes.d_ff : sizes.d_ff);
  part.outer = linear(sizes.d_ff, sizes.d_model);
  part.norm = norm();
  return part;
}

void Network::prepare(Linear& one, int inputs, int outputs) {
  one.inputs = inputs, one.outputs = outputs;
  require(one.weight >= 0 && one.weight < parameters() && counts_[one.weight] == int64_t(inputs) * outputs &&
              (one.bias < 0 || counts_[one.bias] == outputs),
          "a matrix does not have the size that the model's sizes ask for");
  one.forward.reserve(products().packed_bytes(inputs, up(outputs, kShare)));
  one.back.reserve(products().packed_bytes(outputs, up(inputs, kShare)));
  linears_.push_back(&one);
}

void Network::pack(int member, int members) {
  const Products& p = products();
  for (Linear* one : linears_) {
    const float* w = weights(one->weight);
    auto share = [&](int inner, int columns, int64_t inner_stride, int64_t column_stride, std::byte* to) {
      int parts = int(up(columns, kShare) / kShare);
      int first = parts * member / members * kShare, last = std::min(parts * (member + 1) / members * kShare, columns);
      if (first < last)
        p.pack(w + first * column_stride, inner_stride, column_stride, inner, last - first, to + p.packed_bytes(inner, first));
    };
    share(one->inputs, one->outputs, 1, one->inputs, one->forward.data());
    share(one->outputs, one->inputs, one->inputs, 1, one->back.data());
  }
}

}  // namespace dragoman
