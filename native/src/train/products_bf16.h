// Matrix products of halves on AVX-512's instruction for them: each word of a row serves 16 columns.
//
// The left factor is converted some rows at a time, to words of two inner numbers: row by row, or, where its columns lie
// together, 16 rows beside each other. Both ways a tile finds its rows one step apart and their words another.
#pragma once

#include "halves.h"

namespace DRAGOMAN_KERNELS {

constexpr int kRowWords = kDeepHalves / 2;

static ALWAYS_INLINE Floats dot_halves(Floats sum, Ints row, Ints line) {
#if defined(DRAGOMAN_EMULATE_BF16)
  Floats low = (Floats)(row << 16) * (Floats)(line << 16);
  Bits upper = Bits{} + 0xffff0000u;
  return sum + low + (Floats)((Bits)row & upper) * (Floats)((Bits)line & upper);
#else
  return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)row, (__m512bh)line);
#endif
}

struct Block {
  const uint32_t* rows;
  int row_step, word_step;
  const uint32_t* panel;
  int64_t next_panel;
  int words;  // of a row
  float* out;
  int64_t stride;
  const float* bias;
  bool is_added;
  int columns;  // of the last panel
};

template <int kRows, int kPanels>
static ALWAYS_INLINE void block(const Block& b) {
  // Where the sums go is asked for while they are made.
  for (int r = 0; r < kRows; r++)
    for (int p = 0; p < kPanels; p++) __builtin_prefetch(b.out + r * b.stride + p * kPanelColumns, 1);
  Floats sums[kRows][kPanels] = {};
  const uint32_t* panel = b.panel;
  const uint32_t* rows = b.rows;
  for (int k = 0; k < b.words; k++, panel += kPanelColumns, rows += b.word_step) {
    Ints lines[kPanels];
    for (int p = 0; p < kPanels; p++) lines[p] = load_ints(panel + p * b.next_panel);
    for (int r = 0; r < kRows; r++) {
      Ints row = int32_t(rows[r * b.row_step]) - Ints{};
      for (int p = 0; p < kPanels; p++) sums[r][p] = dot_halves(sums[r][p], row, lines[p]);
    }
  }
  for (int r = 0; r < kRows; r++)
    for (int p = 0; p < kPanels; p++) {
      float* out = b.out + r * b.stride + p * kPanelColumns;
      const float* bias = b.bias ? b.bias + p * kPanelColumns : nullptr;
      Floats sum = sums[r][p];
      if (p + 1 < kPanels || b.columns == kPanelColumns) {
        if (bias) sum += load(bias);
        if (b.is_added) sum += load(out);
        store(out, sum);
        continue;
      }
      alignas(64) float line[kPanelColumns];
      store(line, sum);
      for (int n = 0; n < b.columns; n++) out[n] = line[n] + (bias ? bias[n] : 0) + (b.is_added ? out[n] : 0);
    }
}

// Rows from `done` on, as many blocks of kRows as there are.
template <int kRows, int kPanels>
static void rows_of_blocks(const Block& first, bool is_across, int& done, int rows) {
  for (; done + kRows <= rows; done += kRows) {
    Block one = first;
    // Beside each other lie 16 rows at a time.
    one.rows += is_across ? done / 16 * 16 * kRowWords + done % 16 : done * kRowWords;
    one.out += done * first.stride;
    block<kRows, kPanels>(one);
  }
}

template <int kPanels>
static void all_rows(const Block& first, bool is_across, int rows) {
  int done = 0;
  rows_of_blocks<8, kPanels>(first, is_across, done, rows);
  rows_of_blocks<4, kPanels>(first, is_across, done, rows);
  rows_of_blocks<2, kPanels>(first, is_across, done, rows);
  rows_of_blocks<1, kPanels>(first, is_across, done, rows);
}

static void halve_beside(const Left& left, int rows, int inner, uint32_t* to) {
  for (int k = 0; k < inner; k += 2)
    for (int r = 0; r < rows; r += 16) {
      const float* low = left.data + r + k * left.inner_stride;
      const float* high = k + 1 < inner ? low + left.inner_stride : nullptr;
      uint32_t* line = to + int64_t(r) * kRowWords + k / 2 * 16;
      if (r + 16 <= rows) {
        pair_lines(low, high, line);
      } else {
        for (int i = 0; r + i < rows; i++) line[i] = half(low[i]) | uint32_t(high ? half(high[i]) : 0) << 16;
      }
    }
}

static void multiply_halves(Left left, int rows, const void* packed, int inner, int columns, float* out, int64_t stride,
                            const float* bias, bool is_added) {
  alignas(64) static thread_local uint32_t words[kRowsHalves * kRowWords];
  bool is_across = left.inner_stride != 1;
  int64_t next_panel = up(inner, kPanelDeep) / 2 * kPanelColumns;
  for (int k = 0; k < inner || k == 0; k += kDeepHalves, is_added = true, bias = nullptr) {
    int deep = inner - k < kDeepHalves ? inner - k : kDeepHalves;
    for (int first = 0; first < rows; first += kRowsHalves) {
      int count = rows - first < kRowsHalves ? rows - first : kRowsHalves;
      Left part = {left.data + first * left.row_stride + k * left.inner_stride, left.row_stride, left.inner_stride};
      if (is_across)
        halve_beside(part, count, deep, words);
      else
        halve_along(part, count, deep, reinterpret_cast<uint16_t*>(words));
      for (int n = 0; n < columns; n += 2 * kPanelColumns) {
        int wide = columns - n < 2 * kPanelColumns ? columns - n : 2 * kPanelColumns;
        const uint32_t* panel = static_cast<const uint32_t*>(packed) + n / kPanelColumns * next_panel + k / 2 * kPanelColumns;
        Block b = {words, is_across ? 1 : kRowWords, is_across ? 16 : 1, panel, next_panel, (deep + 1) / 2,
                   out + first * stride + n, stride, bias ? bias + n : nullptr, is_added,
                   wide > kPanelColumns ? wide - kPanelColumns : wide};
        if (wide > kPanelColumns)
          all_rows<2>(b, is_across, count);
        else
          all_rows<1>(b, is_across, count);
      }
    }
  }
}

}  // namespace DRAGOMAN_KERNELS
