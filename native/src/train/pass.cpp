#include "pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dragoman {
namespace {

constexpr int64_t kBlockFloats = 1 << 20;
constexpr int kLogitRows = 128;  // rows of logits at a time: they are never kept whole
constexpr int64_t kPanelColumns = 64;

enum { kSrcSite, kTgtSite, kFirstSite };

}  // namespace

float* Arena::take(int64_t count) {
  size_t wanted = size_t(up(std::max<int64_t>(count, 1), 16));
  while (block_ < blocks_.size() && used_ + wanted > blocks_[block_].size()) block_++, used_ = 0;
  if (block_ == blocks_.size()) blocks_.emplace_back(std::max<size_t>(wanted, kBlockFloats)), used_ = 0;
  float* taken = blocks_[block_].data() + used_;
  used_ += wanted;
  return taken;
}

Mask Pass::mask(uint32_t site) const {
  return {task_.seed, site, uint32_t(net_.sizes.dropped)};
}

Pass::Side Pass::side(const int64_t* offsets, int first, int last) const {
  Side one;
  one.first_row = offsets[first];
  for (int i = first; i <= last; i++) one.start.push_back(int(offsets[i] - offsets[first]));
  return one;
}

float* Pass::embed(const Side& side, const int32_t* ids, int embedding, const float* table, uint32_t site) {
  float* x = rows(side);
  float factor = std::sqrt(float(d_));
  const float* vectors = net_.weights(embedding);
  for (size_t s = 0; s + 1 < side.start.size(); s++)
    for (int row = side.start[s]; row < side.start[s + 1]; row++) {
      const float* vector = vectors + int64_t(ids[row]) * d_;
      const float* position = table + int64_t(row - side.start[s]) * d_;
      for (int i = 0; i < d_; i++) x[int64_t(row) * d_ + i] = vector[i] * factor + position[i];
    }
  kernels_.dropout(x, nullptr, side.rows(), d_, mask(site), side.first_row, x);
  return x;
}

void Pass::embed_back(const Side& side, const int32_t* ids, int embedding, int positions, uint32_t site, float* dx) {
  kernels_.dropout(dx, nullptr, side.rows(), d_, mask(site), side.first_row, dx);
  float factor = std::sqrt(float(d_));
  for (size_t s = 0; s + 1 < side.start.size(); s++)
    for (int row = side.start[s]; row < side.start[s + 1]; row++) {
      const float* from = dx + int64_t(row) * d_;
      kernels_.add(from, d_, factor, gradient(embedding) + int64_t(ids[row]) * d_);
      if (positions >= 0) kernels_.add(from, d_, 1, gradient(positions) + int64_t(row - side.start[s]) * d_);
    }
}

float* Pass::norm(const float* x, int rows, const Norm& norm, Normed& kept) {
  float* out = arena_.take(int64_t(rows) * d_);
  kept = {x, arena_.take(rows), arena_.take(rows)};
  kernels_.norm(x, rows, d_, net_.weights(norm.gamma), net_.weights(norm.beta), out, kept.mean, kept.factor);
  return out;
}

void Pass::norm_back(const float* dout, int rows, const Norm& norm, const Normed& kept, float* dx, bool is_added) {
  kernels_.norm_back(dout, kept.in, rows, d_, net_.weights(norm.gamma), kept.mean, kept.factor, dx, is_added,
                     gradient(norm.gamma), gradient(norm.beta));
}

void Pass::linear(const Linear& one, const float* x, int rows, float* out, int64_t stride) {
  net_.products().multiply({x, one.inputs, 1}, rows, one.forward.data(), one.inputs, one.outputs, out, stride,
                           one.bias < 0 ? nullptr : net_.weights(one.bias), false);
}

// dx (+)= dy W; dW += dy^T x; db += column sums of dy.
void Pass::linear_back(const Linear& one, const float* dout, int64_t stride, const float* x, int rows, float* dx, bool is_added) {
  const Products& p = net_.products();
  p.multiply({dout, stride, 1}, rows, one.back.data(), one.outputs, one.inputs, dx, one.inputs, nullptr, is_added);
  Arena::Mark before = arena_.mark();
  float* packed = arena_.take(p.packed_bytes(rows, int(up(one.inputs, kPanelColumns))) / 4);
  p.pack(x, one.inputs, 1, rows, one.inputs, packed);
  p.multiply({dout, 1, stride}, one.outputs, packed, rows, one.inputs, gradient(one.weight), one.inputs, nullptr, true);
  arena_.release(before);
  if (one.bias >= 0) kernels_.column_sums(dout, stride, rows, one.outputs, gradient(one.bias));
}

