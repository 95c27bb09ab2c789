// Which instruction sets there are to choose from: those of the build that the processor has and the system allows.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace dragoman {

struct Sets {
  std::vector<const Kernels*> usable;  // the best first
  std::string refused;                 // by the system, though the processor has them; separated by spaces
};

// AMX is the only one that the system must be asked for: what is asked stands here, so that a test can answer.
Sets find_sets(bool (*has_amx)(), bool (*may_use_amx)());

}  // namespace dragoman
