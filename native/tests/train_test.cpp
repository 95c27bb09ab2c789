// The training's kernels of every instruction set against the plain formula in double precision, and a whole gradient
// against the same one computed by other threads and by other kernels. (That the gradient is right, Python's tests show
// against PyTorch's.)
#include <algorithm>
#include <cstring>
#include <memory>

#include "check.h"
#include "kernels.h"
#include "train/trainer.h"

using namespace dragoman;

namespace {

using Numbers = std::vector<float>;

void near(const char* isa, const char* what, double found, double wanted, double tolerance) {
  CHECK(std::abs(found - wanted) <= tolerance * (1 + std::abs(wanted)), "%s %s: %.9g, not %.9g", isa, what, found, wanted);
}

float to_half(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

int some(Random& random, int most) { return 1 + random.below(random.below(4) ? std::min(most, 40) : most); }

void test_products(const char* isa, const Products& p, bool is_half, Random& random) {
  int rows = some(random, 300), inner = some(random, 1100), columns = some(random, 200);
  bool is_across = random.below(2), is_turned = random.below(2), is_added = random.below(2), has_bias = !is_added && random.below(2);
  int64_t left_stride = (is_across ? rows : inner) + random.below(5), right_stride = (is_turned ? inner : columns) + random.below(5);
  Numbers left = random.normals(left_stride * (is_across ? inner : rows)), right = random.normals(right_stride * (is_turned ? columns : inner));
  Numbers bias = random.normals(columns), out = random.normals((columns + 3) * rows), before = out;
  Buffer<std::byte> packed(p.packed_bytes(inner, columns) + 1);
  int64_t inner_step = is_turned ? 1 : right_stride, column_step = is_turned ? right_stride : 1;
  p.pack(right.data(), inner_step, column_step, inner, columns, packed.data());
  Left factor = {left.data(), is_across ? 1 : left_stride, is_across ? left_stride : 1};
  int64_t stride = columns + 3;
  p.multiply(factor, rows, packed.data(), inner, columns, out.data(), stride, has_bias ? bias.data() : nullptr, is_added);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < stride; c++) {
      int64_t at = r * stride + c;
      double sum = c < columns ? (has_bias ? bias[c] : 0) + (is_added ? before[at] : 0) : before[at];
      for (int k = 0; k < inner && c < columns; k++) {
        float a = left[r * factor.row_stride + k * factor.inner_stride], b = right[k * inner_step + c * column_step];
        sum += is_half ? double(to_half(a)) * to_half(b) : double(a) * b;
      }
      near(isa, is_half ? "product of halves" : "product", out[at], sum, 2e-4);
    }
}

void test_rows(const TrainKernels& k, const TrainKernels& portable, Random& random) {
  int rows = some(random, 50), width = 16 * some(random, 40), kind = random.below(4), inner_width = kind >= DRAGOMAN_SWIGLU ? 2 * width : width;
  size_t count = size_t(rows) * width;
  Numbers x = random.normals(count), gamma = random.normals(width), beta = random.normals(width), dout = random.normals(count);

  Numbers out(count), mean(rows), factor(rows), dx = random.normals(count), before = dx, dgamma(width, 1), dbeta(width, 2);
  bool is_added = random.below(2);
  k.norm(x.data(), rows, width, gamma.data(), beta.data(), out.data(), mean.data(), factor.data());
  k.norm_back(dout.data(), x.data(), rows, width, gamma.data(), mean.data(), factor.data(), dx.data(), is_added, dgamma.data(), dbeta.data());
  std::vector<double> gammas(width, 1), betas(width, 2);
  for (int r = 0; r < rows; r++) {
    const float *row = &x[size_t(r) * width], *d = &dout[size_t(r) * width];
    double middle = 0, square = 0, first = 0, second = 0;
    for (int i = 0; i < width; i++) middle += double(row[i]) / width;
    for (int i = 0; i < width; i++) square += (row[i] - middle) * (row[i] - middle) / width;
    double scale = 1 / std::sqrt(square + 1e-5);
    for (int i = 0; i < width; i++) {
      double h = (row[i] - middle) * scale, z = double(d[i]) * gamma[i];
      first += z / width, second += z * h / width;
      gammas[i] += d[i] * h, betas[i] += d[i];
      near(k.name, "norm", out[size_t(r) * width + i], h * gamma[i] + beta[i], 1e-4);
    }
    for (int i = 0; i < width; i++) {
      double h = (row[i] - middle) * scale, wanted = scale * (double(d[i]) * gamma[i] - first - h * second);
      near(k.name, "norm_back", dx[size_t(r) * width + i], wanted + (is_added ? before[size_t(r) * width + i] : 0), 1e-3);
    }
  }
  for (int i = 0; i < width; i++) near(k.name, "dgamma", dgamma[i], gammas[i], 1e-3), near(k.name, "dbeta", dbeta[i], betas[i], 1e-3);

  // A mask is the same on every processor, and for a row alone.
  Mask mask = {uint32_t(random.next()), uint32_t(random.below(9)), uint32_t(random.below(60000))};
  int64_t first_row = random.below(1000000);
  Numbers drawn(count), same(count), alone(width);
  k.dropout(x.data(), dout.data(), rows, width, mask, first_row, drawn.data());
  portable.dropout(x.data(), dout.data(), rows, width, mask, first_row, same.data());
  int last = rows - 1;
  k.dropout(&x[size_t(last) * width], &dout[size_t(last) * width], 1, width, mask, first_row + last, alone.data());
  for (size_t i = 0; i < count; i++) near(k.name, "dropout", drawn[i], same[i], 1e-6);
  for (int i = 0; i < width; i++) CHECK(alone[i] == drawn[size_t(last) * width + i], "%s dropout of one row", k.name);

  // The slope of an activation is the limit of its quotients.
  Numbers inner = random.normals(size_t(rows) * inner_width), moved = inner, dinner(inner.size()), low(count), high(count);
  if (kind == DRAGOMAN_RELU)
    for (float& one : inner) one = std::abs(one) < 0.02f ? 0.5f : one;
  k.activate_back(inner.data(), dout.data(), rows, width, kind, dinner.data());
  int column = random.below(inner_width);
  constexpr float kStep = 0.004f;
  auto shifted = [&](float by, Numbers& to) {
    moved = inner;
    for (int r = 0; r < rows; r++) moved[size_t(r) * inner_width + column] += by;
    k.activate(moved.data(), rows, width, kind, to.data());
  };
  shifted(-kStep, low), shifted(kStep, high);
  for (int r = 0; r < rows; r++) {
    size_t at = size_t(r) * width + column % width;
    near(k.name, "activate_back", dinner[size_t(r) * inner_width + column], dout[at] * (double(high[at]) - low[at]) / (2 * kStep), 3e-3);
  }

  Numbers sums(width, 3);
  k.column_sums(x.data(), width, rows, width, sums.data());
  for (int i = 0; i < width; i++) {
    double sum = 3;
    for (int r = 0; r < rows; r++) sum += x[size_t(r) * width + i];
    near(k.name, "column_sums", sums[i], sum, 1e-4);
  }
}

void test_loss(const TrainKernels& k, Random& random) {
  int rows = some(random, 20), vocab = 1 + random.below(700);
  int64_t stride = up(vocab, kBlock);
  float smoothing = random.below(2) ? 0.1f : 0.0f, scale = 0.25f;
  Numbers logits = random.normals(rows * stride, 3), before = logits;
  std::vector<int32_t> targets(rows);
  for (int32_t& one : targets) one = random.below(vocab);
  double found = k.loss(logits.data(), stride, rows, vocab, targets.data(), smoothing, scale), wanted = 0;
  for (int r = 0; r < rows; r++) {
    const float* row = &before[r * stride];
    double total = 0;
    for (int i = 0; i < vocab; i++) total += std::exp(double(row[i]));
    for (int i = 0; i < stride; i++) {
      if (i >= vocab) {
        CHECK(logits[r * stride + i] == 0, "%s: padding has a gradient", k.name);
        continue;
      }
      double share = smoothing / vocab + (i == targets[r] ? 1 - smoothing : 0);
      wanted -= share * (row[i] - std::log(total));
      near(k.name, "gradient of the loss", logits[r * stride + i], scale * (std::exp(double(row[i])) / total - share), 1e-5);
    }
  }
  near(k.name, "loss", found, wanted, 1e-5);
}

void test_attention(const TrainKernels& k, Random& random) {
  int width = 16 * (1 + random.below(4)), keys = some(random, 90), queries = some(random, 90);
  bool is_causal = random.below(2);
  if (is_causal) queries = keys;
  int64_t q_stride = width + random.below(4), kv_stride = width + random.below(4), out_stride = width + random.below(4);
  Numbers q = random.normals(queries * q_stride), key = random.normals(keys * kv_stride), value = random.normals(keys * kv_stride);
  Numbers dout = random.normals(queries * out_stride), out(queries * out_stride), dq(q.size()), dk(key.size()), dv(value.size());
  Numbers weights(queries * up(keys, kBlock)), scratch(head_scratch(queries, keys, width));
  Head head = {queries, keys, width, is_causal, weights.data(), up(keys, kBlock), scratch.data()};
  k.attend(head, q.data(), q_stride, key.data(), value.data(), kv_stride, out.data(), out_stride);
  k.attend_back(head, q.data(), q_stride, key.data(), value.data(), kv_stride, dout.data(), out_stride, dq.data(), dk.data(), dv.data());

  double scale = 1 / std::sqrt(double(width));
  std::vector<double> keys_back(keys * width), values_back(keys * width);
  for (int i = 0; i < queries; i++) {
    int seen = is_causal ? i + 1 : keys;
    std::vector<double> p(seen), dp(seen), mixed(width), query_back(width);
    double total = 0, mean = 0;
    for (int j = 0; j < seen; j++) {
      for (int c = 0; c < width; c++) p[j] += double(q[i * q_stride + c]) * key[j * kv_stride + c] * scale;
      p[j] = std::exp(p[j]);
      total += p[j];
    }
    for (int j = 0; j < seen; j++) {
      p[j] /= total;
      for (int c = 0; c < width; c++) {
        mixed[c] += p[j] * value[j * kv_stride + c];
        dp[j] += double(dout[i * out_stride + c]) * value[j * kv_stride + c];
        values_back[j * width + c] += p[j] * dout[i * out_stride + c];
      }
      mean += p[j] * dp[j];
    }
    for (int j = 0; j < seen; j++)
      for (int c = 0; c < width; c++) {
        double slope = p[j] * (dp[j] - mean) * scale;
        query_back[c] += slope * key[j * kv_stride + c];
        keys_back[j * width + c] += slope * q[i * q_stride + c];
      }
    for (int c = 0; c < width; c++) {
      near(k.name, "attend", out[i * out_stride + c], mixed[c], 1e-4);
      near(k.name, "dq", dq[i * q_stride + c], query_back[c], 1e-3);
    }
  }
  for (int j = 0; j < keys; j++)
    for (int c = 0; c < width; c++) {
      near(k.name, "dk", dk[j * kv_stride + c], keys_back[j * width + c], 1e-3);
      near(k.name, "dv", dv[j * kv_stride + c], values_back[j * width + c], 1e-3);
    }
}

void test_update(const TrainKernels& k, Random& random) {
  int count = 1 + random.below(100);
  Numbers g = random.normals(count), w = random.normals(count), m = random.normals(count), s = random.normals(count), e = random.normals(count);
  for (float& one : s) one = std::abs(one);
  Numbers w0 = w, m0 = m, s0 = s, e0 = e;
  Adam a = {0.01f, 0.9f, 0.98f, 1e-9f, 0.1f, 0.5f, 0.3f, 0.7f, 0.9f};
  k.update(a, count, g.data(), w.data(), m.data(), s.data(), e.data());
  for (int i = 0; i < count; i++) {
    double x = double(g[i]) * a.scale, mean = 0.9 * m0[i] + 0.1 * x, square = 0.98 * s0[i] + 0.02 * x * x;
    double moved = w0[i] * (1 - 0.01 * 0.1) - 0.01 * (mean / 0.5) / (std::sqrt(square / 0.3) + 1e-9);
    near(k.name, "mean", m[i], mean, 1e-5), near(k.name, "square", s[i], square, 1e-5);
    near(k.name, "update", w[i], moved, 1e-5), near(k.name, "average", e[i], 0.9 * e0[i] + 0.1 * moved, 1e-5);
  }
  double squares = 0;
  for (float one : g) squares += double(one) * one;
  near(k.name, "sum_of_squares", k.sum_of_squares(g.data(), count), squares, 1e-5);
}

void test_step(const TrainKernels& k, Random& random) {
  int count = kBlock * (1 + random.below(5));
  Numbers g = random.normals(count), m = random.normals(count), ahead(count), x = random.normals(count);
  Numbers w = random.normals(count), e = random.normals(count), m0 = m, w0 = w, e0 = e;
  k.look_ahead(g.data(), count, 0.7f, 0.1f, m.data(), ahead.data());
  k.step(x.data(), count, 0.02f, 0.99f, 0.9f, w.data(), e.data());
  for (int i = 0; i < count; i++) {
    double momentum = 0.9 * m0[i] + 0.1 * 0.7 * g[i], moved = 0.99 * w0[i] - 0.02 * x[i];
    near(k.name, "momentum", m[i], momentum, 1e-5), near(k.name, "ahead", ahead[i], 0.9 * momentum + 0.1 * 0.7 * g[i], 1e-5);
    near(k.name, "step", w[i], moved, 1e-5), near(k.name, "average", e[i], 0.9 * e0[i] + 0.1 * moved, 1e-5);
  }
}

// A model with random weights and some pairs.
struct Toy {
  dragoman_network network = {};
  std::vector<Numbers> memory, gradient_memory;
  std::vector<float*> weights, gradients;
  std::vector<int64_t> counts;
  Numbers positions;
  std::vector<int32_t> src, tgt_in, tgt_out;
  std::vector<int64_t> src_offsets = {0}, tgt_offsets = {0};
  dragoman_pairs pairs = {};

