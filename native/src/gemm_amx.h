// Matrix products on the tiles of AMX: 16 rows times 64 bytes of activations, 64 bytes times 16 columns of weights.
//
// One tile of weights is 1 KiB of a panel as it lies in memory. For many rows, two tiles of rows meet two of columns, so
// that four products share four loads; for few, one tile of rows meets four of columns, since there the weights are the
// cost, and nothing is read twice.
#pragma once

#include "gemm_int8.h"

namespace DRAGOMAN_KERNELS {

#if defined(DRAGOMAN_EMULATE_AMX)
// The same tiles in plain memory, so that this file is tested on processors without them.
struct Tile {
  int8_t bytes[16][64];
};
static thread_local Tile tiles[8];
static thread_local int tile_rows[8];
static void tile_load(int t, const void* from, int64_t stride) {
  for (int r = 0; r < tile_rows[t]; r++) memcpy(tiles[t].bytes[r], static_cast<const int8_t*>(from) + r * stride, 64);
}
static void tile_store(int t, void* to, int64_t stride) {
  for (int r = 0; r < tile_rows[t]; r++) memcpy(static_cast<int8_t*>(to) + r * stride, tiles[t].bytes[r], 64);
}
static void tile_zero(int t) { memset(&tiles[t], 0, sizeof tiles[t]); }
static void tile_multiply(int sum, int left, int right) {
  for (int r = 0; r < tile_rows[sum]; r++)
    for (int c = 0; c < 16; c++) {
      int32_t value;
      memcpy(&value, tiles[sum].bytes[r] + 4 * c, 4);
      for (int k = 0; k < 64; k++) value += uint8_t(tiles[left].bytes[r][k]) * tiles[right].bytes[k / 4][4 * c + k % 4];
      memcpy(tiles[sum].bytes[r] + 4 * c, &value, 4);
    }
}
static void tile_configure(const int* rows) { memcpy(tile_rows, rows, sizeof tile_rows); }
#else
#define tile_load(t, from, stride) _tile_loadd(t, from, stride)
#define tile_store(t, to, stride) _tile_stored(t, to, stride)
#define tile_zero(t) _tile_zero(t)
#define tile_multiply(sum, left, right) _tile_dpbusd(sum, left, right)
static void tile_configure(const int* rows) {
  struct __attribute__((packed)) {
    uint8_t palette, start, reserved[14];
    uint16_t width[16];
    uint8_t rows[16];
  } config = {};
  config.palette = 1;
  for (int t = 0; t < 8; t++) {
    config.width[t] = 64;
    config.rows[t] = uint8_t(rows[t]);
  }
  _tile_loadconfig(&config);
}
#endif

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
      store(out + int64_t(r) * stride + v, finish(load_ints(sums + 16 * r + v), kFlip != 0, scales[r], m, column + v));
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
}

}  // namespace DRAGOMAN_KERNELS
