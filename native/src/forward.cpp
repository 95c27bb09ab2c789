#include "forward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

namespace dragoman {
namespace {

// Source tokens encoded together: enough rows for the weights to pay, few enough for the rows to stay in the cache.
constexpr int kEncodedRows = 128;

constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

Forward::Forward(const Model& model, int members)
    : model_(model), kernels_(kernels()), desks_(members), hidden_(members) {}

void Forward::reserve(const Member& me, int rows) {
  const Model& m = model_;
  int widest = std::max({m.width, m.mixed, m.inner});
  if (me.index == 0 && rows > capacity_) {
    size_t n = padded(rows, 16);
    projected_.reserve(n * m.projected);
    mixed_.reserve(n * m.mixed);
    added_.reserve(n * m.width);
    inner_.reserve(n * 2 * m.inner);
    gated_.reserve(n * m.inner);
    for (Desk& desk : desks_) {
      desk.x.reserve(n * m.width);
      desk.normed.reserve(n * m.width);
      desk.bytes.reserve(n * padded(widest, kWidth));
      desk.scales.reserve(n);
      desk.logits.reserve(n * kChunk);
    }
    capacity_ = int(n);
  }
  me.wait();
}

Forward::Input Forward::prepare(const Member& me, const Matrix& matrix, const float* rows, int stride, int count) {
  Desk& desk = desks_[me.index];
  if (matrix.is_int8)
    kernels_.quantize(rows, count, stride, padded(matrix.inputs, kWidth), desk.bytes.data(), desk.scales.data());
  return {rows, stride, count, desk.bytes.data(), desk.scales.data()};
}

void Forward::multiply(const Input& input, const Matrix& matrix, int first, int last, float* out, int stride) {
  if (matrix.is_int8)
    kernels_.multiply_int8(input.bytes, input.scales, input.count, matrix, first, last, out, stride);
  else
    kernels_.multiply_float(input.rows, input.stride, input.count, matrix, first, last, out, stride);
}

void Forward::multiply_share(const Member& me, const Input& input, const Matrix& matrix, float* out, int stride) {
  int panels = padded(matrix.outputs, kPanel) / kPanel;
  int first = kPanel * me.begin(panels), last = kPanel * me.end(panels);
  multiply(input, matrix, first, last, out + first, stride);
}

// The columns of this member's heads in each of the `parts` (queries, keys, values) that lie side by side.
void Forward::project_heads(const Member& me, const Input& input, const Matrix& matrix, int parts) {
  const Model& m = model_;
  int begin = m.head * me.begin(m.plan.num_heads), end = m.head * me.end(m.plan.num_heads);
  if (me.members == 1) return multiply(input, matrix, 0, parts * m.heads, projected_.data(), m.projected);
  for (int p = 0; p < parts; p++) {
    int first = p * m.heads + begin;
    multiply(input, matrix, first, p * m.heads + end, projected_.data() + first, m.projected);
  }
}

// What a sub-layer sees: the rows themselves, or their norm in a pre-norm model.
const float* Forward::enter(const Member& me, const dragoman_norm& norm, int count) {
  Desk& desk = desks_[me.index];
  if (!model_.plan.norm_first) return desk.x.data();
  kernels_.norm(desk.x.data(), desk.pending, count, model_.width, model_.plan.d_model, norm.gamma, norm.beta, desk.normed.data());
  desk.pending = nullptr;
  return desk.normed.data();
}

// After a sub-layer has left its result in `added_`: the residual sum, and the norm of a post-norm model. A pre-norm model
// sums when the next norm reads the rows anyway.
void Forward::leave(const Member& me, const dragoman_norm& norm, int count) {
  Desk& desk = desks_[me.index];
  me.wait();
  if (model_.plan.norm_first) {
    desk.pending = added_.data();
    return;
  }
  kernels_.norm(desk.x.data(), added_.data(), count, model_.width, model_.plan.d_model, norm.gamma, norm.beta, desk.x.data());
}

const float* Forward::finish(const Member& me, const dragoman_norm* norm, int count) {
  return norm ? enter(me, *norm, count) : desks_[me.index].x.data();
}

void Forward::mix_out(const Member& me, const Matrix& out, int count) {
  me.wait();
  Input input = prepare(me, out, mixed_.data(), model_.mixed, count);
  multiply_share(me, input, out, added_.data(), model_.width);
}

void Forward::feed_forward(const Member& me, const Matrix& inner, const Matrix& outer, const dragoman_norm& norm, int count) {
  const dragoman_plan& plan = model_.plan;
  bool is_gated = plan.activation >= DRAGOMAN_SWIGLU;
  int stride = is_gated ? 2 * model_.inner : model_.inner;
  Input input = prepare(me, inner, enter(me, norm, count), model_.width, count);
  multiply_share(me, input, inner, inner_.data(), stride);
  if (is_gated) me.wait();
  float* active = is_gated ? gated_.data() : inner_.data();
  int panels = padded(plan.d_ff, kPanel) / kPanel;
  int last = kPanel * me.end(panels);
  kernels_.activate(inner_.data(), stride, count, kPanel * me.begin(panels), is_gated ? std::min(last, plan.d_ff) : last,
                    plan.d_ff, plan.activation, active, model_.inner);
  me.wait();
  multiply_share(me, prepare(me, outer, active, model_.inner, count), outer, added_.data(), model_.width);
  leave(me, norm, count);
}

// The encoder -----------------------------------------------------------------------------------------------------------

void Forward::encode(const Member& me, const std::vector<Source>& sources) {
  for (size_t begin = 0, end; begin < sources.size(); begin = end) {
    int rows = sources[begin].length;
    for (end = begin + 1; end < sources.size() && rows + sources[end].length <= kEncodedRows; end++) rows += sources[end].length;
    reserve(me, rows);
    encode_group(me, sources.data() + begin, int(end - begin));
    me.wait();
  }
}

void Forward::encode_group(const Member& me, const Source* sources, int count) {
  const Model& m = model_;
  Desk& desk = desks_[me.index];
  const dragoman_plan& plan = m.plan;
  float factor = std::sqrt(float(plan.d_model));
  int rows = 0, longest = 0;
  for (int s = 0; s < count; s++) {
    for (int t = 0; t < sources[s].length; t++, rows++)
      kernels_.embed(plan.src_embedding + int64_t(sources[s].ids[t]) * plan.d_model, plan.src_positions + int64_t(t) * plan.d_model,
                     factor, plan.d_model, m.width, desk.x.data() + int64_t(rows) * m.width);
    longest = std::max(longest, sources[s].length);
  }
  desk.scores.reserve(4 * (padded(longest, 16) + 16));
  desk.packed.reserve(size_t(2) * m.head * padded(longest, 16) * m.attention->bytes);
  desk.pending = nullptr;
  for (const EncoderLayer& layer : m.encoder) {
    project_heads(me, prepare(me, *layer.qkv, enter(me, *layer.attention, rows), m.width, rows), *layer.qkv, 3);
    attend_to_itself(me, sources, count);
    mix_out(me, *layer.out, rows);
    leave(me, *layer.attention, rows);
    feed_forward(me, *layer.inner, *layer.outer, *layer.feed_forward, rows);
  }
  remember(me, sources, count, finish(me, m.encoder_norm, rows), rows);
}

void Forward::attend_to_itself(const Member& me, const Source* sources, int count) {
  const Model& m = model_;
  Desk& desk = desks_[me.index];
  int stride = m.projected, row = 0;
  for (int s = 0; s < count; row += sources[s++].length)
    for (int h = me.begin(m.plan.num_heads); h < me.end(m.plan.num_heads); h++) {
      const float* queries = projected_.data() + int64_t(row) * stride + h * m.head;
      int length = sources[s].length;
      void* values = desk.packed.data() + int64_t(m.head) * padded(length, 16) * m.attention->bytes;
      m.attention->pack(queries + m.heads, queries + 2 * m.heads, stride, length, m.head, desk.packed.data(), values);
      m.attention->attend(queries, stride, length, desk.packed.data(), values, length, m.head, m.scale,
                          mixed_.data() + int64_t(row) * m.mixed + h * m.head, m.mixed, desk.scores.data(), nullptr, 0, 0);
    }
}

void Forward::remember(const Member& me, const Source* sources, int count, const float* hidden, int rows) {
  const Model& m = model_;
  if (me.index == 0)
    for (int s = 0; s < count; s++) {
      sources[s].memory->length = sources[s].length;
      sources[s].memory->numbers.reserve(size_t(m.memory_bytes(sources[s].length)));
    }
  me.wait();
  for (size_t i = 0; i < m.decoder.size(); i++) {
    const Matrix& matrix = *m.decoder[i].cross_kv;
    project_heads(me, prepare(me, matrix, hidden, m.width, rows), matrix, 2);
    int row = 0;
    for (int s = 0; s < count; row += sources[s++].length)
      for (int h = me.begin(m.plan.num_heads); h < me.end(m.plan.num_heads); h++) {
        const float* keys = projected_.data() + int64_t(row) * m.projected + h * m.head;
        int64_t half = int64_t(m.head) * padded(sources[s].length, 16) * m.attention->bytes;
        std::byte* packed = sources[s].memory->numbers.data() + (int64_t(i) * m.plan.num_heads + h) * 2 * half;
        m.attention->pack(keys, keys + m.heads, m.projected, sources[s].length, m.head, packed, packed + half);
      }
  }
}

// The decoder -----------------------------------------------------------------------------------------------------------

void Forward::step(const Member& me, const std::vector<Row>& rows, float* attention, int stride) {
  const Model& m = model_;
  const dragoman_plan& plan = m.plan;
  int count = int(rows.size()), longest = 0;
  reserve(me, count);
  Desk& desk = desks_[me.index];
  for (int r = 0; r < count; r++) {
    kernels_.embed(plan.tgt_embedding + int64_t(rows[r].id) * plan.d_model,
                   plan.tgt_positions + int64_t(rows[r].length - 1) * plan.d_model, std::sqrt(float(plan.d_model)),
                   plan.d_model, m.width, desk.x.data() + int64_t(r) * m.width);
    longest = std::max({longest, rows[r].length, rows[r].memory->length});
  }
  desk.scores.reserve(4 * (padded(longest, 16) + 16));
  desk.pending = nullptr;
  for (size_t i = 0; i < m.decoder.size(); i++) {
    const DecoderLayer& layer = m.decoder[i];
    project_heads(me, prepare(me, *layer.qkv, enter(me, *layer.attention, count), m.width, count), *layer.qkv, 3);
    look_back(me, rows, int(i));
    mix_out(me, *layer.out, count);
    leave(me, *layer.attention, count);
    project_heads(me, prepare(me, *layer.cross_query, enter(me, *layer.cross, count), m.width, count), *layer.cross_query, 1);
    look_across(me, rows, int(i), i + 1 == m.decoder.size() ? attention : nullptr, stride);
    mix_out(me, *layer.cross_out, count);
    leave(me, *layer.cross, count);
    feed_forward(me, *layer.inner, *layer.outer, *layer.feed_forward, count);
  }
  hidden_[me.index] = finish(me, m.decoder_norm, count);
  if (me.index == 0) rows_ = count;
  me.wait();
}

void Forward::look_back(const Member& me, const std::vector<Row>& rows, int layer) {
  const Model& m = model_;
  int begin = me.begin(m.plan.num_heads), end = me.end(m.plan.num_heads);
  int64_t keys = int64_t(layer) * 2 * m.heads, values = keys + m.heads;
  for (size_t r = 0; r < rows.size(); r++) {
    const float* query = projected_.data() + r * m.projected;
    std::byte* newest = static_cast<std::byte*>(rows[r].cells[rows[r].length - 1]);
    for (int part = 1; part <= 2; part++)
      m.attention->write(query + part * m.heads + begin * m.head, (end - begin) * m.head,
                         newest + ((part == 1 ? keys : values) + begin * m.head) * m.attention->bytes);
    for (int h = begin; h < end; h++)
      m.attention->attend_cells(query + h * m.head, rows[r].cells, rows[r].length, keys + h * m.head, values + h * m.head, m.head,
                                m.scale, mixed_.data() + r * m.mixed + h * m.head, desks_[me.index].scores.data());
  }
}

void Forward::look_across(const Member& me, const std::vector<Row>& rows, int layer, float* attention, int stride) {
  const Model& m = model_;
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    const Memory& memory = *rows[begin].memory;
    for (end = begin + 1; end < rows.size() && rows[end].memory == &memory; end++) {
    }
    int64_t half = int64_t(m.head) * padded(memory.length, 16) * m.attention->bytes;
    for (int h = me.begin(m.plan.num_heads); h < me.end(m.plan.num_heads); h++) {
      const std::byte* packed = memory.numbers.data() + (int64_t(layer) * m.plan.num_heads + h) * 2 * half;
      m.attention->attend(projected_.data() + begin * m.projected + h * m.head, m.projected, int(end - begin), packed,
                          packed + half, memory.length, m.head, m.scale, mixed_.data() + begin * m.mixed + h * m.head, m.mixed,
                          desks_[me.index].scores.data(), attention ? attention + begin * stride : nullptr, stride,
                          1.0f / m.plan.num_heads);
    }
  }
}

// The vocabulary --------------------------------------------------------------------------------------------------------

void Forward::choose(const Member& me, const std::vector<Choice>& choices, int best, float* all) {
  const Matrix& output = *model_.output;
  int columns = padded(output.outputs, kPanel), chunks = (columns + kChunk - 1) / kChunk;
  Desk& desk = desks_[me.index];
  if (me.index == 0) {
    size_t n = size_t(rows_) * best;
    best_ = best;
    partials_.resize(size_t(rows_) * chunks);
    member_ids_.resize(n * me.members);
    member_logits_.resize(n * me.members);
    member_counts_.assign(size_t(rows_) * me.members, 0);
    forced_.resize(rows_);
    top_ids_.resize(n);
    top_logits_.resize(n);
  }
  me.wait();
  Input input = prepare(me, output, hidden_[me.index], model_.width, rows_);
  for (int c = me.begin(chunks); c < me.end(chunks); c++) {
    int first = c * kChunk, count = std::min(kChunk, output.outputs - first);
    multiply(input, output, first, std::min(columns, first + kChunk), desk.logits.data(), kChunk);
    for (int r = 0; r < rows_; r++) {
      const float* logits = desk.logits.data() + int64_t(r) * kChunk;
      size_t at = size_t(me.index) * rows_ + r;
      Top top{member_counts_[at], choices[r].forced < 0 ? best : 0, member_ids_.data() + at * best, member_logits_.data() + at * best};
      partials_[size_t(r) * chunks + c] = kernels_.scan(logits, first, count, choices[r].banned, top);
      member_counts_[at] = top.count;
      if (choices[r].forced >= first && choices[r].forced < first + count) forced_[r] = logits[choices[r].forced - first];
      if (all) std::copy(logits, logits + count, all + int64_t(r) * output.outputs + first);
    }
  }
  me.wait();
  if (me.index == 0) merge(me.members, chunks, choices, all);
}

// The chunks' sums are added in their order, however many members there were: the same bits alone and in a team.
void Forward::merge(int members, int chunks, const std::vector<Choice>& choices, float* all) {
  int vocabulary = model_.output->outputs;
  for (int r = 0; r < rows_; r++) {
    const Partial* parts = partials_.data() + size_t(r) * chunks;
    float most = kNever;
    for (int c = 0; c < chunks; c++) most = std::max(most, parts[c].most);
    double total = 0;
    for (int c = 0; c < chunks; c++) total += double(parts[c].total) * std::exp(double(parts[c].most) - most);
    double norm = most + std::log(total);

    std::vector<int> next(members, 0);
    int32_t* ids = top_ids_.data() + size_t(r) * best_;
    float* log_probs = top_logits_.data() + size_t(r) * best_;
    for (int k = 0; k < best_; k++) {
      int from = -1;
      float highest = 0;
      for (int i = 0; i < members; i++) {
        size_t at = size_t(i) * rows_ + r;
        if (next[i] == member_counts_[at]) continue;
        float logit = member_logits_[at * best_ + next[i]];
        if (from < 0 || logit > highest) highest = logit, from = i;
      }
      ids[k] = from < 0 ? 0 : member_ids_[(size_t(from) * rows_ + r) * best_ + next[from]++];
      log_probs[k] = from < 0 ? (norm == norm ? kNever : float(norm)) : float(highest - norm);
    }
    if (choices[r].forced >= 0 && best_) {
      ids[0] = choices[r].forced;
      log_probs[0] = model_.never[choices[r].forced] ? kNever : float(forced_[r] - norm);
    }
    if (all)
      for (int v = 0; v < vocabulary; v++) {
        float& x = all[int64_t(r) * vocabulary + v];
        x = choices[r].banned[v] ? kNever : float(x - norm);
      }
  }
}

}  // namespace dragoman
