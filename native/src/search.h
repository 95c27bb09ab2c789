// Beam search over slots, the same as dragoman.search.beam: what it chooses, how it breaks ties, when it stops. There it
// is explained; here it is fast. Tests hold the two to one answer.
#pragma once

#include <memory>
#include <vector>

#include "workspace.h"

namespace dragoman {

struct Settings {
  int beam_size, n_best;
  double length_penalty;
  bool is_gnmt;
  int no_repeat_ngram;
  std::vector<uint8_t> banned;          // [vocabulary]: what is never produced
  std::vector<uint8_t> banned_and_eos;  // the same with the end of sentence

  Settings(const Model& model, const dragoman_search& search);  // throws std::invalid_argument
  double score(double log_prob, int length) const;
};

struct Request {
  std::vector<int32_t> ids, prefix;
  int max_length, min_length;
};

struct Hypothesis {
  std::vector<int32_t> ids;  // with EOS, if it was reached
  std::vector<double> token_log_probs;
  double log_prob, score;
  bool is_ended;
};

// What one sentence remembers: its source, and cells for keys and values of its tokens. It comes from a workspace and goes
// back there when the sentence is done.
class Notebook {
 public:
  Notebook(int64_t cell_bytes, Workspace* workspace);
  ~Notebook();
  Notebook(Notebook&&) = default;
  Notebook& operator=(Notebook&&) = delete;

  Memory* memory() const { return memory_.get(); }
  void* fresh_cell();

 private:
  static constexpr int kBlock = 32;  // cells
  int64_t bytes_;
  Workspace* workspace_;
  std::unique_ptr<Memory> memory_;
  std::vector<Buffer<std::byte>> blocks_;
  int used_ = kBlock;
};

// One sentence being searched.
class Sentence {
 public:
  Sentence(int index, const Request& request, const Settings& settings, Notebook notebook);

  int index() const { return index_; }
  Source source() { return {request_->ids.data(), int(request_->ids.size()), notebook_.memory()}; }
  int width() const { return settings_->beam_size - int(finished_.size()); }

  // Its unfinished hypotheses as rows of the model, each with a cell for its newest token; at least one.
  void add_rows(int bos, std::vector<Row>* rows, std::vector<Choice>* choices);

  // Takes the answers for the rows it has added, the first of which is `first`. Whether it is done.
  bool advance(const Forward& forward, int first, int best, int eos);

  // Best first.
  std::vector<Hypothesis> answer();

 private:
  struct Growing {
    std::vector<int32_t> ids;
    std::vector<double> token_log_probs;
    double log_prob = 0;
    std::vector<void*> cells;
  };

  const uint8_t* banned(size_t row);
  bool is_settled(double best_live, int length) const;

  int index_;
  const Request* request_;
  const Settings* settings_;
  Notebook notebook_;
  std::vector<Growing> rows_;  // in lexicographic order of their ids
  std::vector<std::vector<uint8_t>> banned_;  // of each row with repeated n-grams, in this step
  std::vector<Hypothesis> finished_;
};

}  // namespace dragoman
