// The little that a test needs: a condition with a message, and numbers that look random but are the same for the same seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// What main was given.
inline int test_rounds = 60;
inline uint64_t test_seed = 0;

#define CHECK(condition, ...)                                                                                             \
  do {                                                                                                                    \
    if (!(condition)) {                                                                                                   \
      std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                                \
      std::fprintf(stderr, __VA_ARGS__);                                                                                  \
      std::fprintf(stderr, "\nonce more: native_tests %d %llu\n", test_rounds, static_cast<unsigned long long>(test_seed)); \
      std::exit(1);                                                                                                       \
    }                                                                                                                     \
  } while (0)

struct Random {
  uint64_t state;

  explicit Random(uint64_t part) : state((part + test_seed * 0xd1342543de82ef95u) * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  int below(int limit) { return int(next() % uint64_t(limit)); }
  float normal() {  // near enough
    float sum = 0;
    for (int i = 0; i < 6; i++) sum += float(below(20001)) / 10000 - 1;
    return sum * 0.7f;
  }
  std::vector<float> normals(size_t count, float scale = 1) {
    std::vector<float> made(count);
    for (float& x : made) x = normal() * scale;
    return made;
  }
};