Head Pass::head(const Side& side, const Side& memory_side, int sentence, bool is_causal, float* weights, float* scratch) const {
  int keys = memory_side.length(sentence);
  return {side.length(sentence), keys, d_ / net_.sizes.num_heads, is_causal, weights, up(keys, kBlock), scratch};
}

float* Pass::attend(const AttentionPart& part, const float* x, const Side& side, const float* memory, const Side& memory_side,
                    bool is_causal, Attended& kept) {
  int heads = net_.sizes.num_heads, width = d_ / heads, sentences = int(side.start.size()) - 1;
  bool is_self = x == memory;
  kept = {x, memory, nullptr, nullptr, nullptr, rows(side), is_self ? 3 * d_ : d_, is_self ? 3 * d_ : 2 * d_, {}};
  kept.queries = arena_.take(side.rows() * kept.q_stride);
  kept.keys = is_self ? kept.queries + d_ : arena_.take(memory_side.rows() * kept.kv_stride);
  kept.values = kept.keys + d_;
  linear(part.query, x, side.rows(), kept.queries, kept.q_stride);
  linear(part.key_value, memory, memory_side.rows(), kept.keys, kept.kv_stride);
  int64_t most = 0;
  for (int s = 0; s < sentences; s++) most = std::max(most, head_scratch(side.length(s), memory_side.length(s), width));
  float* scratch = arena_.take(most);
  for (int s = 0; s < sentences; s++) {
    float* weights = arena_.take(heads * side.length(s) * up(memory_side.length(s), kBlock));
    kept.weights.push_back(weights);
    for (int h = 0; h < heads; h++) {
      Head one = head(side, memory_side, s, is_causal, weights + h * side.length(s) * up(memory_side.length(s), kBlock), scratch);
      int64_t q = side.start[s], k = memory_side.start[s] * kept.kv_stride + h * width;
      kernels_.attend(one, kept.queries + q * kept.q_stride + h * width, kept.q_stride, kept.keys + k, kept.values + k,
                      kept.kv_stride, kept.mixed + q * d_ + h * width, d_);
    }
  }
  float* out = rows(side);
  linear(part.output, kept.mixed, side.rows(), out, d_);
  return out;
}

void Pass::attend_back(const AttentionPart& part, const Side& side, const Side& memory_side, bool is_causal, const Attended& kept,
                       const float* dout, float* dx, bool is_added, float* dmemory) {
  int heads = net_.sizes.num_heads, width = d_ / heads, sentences = int(side.start.size()) - 1;
  bool is_self = kept.x == kept.memory;
  float* dmixed = rows(side);
  linear_back(part.output, dout, d_, kept.mixed, side.rows(), dmixed, false);
  float* dqueries = arena_.take(side.rows() * kept.q_stride);
  float* dkeys = is_self ? dqueries + d_ : arena_.take(memory_side.rows() * kept.kv_stride);
  float* dvalues = dkeys + d_;
  int64_t most = 0;
  for (int s = 0; s < sentences; s++) most = std::max(most, head_scratch(side.length(s), memory_side.length(s), width));
  float* scratch = arena_.take(most);
  for (int s = 0; s < sentences; s++)
    for (int h = 0; h < heads; h++) {
      float* weights = kept.weights[s] + h * side.length(s) * up(memory_side.length(s), kBlock);
      int64_t q = side.start[s] * kept.q_stride + h * width, k = memory_side.start[s] * kept.kv_stride + h * width;
      kernels_.attend_back(head(side, memory_side, s, is_causal, weights, scratch), kept.queries + q, kept.q_stride, kept.keys + k,
                           kept.values + k, kept.kv_stride, dmixed + side.start[s] * int64_t(d_) + h * width, d_, dqueries + q,
                           dkeys + k, dvalues + k);
    }
  linear_back(part.query, dqueries, kept.q_stride, kept.x, side.rows(), dx, is_added);
  linear_back(part.key_value, dkeys, kept.kv_stride, kept.memory, memory_side.rows(), is_self ? dx : dmemory, true);
}

float* Pass::feed(const FeedForwardPart& part, const float* x, int rows, Fed& kept) {
  int width = net_.sizes.d_ff;
  bool is_relu = net_.sizes.activation == DRAGOMAN_RELU;  // its slope can be read off what it gave
  kept.x = x;
  kept.inner = arena_.take(int64_t(rows) * part.inner.outputs);
  kept.outer = is_relu ? kept.inner : arena_.take(int64_t(rows) * width);
  linear(part.inner, x, rows, kept.inner, part.inner.outputs);
  kernels_.activate(kept.inner, rows, width, net_.sizes.activation, kept.outer);
  float* out = arena_.take(int64_t(rows) * d_);
  linear(part.outer, kept.outer, rows, out, d_);
  return out;
}

