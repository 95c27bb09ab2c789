// Every kernel of every instruction set against the plain formula in double precision, and against the portable set's, on
// shapes drawn at random: ragged tails, one row, one column, no rows. Whole numbers' products agree to the last bit.
#include <algorithm>
#include <cstring>
#include <limits>

#include "check.h"
#include "kernels.h"
#include "narrowed.h"
#include "packed.h"

using namespace dragoman;

namespace {

template <typename T>
void near(const char* isa, const char* what, const std::vector<float>& found, const std::vector<T>& wanted, double tolerance) {
  CHECK(found.size() == wanted.size(), "%s %s: %zu numbers, not %zu", isa, what, found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); i++)
    CHECK(std::abs(found[i] - double(wanted[i])) <= tolerance * (1 + std::abs(double(wanted[i]))), "%s %s at %zu: %.9g, not %.9g", isa, what,
          i, found[i], double(wanted[i]));
}

template <typename T>
void equal(const char* isa, const char* what, const std::vector<T>& found, const std::vector<T>& wanted) {
  CHECK(found.size() == wanted.size(), "%s %s: %zu numbers, not %zu", isa, what, found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); i++)
    CHECK(found[i] == wanted[i], "%s %s at %zu: %.9g, not %.9g", isa, what, i, double(found[i]), double(wanted[i]));
}

int some_rows(Random& random, int most) {
  int kind = random.below(8);
  return kind < 2 ? kind : random.below(most);
}

std::vector<float> padded_rows(Random& random, int count, int width, int stride) {
  std::vector<float> rows(size_t(count) * stride);
  for (int r = 0; r < count; r++)
    for (int i = 0; i < width; i++) rows[size_t(r) * stride + i] = random.normal();
  return rows;
}

// Some rows and some panels of a matrix.
struct Product {
  int inputs, outputs, count, width, row_stride;
  PackedMatrix packed;
  Matrix matrix;
  std::vector<float> rows;
  int first, last, stride;

  Product(Random& random, bool is_int8, int largest = kLargestWeight)
      : inputs(1 + random.below(random.below(8) ? 200 : 1200)),
        outputs(random.below(8) ? 1 + random.below(150) : 1),
        count(some_rows(random, random.below(8) ? 40 : 200)),
        width(padded(inputs, kWidth)),
        row_stride(width + 16 * random.below(2)),
        packed(random, outputs, inputs, is_int8, 1, true, largest),
        matrix(packed.matrix),
        rows(padded_rows(random, count, inputs, row_stride)) {
    int panels = padded(outputs, kPanel) / kPanel, begin = random.below(panels);
    first = kPanel * begin;
    last = first + kPanel * random.below(panels - begin + 1);
    stride = last - first + random.below(3);
    if (random.below(2)) std::fill(packed.bias.begin(), packed.bias.end(), 0), matrix.bias = nullptr;
  }

  float row(int r, int i) const { return rows[size_t(r) * row_stride + i]; }
  float weight(int c, int i) const { return c < outputs ? packed.dense[size_t(c) * inputs + i] : 0; }
  size_t at(int r, int c) const { return size_t(r) * stride + c - first; }
  std::vector<float> room() const { return std::vector<float>(size_t(count) * stride, 7); }

  // What a result is, and how large its terms are together.
  double result(int r, int c, double& most) const {
    double sum = packed.bias[c];
    most = std::abs(sum);
    for (int i = 0; i < inputs; i++) sum += double(row(r, i)) * weight(c, i), most += std::abs(double(row(r, i)) * weight(c, i));
    return sum;
  }

  // Checks each result; error(row, column, most) is how far off it may be.
  template <typename F>
  void check(const char* isa, const char* what, const std::vector<float>& out, F error) const {
    for (int r = 0; r < count; r++)
      for (int c = first; c < last; c++) {
        double most, sum = result(r, c, most), off = error(r, c, most);
        CHECK(std::abs(out[at(r, c)] - sum) <= off, "%s %s row %d column %d: %g, not %g", isa, what, r, c, out[at(r, c)], sum);
      }
  }
};

