// Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (section 3.2.1), for one head, in two situations.
//
// Where the keys of a whole sentence are known (the encoder; the decoder looking at the source), they are stored turned
// by 90 degrees, [width][length16]: then the scores of 8 or 16 keys come out side by side, no sum runs across a vector,
// and both products are the same small routine. All beams of a sentence pass together, so that what was read serves all.
// Where a hypothesis looks back at its own tokens, these lie in cells, one for each token, which never move: a beam that
// forks copies a list of addresses, not keys and values.
#pragma once

#include <cmath>

#include "kernels.h"
#include "simd.h"

namespace DRAGOMAN_KERNELS {

// out[r][..] (kVectors of them) = sum over k of left[r][k] * right[k][..]
template <int kRows, int kVectors, typename T>
static ALWAYS_INLINE void product_tile(const float* left, int left_stride, const T* right, int right_stride, int depth, float* out,
                                       int out_stride) {
  Floats sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) sums[r][v] = Floats{};
  for (int k = 0; k < depth; k++, right += right_stride) {
    Floats line[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) line[v] = load(right + kLanes * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; v++) sums[r][v] += left[int64_t(r) * left_stride + k] * line[v];
  }
  for (int r = 0; r < kRows; r++)
    for (int v = 0; v < kVectors; v++) store(out + int64_t(r) * out_stride + kLanes * v, sums[r][v]);
}

// Few rows take more vectors at once: sums that do not wait for each other.
template <int kRows, typename T>
static void product_of(const float* left, int left_stride, const T* right, int right_stride, int depth, int columns, float* out,
                       int out_stride) {
  constexpr int kMost = kRows <= 2 || kLanes == 16 ? 4 : 2;
  int c = 0;
  for (; c + kMost * kLanes <= columns; c += kMost * kLanes)
    product_tile<kRows, kMost>(left, left_stride, right + c, right_stride, depth, out + c, out_stride);
  if (kMost > 2 && c + 2 * kLanes <= columns) {
    product_tile<kRows, 2>(left, left_stride, right + c, right_stride, depth, out + c, out_stride);
    c += 2 * kLanes;
  }
  if (c < columns) product_tile<kRows, 1>(left, left_stride, right + c, right_stride, depth, out + c, out_stride);
}

template <typename T>
static void product(const float* left, int left_stride, int rows, const T* right, int right_stride, int depth, int columns,
                    float* out, int out_stride) {
  if (rows == 4) product_of<4>(left, left_stride, right, right_stride, depth, columns, out, out_stride);
  if (rows == 3) product_of<3>(left, left_stride, right, right_stride, depth, columns, out, out_stride);
  if (rows == 2) product_of<2>(left, left_stride, right, right_stride, depth, columns, out, out_stride);
  if (rows == 1) product_of<1>(left, left_stride, right, right_stride, depth, columns, out, out_stride);
}

// In place over `length` scores, of which there is room for length16; those behind become 0.
static ALWAYS_INLINE void softmax(float* scores, int length, float scale) {
  int room = dragoman::padded(length, 16);
  for (int i = length; i < room; i++) scores[i] = -INFINITY;
  Floats most = splat(-INFINITY), total = {};
  for (int i = 0; i < room; i += kLanes) {
    Floats x = load(scores + i) * scale;
    store(scores + i, x);
    most = max(most, x);
  }
  float top = largest(most);
  for (int i = 0; i < room; i += kLanes) {
    Floats x = exponential(load(scores + i) - top);
    store(scores + i, x);
    total += x;
  }
  float factor = 1 / sum(total);
  for (int i = 0; i < room; i += kLanes) store(scores + i, load(scores + i) * factor);
}

template <typename T>
static void write(const float* from, int count, void* to) {
  for (int i = 0; i < count; i += kLanes) store(static_cast<T*>(to) + i, load(from + i));
}

