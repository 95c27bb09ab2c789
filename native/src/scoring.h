// Log-probabilities of targets that are there already.
#pragma once

#include <vector>

#include "workspace.h"

namespace dragoman {

struct Pair {
  std::vector<int32_t> source, target;  // neither is empty
};

// Of every target token after those before it, one pair after the other.
std::vector<float> score(const Model& model, Workspaces* workspaces, const std::vector<Pair>& pairs);

}  // namespace dragoman
