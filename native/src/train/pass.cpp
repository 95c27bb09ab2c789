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
  return {task_.seed, site, task_.has_gradient ? uint32_t(net_.sizes.dropped) : 0};
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
  if (mask(site).dropped) kernels_.dropout(x, nullptr, side.rows(), d_, mask(site), side.first_row, x);
  return x;
}

void Pass::embed_back(const Side& side, const int32_t* ids, int embedding, int positions, uint32_t site, float* dx) {
  if (mask(site).dropped) kernels_.dropout(dx, nullptr, side.rows(), d_, mask(site), side.first_row, dx);
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
    if (task_.has_gradient) linear_back(net_.output, logits, stride, x, count, dhidden + int64_t(first) * d_, false);
  }
  arena_.release(before);
  return total;
}

double Pass::run(const Task& task, int first, int last, float* const* gradients) {
  task_ = task;
  gradients_ = gradients;
  arena_.release({0, 0});
  const Pairs& pairs = *task.pairs;
  Side src = side(pairs.src_offsets, first, last), tgt = side(pairs.tgt_offsets, first, last);
  const int32_t *src_ids = pairs.src + pairs.src_offsets[first], *tgt_ids = pairs.tgt_in + pairs.tgt_offsets[first];
  std::vector<EncoderState> encoders(net_.encoder.size());
  std::vector<DecoderState> decoders(net_.decoder.size());
  uint32_t site = kFirstSite;
  Normed memory_norm{}, last_norm{};

  const float* x = embed(src, src_ids, net_.src_embedding, net_.src_table, kSrcSite);
  for (size_t i = 0; i < encoders.size(); i++) {
    const EncoderPart& l = net_.encoder[i];
    EncoderState& s = encoders[i];
    s.self_residual.site = site++, s.fed_residual.site = site++;
    x = residual(x, src, l.self_norm, s.self_residual, [&](const float* y) { return attend(l.self, y, src, y, src, false, s.self); });
    x = residual(x, src, l.feed_forward_norm, s.fed_residual, [&](const float* y) { return feed(l.feed_forward, y, src.rows(), s.fed); });
  }
  const float* memory = net_.sizes.norm_first ? norm(x, src.rows(), net_.encoder_norm, memory_norm) : x;

  x = embed(tgt, tgt_ids, net_.tgt_embedding, net_.tgt_table, kTgtSite);
  for (size_t i = 0; i < decoders.size(); i++) {
    const DecoderPart& l = net_.decoder[i];
    DecoderState& s = decoders[i];
    s.self_residual.site = site++, s.cross_residual.site = site++, s.fed_residual.site = site++;
    x = residual(x, tgt, l.self_norm, s.self_residual, [&](const float* y) { return attend(l.self, y, tgt, y, tgt, true, s.self); });
    x = residual(x, tgt, l.cross_norm, s.cross_residual,
                 [&](const float* y) { return attend(l.cross, y, tgt, memory, src, false, s.cross); });
    x = residual(x, tgt, l.feed_forward_norm, s.fed_residual, [&](const float* y) { return feed(l.feed_forward, y, tgt.rows(), s.fed); });
  }
  if (net_.sizes.norm_first) x = norm(x, tgt.rows(), net_.decoder_norm, last_norm);

  float* dx = rows(tgt);
  double total = loss(x, tgt, pairs.tgt_out + pairs.tgt_offsets[first], dx);
  if (!task.has_gradient) return total;

  float* dmemory = rows(src);
  std::memset(dmemory, 0, sizeof(float) * src.rows() * d_);
  if (net_.sizes.norm_first) {
    float* dnormed = dx;
    dx = rows(tgt);
    norm_back(dnormed, tgt.rows(), net_.decoder_norm, last_norm, dx, false);
  }
  for (size_t i = decoders.size(); i-- > 0;) {
    const DecoderPart& l = net_.decoder[i];
    const DecoderState& s = decoders[i];
    residual_back(dx, tgt, l.feed_forward_norm, s.fed_residual,
                  [&](const float* dy, float* to, bool is_added) { feed_back(l.feed_forward, tgt.rows(), s.fed, dy, to, is_added); });
    residual_back(dx, tgt, l.cross_norm, s.cross_residual, [&](const float* dy, float* to, bool is_added) {
      attend_back(l.cross, tgt, src, false, s.cross, dy, to, is_added, dmemory);
    });
    residual_back(dx, tgt, l.self_norm, s.self_residual, [&](const float* dy, float* to, bool is_added) {
      attend_back(l.self, tgt, tgt, true, s.self, dy, to, is_added, nullptr);
    });
  }
  embed_back(tgt, tgt_ids, net_.tgt_embedding, net_.tgt_positions, kTgtSite, dx);

  dx = dmemory;
  if (net_.sizes.norm_first) {
    dx = rows(src);
    norm_back(dmemory, src.rows(), net_.encoder_norm, memory_norm, dx, false);
  }
  for (size_t i = encoders.size(); i-- > 0;) {
    const EncoderPart& l = net_.encoder[i];
    const EncoderState& s = encoders[i];
    residual_back(dx, src, l.feed_forward_norm, s.fed_residual,
                  [&](const float* dy, float* to, bool is_added) { feed_back(l.feed_forward, src.rows(), s.fed, dy, to, is_added); });
    residual_back(dx, src, l.self_norm, s.self_residual, [&](const float* dy, float* to, bool is_added) {
      attend_back(l.self, src, src, false, s.self, dy, to, is_added, nullptr);
    });
  }
  embed_back(src, src_ids, net_.src_embedding, net_.src_positions, kSrcSite, dx);
  return total;
}

}  // namespace dragoman