template <typename T>
static void pack(const float* keys, const float* values, int stride, int length, int width, void* packed_keys,
                 void* packed_values) {
  int room = dragoman::padded(length, 16);
  T* turned = static_cast<T*>(packed_keys);
  memset(packed_keys, 0, sizeof(T) * room * width);
  alignas(64) T column[1024];
  for (int t = 0; t < length; t++)
    for (int begin = 0; begin < width; begin += 1024) {
      int count = width - begin < 1024 ? width - begin : 1024;
      write<T>(keys + int64_t(t) * stride + begin, count, column);
      for (int i = 0; i < count; i++) turned[int64_t(begin + i) * room + t] = column[i];
    }
  for (int t = 0; t < length; t++) write<T>(values + int64_t(t) * stride, width, static_cast<T*>(packed_values) + int64_t(t) * width);
}

template <typename T>
static void attend(const float* queries, int stride, int rows, const void* keys, const void* values, int length, int width,
                   float scale, float* out, int out_stride, float* scores, float* weights, int weights_stride, float share) {
  int room = dragoman::padded(length, 16);
  for (int r = 0; r < rows; r += 4) {
    int tall = rows - r < 4 ? rows - r : 4;
    product(queries + int64_t(r) * stride, stride, tall, static_cast<const T*>(keys), room, width, room, scores, room);
    for (int i = 0; i < tall; i++) {
      softmax(scores + i * room, length, scale);
      if (weights)
        for (int t = 0; t < length; t++) weights[int64_t(r + i) * weights_stride + t] += share * scores[i * room + t];
    }
    product(scores, room, tall, static_cast<const T*>(values), width, length, width, out + int64_t(r) * out_stride, out_stride);
  }
}

// out = sum over t of weights[t] * kColumns numbers of cell t
template <int kColumns, typename T>
static void mix_cells(const void* const* cells, int length, int64_t offset, const float* weights, float* out) {
  Floats sums[kColumns / kLanes] = {};
  for (int t = 0; t < length; t++) {
    const T* value = static_cast<const T*>(cells[t]) + offset;
    for (int v = 0; v < kColumns / kLanes; v++) sums[v] += weights[t] * load(value + kLanes * v);
  }
  for (int v = 0; v < kColumns / kLanes; v++) store(out + kLanes * v, sums[v]);
}

template <typename T>
static void attend_cells(const float* query, const void* const* cells, int length, int64_t key_offset, int64_t value_offset,
                         int width, float scale, float* out, float* scores) {
  for (int t = 0; t < length; t += 4) {
    const T* keys[4];
    Floats sums[4] = {};
    for (int j = 0; j < 4; j++) {
      keys[j] = static_cast<const T*>(cells[t + j < length ? t + j : length - 1]) + key_offset;
      // The next head's key and this head's value: cells lie apart, and no processor guesses where.
      for (int i = 0; i < width; i += int(64 / sizeof(T))) {
        __builtin_prefetch(keys[j] + width + i);
        __builtin_prefetch(keys[j] - key_offset + value_offset + i);
      }
    }
    for (int i = 0; i < width; i += kLanes) {
      Floats line = load(query + i);
      for (int j = 0; j < 4; j++) sums[j] += line * load(keys[j] + i);
    }
    store_sums(scores + t, sums[0], sums[1], sums[2], sums[3]);
  }
  softmax(scores, length, scale);
  int i = 0;
  for (; i + 64 <= width; i += 64) mix_cells<64, T>(cells, length, value_offset + i, scores, out + i);
  if (i + 32 <= width) {
    mix_cells<32, T>(cells, length, value_offset + i, scores, out + i);
    i += 32;
  }
  for (; i < width; i += 16) mix_cells<16, T>(cells, length, value_offset + i, scores, out + i);
}

template <typename T>
constexpr dragoman::AttentionKernels attention_kernels() {
  return {sizeof(T), pack<T>, attend<T>, attend_cells<T>, write<T>};
}

}  // namespace DRAGOMAN_KERNELS