void test_float_product(const Kernels& k, const Kernels& portable, Random& random) {
  Product p(random, false);
  auto multiply = [&](const Kernels& one) {
    std::vector<float> out = p.room();
    one.multiply_float(p.rows.data(), p.row_stride, p.count, p.matrix, p.first, p.last, out.data(), p.stride);
    return out;
  };
  std::vector<float> out = multiply(k);
  p.check(k.name, "multiply_float", out, [](int, int, double most) { return 1e-6 * (1 + most); });
  near(k.name, "multiply_float", out, multiply(portable), 1e-4);
}

// Rows as an instruction set writes them, and the numbers they stand for.
struct Quantized {
  std::vector<int8_t> written, numbers;
  std::vector<float> scales;

  Quantized(const Kernels& k, const Product& p) : written(size_t(p.count) * p.width), numbers(written.size()), scales(p.count) {
    k.quantize(p.rows.data(), p.count, p.row_stride, p.width, written.data(), scales.data());
    // A set may add something to each number: what it makes of zero.
    float zeros[kWidth] = {}, scale;
    int8_t zero[kWidth];
    k.quantize(zeros, 1, kWidth, kWidth, zero, &scale);
    for (size_t i = 0; i < written.size(); i++) numbers[i] = int8_t(written[i] - zero[0]);
  }
};

std::vector<float> multiply_int8(const Kernels& k, const Product& p, const std::vector<int8_t>& bytes, const std::vector<float>& scales) {
  std::vector<float> out = p.room();
  k.multiply_int8(bytes.data(), scales.data(), p.count, p.matrix, p.first, p.last, out.data(), p.stride);
  return out;
}

// Both are within half a step of the number, whatever their steps are.
void test_quantize(const Kernels& k, const Product& p, const Quantized& q, const Quantized& same) {
  for (int r = 0; r < p.count; r++)
    for (int i = 0; i < p.width; i++) {
      size_t at = size_t(r) * p.width + i;
      double found = double(q.numbers[at]) * q.scales[r], wanted = p.row(r, i), other = double(same.numbers[at]) * same.scales[r];
      double half = 0.5005 * q.scales[r], other_half = 0.5005 * same.scales[r];
      CHECK(std::abs(q.numbers[at]) <= k.largest, "%s quantize: %d", k.name, q.numbers[at]);
      CHECK(std::abs(found - wanted) <= half, "%s quantize: %g, not %g", k.name, found, wanted);
      CHECK(std::abs(found - other) <= half + other_half, "%s quantize: %g, portable %g", k.name, found, other);
    }
}

