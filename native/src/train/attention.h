// One head of one sentence, forward and back (section 3.2.1), on the matrix products.
#pragma once

#include <cmath>

#include "products.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Head;

static void softmax_row(float* scores, int seen, int64_t stride, float scale) {
  for (int64_t i = seen; i < dragoman::up(seen, kLanes); i++) scores[i] = -1e30f;
  Floats most = splat(-1e30f), sums = {};
  for (int i = 0; i < seen; i += kLanes) most = max(most, load(scores + i));
  float top = largest(most);
  for (int i = 0; i < seen; i += kLanes) {
    Floats power = exponential((load(scores + i) - top) * scale);
    store(scores + i, power);
    sums += power;
  }
  float share = 1 / sum(sums);
  for (int i = 0; i < seen; i += kLanes) store(scores + i, load(scores + i) * share);
  for (int64_t i = seen; i < stride; i++) scores[i] = 0;
}

static void train_attend(const Head& h, const float* q, int64_t q_stride, const float* k, const float* v, int64_t kv_stride,
                         float* out, int64_t out_stride) {
  float scale = 1 / std::sqrt(float(h.width));
  pack<false>(k, 1, kv_stride, h.width, h.keys, h.scratch);
  multiply({q, q_stride, 1}, h.queries, h.scratch, h.width, h.keys, h.weights, h.weights_stride, nullptr, false);
  for (int i = 0; i < h.queries; i++)
    softmax_row(h.weights + i * h.weights_stride, h.is_causal ? i + 1 : h.keys, h.weights_stride, scale);
  pack<false>(v, kv_stride, 1, h.keys, h.width, h.scratch);
  multiply({h.weights, h.weights_stride, 1}, h.queries, h.scratch, h.keys, h.width, out, out_stride, nullptr, false);
}

// With P the weights: dV = P^T dO; dP = dO V^T; dS = P * (dP - rowsum(P * dP)) * scale; dQ = dS K; dK = dS^T Q.
static void train_attend_back(const Head& h, const float* q, int64_t q_stride, const float* k, const float* v, int64_t kv_stride,
                              const float* dout, int64_t out_stride, float* dq, float* dk, float* dv) {
  float scale = 1 / std::sqrt(float(h.width));
  float* scores = h.scratch;
  float* packed = h.scratch + h.queries * h.weights_stride;
  pack<false>(dout, out_stride, 1, h.queries, h.width, packed);
  multiply({h.weights, 1, h.weights_stride}, h.keys, packed, h.queries, h.width, dv, kv_stride, nullptr, false);
  pack<false>(v, 1, kv_stride, h.width, h.keys, packed);
  multiply({dout, out_stride, 1}, h.queries, packed, h.width, h.keys, scores, h.weights_stride, nullptr, false);
  for (int i = 0; i < h.queries; i++) {
    float* row = scores + i * h.weights_stride;
    const float* weights = h.weights + i * h.weights_stride;
    for (int64_t j = h.keys; j < h.weights_stride; j++) row[j] = 0;
    Floats products = {};
    for (int j = 0; j < h.weights_stride; j += kLanes) products += load(row + j) * load(weights + j);
    float mean = sum(products);
    for (int j = 0; j < h.weights_stride; j += kLanes) store(row + j, load(weights + j) * (load(row + j) - mean) * scale);
  }
  pack<false>(k, kv_stride, 1, h.keys, h.width, packed);
  multiply({scores, h.weights_stride, 1}, h.queries, packed, h.keys, h.width, dq, q_stride, nullptr, false);
  pack<false>(q, q_stride, 1, h.queries, h.width, packed);
  multiply({scores, 1, h.weights_stride}, h.keys, packed, h.queries, h.width, dk, kv_stride, nullptr, false);
}

}  // namespace DRAGOMAN_KERNELS
