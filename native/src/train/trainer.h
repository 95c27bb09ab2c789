// One training's model: its gradient for a batch, shared out among threads, and the update of its weights.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "crew.h"
#include "network.h"
#include "orthogonal.h"
#include "pass.h"

namespace dragoman {

class Trainer {
 public:
  Trainer(const dragoman_network& network, const TrainKernels& kernels);

  // Loss of all pairs; their gradient is added to what is there or takes its place.
  double run(Task task, bool is_added);

  double norm();
  void update(const dragoman_adam& adam, const dragoman_orthogonal& orthogonal, float* const* means, float* const* squares,
              float* const* averages);

 private:
  void check(const Pairs& pairs) const;
  std::vector<int> shares(const Pairs& pairs) const;
  void clear(int member, bool is_added);
  void collect(int member);
  // Where the part of `count` numbers begins that is this member's: whole cache lines.
  int64_t edge(int64_t count, int member) const { return std::min(up(count * member / crew_.members(), kBlock), count); }

  Network network_;
  Crew crew_;
  std::vector<float*> weights_, gradients_;  // of each parameter; several parameters may have the same
  std::vector<int> distinct_;                // parameters, each memory once
  std::vector<std::pair<const float*, int64_t>> pieces_;  // of their gradients, as many numbers each
  std::vector<std::unique_ptr<Pass>> passes_;
  std::vector<Orthogonal> orthogonals_;  // of each member
  std::vector<Buffer<float>> memories_;             // gradients of all members but the first
  std::vector<std::vector<float*>> of_member_;  // [member][parameter]
};

}  // namespace dragoman