void test_int8_product(const Kernels& k, const Kernels& portable, Random& random) {
  Product p(random, true, k.largest);
  Quantized q(k, p);
  test_quantize(k, p, q, Quantized(portable, p));
  std::vector<float> out = multiply_int8(k, p, q.written, q.scales);
  p.check(k.name, "multiply_int8 of rounded numbers", out, [&](int r, int c, double most) {
    // Each input is off by at most half a step, each weight is exact.
    double error = 1e-4 + 1e-6 * most;
    for (int i = 0; i < p.inputs; i++) error += 0.5005 * q.scales[r] * std::abs(p.weight(c, i));
    return error;
  });
  // Portable numbers are signed bytes, so that set can multiply any other's. Sums are exact; a bias may be fused.
  std::vector<float> same = multiply_int8(portable, p, q.numbers, q.scales);
  if (p.matrix.bias)
    near(k.name, "multiply_int8", out, same, 1e-6);
  else
    equal(k.name, "multiply_int8", out, same);

  // Whole numbers up to the largest are quantized exactly.
  for (int r = 0; r < p.count; r++)
    for (int i = 0; i < p.inputs; i++) p.rows[size_t(r) * p.row_stride + i] = float(i ? random.below(2 * k.largest + 1) - k.largest : k.largest);
  Quantized whole(k, p);
  for (int r = 0; r < p.count; r++)
    for (int i = 0; i < p.inputs; i++) CHECK(whole.numbers[size_t(r) * p.width + i] == p.row(r, i), "%s quantize of a whole number", k.name);
  out = multiply_int8(k, p, whole.written, whole.scales);
  p.check(k.name, "multiply_int8", out, [](int, int, double most) { return 1e-6 * most; });
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

// x += y, unless there is none, then LayerNorm; into x itself or elsewhere.
void test_norm(const Kernels& k, const Kernels& portable, Random& random) {
  int width = 1 + random.below(150), stride = padded(width, kWidth), count = some_rows(random, 6);
  bool has_other = random.below(2), is_in_place = random.below(2);
  std::vector<float> x = padded_rows(random, count, width, stride), y = padded_rows(random, count, width, stride);
  std::vector<float> gamma = random.normals(stride), beta = random.normals(stride), sums(x), out, same;
  std::vector<double> wanted(x.size());
  for (size_t i = 0; has_other && i < x.size(); i++) sums[i] += y[i];
  for (int r = 0; r < count; r++) {
    const float* row = &sums[size_t(r) * stride];
    double mean = 0, variance = 0;
    for (int i = 0; i < width; i++) mean += double(row[i]) / width;
    for (int i = 0; i < width; i++) variance += std::pow(row[i] - mean, 2) / width;
    for (int i = 0; i < width; i++) wanted[size_t(r) * stride + i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
  }
  auto norm = [&](const Kernels& one, std::vector<float>& to) {
    std::vector<float> from(x);
    to.assign(x.size(), 0);
    one.norm(from.data(), has_other ? y.data() : nullptr, count, stride, width, gamma.data(), beta.data(), is_in_place ? from.data() : to.data());
    if (is_in_place)
      to = from;
    else
      equal(one.name, "norm leaves behind", from, sums);
  };
  norm(k, out), norm(portable, same);
  near(k.name, "norm", out, wanted, 3e-5);
  near(k.name, "norm", out, same, 3e-5);
}

double activated(int kind, double z) {
  if (kind == DRAGOMAN_RELU) return std::max(z, 0.0);
  return kind == DRAGOMAN_SWIGLU ? z / (1 + std::exp(-z)) : z * std::erfc(-z / std::sqrt(2.0)) / 2;
}

// Columns first .. last, as a member of a team has them; what stands beside them belongs to others.
void test_activate(const Kernels& k, const Kernels& portable, int kind, Random& random) {
  bool is_gated = kind >= DRAGOMAN_SWIGLU, is_in_place = !is_gated && random.below(2);
  int width = 1 + random.below(150), wide = is_gated ? 2 * width : width, in_stride = padded(wide, kWidth), count = some_rows(random, 6);
  int stride = is_in_place ? in_stride : padded(width, kWidth), panels = padded(width, kPanel) / kPanel, begin = random.below(panels);
  int first = kPanel * begin, last = first + kPanel * random.below(panels - begin + 1);
  if (is_gated) last = std::min(last, width);
  std::vector<float> in = padded_rows(random, count, wide, in_stride);
  auto activate = [&](const Kernels& one) {
    std::vector<float> rows(in), out(size_t(count) * stride, 7);
    one.activate(rows.data(), in_stride, count, first, last, width, kind, is_in_place ? rows.data() : out.data(), stride);
    return is_in_place ? rows : out;
  };
  std::vector<double> wanted(size_t(count) * stride, 7);
  if (is_in_place) std::copy(in.begin(), in.end(), wanted.begin());
  for (int r = 0; r < count; r++)
    for (int i = first; i < last; i++) {
      const float* row = &in[size_t(r) * in_stride];
      wanted[size_t(r) * stride + i] = activated(kind, row[i]) * (is_gated ? row[width + i] : 1);
    }
  std::vector<float> out = activate(k);
  near(k.name, "activate", out, wanted, 1e-5);
  near(k.name, "activate", out, activate(portable), 2e-6);
}

void test_embed(const Kernels& k, const Kernels& portable, Random& random) {
  int width = 1 + random.below(150), stride = padded(width, kWidth) + kWidth * random.below(2);
  std::vector<float> embedding = random.normals(width), position = random.normals(width);
  float factor = std::sqrt(float(width));
  std::vector<double> wanted(stride);
  for (int i = 0; i < width; i++) wanted[i] = double(embedding[i]) * factor + position[i];
  auto embed = [&](const Kernels& one) {
    std::vector<float> x(stride, std::numeric_limits<float>::quiet_NaN());  // what a sentence before may have left
    one.embed(embedding.data(), position.data(), factor, width, stride, x.data());
    return x;
  };
  std::vector<float> out = embed(k);
  near(k.name, "embed", out, wanted, 2e-6);
  near(k.name, "embed", out, embed(portable), 2e-6);
}

// What a scan of two chunks, one after the other, finds.
struct Scanned {
  std::vector<int32_t> ids;
  std::vector<float> logits;
  Partial first, second;

  Scanned(const Kernels& k, const std::vector<float>& from, int begin, int cut, int best, const std::vector<uint8_t>& banned)
      : ids(best + 1), logits(best + 1) {
    Top top{0, best, ids.data(), logits.data()};
    first = k.scan(from.data(), begin, cut, banned.data(), top);
    second = k.scan(from.data() + cut, begin + cut, int(from.size()) - cut, banned.data(), top);
    ids.resize(top.count), logits.resize(top.count);
  }
};

void test_partial(const Kernels& k, const Partial& found, const Partial& same, const float* logits, int count) {
  double total = 0;
  for (int i = 0; i < count; i++) total += std::exp(double(logits[i]));
  CHECK(std::abs(found.most + std::log(double(found.total)) - std::log(total)) < 1e-5, "%s scan", k.name);
  CHECK(found.most == *std::max_element(logits, logits + count) && found.most == same.most, "%s scan: largest %g", k.name, found.most);
  CHECK(std::abs(found.total - same.total) <= 1e-5 * same.total, "%s scan: %.9g, portable %.9g", k.name, found.total, same.total);
}

void test_scan(const Kernels& k, const Kernels& portable, Random& random) {
  int cut = random.below(8) ? 1 + random.below(kChunk) : 1, rest = 1 + random.below(kChunk), best = random.below(12), first = random.below(100);
  int count = cut + rest;
  std::vector<float> logits = random.normals(count, 3);
  for (int i = 0; i < count / 4; i++) logits[random.below(count)] = logits[random.below(count)];  // equal ones
  std::vector<uint8_t> banned(first + count);
  for (uint8_t& b : banned) b = random.below(5) == 0;
  Scanned found(k, logits, first, cut, best, banned), same(portable, logits, first, cut, best, banned);
  test_partial(k, found.first, same.first, logits.data(), cut);
  test_partial(k, found.second, same.second, logits.data() + cut, rest);
  std::vector<int32_t> order;
  for (int i = 0; i < count; i++)
    if (!banned[first + i]) order.push_back(first + i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a - first] > logits[b - first]; });
  order.resize(std::min(best, int(order.size())));
  equal(k.name, "scan finds", found.ids, order);
  equal(k.name, "scan finds, portable", found.ids, same.ids);
  for (size_t i = 0; i < order.size(); i++) CHECK(found.logits[i] == logits[order[i] - first], "%s scan: %g", k.name, found.logits[i]);
}

