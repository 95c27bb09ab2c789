// The tiles of AMX: eight registers of up to 16 rows of 64 bytes. A product takes 16 rows of the left factor, and of the
// right one 16 lines in each of which the numbers for one step of the sum lie together for 16 columns.
#pragma once

#include "simd.h"

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
[[maybe_unused]] static void tile_multiply(int sum, int left, int right) {
  for (int r = 0; r < tile_rows[sum]; r++)
    for (int c = 0; c < 16; c++) {
      int32_t value;
      memcpy(&value, tiles[sum].bytes[r] + 4 * c, 4);
      for (int k = 0; k < 64; k++) value += uint8_t(tiles[left].bytes[r][k]) * tiles[right].bytes[k / 4][4 * c + k % 4];
      memcpy(tiles[sum].bytes[r] + 4 * c, &value, 4);
    }
}
[[maybe_unused]] static void tile_multiply_halves(int sum, int left, int right) {
  for (int r = 0; r < tile_rows[sum]; r++)
    for (int c = 0; c < 16; c++) {
      float value;
      memcpy(&value, tiles[sum].bytes[r] + 4 * c, 4);
      for (int k = 0; k < 32; k++) {
        uint32_t a = 0, b = 0;
        memcpy(reinterpret_cast<uint16_t*>(&a) + 1, tiles[left].bytes[r] + 2 * k, 2);
        memcpy(reinterpret_cast<uint16_t*>(&b) + 1, tiles[right].bytes[k / 2] + 4 * c + 2 * (k % 2), 2);
        float x, y;
        memcpy(&x, &a, 4);
        memcpy(&y, &b, 4);
        value += x * y;
      }
      memcpy(tiles[sum].bytes[r] + 4 * c, &value, 4);
    }
}
static void tile_configure(const int* rows) { memcpy(tile_rows, rows, sizeof tile_rows); }
#else
// The intrinsics of gcc 12 do not say that they read memory: what was written to it before could come too late.
#define WRITTEN_BEFORE __asm__ volatile("" ::: "memory")
#define tile_load(t, from, stride)   \
  do {                               \
    WRITTEN_BEFORE;                  \
    _tile_loadd(t, from, stride);    \
  } while (0)
#define tile_store(t, to, stride) _tile_stored(t, to, stride)
#define tile_zero(t) _tile_zero(t)
#define tile_multiply(sum, left, right) _tile_dpbusd(sum, left, right)
#define tile_multiply_halves(sum, left, right) _tile_dpbf16ps(sum, left, right)
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
  __asm__ volatile("" ::"r"(&config) : "memory");  // as above
  _tile_loadconfig(&config);
}
#endif

}  // namespace DRAGOMAN_KERNELS
