// native_tests [ROUNDS]: shapes and models drawn at random, the same ones every time.
#include <cstdlib>

#include "check.h"

void test_dispatch();
void test_tiles();
void test_kernels(int rounds);
void test_engine(int rounds);
void test_training(int rounds);

int main(int count, char** arguments) {
  int rounds = count > 1 ? std::atoi(arguments[1]) : 60;
  test_dispatch();
  test_tiles();
  test_kernels(rounds);
  test_engine(rounds / 6);
  test_training(rounds / 3);
  return 0;
}
