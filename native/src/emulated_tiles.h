// The tiles of AMX in plain memory, so that what uses them is tested on processors without them. What the processor
// answers with a fault ends the process here too: shapes that do not fit each other, tiles that were not configured.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace DRAGOMAN_KERNELS {

#define TILES_NEED(condition)                                                         \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::fprintf(stderr, "%s:%d: tiles need %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                   \
    }                                                                                 \
  } while (0)

namespace {

struct Tile {
  int rows, width;  // in bytes; 0 where it is not configured
  int8_t bytes[16][64];
};

struct Tiles {
  Tile all[8];

  ~Tiles() { TILES_NEED(all[0].rows == 0); }  // a product left them to its thread, which ends
};

thread_local Tiles tiles;

}  // namespace

static void tile_release() { memset(tiles.all, 0, sizeof tiles.all); }

static Tile& live_tile(int t) {
  TILES_NEED(t >= 0 && t < 8 && tiles.all[t].rows > 0);
  return tiles.all[t];
}

static void load_config(const TileConfig* config) {
  TILES_NEED(config->palette == 1 && config->start == 0);
  for (uint8_t byte : config->reserved) TILES_NEED(byte == 0);
  tile_release();
  for (int t = 0; t < 16; t++) {
    int rows = config->rows[t], width = config->width[t];
    TILES_NEED(t < 8 ? rows >= 1 && rows <= 16 : rows == 0);
    TILES_NEED(t < 8 ? width >= 4 && width <= 64 && width % 4 == 0 : width == 0);
    if (t < 8) tiles.all[t].rows = rows, tiles.all[t].width = width;
  }
}

static void tile_zero(int t) { memset(live_tile(t).bytes, 0, sizeof tiles.all[t].bytes); }

static void tile_load(int t, const void* from, int64_t stride) {
  Tile& tile = live_tile(t);
  tile_zero(t);
  for (int r = 0; r < tile.rows; r++) memcpy(tile.bytes[r], static_cast<const int8_t*>(from) + r * stride, tile.width);
}

static void tile_store(int t, void* to, int64_t stride) {
  const Tile& tile = live_tile(t);
  for (int r = 0; r < tile.rows; r++) memcpy(static_cast<int8_t*>(to) + r * stride, tile.bytes[r], tile.width);
}

// Adds to each number of `sum` what `product` makes of four bytes of a row and of four bytes of a column, for all of them.
template <typename Number, typename F>
static void add_products(int sum, int left, int right, F product) {
  Tile &s = live_tile(sum), &a = live_tile(left), &b = live_tile(right);
  TILES_NEED(sum != left && sum != right && left != right);
  TILES_NEED(a.rows == s.rows);
  TILES_NEED(a.width / 4 == b.rows);
  TILES_NEED(b.width == s.width);
  for (int r = 0; r < s.rows; r++)
    for (int c = 0; c < s.width; c += 4) {
      Number value;
      memcpy(&value, s.bytes[r] + c, 4);
      for (int k = 0; k < b.rows; k++) value += product(a.bytes[r] + 4 * k, b.bytes[k] + c);
      memcpy(s.bytes[r] + c, &value, 4);
    }
}

[[maybe_unused]] static void tile_multiply(int sum, int left, int right) {
  add_products<int32_t>(sum, left, right, [](const int8_t* row, const int8_t* column) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++) value += uint8_t(row[i]) * column[i];
    return value;
  });
}

static float half_at(const int8_t* from) {
  uint16_t half;
  memcpy(&half, from, 2);
  uint32_t bits = uint32_t(half) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

[[maybe_unused]] static void tile_multiply_halves(int sum, int left, int right) {
  add_products<float>(sum, left, right, [](const int8_t* row, const int8_t* column) {
    return half_at(row) * half_at(column) + half_at(row + 2) * half_at(column + 2);
  });
}

#undef TILES_NEED

}  // namespace DRAGOMAN_KERNELS
