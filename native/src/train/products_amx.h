// Matrix products of halves on the tiles of AMX. The left factor is converted some rows at a time; where its columns lie
// together it is turned on the way.
#pragma once

#include "../tiles.h"
#include "halves.h"

namespace DRAGOMAN_KERNELS {

static void halve_across(const Left& left, int rows, int inner, uint16_t* to) {
  for (int r = 0; r < rows; r += 16)
    for (int k = 0; k < inner; k += kPanelDeep) {
      alignas(64) uint32_t lines[16][16] = {};
      for (int p = 0; p < 16 && k + 2 * p < inner; p++) {
        const float* low = left.data + r + (k + 2 * p) * left.inner_stride;
        const float* high = k + 2 * p + 1 < inner ? low + left.inner_stride : nullptr;
        if (r + 16 <= rows) {
          for (int v = 0; v < 16; v += kLanes) {
            Bits words = paired(load(low + v), high ? load(high + v) : Floats{});
            memcpy(lines[p] + v, &words, sizeof words);
          }
        } else {
          for (int i = 0; r + i < rows; i++) lines[p][i] = half(low[i]) | uint32_t(high ? half(high[i]) : 0) << 16;
        }
      }
      turn(lines, reinterpret_cast<uint32_t*>(to + int64_t(r) * kDeepHalves + k), kDeepHalves / 2);
    }
}

// Where a sum begins: with what is there, with the bias, or with nothing. A step of 0 reads the same line for all rows.
#define BEGIN_SUM(t, at, offset)                   \
  if (is_added) {                                  \
    tile_load(t, (at), 4 * stride);                \
  } else if (bias) {                               \
    tile_load(t, bias + (offset), 0);              \
  } else {                                         \
    tile_zero(t);                                  \
  }

// Up to 32 rows and 32 columns: sums 0 to 3, rows 4 and 5, columns 6 and 7.
static void square(const uint16_t* rows, bool is_tall, const uint16_t* panel, int64_t next_panel, bool is_wide, int inner, float* out,
                   int64_t stride, const float* bias, bool is_added) {
  float* lower = out + 16 * stride;
  BEGIN_SUM(0, out, 0)
  if (is_wide) { BEGIN_SUM(1, out + 16, 16) }
  if (is_tall) { BEGIN_SUM(2, lower, 0) }
  if (is_tall && is_wide) { BEGIN_SUM(3, lower + 16, 16) }
  for (int k = 0; k < inner; k += kPanelDeep, panel += kPanelDeep * kPanelColumns) {
    tile_load(4, rows + k, 2 * kDeepHalves);
    tile_load(6, panel, 64);
    tile_multiply_halves(0, 4, 6);
    if (is_wide) {
      tile_load(7, panel + next_panel, 64);
      tile_multiply_halves(1, 4, 7);
    }
    if (is_tall) {
      tile_load(5, rows + 16 * kDeepHalves + k, 2 * kDeepHalves);
      tile_multiply_halves(2, 5, 6);
      if (is_wide) tile_multiply_halves(3, 5, 7);
    }
  }
  tile_store(0, out, 4 * stride);
  if (is_wide) tile_store(1, out + 16, 4 * stride);
  if (is_tall) tile_store(2, lower, 4 * stride);
  if (is_tall && is_wide) tile_store(3, lower + 16, 4 * stride);
}
#undef BEGIN_SUM

static void configure_sums(int upper, int lower) {
  const int rows[8] = {upper, upper, lower, lower, upper, lower, 16, 16};
  tile_configure(rows);
}

// Columns that are not a whole tile go through memory of their own.
static void ragged(const uint16_t* rows, int count, const uint16_t* panel, int columns, int inner, float* out, int64_t stride,
                   const float* bias, bool is_added) {
  alignas(64) float block[32 * 16] = {};
  square(rows, count > 16, panel, 0, false, inner, block, 16, nullptr, false);
  for (int r = 0; r < count; r++)
    for (int c = 0; c < columns; c++) {
      float& to = out[r * stride + c];
      to = block[16 * r + c] + (is_added ? to : bias ? bias[c] : 0);
    }
}

static void multiply_tiles(Left left, int rows, const void* packed, int inner, int columns, float* out, int64_t stride,
                           const float* bias, bool is_added) {
  alignas(64) static thread_local uint16_t halves[kRowsHalves * kDeepHalves];
  int64_t panel_size = up(inner, kPanelDeep) * kPanelColumns;
  for (int k = 0; k < inner; k += kDeepHalves, is_added = true) {
    int deep = inner - k < kDeepHalves ? inner - k : kDeepHalves;
    const uint16_t* panels = static_cast<const uint16_t*>(packed) + int64_t(k) * kPanelColumns;
    for (int first = 0; first < rows; first += kRowsHalves) {
      int count = rows - first < kRowsHalves ? rows - first : kRowsHalves;
      Left part = {left.data + first * left.row_stride + k * left.inner_stride, left.row_stride, left.inner_stride};
      if (left.inner_stride == 1)
        halve_along(part, count, deep, halves);
      else
        halve_across(part, count, deep, halves);
      int whole = count / 32 * 32, rest = count - whole;
      for (int from = 0; from < count; from = from < whole ? whole : count) {
        int to = from < whole ? whole : count;
        configure_sums(from < whole || rest > 16 ? 16 : rest, from < whole ? 16 : rest > 16 ? rest - 16 : 16);
        for (int n = 0; n < columns; n += 32)
          for (int r = from; r < to; r += 32) {
            const uint16_t* left_rows = halves + r * kDeepHalves;
            const uint16_t* panel = panels + n / kPanelColumns * panel_size;
            float* at = out + int64_t(first + r) * stride + n;
            const float* b = bias ? bias + n : nullptr;
            int tall = to - r < 32 ? to - r : 32, wide = columns - n;
            if (wide >= 32) {
              square(left_rows, tall > 16, panel, panel_size, true, deep, at, stride, b, is_added);
              continue;
            }
            if (wide >= 16) square(left_rows, tall > 16, panel, 0, false, deep, at, stride, b, is_added);
            int done = wide / 16 * 16;
            if (done < wide)
              ragged(left_rows, tall, panel + done / kPanelColumns * panel_size, wide - done, deep, at + done, stride,
                     b ? b + done : nullptr, is_added);
          }
      }
    }
  }
  tile_release();
}

}  // namespace DRAGOMAN_KERNELS
