// What is chosen where the processor has AMX and the system allows or refuses it.
#include "dispatch.h"

#include "check.h"

using namespace dragoman;

void test_dispatch() {
  auto yes = [] { return true; };
  auto no = [] { return false; };
  auto unasked = [] {
    CHECK(false, "the system was asked for what the processor lacks");
    return false;
  };
  Sets without = find_sets(no, unasked), allowed = find_sets(yes, yes), refused = find_sets(yes, no);
  bool is_built = allowed.usable.size() > without.usable.size();
  std::string best = allowed.usable.front()->name;
  CHECK(is_built == (best == "amx"), "with AMX %s is the best", best.c_str());
  CHECK(without.refused.empty() && allowed.refused.empty(), "refused: %s", allowed.refused.c_str());
  CHECK(refused.usable == without.usable, "a refused set is used");
  CHECK(refused.refused == (is_built ? "amx" : ""), "refused: %s", refused.refused.c_str());
}