void Pass::feed_back(const FeedForwardPart& part, int rows, const Fed& kept, const float* dout, float* dx, bool is_added) {
  int width = net_.sizes.d_ff;
  float* douter = arena_.take(int64_t(rows) * width);
  float* dinner = net_.is_gated() ? arena_.take(int64_t(rows) * part.inner.outputs) : douter;
  linear_back(part.outer, dout, d_, kept.outer, rows, douter, false);
  kernels_.activate_back(kept.inner, douter, rows, width, net_.sizes.activation, dinner);
  linear_back(part.inner, dinner, part.inner.outputs, kept.x, rows, dx, is_added);
}

// LayerNorm(x + Dropout(sublayer(x))), or with norm_first x + Dropout(sublayer(LayerNorm(x))).
template <typename F>
const float* Pass::residual(const float* x, const Side& side, const Norm& after, Residual& kept, F sublayer) {
  bool is_first = net_.sizes.norm_first;
  kept.site = next_site_++;
  float* out = sublayer(is_first ? norm(x, side.rows(), after, kept.norm) : x);
  kernels_.dropout(out, x, side.rows(), d_, mask(kept.site), side.first_row, out);
  return is_first ? out : norm(out, side.rows(), after, kept.norm);
}

// dx is the gradient of what came out, and becomes that of what went in.
template <typename F>
void Pass::residual_back(float* dx, const Side& side, const Norm& after, const Residual& kept, F sublayer_back) {
  Arena::Mark before = arena_.mark();
  bool is_first = net_.sizes.norm_first;
  float *dsublayer = rows(side), *dinside = rows(side);
  if (!is_first) {
    norm_back(dx, side.rows(), after, kept.norm, dinside, false);
    std::memcpy(dx, dinside, sizeof(float) * side.rows() * d_);
  }
  kernels_.dropout(dx, nullptr, side.rows(), d_, mask(kept.site), side.first_row, dsublayer);
  sublayer_back(dsublayer, is_first ? dinside : dx, !is_first);
  if (is_first) norm_back(dinside, side.rows(), after, kept.norm, dx, true);
  arena_.release(before);
}

const float* Pass::attention_step(const AttentionPart& part, const float* x, const Side& side, const float* memory,
                                  const Side& memory_side, bool is_causal, AttentionStep& kept) {
  return residual(x, side, part.norm, kept.residual, [&](const float* y) {
    return attend(part, y, side, memory ? memory : y, memory_side, is_causal, kept.attended);
  });
}

void Pass::attention_step_back(const AttentionPart& part, float* dx, const Side& side, const Side& memory_side, bool is_causal,
                               const AttentionStep& kept, float* dmemory) {
  residual_back(dx, side, part.norm, kept.residual, [&](const float* dy, float* to, bool is_added) {
    attend_back(part, side, memory_side, is_causal, kept.attended, dy, to, is_added, dmemory);
  });
}

const float* Pass::feed_step(const FeedForwardPart& part, const float* x, const Side& side, FeedStep& kept) {
  return residual(x, side, part.norm, kept.residual, [&](const float* y) { return feed(part, y, side.rows(), kept.fed); });
}

void Pass::feed_step_back(const FeedForwardPart& part, float* dx, const Side& side, const FeedStep& kept) {
  residual_back(dx, side, part.norm, kept.residual, [&](const float* dy, float* to, bool is_added) {
    feed_back(part, side.rows(), kept.fed, dy, to, is_added);
  });
}

const float* Pass::last_norm(const float* x, const Side& side, const Norm& after, Normed& kept) {
  return net_.sizes.norm_first ? norm(x, side.rows(), after, kept) : x;
}

float* Pass::last_norm_back(float* dx, const Side& side, const Norm& after, const Normed& kept) {
  if (!net_.sizes.norm_first) return dx;
  float* out = rows(side);
  norm_back(dx, side.rows(), after, kept, out, false);
  return out;
}

