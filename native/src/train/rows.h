// What happens to each row alone, forward and back: layer norm, dropout, activations, the loss; and the optimizer.
#pragma once

#include <cmath>

#include "../activations.h"
#include "kernels.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Adam;
using dragoman::kBlock;
using dragoman::Mask;

static void train_norm(const float* x, int rows, int width, const float* gamma, const float* beta, float* out, float* mean,
                       float* factor) {
  for (int r = 0; r < rows; r++, x += width, out += width) {
    Floats sums = {}, squares = {};
    for (int i = 0; i < width; i += kLanes) sums += load(x + i);
    float middle = sum(sums) / width;
    for (int i = 0; i < width; i += kLanes) {
      Floats away = load(x + i) - middle;
      squares += away * away;
    }
    float scale = 1 / std::sqrt(sum(squares) / width + 1e-5f);
    for (int i = 0; i < width; i += kLanes) store(out + i, (load(x + i) - middle) * scale * load(gamma + i) + load(beta + i));
    mean[r] = middle;
    factor[r] = scale;
  }
}

// With h = (x - mean) * factor and z = dout * gamma: dx = factor * (z - mean(z) - h * mean(z * h)).
static void train_norm_back(const float* dout, const float* x, int rows, int width, const float* gamma, const float* mean,
                            const float* factor, float* dx, bool is_added, float* dgamma, float* dbeta) {
  for (int r = 0; r < rows; r++, dout += width, x += width, dx += width) {
    Floats sums = {}, products = {};
    for (int i = 0; i < width; i += kLanes) {
      Floats h = (load(x + i) - mean[r]) * factor[r], d = load(dout + i), z = d * load(gamma + i);
      sums += z;
      products += z * h;
      store(dgamma + i, load(dgamma + i) + d * h);
      store(dbeta + i, load(dbeta + i) + d);
    }
    float first = sum(sums) / width, second = sum(products) / width;
    for (int i = 0; i < width; i += kLanes) {
      Floats h = (load(x + i) - mean[r]) * factor[r];
      Floats d = (load(dout + i) * load(gamma + i) - first - h * second) * factor[r];
      store(dx + i, is_added ? load(dx + i) + d : d);
    }
  }
}

static ALWAYS_INLINE uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

