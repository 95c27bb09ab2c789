// The emulated tiles: what a processor with AMX refuses ends the process, and what it takes has its result.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "check.h"

#define DRAGOMAN_KERNELS tiles_test
#define DRAGOMAN_EMULATE_AMX
#include "tiles.h"

using namespace tiles_test;

namespace {

int8_t bytes[16 * 64];

// Tiles 0 to 2: a product of 3 rows of 8 bytes and 5 columns. Tile 3 is another sum.
TileConfig small() {
  TileConfig config = {};
  config.palette = 1;
  const int rows[8] = {3, 3, 2, 3, 1, 1, 1, 1}, width[8] = {20, 8, 20, 20, 4, 4, 4, 4};
  for (int t = 0; t < 8; t++) config.rows[t] = uint8_t(rows[t]), config.width[t] = uint16_t(width[t]);
  return config;
}

template <typename F>
void refused(const char* what, F act) {
  pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (!child) {
    if (!std::freopen("/dev/null", "w", stderr)) _exit(2);
    act();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "tiles took %s", what);
}

template <typename F>
void bad_config(const char* what, F change) {
  refused(what, [&] {
    TileConfig config = small();
    change(config);
    load_config(&config);
  });
}

// A configuration that may be, but not for this product.
template <typename F>
void bad_product(const char* what, F change) {
  TileConfig config = small();
  change(config);
  load_config(&config);
  tile_release();
  refused(what, [&] { load_config(&config), tile_multiply(0, 1, 2); });
  refused(what, [&] { load_config(&config), tile_multiply_halves(0, 1, 2); });
}

void test_refusals() {
  bad_config("no palette", [](TileConfig& c) { c.palette = 0; });
  bad_config("a row to begin with", [](TileConfig& c) { c.start = 1; });
  bad_config("reserved bytes", [](TileConfig& c) { c.reserved[13] = 1; });
  bad_config("no rows", [](TileConfig& c) { c.rows[7] = 0; });
  bad_config("17 rows", [](TileConfig& c) { c.rows[0] = 17; });
  bad_config("no width", [](TileConfig& c) { c.width[0] = 0; });
  bad_config("68 bytes", [](TileConfig& c) { c.width[0] = 68; });
  bad_config("a width of 6 bytes", [](TileConfig& c) { c.width[0] = 6; });
  bad_config("a ninth tile", [](TileConfig& c) { c.rows[8] = 1, c.width[8] = 4; });
  bad_product("sums of other rows", [](TileConfig& c) { c.rows[0] = 4; });
  bad_product("sums of other columns", [](TileConfig& c) { c.width[0] = 16; });
  bad_product("factors that do not meet", [](TileConfig& c) { c.rows[2] = 3; });
  TileConfig alike = small();
  for (int t = 0; t < 3; t++) alike.rows[t] = 1, alike.width[t] = 4;
  refused("a sum as a factor", [&] { load_config(&alike), tile_multiply(0, 0, 2); });
  refused("a load without configuration", [] { tile_load(0, bytes, 64); });
  refused("a store without configuration", [] { tile_store(0, bytes, 64); });
  refused("zero without configuration", [] { tile_zero(0); });
  TileConfig config = small();
  refused("a product after the release", [&] { load_config(&config), tile_release(), tile_multiply(0, 1, 2); });
  refused("live tiles at a thread's end", [&] { std::thread([&] { load_config(&config); }).join(); });
}

void test_product() {
  int8_t left[3 * 8], right[2 * 20];
  int32_t sums[3 * 5 + 1] = {};
  for (int i = 0; i < 24; i++) left[i] = int8_t(200 + i);  // unsigned
  for (int i = 0; i < 40; i++) right[i] = int8_t(i - 20);
  sums[15] = 7;
  TileConfig config = small();
  load_config(&config);
  tile_load(1, left, 8);
  tile_load(2, right, 20);
  tile_multiply(0, 1, 2);
  tile_multiply(0, 1, 2);
  tile_store(0, sums, 20);
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 5; c++) {
      int sum = 0;
      for (int k = 0; k < 8; k++) sum += 2 * uint8_t(left[8 * r + k]) * right[k / 4 * 20 + 4 * c + k % 4];
      CHECK(sums[5 * r + c] == sum, "row %d column %d: %d, not %d", r, c, sums[5 * r + c], sum);
    }
  CHECK(sums[15] == 7, "a store beyond its tile");
  const int rows[8] = {3, 3, 3, 3, 3, 3, 3, 3};
  int32_t zeros[3 * 16], nothing[3 * 16] = {};
  tile_configure(rows);
  tile_store(0, zeros, 64);
  CHECK(!std::memcmp(zeros, nothing, sizeof zeros), "configuring leaves something");
  tile_release();
}

}  // namespace

void test_tiles() {
  test_refusals();
  test_product();
  std::printf("emulated tiles\n");
}
