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

// What a logit must be above to be among the best.
static float threshold(const dragoman::Top& top) {
  return top.count < top.wanted ? -INFINITY : top.wanted ? top.logits[top.count - 1] : INFINITY;
}

static void consider(const float* logits, int first, int count, const uint8_t* banned, dragoman::Top& top) {
  float least = threshold(top);
  for (int i = 0; i < count; i++)
    if (logits[i] > least && !banned[first + i]) {
      insert(top, first + i, logits[i]);
      least = threshold(top);
    }
}

// Of a block that has something for the best, few vectors do, and only their logits are looked at one by one.
static dragoman::Partial scan(const float* logits, int first, int count, const uint8_t* banned, dragoman::Top& top) {
  constexpr int kBlock = 8 * kLanes;
  int even = count / kLanes * kLanes;
  Floats overall = splat(-INFINITY);
  for (int begin = 0; begin < even; begin += kBlock) {
    int end = begin + kBlock < even ? begin + kBlock : even;
    Floats most = splat(-INFINITY);
    for (int i = begin; i < end; i += kLanes) most = max(most, load(logits + i));
    overall = max(overall, most);
    if (!(largest(most) > threshold(top))) continue;
    for (int i = begin; i < end; i += kLanes)
      if (largest(load(logits + i)) > threshold(top)) consider(logits + i, first + i, kLanes, banned, top);
  }
  float highest = largest(overall), rest = 0;
  for (int i = even; i < count; i++) highest = logits[i] > highest ? logits[i] : highest;
  consider(logits + even, first + even, count - even, banned, top);
  Floats sums = {};
  for (int i = 0; i < even; i += kLanes) sums += exponential(load(logits + i) - highest);
  for (int i = even; i < count; i++) rest += std::exp(logits[i] - highest);
  return {highest, sum(sums) + rest};
}

}  // namespace DRAGOMAN_KERNELS
