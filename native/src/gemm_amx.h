// Matrix products on the tiles of AMX: 16 rows times 64 bytes of activations, 64 bytes times 16 columns of weights.
//
// One tile of weights is 1 KiB of a panel as it lies in memory. For many rows, two tiles of rows meet two of columns, so
// that four products share four loads; for few, one tile of rows meets four of columns, since there the weights are the
// cost, and nothing is read twice.
#pragma once

#include "gemm_int8.h"
#include "tiles.h"

namespace DRAGOMAN_KERNELS {

static ALWAYS_INLINE void clear_sums() {
  tile_zero(0);
  tile_zero(1);
  tile_zero(2);
  tile_zero(3);
}

static ALWAYS_INLINE void store_sums(int32_t (*sums)[256]) {
  tile_store(0, sums[0], 64);
  tile_store(1, sums[1], 64);
  tile_store(2, sums[2], 64);
  tile_store(3, sums[3], 64);
}

// Sums are tiles 0 to 3; above them stand what is multiplied. Rows of the tiles are set anew in every product, for other
// libraries in the same thread use the tiles too.
//
// Wide: four sums of one tile of rows (4) with weights 5, 6 and 7.
static void configure_wide(int rows) {
  const int wide[8] = {rows, rows, rows, rows, rows, 16, 16, 16};
  tile_configure(wide);
}

// Square: rows 4 and 5, weights 6 and 7.
static void configure_square(int lower) {
  const int square[8] = {16, 16, lower, lower, 16, lower, 16, 16};
  tile_configure(square);
}

static void finish_tile(const int32_t* sums, int rows, const float* scales, const Matrix& m, int column, float* out, int stride) {
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < 16; v += kLanes)
      store(out + int64_t(r) * stride + v, finish(load_ints(sums + 16 * r + v), scales[r], m, column + v));
}

// Up to 16 rows, four panels at a time.
static void multiply_few(const int8_t* rows, const float* scales, int count, const Matrix& m, int first, int last, float* out,
                         int stride) {
  alignas(64) int32_t sums[4][256];
  int width = dragoman::padded(m.inputs, dragoman::kWidth);
  configure_wide(count);
  for (int column = first; column < last; column += 64) {
    int panels = (last - column) / 16 < 4 ? (last - column) / 16 : 4;
    const int8_t* weights = static_cast<const int8_t*>(m.weights) + int64_t(column) * width;
    int64_t panel = int64_t(16) * width;
    clear_sums();
    for (int i = 0; i < width; i += 64) {
      const int8_t* line = weights + 16 * i;
      tile_load(4, rows + i, width);
      tile_load(5, line, 64);
      tile_multiply(0, 4, 5);
      if (panels > 1) {
        tile_load(6, line + panel, 64);
        tile_multiply(1, 4, 6);
      }
      if (panels > 2) {
        tile_load(7, line + 2 * panel, 64);
        tile_multiply(2, 4, 7);
      }
      if (panels > 3) {
        tile_load(5, line + 3 * panel, 64);
        tile_multiply(3, 4, 5);
      }
    }
    store_sums(sums);
    for (int p = 0; p < panels; p++)
      finish_tile(sums[p], count, scales, m, column + 16 * p, out + column - first + 16 * p, stride);
  }
}

// 17 to 32 rows and one or two panels.
static void multiply_square(const int8_t* rows, const float* scales, int count, const Matrix& m, int column, int panels,
                            float* out, int stride) {
  alignas(64) int32_t sums[4][256];
  int width = dragoman::padded(m.inputs, dragoman::kWidth), lower = count - 16;
  const int8_t* weights = static_cast<const int8_t*>(m.weights) + int64_t(column) * width;
  clear_sums();
  for (int i = 0; i < width; i += 64) {
    tile_load(4, rows + i, width);
    tile_load(5, rows + int64_t(16) * width + i, width);
    tile_load(6, weights + 16 * i, 64);
    tile_multiply(0, 4, 6);
    tile_multiply(2, 5, 6);
    if (panels > 1) {
      tile_load(7, weights + int64_t(16) * width + 16 * i, 64);
      tile_multiply(1, 4, 7);
      tile_multiply(3, 5, 7);
    }
  }
  store_sums(sums);
  for (int p = 0; p < panels; p++) {
    finish_tile(sums[p], 16, scales, m, column + 16 * p, out + 16 * p, stride);
    finish_tile(sums[2 + p], lower, scales + 16, m, column + 16 * p, out + 16 * p + int64_t(16) * stride, stride);
  }
}

static void multiply_int8_by_tiles(const int8_t* rows, const float* scales, int count, const Matrix& m, int first, int last,
                                   float* out, int stride) {
  int width = dragoman::padded(m.inputs, dragoman::kWidth);
  int tall = count / 32 * 32, rest = count - tall;
  if (rest > 16) tall += rest, rest = 0;
  int whole = tall / 32 * 32;
  for (int done = 0; done < tall; done = whole == done ? tall : whole) {
    int end = done < whole ? whole : tall;
    configure_square(done < whole ? 16 : tall - whole - 16);
    for (int column = first; column < last; column += 32)
      for (int r = done; r < end; r += 32)
        multiply_square(rows + int64_t(r) * width, scales + r, end - r < 32 ? end - r : 32, m, column,
                        last - column < 32 ? 1 : 2, out + int64_t(r) * stride + column - first, stride);
  }
  if (rest)
    multiply_few(rows + int64_t(tall) * width, scales + tall, rest, m, first, last, out + int64_t(tall) * stride, stride);
  tile_release();
}

}  // namespace DRAGOMAN_KERNELS