// One head: keys and values as they come, side by side.
struct Head {
  int width, length, rows, room, stride;
  float scale = 0.3f;
  std::vector<float> queries, keys_values;

  explicit Head(Random& random)
      : width(16 * (1 + random.below(5))),
        length(1 + random.below(40)),
        rows(random.below(7)),
        room(padded(length, 16)),
        stride(2 * width + random.below(3)),
        queries(random.normals(size_t(rows) * stride)),
        keys_values(random.normals(size_t(length) * stride)) {}
};

// All that a set's attention makes of it.
template <typename T>
struct Attended {
  std::vector<T> keys, values, cells;
  std::vector<float> out, weights, of_cells;

  Attended(const AttentionKernels& a, const Head& h)
      : keys(size_t(h.width) * h.room),
        values(size_t(h.width) * h.length),
        cells(size_t(h.length) * 2 * h.width),
        out(size_t(h.rows) * h.stride),
        weights(size_t(h.rows) * h.length, 1),
        of_cells(size_t(h.rows) * h.width) {
    std::vector<float> scores(4 * (h.room + 16));
    std::memset(keys.data(), 0xff, sizeof(T) * keys.size());  // NaN from a sentence before
    a.pack(h.keys_values.data(), h.keys_values.data() + h.width, h.stride, h.length, h.width, keys.data(), values.data());
    a.attend(h.queries.data(), h.stride, h.rows, keys.data(), values.data(), h.length, h.width, h.scale, out.data(), h.stride, scores.data(),
             weights.data(), h.length, 0.5f);
    std::vector<const void*> places;
    for (int t = 0; t < h.length; t++) {
      T* cell = cells.data() + size_t(t) * 2 * h.width;
      a.write(h.keys_values.data() + size_t(t) * h.stride, 2 * h.width, cell);
      places.push_back(cell);
    }
    for (int r = 0; r < h.rows; r++)
      a.attend_cells(h.queries.data() + size_t(r) * h.stride, places.data(), h.length, 0, h.width, h.width, h.scale,
                     of_cells.data() + size_t(r) * h.width, scores.data());
  }
};

