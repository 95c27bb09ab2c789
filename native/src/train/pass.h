// Forward and back through the model (figure 1) for some pairs, on one thread. Tokens stand one after the other without
// padding: a batch is a matrix [tokens][d_model], and only the attention knows where a sentence begins.
#pragma once

#include <vector>

#include "network.h"

namespace dragoman {

// Pairs of a batch. Ids of source i are src[src_offsets[i]] .. src[src_offsets[i + 1]]; of a target likewise what the
// decoder reads and what it must say.
using Pairs = dragoman_pairs;

// Memory for one pass, taken piece by piece and given back at once.
class Arena {
 public:
  struct Mark {
    size_t block, used;
  };
  float* take(int64_t count);
  Mark mark() const { return {block_, used_}; }
  void release(Mark mark) { block_ = mark.block, used_ = mark.used; }

 private:
  std::vector<Buffer<float>> blocks_;
  size_t block_ = 0, used_ = 0;
};

struct Task {
  const Pairs* pairs;
  uint32_t seed;
  float smoothing;
  float scale;  // of the loss, in the gradient
};

class Pass {
 public:
  explicit Pass(const Network& network) : net_(network), kernels_(network.kernels), d_(network.sizes.d_model) {}

  // The loss of pairs first .. last, whose gradient is added to gradients[parameter].
  double run(const Task& task, int first, int last, float* const* gradients);

 private:
  // Sentences side by side: rows start[i] .. start[i + 1] are sentence i.
  struct Side {
    std::vector<int> start;
    int64_t first_row;  // in the batch; masks depend on it
    int rows() const { return start.back(); }
    int length(int i) const { return start[i + 1] - start[i]; }
  };
  struct Normed {
    const float* in;
    float *mean, *factor;
  };
  struct Attended {
    const float *x, *memory;
    float *queries, *keys, *values, *mixed;
    int64_t q_stride, kv_stride;
    std::vector<float*> weights;  // of each sentence and head
  };
  struct Fed {
    const float* x;
    float *inner, *outer;  // before and after the activation
  };
  struct Residual {
    Normed norm;
    uint32_t site;
  };
  struct AttentionStep {
    Attended attended;
    Residual residual;
  };
  struct FeedStep {
    Fed fed;
    Residual residual;
  };
  struct EncoderState {
    AttentionStep self;
    FeedStep feed;
  };
  struct DecoderState {
    AttentionStep self, cross;
    FeedStep feed;
  };
  // What a stack of layers keeps for its way back.
  template <typename State>
  struct Stack {
    std::vector<State> layers;
    Normed last;  // with norm_first
  };

  Side side(const int64_t* offsets, int first, int last) const;
  float* embed(const Side& side, const int32_t* ids, int embedding, const float* table, uint32_t site);
  void embed_back(const Side& side, const int32_t* ids, int embedding, int positions, uint32_t site, float* dx);
  float* norm(const float* x, int rows, const Norm& norm, Normed& kept);
  void norm_back(const float* dout, int rows, const Norm& norm, const Normed& kept, float* dx, bool is_added);
  void linear(const Linear& one, const float* x, int rows, float* out, int64_t stride);
  void linear_back(const Linear& one, const float* dout, int64_t stride, const float* x, int rows, float* dx, bool is_added);
  float* attend(const AttentionPart& part, const float* x, const Side& side, const float* memory, const Side& memory_side,
                bool is_causal, Attended& kept);
  void attend_back(const AttentionPart& part, const Side& side, const Side& memory_side, bool is_causal, const Attended& kept,
                   const float* dout, float* dx, bool is_added, float* dmemory);
  Head head(const Side& side, const Side& memory_side, int sentence, bool is_causal, float* weights, float* scratch) const;
  float* feed(const FeedForwardPart& part, const float* x, int rows, Fed& kept);
  void feed_back(const FeedForwardPart& part, int rows, const Fed& kept, const float* dout, float* dx, bool is_added);
  template <typename F>
  const float* residual(const float* x, const Side& side, const Norm& norm, Residual& kept, F sublayer);
  template <typename F>
  void residual_back(float* dx, const Side& side, const Norm& norm, const Residual& kept, F sublayer_back);
  // Sub-layers with their residual connections. Without a memory a side attends to itself.
  const float* attention_step(const AttentionPart& part, const float* x, const Side& side, const float* memory,
                              const Side& memory_side, bool is_causal, AttentionStep& kept);
  void attention_step_back(const AttentionPart& part, float* dx, const Side& side, const Side& memory_side, bool is_causal,
                           const AttentionStep& kept, float* dmemory);
  const float* feed_step(const FeedForwardPart& part, const float* x, const Side& side, FeedStep& kept);
  void feed_step_back(const FeedForwardPart& part, float* dx, const Side& side, const FeedStep& kept);
  const float* last_norm(const float* x, const Side& side, const Norm& norm, Normed& kept);
  float* last_norm_back(float* dx, const Side& side, const Norm& norm, const Normed& kept);
  const float* encode(const Side& src, const int32_t* ids, Stack<EncoderState>& kept);
  void encode_back(const Side& src, const int32_t* ids, const Stack<EncoderState>& kept, float* dmemory);
  const float* decode(const Side& tgt, const int32_t* ids, const float* memory, const Side& src, Stack<DecoderState>& kept);
  void decode_back(const Side& tgt, const int32_t* ids, const Side& src, const Stack<DecoderState>& kept, float* dx, float* dmemory);
  double loss(const float* hidden, const Side& side, const int32_t* targets, float* dhidden);
  Mask mask(uint32_t site) const;
  float* gradient(int parameter) const { return gradients_[parameter]; }
  float* rows(const Side& side) { return arena_.take(int64_t(side.rows()) * d_); }

  const Network& net_;
  const TrainKernels& kernels_;
  const int d_;
  Arena arena_;
  Task task_{};
  uint32_t next_site_ = 0;
  float* const* gradients_ = nullptr;
};

}  // namespace dragoman