const float* Pass::encode(const Side& src, const int32_t* ids, Stack<EncoderState>& kept) {
  kept.layers.resize(net_.encoder.size());
  const float* x = embed(src, ids, net_.src_embedding, net_.src_table, kSrcSite);
  for (size_t i = 0; i < net_.encoder.size(); i++) {
    x = attention_step(net_.encoder[i].self, x, src, nullptr, src, false, kept.layers[i].self);
    x = feed_step(net_.encoder[i].feed_forward, x, src, kept.layers[i].feed);
  }
  return last_norm(x, src, net_.encoder_norm, kept.last);
}

void Pass::encode_back(const Side& src, const int32_t* ids, const Stack<EncoderState>& kept, float* dmemory) {
  float* dx = last_norm_back(dmemory, src, net_.encoder_norm, kept.last);
  for (size_t i = net_.encoder.size(); i-- > 0;) {
    feed_step_back(net_.encoder[i].feed_forward, dx, src, kept.layers[i].feed);
    attention_step_back(net_.encoder[i].self, dx, src, src, false, kept.layers[i].self, nullptr);
  }
  embed_back(src, ids, net_.src_embedding, net_.src_positions, kSrcSite, dx);
}

const float* Pass::decode(const Side& tgt, const int32_t* ids, const float* memory, const Side& src, Stack<DecoderState>& kept) {
  kept.layers.resize(net_.decoder.size());
  const float* x = embed(tgt, ids, net_.tgt_embedding, net_.tgt_table, kTgtSite);
  for (size_t i = 0; i < net_.decoder.size(); i++) {
    x = attention_step(net_.decoder[i].self, x, tgt, nullptr, tgt, true, kept.layers[i].self);
    x = attention_step(net_.decoder[i].cross, x, tgt, memory, src, false, kept.layers[i].cross);
    x = feed_step(net_.decoder[i].feed_forward, x, tgt, kept.layers[i].feed);
  }
  return last_norm(x, tgt, net_.decoder_norm, kept.last);
}

void Pass::decode_back(const Side& tgt, const int32_t* ids, const Side& src, const Stack<DecoderState>& kept, float* dx, float* dmemory) {
  dx = last_norm_back(dx, tgt, net_.decoder_norm, kept.last);
  for (size_t i = net_.decoder.size(); i-- > 0;) {
    feed_step_back(net_.decoder[i].feed_forward, dx, tgt, kept.layers[i].feed);
    attention_step_back(net_.decoder[i].cross, dx, tgt, src, false, kept.layers[i].cross, dmemory);
    attention_step_back(net_.decoder[i].self, dx, tgt, tgt, true, kept.layers[i].self, nullptr);
  }
  embed_back(tgt, ids, net_.tgt_embedding, net_.tgt_positions, kTgtSite, dx);
}

double Pass::loss(const float* hidden, const Side& side, const int32_t* targets, float* dhidden) {
  double total = 0;
  int vocab = net_.sizes.tgt_vocab;
  int64_t stride = up(vocab, kBlock);
  Arena::Mark before = arena_.mark();
  float* logits = arena_.take(kLogitRows * stride);
  for (int first = 0; first < side.rows(); first += kLogitRows) {
    int count = std::min(kLogitRows, side.rows() - first);
    const float* x = hidden + int64_t(first) * d_;
    linear(net_.output, x, count, logits, stride);
    total += kernels_.loss(logits, stride, count, vocab, targets + first, task_.smoothing, task_.scale);
    linear_back(net_.output, logits, stride, x, count, dhidden + int64_t(first) * d_, false);
  }
  arena_.release(before);
  return total;
}

double Pass::run(const Task& task, int first, int last, float* const* gradients) {
  task_ = task;
  gradients_ = gradients;
  next_site_ = kFirstSite;
  arena_.release({0, 0});
  const Pairs& pairs = *task.pairs;
  Side src = side(pairs.src_offsets, first, last), tgt = side(pairs.tgt_offsets, first, last);
  const int32_t *src_ids = pairs.src + pairs.src_offsets[first], *tgt_ids = pairs.tgt_in + pairs.tgt_offsets[first];
  Stack<EncoderState> encoder;
  Stack<DecoderState> decoder;
  const float* memory = encode(src, src_ids, encoder);
  const float* hidden = decode(tgt, tgt_ids, memory, src, decoder);
  float *dhidden = rows(tgt), *dmemory = rows(src);
  double total = loss(hidden, tgt, pairs.tgt_out + pairs.tgt_offsets[first], dhidden);
  std::memset(dmemory, 0, sizeof(float) * src.rows() * d_);
  decode_back(tgt, tgt_ids, src, decoder, dhidden, dmemory);
  encode_back(src, src_ids, encoder, dmemory);
  return total;
}

}  // namespace dragoman