  explicit Toy(Random& random, int threads) {
    dragoman_network& n = network;
    n.num_heads = 1 + random.below(2), n.d_model = 16 * n.num_heads * (1 + random.below(2)), n.d_ff = 16 * (1 + random.below(4));
    n.num_encoder_layers = 1 + random.below(2), n.num_decoder_layers = 1 + random.below(2);
    n.src_vocab = n.tgt_vocab = 8 * (2 + random.below(20));
    n.norm_first = random.below(2), n.activation = random.below(4), n.is_half = random.below(2);
    n.dropped = random.below(2) ? 6554 : 0, n.positions = 30, n.threads = threads;
    bool is_tied = random.below(2), is_learned = random.below(2);
    auto own = [&](int64_t count, float scale) {
      memory.push_back(random.normals(count, scale));
      gradient_memory.emplace_back(count);
      return int(memory.size()) - 1;
    };
    auto add = [&](int at) {
      weights.push_back(memory[at].data()), gradients.push_back(gradient_memory[at].data()), counts.push_back(memory[at].size());
      return int(weights.size()) - 1;
    };
    int d = n.d_model, table = own(int64_t(n.src_vocab) * d, 0.2f);
    n.first[0] = add(table);
    n.first[1] = add(is_tied ? table : own(int64_t(n.tgt_vocab) * d, 0.2f));
    n.first[2] = add(is_tied ? table : own(int64_t(n.tgt_vocab) * d, 0.2f));
    n.first[3] = is_learned ? add(own(int64_t(n.positions) * d, 0.2f)) : -1;
    n.first[4] = is_learned ? add(own(int64_t(n.positions) * d, 0.2f)) : -1;
    n.first[5] = int(weights.size());
    auto linear = [&](int in, int out) { add(own(int64_t(in) * out, 0.2f)), add(own(out, 0.1f)); };
    auto norm = [&] { add(own(d, 0.5f)), add(own(d, 0.1f)); };
    auto attention = [&] { linear(d, d), linear(d, 2 * d), linear(d, d), norm(); };
    auto feed = [&] { linear(d, n.activation >= DRAGOMAN_SWIGLU ? 2 * n.d_ff : n.d_ff), linear(n.d_ff, d), norm(); };
    for (int i = 0; i < n.num_encoder_layers; i++) attention(), feed();
    for (int i = 0; i < n.num_decoder_layers; i++) attention(), attention(), feed();
    if (n.norm_first) norm(), norm();
    positions = random.normals(int64_t(n.positions) * d);
    n.src_positions = n.tgt_positions = positions.data();
    n.weights = weights.data(), n.gradients = gradients.data(), n.counts = counts.data(), n.parameters = int(weights.size());

    pairs.count = 1 + random.below(60);
    for (int i = 0; i < pairs.count; i++) {
      for (int j = 1 + random.below(n.positions); j > 0; j--) src.push_back(random.below(n.src_vocab));
      for (int j = 1 + random.below(n.positions); j > 0; j--) tgt_in.push_back(random.below(n.tgt_vocab)), tgt_out.push_back(random.below(n.tgt_vocab));
      src_offsets.push_back(int64_t(src.size())), tgt_offsets.push_back(int64_t(tgt_in.size()));
    }
    pairs.src = src.data(), pairs.src_offsets = src_offsets.data();
    pairs.tgt_in = tgt_in.data(), pairs.tgt_out = tgt_out.data(), pairs.tgt_offsets = tgt_offsets.data();
  }

