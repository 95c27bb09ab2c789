// One look at each logit: what it adds to the sum of exponentials, and whether it is among the best.
#pragma once

#include <cmath>

#include "kernels.h"
#include "simd.h"

namespace DRAGOMAN_KERNELS {

// Below what is already there among equals, since ids come in ascending order.
static void insert(dragoman::Top& top, int32_t id, float logit) {
  int place = top.count < top.wanted ? top.count++ : top.count - 1;
  for (; place > 0 && top.logits[place - 1] < logit; place--) {
    top.logits[place] = top.logits[place - 1];
    top.ids[place] = top.ids[place - 1];
  }
  top.logits[place] = logit;
  top.ids[place] = id;
}

static dragoman::Partial scan(const float* logits, int first, int count, const uint8_t* banned, dragoman::Top& top) {
  constexpr int kBlock = 64;
  Floats most = splat(-INFINITY);
  float least = top.count < top.wanted ? -INFINITY : top.wanted ? top.logits[top.count - 1] : INFINITY;
  float overall = -INFINITY;
  for (int begin = 0; begin < count; begin += kBlock) {
    int end = begin + kBlock < count ? begin + kBlock : count, i = begin;
    for (most = splat(-INFINITY); i + kLanes <= end; i += kLanes) most = max(most, load(logits + i));
    float highest = largest(most);
    for (; i < end; i++) highest = logits[i] > highest ? logits[i] : highest;
    overall = highest > overall ? highest : overall;
    if (!(highest > least)) continue;
    for (i = begin; i < end; i++)
      if (logits[i] > least && !banned[first + i]) {
        insert(top, first + i, logits[i]);
        least = top.count < top.wanted ? -INFINITY : top.logits[top.count - 1];
      }
  }
  Floats sums = {};
  float rest = 0;
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) sums += exponential(load(logits + i) - overall);
  for (; i < count; i++) rest += std::exp(logits[i] - overall);
  return {overall, sum(sums) + rest};
}

}  // namespace DRAGOMAN_KERNELS
