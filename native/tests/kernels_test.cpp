// Every kernel of every instruction set against the plain formula in double precision, and int8 products to the last bit
// against the portable ones, on shapes drawn at random: ragged tails, one row, one column, no rows.
#include <algorithm>
#include <cstring>

#include "check.h"
#include "kernels.h"
#include "narrowed.h"
#include "packed.h"

using namespace dragoman;

namespace {

void near(const char* isa, const char* what, const std::vector<float>& found, const std::vector<double>& wanted, double tolerance) {
  for (size_t i = 0; i < wanted.size(); i++)
    CHECK(std::abs(found[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i])), "%s %s at %zu: %g, not %g", isa, what, i,
          found[i], wanted[i]);
}

std::vector<float> padded_rows(Random& random, int count, int width, int stride) {
  std::vector<float> rows(size_t(count) * stride);
  for (int r = 0; r < count; r++)
    for (int i = 0; i < width; i++) rows[size_t(r) * stride + i] = random.normal();
  return rows;
}

void test_products(const Kernels& k, Random& random) {
  int inputs = 1 + random.below(random.below(8) ? 200 : 1200), outputs = 1 + random.below(150), count = random.below(random.below(8) ? 40 : 200);
  int width = padded(inputs, kWidth), columns = padded(outputs, kPanel);
  PackedMatrix exact(random, outputs, inputs, false), whole(random, outputs, inputs, true, 1, true, k.largest);
  std::vector<float> rows = padded_rows(random, count, inputs, width);
  int first = kPanel * random.below(columns / kPanel), last = first + kPanel * (1 + random.below((columns - first) / kPanel));
  int stride = last - first + random.below(3);

  std::vector<float> out(size_t(count) * stride, 7);
  k.multiply_float(rows.data(), width, count, exact.matrix, first, last, out.data(), stride);
  std::vector<double> wanted(size_t(count) * stride, 7);
  for (int r = 0; r < count; r++)
    for (int c = first; c < last; c++) {
      double sum = exact.bias[c];
      for (int i = 0; i < inputs && c < outputs; i++) sum += double(rows[size_t(r) * width + i]) * exact.dense[size_t(c) * inputs + i];
      wanted[size_t(r) * stride + c - first] = sum;
    }
  near(k.name, "multiply_float", out, wanted, 1e-4);

  auto multiply = [&](const Kernels& one, std::vector<float>& to) {
    std::vector<int8_t> bytes(size_t(count) * width);
    std::vector<float> scales(count);
    one.quantize(rows.data(), count, width, width, bytes.data(), scales.data());
    std::fill(to.begin(), to.end(), 7);
    one.multiply_int8(bytes.data(), scales.data(), count, whole.matrix, first, last, to.data(), stride);
  };
  multiply(k, out);
  for (int r = 0; r < count; r++)
    for (int c = first; c < std::min(last, outputs); c++) {
      // Each input is off by at most half a step, each weight is exact.
      double sum = whole.bias[c], largest = 0, error = 1e-4;
      for (int i = 0; i < inputs; i++) largest = std::max(largest, std::abs(double(rows[size_t(r) * width + i])));
      for (int i = 0; i < inputs; i++) {
        sum += double(rows[size_t(r) * width + i]) * whole.dense[size_t(c) * inputs + i];
        error += largest / (2 * k.largest) * std::abs(whole.dense[size_t(c) * inputs + i]);
      }
      CHECK(std::abs(out[size_t(r) * stride + c - first] - sum) <= error * 1.001, "%s row %d column %d", k.name, r, c);
    }
  // Whole numbers up to the largest are quantized exactly, and all sums are exact.
  for (int r = 0; r < count; r++)
    for (int i = 0; i < inputs; i++) rows[size_t(r) * width + i] = float(i ? random.below(2 * k.largest + 1) - k.largest : k.largest);
  multiply(k, out);
  for (int r = 0; r < count; r++)
    for (int c = first; c < last; c++) {
      double sum = whole.bias[c], most = std::abs(sum);
      for (int i = 0; i < inputs && c < outputs; i++) {
        double term = double(rows[size_t(r) * width + i]) * whole.dense[size_t(c) * inputs + i];
        sum += term, most += std::abs(term);
      }
      CHECK(std::abs(out[size_t(r) * stride + c - first] - sum) <= 1e-6 * most, "%s multiply_int8 row %d column %d", k.name, r, c);
    }
}