static ALWAYS_INLINE Bits mixed(Bits x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// One 32-bit word decides two numbers of a row: its low half one among the first 16 of 32 columns, its high half the one
// 16 columns further on. Words are a hash of seed, place in the model, row and column.
static void train_dropout(const float* x, const float* base, int rows, int width, Mask mask, int64_t first_row, float* out) {
  float scale = 65536.0f / float(65536 - mask.dropped);
  Bits count;
  for (int i = 0; i < kLanes; i++) count[i] = uint32_t(i) * 0x9e3779b9u;
  for (int r = 0; r < rows; r++, x += width, out += width) {
    uint64_t row = uint64_t(first_row + r);
    uint32_t key = mixed(mixed(mask.seed + 0x632be59bu * mask.site) ^ uint32_t(row) * 0x85ebca6bu ^ uint32_t(row >> 32));
    for (int i = 0; i < width; i += 2 * kBlock)
      for (int v = 0; v < kBlock; v += kLanes) {
        Bits words = mixed(count + (key + uint32_t(i / 2 + v) * 0x9e3779b9u));
        for (int half = 0; half < 2 && i + half * kBlock < width; half++) {
          int at = i + half * kBlock + v;
          Bits drawn = half ? words >> 16 : words & 0xffffu;
          Floats kept = (Floats)((Bits)((Ints)drawn >= int32_t(mask.dropped)) & (Bits)(load(x + at) * scale));
          store(out + at, base ? load(base + at) + kept : kept);
        }
      }
    if (base) base += width;
  }
}

static ALWAYS_INLINE Floats silu_slope(Floats x) {
  Floats s = 1.0f / (1.0f + exponential(-x));
  return s * (1.0f + x * (1.0f - s));
}

// Phi(x) + x phi(x)
static ALWAYS_INLINE Floats gelu_slope(Floats x) {
  Floats area = x == 0.0f ? splat(0.5f) : gelu(x) / x;
  return area + x * exponential(-0.5f * x * x) * 0.39894228f;
}

static void train_activate(const float* inner, int rows, int width, int kind, float* out) {
  bool is_gated = kind == DRAGOMAN_SWIGLU || kind == DRAGOMAN_GEGLU;
  activate(inner, is_gated ? 2 * width : width, rows, 0, width, width, kind, out, width);
}

static void train_activate_back(const float* inner, const float* dout, int rows, int width, int kind, float* dinner) {
  bool is_gated = kind == DRAGOMAN_SWIGLU || kind == DRAGOMAN_GEGLU;
  int64_t stride = is_gated ? 2 * int64_t(width) : width;
  for (int r = 0; r < rows; r++, inner += stride, dinner += stride, dout += width)
    for (int i = 0; i < width; i += kLanes) {
      Floats x = load(inner + i), d = load(dout + i);
      if (is_gated) {
        Floats linear = load(inner + width + i), gate = kind == DRAGOMAN_SWIGLU ? silu(x) : gelu(x);
        store(dinner + width + i, d * gate);
        store(dinner + i, d * linear * (kind == DRAGOMAN_SWIGLU ? silu_slope(x) : gelu_slope(x)));
      } else {
        store(dinner + i, kind == DRAGOMAN_RELU ? (x > 0.0f ? d : Floats{}) : d * gelu_slope(x));
      }
    }
}

static void train_column_sums(const float* x, int64_t stride, int rows, int width, float* sums) {
  for (int i = 0; i < width; i += kLanes) {
    Floats total = {};
    for (int r = 0; r < rows; r++) total += load(x + r * stride + i);
    store(sums + i, load(sums + i) + total);
  }
}

static double train_loss(float* logits, int64_t stride, int rows, int vocab, const int32_t* targets, float smoothing,
                         float scale) {
  double total = 0;
  int even = vocab / kLanes * kLanes;
  for (int r = 0; r < rows; r++, logits += stride) {
    for (int i = vocab; i < even + kLanes && i < stride; i++) logits[i] = -1e30f;
    int end = even == vocab ? vocab : even + kLanes;
    Floats most = splat(-1e30f), sums = {};
    float rest = 0;
    for (int i = 0; i < end; i += kLanes) most = max(most, load(logits + i));
    for (int i = 0; i < even; i += kLanes) sums += load(logits + i);
    for (int i = even; i < vocab; i++) rest += logits[i];
    float top = largest(most);
    Floats powers = {};
    for (int i = 0; i < end; i += kLanes) {
      Floats power = exponential(load(logits + i) - top);
      powers += power;
    }
    float all = top + __builtin_logf(sum(powers)), wanted = logits[targets[r]], even_share = smoothing / vocab;
    total += all - (1 - smoothing) * wanted - even_share * (double(sum(sums)) + rest);
    for (int i = 0; i < end; i += kLanes) store(logits + i, (exponential(load(logits + i) - all) - even_share) * scale);
    logits[targets[r]] -= (1 - smoothing) * scale;
    for (int64_t i = vocab; i < stride; i++) logits[i] = 0;
  }
  return total;
}

static void train_add(const float* from, int64_t count, float factor, float* to) {
  int64_t even = count / kLanes * kLanes;
  for (int64_t i = 0; i < even; i += kLanes) store(to + i, load(to + i) + load(from + i) * factor);
  for (int64_t i = even; i < count; i++) to[i] += from[i] * factor;
}

static double train_sum_of_squares(const float* x, int64_t count) {
  double total = 0;
  for (int64_t first = 0; first < count; first += 4096) {
    int64_t last = first + 4096 < count ? first + 4096 : count, even = first + (last - first) / kLanes * kLanes;
    Floats squares = {};
    for (int64_t i = first; i < even; i += kLanes) squares += load(x + i) * load(x + i);
    total += sum(squares);
    for (int64_t i = even; i < last; i++) total += double(x[i]) * x[i];
  }
  return total;
}

template <typename F>
static ALWAYS_INLINE F root(F x) {
  if constexpr (sizeof(F) == 4) {
    return std::sqrt(x);
  } else {
    F y;
    for (int i = 0; i < kLanes; i++) y[i] = std::sqrt(x[i]);
    return y;
  }
}

template <typename F>
static ALWAYS_INLINE F take(const float* from) {
  F x;
  memcpy(&x, from, sizeof x);
  return x;
}

template <typename F>
static ALWAYS_INLINE void update_some(const Adam& a, const float* gradient, float* weights, float* mean, float* square,
                                      float* average) {
  F g = take<F>(gradient) * a.scale, w = take<F>(weights), m = take<F>(mean), s = take<F>(square), e = take<F>(average);
  m += (g - m) * (1 - a.beta1);
  s = s * a.beta2 + g * g * (1 - a.beta2);
  w -= w * (a.rate * a.decay);
  w -= m * (a.rate / a.correction1) / (root(s) * (1 / std::sqrt(a.correction2)) + a.epsilon);
  e = w + (e - w) * a.keep;
  memcpy(weights, &w, sizeof w);
  memcpy(mean, &m, sizeof m);
  memcpy(square, &s, sizeof s);
  memcpy(average, &e, sizeof e);
}

static void train_update(const Adam& adam, int64_t count, const float* gradient, float* weights, float* mean, float* square,
                         float* average) {
  int64_t even = count / kLanes * kLanes;
  for (int64_t i = 0; i < even; i += kLanes) update_some<Floats>(adam, gradient + i, weights + i, mean + i, square + i, average + i);
  for (int64_t i = even; i < count; i++) update_some<float>(adam, gradient + i, weights + i, mean + i, square + i, average + i);
}

static void train_look_ahead(const float* gradient, int64_t count, float scale, float fresh, float* momentum, float* ahead) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Floats g = load(gradient + i) * scale, m = load(momentum + i);
    m += (g - m) * fresh;
    store(momentum + i, m);
    store(ahead + i, m + (g - m) * fresh);
  }
}

static void train_step(const float* x, int64_t count, float step, float kept, float keep, float* weights, float* average) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Floats w = load(weights + i) * kept - load(x + i) * step;
    store(weights + i, w);
    store(average + i, load(average + i) * keep + w * (1 - keep));
  }
}

}  // namespace DRAGOMAN_KERNELS
