// native_tests [ROUNDS [SEED]]: shapes and models drawn at random, the same ones for the same seed.
#include <cstdlib>

#include "check.h"

void test_dispatch();
void test_tiles();
void test_kernels(int rounds);
void test_engine(int rounds);
void test_training(int rounds);

int main(int count, char** arguments) {
  if (count > 1) test_rounds = std::atoi(arguments[1]);
  if (count > 2) test_seed = std::strtoull(arguments[2], nullptr, 10);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // what was said stays said when a sanitizer ends the process or a test divides it
  std::printf("%d rounds, seed %llu\n", test_rounds, static_cast<unsigned long long>(test_seed));
  test_dispatch();
  test_tiles();
  test_kernels(test_rounds);
  test_engine(test_rounds / 20);
  test_training(test_rounds / 3);
  return 0;
}
