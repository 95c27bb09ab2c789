#include "search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace dragoman {
namespace {

constexpr double kRounding = 1e-9;  // scores closer than this are not told apart when a search is cut short

// Ids that would complete an n-gram that is there already.
std::vector<int32_t> repeats(const std::vector<int32_t>& ids, int n) {
  std::vector<int32_t> found;
  for (auto begin = ids.begin(); n && ids.end() - begin >= n; ++begin)
    if (std::equal(begin, begin + (n - 1), ids.end() - (n - 1))) found.push_back(begin[n - 1]);
  return found;
}

}  // namespace

Settings::Settings(const Model& model, const dragoman_search& search)
    : beam_size(search.beam_size),
      n_best(search.n_best),
      length_penalty(search.length_penalty),
      is_gnmt(search.is_gnmt),
      no_repeat_ngram(search.no_repeat_ngram),
      banned(model.never) {
  if (beam_size < 1 || beam_size > kMostTop || n_best < 1 || n_best > beam_size)
    throw std::invalid_argument("a beam of " + std::to_string(beam_size) + " with " + std::to_string(n_best) +
                                " best is not possible");
  if (no_repeat_ngram < 0) throw std::invalid_argument("n-grams of " + std::to_string(no_repeat_ngram) + " ids are not possible");
  for (int i = 0; i < search.num_suppress; i++) {
    int id = search.suppress[i];
    if (id < 0 || id >= model.plan.tgt_vocab) throw std::invalid_argument("id " + std::to_string(id) + " cannot be suppressed");
    banned[id] = 1;
  }
  banned_and_eos = banned;
  banned_and_eos[model.plan.eos] = 1;
}

double Settings::score(double log_prob, int length) const {
  double base = is_gnmt ? (5.0 + length) / 6.0 : double(length);
  return log_prob / std::pow(base, length_penalty);
}

Notebook::Notebook(int64_t cell_bytes, Workspace* workspace)
    : bytes_(cell_bytes), workspace_(workspace), memory_(std::make_unique<Memory>()) {
  if (workspace->memories.empty()) return;
  memory_->numbers = std::move(workspace->memories.back());
  workspace->memories.pop_back();
}

Notebook::~Notebook() {
  if (!memory_) return;  // it has moved on
  workspace_->memories.push_back(std::move(memory_->numbers));
  for (Buffer<std::byte>& block : blocks_) workspace_->cells.push_back(std::move(block));
}

void* Notebook::fresh_cell() {
  if (used_ == kBlock) {
    if (workspace_->cells.empty()) {
      blocks_.emplace_back(size_t(kBlock * bytes_));
    } else {
      blocks_.push_back(std::move(workspace_->cells.back()));
      workspace_->cells.pop_back();
    }
    used_ = 0;
  }
  return blocks_.back().data() + bytes_ * used_++;
}

Sentence::Sentence(int index, const Request& request, const Settings& settings, Notebook notebook)
    : index_(index), request_(&request), settings_(&settings), notebook_(std::move(notebook)), rows_(1) {}

void Sentence::add_rows(int bos, std::vector<Row>* rows, std::vector<Choice>* choices) {
  for (size_t r = 0; r < rows_.size(); r++) {
    Growing& row = rows_[r];
    row.cells.push_back(notebook_.fresh_cell());
    int length = int(row.ids.size());
    rows->push_back({row.ids.empty() ? bos : row.ids.back(), notebook_.memory(), row.cells.data(), length + 1});
    Choice choice;
    choice.banned = banned(r);
    if (length < int(request_->prefix.size())) choice.forced = request_->prefix[length];
    choices->push_back(choice);
  }
}

// What is the same for all rows, or a copy of it with what this row alone may not repeat.
const uint8_t* Sentence::banned(size_t row) {
  const std::vector<int32_t>& ids = rows_[row].ids;
  const std::vector<uint8_t>& shared = int(ids.size()) < request_->min_length ? settings_->banned_and_eos : settings_->banned;
  std::vector<int32_t> repeated = repeats(ids, settings_->no_repeat_ngram);
  if (repeated.empty()) return shared.data();
  banned_.resize(std::max(banned_.size(), row + 1));
  banned_[row] = shared;
  for (int32_t id : repeated) banned_[row][id] = 1;
  return banned_[row].data();
}

bool Sentence::advance(const Forward& forward, int first, int best, int eos) {
  struct Candidate {
    double total;
    int parent, rank;
    int32_t id;
    double log_prob;
  };
  std::vector<Candidate> candidates;
  for (int r = 0; r < int(rows_.size()); r++)
    for (int k = 0; k < best; k++) {
      double log_prob = forward.log_probs(first + r)[k];
      if (!(log_prob < std::numeric_limits<double>::infinity())) {  // the model's numbers are not finite
        rows_.clear();
        finished_.clear();
        return true;
      }
      if (log_prob > -std::numeric_limits<double>::infinity())
        candidates.push_back({rows_[r].log_prob + log_prob, r, k, forward.ids(first + r)[k], log_prob});
    }
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.total > b.total; });
  if (int(candidates.size()) > width()) candidates.resize(width());
  std::sort(candidates.begin(), candidates.end(),
            [](const auto& a, const auto& b) { return a.parent != b.parent ? a.parent < b.parent : a.id < b.id; });

  std::vector<Growing> grown;
  double best_live = -std::numeric_limits<double>::infinity();
  int length = int(rows_[0].ids.size()) + 1;
  for (size_t c = 0; c < candidates.size(); c++) {
    const Candidate& one = candidates[c];
    bool is_last_child = c + 1 == candidates.size() || candidates[c + 1].parent != one.parent;
    Growing row = is_last_child ? std::move(rows_[one.parent]) : rows_[one.parent];
    row.ids.push_back(one.id);
    row.token_log_probs.push_back(one.log_prob);
    row.log_prob += one.log_prob;
    if (one.id == eos || length == request_->max_length) {
      double score = settings_->score(row.log_prob, length);
      finished_.push_back({std::move(row.ids), std::move(row.token_log_probs), row.log_prob, score, one.id == eos});
    } else {
      best_live = std::max(best_live, row.log_prob);
      grown.push_back(std::move(row));
    }
  }
  rows_ = std::move(grown);
  return rows_.empty() || is_settled(best_live, length);
}

bool Sentence::is_settled(double best_live, int length) const {
  if (int(finished_.size()) < settings_->n_best) return false;
  std::vector<double> scores;
  for (const Hypothesis& one : finished_) scores.push_back(one.score);
  std::nth_element(scores.begin(), scores.begin() + settings_->n_best - 1, scores.end(), std::greater<double>());
  double bound = std::max(settings_->score(best_live, length + 1), settings_->score(best_live, request_->max_length));
  return scores[settings_->n_best - 1] > bound + kRounding * std::max(1.0, std::abs(bound));
}

std::vector<Hypothesis> Sentence::answer() {
  std::sort(finished_.begin(), finished_.end(), [](const Hypothesis& a, const Hypothesis& b) {
    if (a.score != b.score) return a.score > b.score;
    // without the end of sentence, which is no part of what is compared
    return std::lexicographical_compare(a.ids.begin(), a.ids.end() - a.is_ended, b.ids.begin(), b.ids.end() - b.is_ended);
  });
  if (int(finished_.size()) > settings_->n_best) finished_.resize(settings_->n_best);
  return std::move(finished_);
}

}  // namespace dragoman
