// What a kernel is, and the table of them that each instruction set fills.
#pragma once

#include <cstdint>

#include "../include/dragoman.h"

namespace dragoman {

struct TrainKernels;

using Matrix = dragoman_matrix;

constexpr int kWidth = 64;      // widths of rows are padded to this: one tile of AMX, one cache line of int8
constexpr int kPanel = 16;      // columns of a matrix that lie together: one line of every instruction set
constexpr int kChunk = 256;     // vocabulary columns looked at in one go
constexpr int kMostTop = 1024;  // largest beam
constexpr int kLargestWeight = DRAGOMAN_LARGEST_WEIGHT;

constexpr int padded(int size, int to) { return (size + to - 1) / to * to; }

// The best tokens of a row so far, best first, equal ones by ascending id.
struct Top {
  int count;  // at most `wanted`
  int wanted;
  int32_t* ids;
  float* logits;
};

// What a chunk of the vocabulary contributes to a row's log-sum-exp: log(sum(exp(x))) = log(total) + most.
struct Partial {
  float most, total;
};

// Keys and values are float or bfloat16; both kinds of kernel have the same shape.
struct AttentionKernels {
  int bytes;  // of one number

  // Keys and values of one head, [length][stride], into the layout of `attend`: keys [width][length16], values [length][width].
  void (*pack)(const float* keys, const float* values, int stride, int length, int width, void* packed_keys,
               void* packed_values);

  // softmax(scale * Q K^T) V for `rows` queries that all see the same keys. `scores` is room for 4 * (length16 + 16)
  // floats. `weights`, if not NULL, is [rows][weights_stride], to which weight * share is added.
  void (*attend)(const float* queries, int stride, int rows, const void* keys, const void* values, int length, int width,
                 float scale, float* out, int out_stride, float* scores, float* weights, int weights_stride, float share);

  // The same for one query whose keys and values lie in cells, at these offsets (in numbers).
  void (*attend_cells)(const float* query, const void* const* cells, int length, int64_t key_offset, int64_t value_offset,
                       int width, float scale, float* out, float* scores);

  // Numbers into a cell.
  void (*write)(const float* from, int count, void* to);
};

struct Kernels {
  const char* name;

  // Rows [rows][inputs64] of floats into whole numbers up to `largest` and a scale for each: float = number * scale. How
  // these are written is between an instruction set's own two functions. Weights must not be larger either.
  int largest;
  void (*quantize)(const float* rows, int count, int stride, int width, int8_t* out, float* scales);

  // Columns first .. last (multiples of 16) of rows times matrix plus bias, into out[row][column - first].
  void (*multiply_int8)(const int8_t* rows, const float* scales, int count, const Matrix& matrix, int first, int last,
                        float* out, int out_stride);
  void (*multiply_float)(const float* rows, int stride, int count, const Matrix& matrix, int first, int last, float* out,
                         int out_stride);

  // x += y (if y is not NULL), then out = LayerNorm(x) over `width`; the rest of a row stays zero. out may be x.
  void (*norm)(float* x, const float* y, int count, int stride, int width, const float* gamma, const float* beta, float* out);

  // out = a(rows) for columns first .. last; the gated kinds read the gate there and the linear part `width` further on,
  // and give their product. out may be rows for the others.
  void (*activate)(const float* rows, int stride, int count, int first, int last, int width, int kind, float* out,
                   int out_stride);

  // x = embedding * factor + position, then zeros up to the stride
  void (*embed)(const float* embedding, const float* position, float factor, int width, int stride, float* x);

  // Ids first .. first + count of one row of logits into its log-sum-exp and its best; `banned` [vocabulary] are not taken.
  Partial (*scan)(const float* logits, int first, int count, const uint8_t* banned, Top& top);

  AttentionKernels floats, halves;

  const TrainKernels* training;
};

// The kernels in use, all that this processor can run, and the names of those that the system refused (see dragoman_isa,
// dragoman_isas and dragoman_refused).
const Kernels& kernels();
const Kernels* const* all_kernels(int* count);
const char* refused_kernels();

}  // namespace dragoman