void test_narrowed(Random& random) {
  int inputs = 1 + random.below(200), outputs = 1 + random.below(100), most = 1 + random.below(kLargestWeight);
  PackedMatrix whole(random, outputs, inputs, true);
  Narrowed narrow(whole.matrix, most);
  Matrix m = narrow.matrix(whole.matrix);
  const int8_t* weights = static_cast<const int8_t*>(m.weights);
  for (int o = 0; o < padded(outputs, kPanel); o++) {
    int sum = 0;
    for (int i = 0; i < padded(inputs, kWidth); i++) {
      int weight = weights[size_t(o / 16) * padded(inputs, kWidth) * 16 + size_t(i / 4) * 64 + (o % 16) * 4 + i % 4];
      double wanted = o < outputs && i < inputs ? whole.dense[size_t(o) * inputs + i] : 0;
      sum += weight;
      CHECK(std::abs(weight) <= most, "weight %d of %d", weight, most);
      CHECK(std::abs(double(weight) * m.scales[o] - wanted) <= 0.505 * m.scales[o], "row %d input %d of %d", o, i, most);
    }
    CHECK(sum == m.sums[o], "row %d sums up to %d, not %d", o, sum, m.sums[o]);
  }
}

void test_extremes(const Kernels& k) {
  // The largest sums there are: nothing may saturate on the way.
  const int inputs = 256, outputs = 16;
  std::vector<int8_t> weights(size_t(inputs) * outputs, -k.largest), bytes(inputs);
  std::vector<float> scales(outputs, 1), rows(inputs, 1), out(outputs);
  std::vector<int32_t> sums(outputs, -k.largest * inputs);
  Matrix m{1, outputs, inputs, weights.data(), scales.data(), sums.data(), nullptr};
  float scale;
  for (float sign : {1.0f, -1.0f}) {
    std::fill(rows.begin(), rows.end(), sign);
    k.quantize(rows.data(), 1, inputs, inputs, bytes.data(), &scale);
    k.multiply_int8(bytes.data(), &scale, 1, m, 0, outputs, out.data(), outputs);
    for (float x : out) CHECK(std::abs(x + sign * k.largest * inputs) < 0.01, "%s: %g", k.name, x);
  }
  std::fill(rows.begin(), rows.end(), 0);
  k.quantize(rows.data(), 1, inputs, inputs, bytes.data(), &scale);
  k.multiply_int8(bytes.data(), &scale, 1, m, 0, outputs, out.data(), outputs);
  for (float x : out) CHECK(x == 0, "%s: a row of zeros gives %g", k.name, x);
}

