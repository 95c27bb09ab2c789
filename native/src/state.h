// The state of a search that is written elsewhere, as a value: rows that share what they have in common.
#pragma once

#include <memory>
#include <vector>

#include "workspace.h"

namespace dragoman {

class State {
 public:
  static std::unique_ptr<State> start(const Model& model, Workspaces* workspaces,
                                      const std::vector<std::vector<int32_t>>& sources);

  // What is wanted: see dragoman_state_step.
  std::unique_ptr<State> step(const int32_t* ids, int best, int32_t* top_ids, float* top_log_probs, float* all, float* attention,
                              int attention_stride) const;

  std::unique_ptr<State> select(const int64_t* rows, int count) const;
  std::unique_ptr<State> join(const State& other) const;
  int rows() const { return int(rows_.size()); }
  int longest_source() const;
  const Model& model() const { return *model_; }

 private:
  using Block = std::shared_ptr<Buffer<std::byte>>;  // the cells of all rows of one step

  struct Hypothesis {
    std::shared_ptr<Memory> memory;
    std::vector<void*> cells;
    std::vector<Block> blocks;  // that keep the cells alive
  };

  State(const Model& model, Workspaces* workspaces) : model_(&model), workspaces_(workspaces) {}

  const Model* model_;
  Workspaces* workspaces_;
  std::vector<Hypothesis> rows_;
};

}  // namespace dragoman
