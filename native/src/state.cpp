#include "state.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace dragoman {

std::unique_ptr<State> State::start(const Model& model, Workspaces* workspaces,
                                    const std::vector<std::vector<int32_t>>& sources) {
  std::unique_ptr<State> state(new State(model, workspaces));
  std::vector<Source> wanted;
  for (const std::vector<int32_t>& ids : sources) {
    auto memory = std::make_shared<Memory>();
    wanted.push_back({ids.data(), int(ids.size()), memory.get()});
    state->rows_.push_back({memory, {}, {}});
  }
  std::unique_ptr<Workspace> workspace = workspaces->take(1);
  workspace->forward.encode(Member(), wanted);
  workspaces->give(std::move(workspace));
  return state;
}

std::unique_ptr<State> State::step(const int32_t* ids, int best, int32_t* top_ids, float* top_log_probs, float* all,
                                   float* attention, int attention_stride) const {
  std::unique_ptr<State> grown(new State(*this));
  int64_t bytes = model_->cell_bytes();
  Block block = std::make_shared<Buffer<std::byte>>(size_t(std::max<int64_t>(bytes * rows(), 1)));
  // Rows of one source look at it together; the caller may have them in any order.
  std::vector<int> order(rows_.size());
  for (int r = 0; r < rows(); r++) order[r] = r;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rows_[a].memory.get() < rows_[b].memory.get(); });
  std::vector<Row> asked;
  for (int r : order) {
    Hypothesis& row = grown->rows_[r];
    row.cells.push_back(block->data() + bytes * r);
    row.blocks.push_back(block);
    if (int(row.cells.size()) > model_->plan.positions)
      throw std::invalid_argument("a target of " + std::to_string(row.cells.size()) + " tokens is beyond the " +
                                  std::to_string(model_->plan.positions) + " positions of this model");
    asked.push_back({ids[r], row.memory.get(), row.cells.data(), int(row.cells.size())});
  }
  if (asked.empty()) return grown;
  int vocabulary = model_->plan.tgt_vocab;
  std::vector<float> looks(attention ? size_t(rows()) * attention_stride : 0), log_probs(all ? size_t(rows()) * vocabulary : 0);
  std::unique_ptr<Workspace> workspace = workspaces_->take(1);
  Forward& forward = workspace->forward;
  forward.step(Member(), asked, attention ? looks.data() : nullptr, attention_stride);
  forward.choose(Member(), std::vector<Choice>(asked.size(), {model_->never.data()}), best, all ? log_probs.data() : nullptr);
  for (int i = 0; i < rows(); i++) {
    int64_t r = order[i];
    std::copy_n(forward.ids(i), best, top_ids + r * best);
    std::copy_n(forward.log_probs(i), best, top_log_probs + r * best);
    if (all) std::copy_n(log_probs.data() + int64_t(i) * vocabulary, vocabulary, all + r * vocabulary);
    if (attention) std::copy_n(looks.data() + int64_t(i) * attention_stride, attention_stride, attention + r * attention_stride);
  }
  workspaces_->give(std::move(workspace));
  return grown;
}

int State::longest_source() const {
  int longest = 0;
  for (const Hypothesis& row : rows_) longest = std::max(longest, row.memory->length);
  return longest;
}

std::unique_ptr<State> State::select(const int64_t* rows, int count) const {
  std::unique_ptr<State> chosen(new State(*this));
  chosen->rows_.clear();
  for (int i = 0; i < count; i++) {
    if (rows[i] < 0 || rows[i] >= this->rows()) throw std::invalid_argument("there is no row " + std::to_string(rows[i]));
    chosen->rows_.push_back(rows_[rows[i]]);
  }
  return chosen;
}

std::unique_ptr<State> State::join(const State& other) const {
  if (model_ != other.model_) throw std::invalid_argument("states of two models cannot be joined");
  std::unique_ptr<State> joined(new State(*this));
  joined->rows_.insert(joined->rows_.end(), other.rows_.begin(), other.rows_.end());
  return joined;
}

}  // namespace dragoman