void test_rows(const Kernels& k, Random& random) {
  int width = 1 + random.below(150), stride = padded(width, kWidth), count = random.below(5);
  std::vector<float> x = padded_rows(random, count, width, stride), y = padded_rows(random, count, width, stride);
  std::vector<float> gamma = random.normals(stride), beta = random.normals(stride), out(x.size());
  std::vector<double> wanted(x.size());
  for (int r = 0; r < count; r++) {
    double mean = 0, variance = 0;
    for (int i = 0; i < width; i++) mean += (double(x[r * stride + i]) + y[r * stride + i]) / width;
    for (int i = 0; i < width; i++) variance += std::pow(double(x[r * stride + i]) + y[r * stride + i] - mean, 2) / width;
    for (int i = 0; i < width; i++)
      wanted[r * stride + i] = (double(x[r * stride + i]) + y[r * stride + i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
  }
  k.norm(x.data(), y.data(), count, stride, width, gamma.data(), beta.data(), out.data());
  near(k.name, "norm", out, wanted, 3e-4);

  for (int kind : {DRAGOMAN_RELU, DRAGOMAN_GELU, DRAGOMAN_SWIGLU, DRAGOMAN_GEGLU}) {
    bool is_gated = kind >= DRAGOMAN_SWIGLU;
    int in_stride = padded((is_gated ? 2 : 1) * width, kWidth);
    std::vector<float> in = padded_rows(random, count, (is_gated ? 2 : 1) * width, in_stride), active(size_t(count) * stride);
    std::vector<double> right(active.size());
    for (int r = 0; r < count; r++)
      for (int i = 0; i < width; i++) {
        double z = in[size_t(r) * in_stride + i];
        double a = kind == DRAGOMAN_RELU ? std::max(z, 0.0) : kind == DRAGOMAN_SWIGLU ? z / (1 + std::exp(-z)) : z * std::erfc(-z / std::sqrt(2.0)) / 2;
        right[size_t(r) * stride + i] = is_gated ? a * in[size_t(r) * in_stride + width + i] : a;
      }
    k.activate(in.data(), in_stride, count, 0, is_gated ? width : padded(width, kPanel), width, kind, active.data(), stride);
    near(k.name, "activate", active, right, 1e-5);
  }
}

void test_scan(const Kernels& k, Random& random) {
  int count = 1 + random.below(kChunk), best = random.below(12), first = random.below(100);
  std::vector<float> logits = random.normals(count, 3);
  for (int i = 0; i < count / 4; i++) logits[random.below(count)] = logits[random.below(count)];  // equal ones
  std::vector<uint8_t> banned(first + count);
  for (uint8_t& b : banned) b = random.below(5) == 0;
  std::vector<int32_t> ids(best + 1), order;
  std::vector<float> found(best + 1);
  Top top{0, best, ids.data(), found.data()};
  Partial partial = k.scan(logits.data(), first, count, banned.data(), top);
  double total = 0;
  for (float x : logits) total += std::exp(double(x));
  CHECK(std::abs(partial.most + std::log(double(partial.total)) - std::log(total)) < 1e-5, "%s scan", k.name);
  for (int i = 0; i < count; i++)
    if (!banned[first + i]) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  CHECK(top.count == std::min(best, int(order.size())), "%s scan finds %d", k.name, top.count);
  for (int i = 0; i < top.count; i++) CHECK(ids[i] == first + order[i], "%s scan: %d is best %d", k.name, ids[i], i);
}

template <typename T>
void test_attention(const Kernels& k, const AttentionKernels& a, Random& random, double tolerance) {
  int width = 16 * (1 + random.below(5)), length = 1 + random.below(40), rows = random.below(7), room = padded(length, 16);
  int stride = 2 * width + random.below(3);
  float scale = 0.3f;
  std::vector<float> queries = random.normals(size_t(rows) * stride), keys_values = random.normals(size_t(length) * stride);
  std::vector<T> keys(size_t(width) * room), values(size_t(width) * room), cells(size_t(length) * 2 * width);
  std::vector<float> out(size_t(rows) * stride), scores(4 * (room + 16)), weights(size_t(rows) * length), single(width);
  a.pack(keys_values.data(), keys_values.data() + width, stride, length, width, keys.data(), values.data());
  a.attend(queries.data(), stride, rows, keys.data(), values.data(), length, width, scale, out.data(), stride, scores.data(),
           weights.data(), length, 1);
  std::vector<const void*> places;
  for (int t = 0; t < length; t++) {
    a.write(keys_values.data() + size_t(t) * stride, 2 * width, cells.data() + size_t(t) * 2 * width);
    places.push_back(cells.data() + size_t(t) * 2 * width);
  }
  for (int r = 0; r < rows; r++) {
    std::vector<double> p(length), wanted(width);
    double total = 0;
    for (int t = 0; t < length; t++) {
      for (int i = 0; i < width; i++) p[t] += double(queries[size_t(r) * stride + i]) * keys_values[size_t(t) * stride + i] * scale;
      total += p[t] = std::exp(p[t]);
    }
    for (int t = 0; t < length; t++)
      for (int i = 0; i < width; i++) wanted[i] += p[t] / total * keys_values[size_t(t) * stride + width + i];
    near(k.name, "attend", {out.begin() + size_t(r) * stride, out.begin() + size_t(r) * stride + width}, wanted, tolerance);
    double sum = 0;
    for (int t = 0; t < length; t++) sum += weights[size_t(r) * length + t];
    CHECK(std::abs(sum - 1) < 1e-4, "%s: weights sum to %g", k.name, sum);
    a.attend_cells(queries.data() + size_t(r) * stride, places.data(), length, 0, width, width, scale, single.data(), scores.data());
    near(k.name, "attend_cells", single, wanted, tolerance);
  }
}

}  // namespace

void test_kernels(int rounds) {
  int count;
  const Kernels* const* all = all_kernels(&count);
  for (int round = 0; round < rounds; round++) {
    Random random(round + 1);
    test_narrowed(random);
  }
  for (int i = 0; i < count; i++) {
    const Kernels& k = *all[i];
    test_extremes(k);
    for (int round = 0; round < rounds; round++) {
      Random random(round + 1);
      test_products(k, random);
      test_rows(k, random);
      test_scan(k, random);
      test_attention<float>(k, k.floats, random, 1e-4);
      test_attention<uint16_t>(k, k.halves, random, 3e-2);
    }
    std::printf("kernels %s: %d rounds\n", k.name, rounds);
  }
}
