// What the training pass is made of, and the table of it that each instruction set fills.
//
// Widths of rows (d_model, d_ff, width of a head) are multiples of 16; lengths and the vocabulary may be anything.
#pragma once

#include <cstdint>

namespace dragoman {

constexpr int kBlock = 16;  // what widths are multiples of

// The left factor of a product: number (r, k) is at data[r * row_stride + k * inner_stride]; one stride is 1.
struct Left {
  const float* data;
  int64_t row_stride, inner_stride;
};

// Matrix products in one precision. The right factor is packed first, into memory of `packed_bytes`.
struct Products {
  bool is_fast;  // has instructions of its own

  int64_t (*packed_bytes)(int inner, int columns);

  // Number (k, n) is from[k * inner_stride + n * column_stride].
  void (*pack)(const float* from, int64_t inner_stride, int64_t column_stride, int inner, int columns, void* packed);

  // out [rows][stride] = left x packed + bias (NULL: none), or added to what is there.
  void (*multiply)(Left left, int rows, const void* packed, int inner, int columns, float* out, int64_t stride,
                   const float* bias, bool is_added);
};

// A mask is drawn for each row from a key of its own, so it needs no memory, and the same row gets the same mask
// wherever and whenever it is computed.
struct Mask {
  uint32_t seed;
  uint32_t site;     // which dropout of the model
  uint32_t dropped;  // of 65536 numbers
};

// One head of one sentence. Queries [queries][stride] and so on begin at this head's columns.
struct Head {
  int queries, keys, width;
  bool is_causal;
  float* weights;         // [queries][weights_stride], kept from the forward pass to the backward pass
  int64_t weights_stride;  // keys, padded to kBlock
  float* scratch;         // head_scratch(queries, keys, width) floats
};

constexpr int64_t up(int64_t size, int64_t to) { return (size + to - 1) / to * to; }
constexpr int64_t head_scratch(int queries, int keys, int width) {
  int64_t longest = up(queries > keys ? queries : keys, 64);
  return longest * up(width, 64) + int64_t(queries) * up(keys, kBlock);
}

struct Adam {
  float rate, beta1, beta2, epsilon, decay;
  float correction1, correction2;  // 1 - beta^step
  float scale;                     // of the gradient, for clipping
  float keep;                      // of the running average
};

struct TrainKernels {
  const char* name;
  Products floats, halves;

  // out = LayerNorm(x); mean and 1 / deviation of each row are kept for the way back.
  void (*norm)(const float* x, int rows, int width, const float* gamma, const float* beta, float* out, float* mean,
               float* factor);
  // dx (+)= gradient of x; dgamma and dbeta are added to.
  void (*norm_back)(const float* dout, const float* x, int rows, int width, const float* gamma, const float* mean,
                    const float* factor, float* dx, bool is_added, float* dgamma, float* dbeta);

  // out = base + dropout(x), row r with the mask of row first_row + r; base may be NULL, out may be x or base.
  void (*dropout)(const float* x, const float* base, int rows, int width, Mask mask, int64_t first_row, float* out);

  // out [rows][width] = a(inner); of gated kinds inner is [rows][2 width], the gate first.
  void (*activate)(const float* inner, int rows, int width, int kind, float* out);
  // dinner = gradient of inner.
  void (*activate_back)(const float* inner, const float* dout, int rows, int width, int kind, float* dinner);

  // sums [width] += columns of x
  void (*column_sums)(const float* x, int64_t stride, int rows, int width, float* sums);

  // Logits [rows][stride] into the gradient of scale * loss in place; what stands beyond `vocab` becomes 0. Returns the
  // loss, unscaled: smoothed cross-entropy, summed.
  double (*loss)(float* logits, int64_t stride, int rows, int vocab, const int32_t* targets, float smoothing, float scale);

  void (*attend)(const Head& head, const float* q, int64_t q_stride, const float* k, const float* v, int64_t kv_stride,
                 float* out, int64_t out_stride);
  // Gradients of q, k and v are written with the strides of q, k and v.
  void (*attend_back)(const Head& head, const float* q, int64_t q_stride, const float* k, const float* v, int64_t kv_stride,
                      const float* dout, int64_t out_stride, float* dq, float* dk, float* dv);

  // to += factor * from
  void (*add)(const float* from, int64_t count, float factor, float* to);
  double (*sum_of_squares)(const float* x, int64_t count);
  void (*update)(const Adam& adam, int64_t count, const float* gradient, float* weights, float* mean, float* square,
                 float* average);

  // The same in two parts, of `count` numbers, a multiple of kBlock: momentum += fresh * (scale * gradient - momentum), and
  // ahead = what it would be after that once more; weights = kept * weights - step * x, with their average.
  void (*look_ahead)(const float* gradient, int64_t count, float scale, float fresh, float* momentum, float* ahead);
  void (*step)(const float* x, int64_t count, float step, float kept, float keep, float* weights, float* average);
};

}  // namespace dragoman
