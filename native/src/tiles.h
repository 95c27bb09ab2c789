// The tiles of AMX: eight registers of up to 16 rows of 64 bytes. A product takes 16 rows of the left factor, and of the
// right one 16 lines in each of which the numbers for one step of the sum lie together for 16 columns.
//
// A product that configured them releases them at its end, which costs less than configuring: they live in the caller's
// thread, and the system saves and restores 8 KiB for a thread with live tiles.
#pragma once

#include "simd.h"

namespace DRAGOMAN_KERNELS {

// What the processor reads to configure them.
struct __attribute__((packed)) TileConfig {
  uint8_t palette, start, reserved[14];
  uint16_t width[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace DRAGOMAN_KERNELS

#if defined(DRAGOMAN_EMULATE_AMX)
#include "emulated_tiles.h"
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
#define tile_release() _tile_release()
namespace DRAGOMAN_KERNELS {
static void load_config(const TileConfig* config) {
  __asm__ volatile("" ::"r"(config) : "memory");  // as above
  _tile_loadconfig(config);
}
}  // namespace DRAGOMAN_KERNELS
#endif

namespace DRAGOMAN_KERNELS {

static void tile_configure(const int* rows) {
  TileConfig config = {};
  config.palette = 1;
  for (int t = 0; t < 8; t++) {
    config.width[t] = 64;
    config.rows[t] = uint8_t(rows[t]);
  }
  load_config(&config);
}

}  // namespace DRAGOMAN_KERNELS
