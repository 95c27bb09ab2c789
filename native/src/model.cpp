#include "model.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace dragoman {
namespace {

constexpr int kMost = 1 << 20;  // no size of any model is larger; products of two fit into 64 bits

void check(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw std::invalid_argument(std::string(what) + " is " + std::to_string(value) + ", not " + std::to_string(least) + " to " +
                              std::to_string(most));
}

// Rows of a power of two would all begin at the same few places of the cache: one line more spreads them.
int row_of(int numbers) { return padded(numbers, kWidth) + 16; }

void check_sizes(const dragoman_plan& p) {
  check("d_model", p.d_model, 1, kMost);
  check("num_heads", p.num_heads, 1, p.d_model);
  check("d_model modulo num_heads", p.d_model % p.num_heads, 0, 0);
  check("d_ff", p.d_ff, 1, kMost);
  check("num_encoder_layers", p.num_encoder_layers, 1, 1024);
  check("num_decoder_layers", p.num_decoder_layers, 1, 1024);
  check("the source vocabulary", p.src_vocab, 4, 1 << 24);
  check("the target vocabulary", p.tgt_vocab, 4, 1 << 24);
  check("pieces", p.pieces, 3, p.tgt_vocab);
  check("pad", p.pad, 0, p.tgt_vocab - 1);
  check("bos", p.bos, 0, p.tgt_vocab - 1);
  check("eos", p.eos, 0, p.pieces - 1);
  check("activation", p.activation, DRAGOMAN_RELU, DRAGOMAN_GEGLU);
  check("positions", p.positions, 1, kMost);
  if (!p.src_embedding || !p.tgt_embedding || !p.src_positions || !p.tgt_positions || !p.matrices || !p.norms)
    throw std::invalid_argument("a table of the model is missing");
}

// Hands out matrices and norms in the order of the plan.
struct Reader {
  Model& model;
  size_t matrix = 0, norm = 0;

  const Matrix* next(const char* what, int outputs, int inputs) {
    const Matrix& m = model.matrices[matrix++];
    check((std::string(what) + " outputs").c_str(), m.outputs, outputs, outputs);
    check((std::string(what) + " inputs").c_str(), m.inputs, inputs, inputs);
    // 255 * kLargestWeight * inputs must stay below 2^31.
    if (m.is_int8) check((std::string(what) + " inputs of int8").c_str(), m.inputs, 1, 1 << 16);
    if (!m.weights || (m.is_int8 && (!m.scales || !m.sums)))
      throw std::invalid_argument(std::string("the weights of ") + what + " are missing");
    return &m;
  }

  const dragoman_norm* next_norm() {
    const dragoman_norm& n = model.norms[norm++];
    if (!n.gamma || !n.beta) throw std::invalid_argument("the numbers of a norm are missing");
    return &n;
  }
};

}  // namespace

Model::Model(const dragoman_plan& given) : plan(given) {
  check_sizes(plan);
  head = padded(plan.d_model / plan.num_heads, 16);
  heads = head * plan.num_heads;
  width = row_of(plan.d_model);
  projected = row_of(3 * heads);
  mixed = row_of(heads);
  inner = row_of(plan.d_ff);
  scale = 1 / std::sqrt(float(plan.d_model / plan.num_heads));
  attention = plan.is_cache_float ? &kernels().floats : &kernels().halves;

  size_t e = plan.num_encoder_layers, d = plan.num_decoder_layers;
  matrices.assign(plan.matrices, plan.matrices + 4 * e + 7 * d + 1);
  norms.assign(plan.norms, plan.norms + 2 * e + 3 * d + (plan.norm_first ? 2 : 0));
  Reader read{*this};
  int doubled = plan.activation >= DRAGOMAN_SWIGLU ? 2 : 1;
  for (size_t i = 0; i < e; i++) {
    EncoderLayer layer;
    layer.qkv = read.next("encoder qkv", 3 * heads, plan.d_model);
    layer.out = read.next("encoder out", plan.d_model, heads);
    layer.inner = read.next("encoder inner", doubled * plan.d_ff, plan.d_model);
    layer.outer = read.next("encoder outer", plan.d_model, plan.d_ff);
    layer.attention = read.next_norm();
    layer.feed_forward = read.next_norm();
    encoder.push_back(layer);
  }
  for (size_t i = 0; i < d; i++) {
    DecoderLayer layer;
    layer.qkv = read.next("decoder qkv", 3 * heads, plan.d_model);
    layer.out = read.next("decoder out", plan.d_model, heads);
    layer.cross_query = read.next("decoder cross query", heads, plan.d_model);
    layer.cross_kv = read.next("decoder cross key and value", 2 * heads, plan.d_model);
    layer.cross_out = read.next("decoder cross out", plan.d_model, heads);
    layer.inner = read.next("decoder inner", doubled * plan.d_ff, plan.d_model);
    layer.outer = read.next("decoder outer", plan.d_model, plan.d_ff);
    layer.attention = read.next_norm();
    layer.cross = read.next_norm();
    layer.feed_forward = read.next_norm();
    decoder.push_back(layer);
  }
  output = read.next("output", plan.tgt_vocab, plan.d_model);
  encoder_norm = plan.norm_first ? read.next_norm() : nullptr;
  decoder_norm = plan.norm_first ? read.next_norm() : nullptr;

  narrowed.reserve(matrices.size());
  for (Matrix& m : matrices)
    if (m.is_int8 && kernels().largest < kLargestWeight) {
      narrowed.emplace_back(m, kernels().largest);
      m = narrowed.back().matrix(m);
    }

  never.assign(padded(plan.tgt_vocab, kPanel), 0);
  never[plan.pad] = never[plan.bos] = 1;
  for (size_t id = plan.pieces; id < never.size(); id++) never[id] = 1;
}

}  // namespace dragoman