  Numbers all() const {
    Numbers out;
    for (const Numbers& one : gradient_memory) out.insert(out.end(), one.begin(), one.end());
    return out;
  }
};

void test_gradient(int seed) {
  Numbers wanted;
  double loss = 0;
  int count;
  const Kernels* const* every = all_kernels(&count);
  for (int i = 0; i < count; i++)
    for (int threads : {1, 3}) {
      Random random(seed);
      Toy toy(random, threads);
      Trainer trainer(toy.network, *every[i]->training);
      Task task = {&toy.pairs, 7, 0.1f, 1.0f / float(toy.tgt_in.size())};
      double found = trainer.run(task, false);
      Numbers gradient = toy.all();
      if (wanted.empty()) wanted = gradient, loss = found;
      // Rounding to half precision magnifies what differs by a hair.
      double tolerance = toy.network.is_half ? 2e-2 : 2e-4, largest = 0;
      for (float one : wanted) largest = std::max(largest, std::abs(double(one)));
      near(every[i]->name, "loss of a batch", found, loss, tolerance);
      for (size_t j = 0; j < wanted.size(); j++)
        CHECK(std::abs(gradient[j] - wanted[j]) <= tolerance * largest, "%s, %d threads: gradient %zu is %g, not %g", every[i]->name, threads, j,
              gradient[j], wanted[j]);
      double squares = 0;
      for (float one : gradient) squares += double(one) * one;
      near(every[i]->name, "norm of the gradient", trainer.norm(), std::sqrt(squares), 1e-4);
      trainer.run(task, true);
      Numbers twice = toy.all();
      for (size_t j = 0; j < twice.size(); j++) CHECK(std::abs(twice[j] - 2 * gradient[j]) <= 1e-5 * largest, "%s: accumulated", every[i]->name);
      toy.tgt_in[0] = toy.network.tgt_vocab;
      bool is_refused = false;
      try {
        trainer.run(task, false);
      } catch (const std::invalid_argument&) {
        is_refused = true;
      }
      CHECK(is_refused, "an id outside the vocabulary");
    }
}

}  // namespace

void test_training(int rounds) {
  int count;
  const Kernels* const* every = all_kernels(&count);
  const TrainKernels* portable = nullptr;
  for (int i = 0; i < count; i++)
    if (!std::strcmp(every[i]->name, "portable")) portable = every[i]->training;
  for (int i = 0; i < count; i++) {
    Random random(11);
    const TrainKernels& k = *every[i]->training;
    for (int round = 0; round < rounds; round++) {
      test_products(k.name, k.floats, false, random);
      test_products(k.name, k.halves, true, random);
      test_rows(k, *portable, random);
      test_loss(k, random);
      test_attention(k, random);
      test_update(k, random), test_step(k, random);
    }
    std::printf("training kernels %s: %d rounds\n", k.name, rounds);
  }
  for (int seed = 0; seed < rounds / 4; seed++) test_gradient(seed);
}