template <typename T>
void test_attention(const Kernels& k, const AttentionKernels& a, const AttentionKernels& portable, Random& random, double tolerance) {
  Head h(random);
  Attended<T> found(a, h), same(portable, h);
  std::vector<double> out(found.out.size()), weights(found.weights.size(), 1), of_cells(found.of_cells.size());
  for (int r = 0; r < h.rows; r++) {
    std::vector<double> p(h.length);
    double total = 0;
    for (int t = 0; t < h.length; t++) {
      for (int i = 0; i < h.width; i++) p[t] += double(h.queries[size_t(r) * h.stride + i]) * h.keys_values[size_t(t) * h.stride + i] * h.scale;
      total += p[t] = std::exp(p[t]);
    }
    for (int t = 0; t < h.length; t++) {
      weights[size_t(r) * h.length + t] += 0.5 * p[t] / total;
      for (int i = 0; i < h.width; i++) out[size_t(r) * h.stride + i] += p[t] / total * h.keys_values[size_t(t) * h.stride + h.width + i];
    }
    std::copy_n(&out[size_t(r) * h.stride], h.width, &of_cells[size_t(r) * h.width]);
  }
  near(k.name, "attend", found.out, out, tolerance);
  near(k.name, "attend_cells", found.of_cells, of_cells, tolerance);
  near(k.name, "weights", found.weights, weights, tolerance);
  // All sets round to bfloat16 alike.
  equal(k.name, "packed keys", found.keys, same.keys);
  equal(k.name, "packed values", found.values, same.values);
  equal(k.name, "cells", found.cells, same.cells);
  near(k.name, "attend", found.out, same.out, 1e-5);
  near(k.name, "attend_cells", found.of_cells, same.of_cells, 1e-5);
  near(k.name, "weights", found.weights, same.weights, 2e-6);
}

}  // namespace

void test_kernels(int rounds) {
  int count;
  const Kernels* const* all = all_kernels(&count);
  const Kernels& portable = **std::find_if(all, all + count, [](const Kernels* one) { return !std::strcmp(one->name, "portable"); });
  for (int round = 0; round < rounds; round++) {
    Random random(round + 1);
    test_narrowed(random);
  }
  for (int i = 0; i < count; i++) {
    const Kernels& k = *all[i];
    test_extremes(k);
    for (int round = 0; round < rounds; round++) {
      Random random(round + 1);
      test_float_product(k, portable, random);
      test_int8_product(k, portable, random);
      test_norm(k, portable, random);
      for (int kind : {DRAGOMAN_RELU, DRAGOMAN_GELU, DRAGOMAN_SWIGLU, DRAGOMAN_GEGLU}) test_activate(k, portable, kind, random);
      test_embed(k, portable, random);
      test_scan(k, portable, random);
      test_attention<float>(k, k.floats, portable.floats, random, 1e-4);
      test_attention<uint16_t>(k, k.halves, portable.halves, random, 3e-2);
    }
    std::printf("kernels %s: %d rounds\n", k.name, rounds);
  }
}
