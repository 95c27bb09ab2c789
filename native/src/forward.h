// The Transformer over rows: the encoder over the tokens of some sentences, the decoder over the newest token of each
// unfinished hypothesis. Nothing is padded: every row is a real token.
//
// Each function is called by all members of a team at once, each with its own Member; a team of one is the usual case. A
// member keeps its own copy of the hidden states and repeats the cheap work on whole rows; matrix columns, heads and the
// vocabulary are shared out. A Forward may be used by one team at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "buffer.h"
#include "model.h"
#include "team.h"

namespace dragoman {

// What the decoder looks at: keys and values of one source, for every layer and head, computed once.
struct Memory {
  int length = 0;
  Buffer<std::byte> numbers;
};

struct Source {
  const int32_t* ids;
  int length;
  Memory* memory;  // filled by `encode`
};

// A hypothesis about to grow: its newest token and where its tokens' keys and values lie. Rows of one source must follow
// one another.
struct Row {
  int32_t id;
  const Memory* memory;
  void* const* cells;  // [length]; the last one is filled by `step`
  int length;          // tokens so far, the newest included; its position is length - 1
};

// What is wanted of the distribution after each row.
struct Choice {
  const uint8_t* banned;  // [vocabulary]: ids not to be taken
  int32_t forced = -1;    // the only id of interest, or -1
};

class Forward {
 public:
  Forward(const Model& model, int members);

  void encode(const Member& me, const std::vector<Source>& sources);

  // Leaves the hidden states for `choose`. Attention [rows][stride], if not NULL, gets the last layer's look at the source,
  // mean over its heads (for a team of one).
  void step(const Member& me, const std::vector<Row>& rows, float* attention = nullptr, int stride = 0);

  // Log-probabilities after each row of the last `step`: of the `best` likeliest ids, best first, equal ones by ascending
  // id, filled up with -infinity; and of all ids into `all` [rows][vocabulary], if not NULL. Of a forced id, its own alone.
  // The results belong to member 0.
  void choose(const Member& me, const std::vector<Choice>& choices, int best, float* all = nullptr);

  const int32_t* ids(int row) const { return top_ids_.data() + int64_t(row) * best_; }
  const float* log_probs(int row) const { return top_logits_.data() + int64_t(row) * best_; }

 private:
  // One member's own memory.
  struct Desk {
    Buffer<float> x, normed, scores, logits;
    Buffer<int8_t> bytes;
    Buffer<float> scales;
    Buffer<std::byte> packed;
    float* pending = nullptr;  // what the last sub-layer adds to x, in a pre-norm model
  };

  // Rows as a matrix takes them.
  struct Input {
    const float* rows;
    int stride, count;
    const int8_t* bytes;
    const float* scales;
  };

  void reserve(const Member& me, int rows);
  Input prepare(const Member& me, const Matrix& matrix, const float* rows, int stride, int count);
  void multiply(const Input& input, const Matrix& matrix, int first, int last, float* out, int stride);
  void multiply_share(const Member& me, const Input& input, const Matrix& matrix, float* out, int stride);
  void project_heads(const Member& me, const Input& input, const Matrix& matrix, int parts);
  const float* enter(const Member& me, const dragoman_norm& norm, int count);
  void leave(const Member& me, const dragoman_norm& norm, int count);
  void mix_out(const Member& me, const Matrix& out, int count);
  void feed_forward(const Member& me, const Matrix& inner, const Matrix& outer, const dragoman_norm& norm, int count);
  const float* finish(const Member& me, const dragoman_norm* norm, int count);
  void encode_group(const Member& me, const Source* sources, int count);
  void attend_to_itself(const Member& me, const Source* sources, int count);
  void remember(const Member& me, const Source* sources, int count, const float* hidden, int rows);
  void look_back(const Member& me, const std::vector<Row>& rows, int layer);
  void look_across(const Member& me, const std::vector<Row>& rows, int layer, float* attention, int stride);
  void merge(int members, int chunks, const std::vector<Choice>& choices, float* all);

  const Model& model_;
  const Kernels& kernels_;
  std::vector<Desk> desks_;
  Buffer<float> projected_, mixed_, added_, inner_, gated_;
  int capacity_ = 0;
  int rows_ = 0;
  std::vector<const float*> hidden_;  // [members]: what `step` left
  int best_ = 0;
  std::vector<Partial> partials_;  // [rows][chunks]
  std::vector<int32_t> member_ids_, top_ids_;
  std::vector<float> member_logits_, top_logits_, forced_;
  std::vector<int> member_counts_;
};

}  // namespace dragoman
