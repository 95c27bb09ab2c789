// bfloat16 factors, for the instructions that multiply two of them at once and add the products to a float32.
//
// The right factor is packed into panels of 16 columns. The two inner numbers that are multiplied at once lie together as
// one word of 32 bits, so a panel is [inner / 2][16] words, with zeros behind the last inner number.
#pragma once

#include "../simd.h"
#include "kernels.h"

namespace DRAGOMAN_KERNELS {

using dragoman::Left;
using dragoman::up;

constexpr int kPanelColumns = 16;
constexpr int kPanelDeep = 32;    // a panel's inner numbers are a multiple of this: a tile of AMX
constexpr int kDeepHalves = 512;  // inner numbers at a time: two panels of them stay in the first-level cache
constexpr int kRowsHalves = 128;  // rows at a time: converted, they stay in the second

static int64_t packed_bytes_halves(int inner, int columns) { return 2 * up(inner, kPanelDeep) * up(columns, kPanelColumns); }

static ALWAYS_INLINE uint16_t half(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Two vectors of floats as words: `low` in the lower halves.
static ALWAYS_INLINE Bits paired(Floats low, Floats high) {
#if defined(__AVX512BF16__)
  Halves a = (Halves)_mm512_cvtneps_pbh((__m512)low), b = (Halves)_mm512_cvtneps_pbh((__m512)high);
  return __builtin_convertvector(a, Bits) | __builtin_convertvector(b, Bits) << 16;
#else
  Bits a = (Bits)low, b = (Bits)high;
  a = (a + 0x7fff + ((a >> 16) & 1)) >> 16;
  b = (b + 0x7fff + ((b >> 16) & 1)) & 0xffff0000u;
  return a | b;
#endif
}

// 16 numbers of one line, and the 16 of the next one or zeros, as 16 words.
static ALWAYS_INLINE void pair_lines(const float* low, const float* high, uint32_t* to) {
  for (int v = 0; v < 16; v += kLanes) {
    Bits words = paired(load(low + v), high ? load(high + v) : Floats{});
    memcpy(to + v, &words, sizeof words);
  }
}

// 16 lines of 16 words, turned.
static void turn(const uint32_t (*lines)[16], uint32_t* to, int64_t stride) {
  typedef uint32_t Line __attribute__((vector_size(64)));
  Line a[16], b[16];
  for (int i = 0; i < 16; i++) memcpy(&a[i], lines[i], 64);
  // Each step exchanges blocks half as large between lines half as far apart.
  for (int i = 0; i < 8; i++) {
    b[i] = __builtin_shufflevector(a[i], a[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    b[i + 8] = __builtin_shufflevector(a[i], a[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  for (int i = 0; i < 16; i += 8)
    for (int j = i; j < i + 4; j++) {
      a[j] = __builtin_shufflevector(b[j], b[j + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
      a[j + 4] = __builtin_shufflevector(b[j], b[j + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    }
  for (int i = 0; i < 16; i += 4)
    for (int j = i; j < i + 2; j++) {
      b[j] = __builtin_shufflevector(a[j], a[j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      b[j + 2] = __builtin_shufflevector(a[j], a[j + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  for (int i = 0; i < 16; i += 2) {
    a[i] = __builtin_shufflevector(b[i], b[i + 1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
    a[i + 1] = __builtin_shufflevector(b[i], b[i + 1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  }
  for (int i = 0; i < 16; i++) memcpy(to + i * stride, &a[i], 64);
}

// One panel's 32 inner numbers from `k` on.
static void pack_square(const float* from, int64_t inner_stride, int64_t column_stride, int inner, int columns, uint32_t* to) {
  if (column_stride == 1 && columns >= kPanelColumns) {
    for (int k = 0; k < kPanelDeep; k += 2, from += 2 * inner_stride, to += kPanelColumns) {
      if (k < inner)
        pair_lines(from, k + 1 < inner ? from + inner_stride : nullptr, to);
      else
        memset(to, 0, 4 * kPanelColumns);
    }
  } else if (inner_stride == 1 && columns >= kPanelColumns && inner >= kPanelDeep) {
    alignas(64) uint32_t lines[kPanelColumns][16];
    for (int n = 0; n < kPanelColumns; n++)
      for (int k = 0; k < kPanelDeep; k += kLanes)
        store(reinterpret_cast<BFloat16*>(lines[n]) + k, load(from + n * column_stride + k));
    turn(lines, to, kPanelColumns);
  } else {
    uint16_t* halves = reinterpret_cast<uint16_t*>(to);
    for (int k = 0; k < kPanelDeep; k++)
      for (int n = 0; n < kPanelColumns; n++)
        halves[k / 2 * 2 * kPanelColumns + 2 * n + k % 2] =
            k < inner && n < columns ? half(from[k * inner_stride + n * column_stride]) : 0;
  }
}

static void pack_halves(const float* from, int64_t inner_stride, int64_t column_stride, int inner, int columns, void* packed) {
  uint32_t* to = static_cast<uint32_t*>(packed);
  for (int n = 0; n < columns; n += kPanelColumns)
    for (int k = 0; k < inner; k += kPanelDeep, to += kPanelDeep / 2 * kPanelColumns)
      pack_square(from + k * inner_stride + n * column_stride, inner_stride, column_stride, inner - k, columns - n, to);
}

// Rows of the left factor into [rows][kDeepHalves] halves, zeros behind the last inner number.
static void halve_along(const Left& left, int rows, int inner, uint16_t* to) {
  int even = inner / kLanes * kLanes;
  for (int r = 0; r < rows; r++, to += kDeepHalves) {
    const float* from = left.data + r * left.row_stride;
    for (int k = 0; k < even; k += kLanes) store(reinterpret_cast<BFloat16*>(to + k), load(from + k));
    for (int k = even; k < up(inner, kPanelDeep); k++) to[k] = k < inner ? half(from[k]) : 0;
  }
}

}  // namespace DRAGOMAN_KERNELS
