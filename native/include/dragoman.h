// The C interface of dragoman's CPU engine: what Python calls, and all it calls.
//
// Every function may be called from any thread; a model is read-only after it was made. Functions that can fail return
// NULL or a negative number, and dragoman_error() then tells the calling thread why. No function prints, and none lets
// an exception out.
#ifndef DRAGOMAN_H
#define DRAGOMAN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DRAGOMAN_API __attribute__((visibility("default")))
#define DRAGOMAN_VERSION 7

// int8 weights lie between this and its negative. An instruction set that takes fewer bits makes a copy of its own.
#define DRAGOMAN_LARGEST_WEIGHT 127

// Sizes are padded so that no kernel needs a slow tail: widths of rows to 64, columns of matrices to 16, the width of
// a head to 16. What is added is zero and stays zero.

typedef struct {
  int32_t is_int8;      // 0: float32 weights, 1: int8
  int32_t outputs;      // columns of the result, without padding
  int32_t inputs;       // columns of what it is multiplied with, without padding
  const void* weights;  // [outputs16 / 16][inputs64 / 4][16][4] int8, or [outputs16 / 16][inputs64][16] float32
  const float* scales;  // [outputs16]: float weight = int8 weight * scale; NULL for float32
  const int32_t* sums;  // [outputs16]: sum of a column's int8 weights; NULL for float32
  const float* bias;    // [outputs16] or NULL
} dragoman_matrix;

typedef struct {
  const float* gamma;  // [d_model64]
  const float* beta;   // [d_model64]
} dragoman_norm;

enum { DRAGOMAN_RELU, DRAGOMAN_GELU, DRAGOMAN_SWIGLU, DRAGOMAN_GEGLU };

// A model: its sizes, and pointers to memory that the caller keeps alive and unchanged as long as the model lives.
typedef struct {
  int32_t d_model, num_heads, d_ff, num_encoder_layers, num_decoder_layers;
  int32_t src_vocab, tgt_vocab;  // rows of the embeddings
  int32_t pieces;                // target ids that a tokenizer knows; those from here on are never produced
  int32_t pad, bos, eos;
  int32_t norm_first;       // 1: pre-norm
  int32_t activation;       // see above; the gated ones have 2 d_ff inner outputs, the gate first
  int32_t positions;        // rows of both tables: the longest source, and the longest target, that can be served
  int32_t is_cache_float;   // 1: keys and values are kept as float32; 0: as bfloat16
  const float* src_embedding;  // [src_vocab][d_model], without the factor sqrt(d_model)
  const float* tgt_embedding;  // [tgt_vocab][d_model]
  const float* src_positions;  // [positions][d_model]
  const float* tgt_positions;
  // Encoder layers, then decoder layers, then the output layer. H = num_heads * (head_dim padded to 16).
  //   encoder: query|key|value [3H <- d_model], out [d_model <- H], inner [d_ff (2 d_ff) <- d_model], outer
  //   decoder: query|key|value, out, cross query [H <- d_model], cross key|value [2H <- d_model], cross out, inner, outer
  //   output [tgt_vocab <- d_model]
  const dragoman_matrix* matrices;
  // Encoder layers: after self-attention, after feed-forward (or before them: norm_first); decoder layers: self, cross,
  // feed-forward; with norm_first then the encoder's last norm and the decoder's.
  const dragoman_norm* norms;
} dragoman_plan;

typedef struct {
  int32_t beam_size, n_best;
  double length_penalty;
  int32_t is_gnmt;          // length normalisation ((5 + n) / 6)^a instead of n^a
  int32_t no_repeat_ngram;  // behind the prefix no n-gram of so many ids twice in a target; 0: all may repeat
  const int32_t* suppress;  // ids never produced
  int32_t num_suppress;
} dragoman_search;

typedef struct dragoman_model dragoman_model;
typedef struct dragoman_job dragoman_job;
typedef struct dragoman_state dragoman_state;

// Why the last call of this thread failed; valid until its next call.
DRAGOMAN_API const char* dragoman_error(void);

// DRAGOMAN_VERSION of the library that was loaded.
DRAGOMAN_API int32_t dragoman_version(void);

// The instruction set in use: that of the environment variable DRAGOMAN_ISA, or the best of this processor. NULL when
// the variable names one that this processor or this build does not have.
DRAGOMAN_API const char* dragoman_isa(void);

// All instruction sets of this build that this processor has, the best first, separated by spaces.
DRAGOMAN_API const char* dragoman_isas(void);

// Instruction sets of this build that this processor has, but that the system does not let this process use, likewise.
DRAGOMAN_API const char* dragoman_refused(void);

// Processors this process may use.
DRAGOMAN_API int32_t dragoman_processors(void);

DRAGOMAN_API dragoman_model* dragoman_model_new(const dragoman_plan* plan);
DRAGOMAN_API void dragoman_model_free(dragoman_model* model);

// Beam search of many sentences, in threads of its own. Ids of sentence i are ids[offsets[i]] .. ids[offsets[i + 1]];
// its target begins with the prefix given likewise, and has at most max_length[i] tokens (prefix and EOS included) and
// at least min_length[i] before EOS. Everything is copied.
DRAGOMAN_API dragoman_job* dragoman_job_new(const dragoman_model* model, const dragoman_search* search, int32_t sentences,
                                            const int32_t* ids, const int64_t* offsets, const int32_t* prefix,
                                            const int64_t* prefix_offsets, const int32_t* max_length,
                                            const int32_t* min_length, int32_t threads);

// The next finished sentence; -1 when none finished in that many milliseconds, -2 when all were returned, -3 on error.
DRAGOMAN_API int32_t dragoman_job_next(dragoman_job* job, int32_t milliseconds);

// Hypotheses of a finished sentence (0 when nothing was possible), and the sum of their tokens, EOS included.
DRAGOMAN_API int32_t dragoman_job_hypotheses(const dragoman_job* job, int32_t sentence);
DRAGOMAN_API int64_t dragoman_job_tokens(const dragoman_job* job, int32_t sentence);

// Copies them out, best first: of each hypothesis its log-probability, its score, its number of tokens and whether the
// last of these is EOS; and the tokens of all of them with their log-probabilities, one after the other.
DRAGOMAN_API void dragoman_job_result(const dragoman_job* job, int32_t sentence, double* log_probs, double* scores,
                                      int32_t* lengths, int32_t* ended, int32_t* ids, double* token_log_probs);

// Stops what still runs, and waits for it.
DRAGOMAN_API void dragoman_job_free(dragoman_job* job);

// Log-probability of each token of given targets after those before it; targets are laid out like sources, with EOS if that
// is to be scored, and log_probs has a number for each of their ids. Nothing is computed for an empty target. In the calling
// thread. 0, or -1 on error.
DRAGOMAN_API int32_t dragoman_score(const dragoman_model* model, int32_t pairs, const int32_t* ids, const int64_t* offsets,
                                    const int32_t* targets, const int64_t* target_offsets, float* log_probs);

// One step at a time, for searches that are written elsewhere. A state is a value: no function changes one.
DRAGOMAN_API dragoman_state* dragoman_state_start(const dragoman_model* model, int32_t sentences, const int32_t* ids,
                                                  const int64_t* offsets);
DRAGOMAN_API dragoman_state* dragoman_state_select(const dragoman_state* state, const int64_t* rows, int32_t count);
DRAGOMAN_API dragoman_state* dragoman_state_join(const dragoman_state* state, const dragoman_state* other);
DRAGOMAN_API int32_t dragoman_state_rows(const dragoman_state* state);
DRAGOMAN_API void dragoman_state_free(dragoman_state* state);

// Feeds ids[rows]. Wanted are any of: the k likeliest next tokens (top_ids, top_log_probs [rows][k], best first, equal
// ones by ascending id; k = 0: none), log-probabilities of all (all [rows][tgt_vocab] or NULL), and how much the last
// layer looked at each source token, mean over its heads (attention [rows][attention_width] or NULL).
DRAGOMAN_API dragoman_state* dragoman_state_step(const dragoman_state* state, const int32_t* ids, int32_t k,
                                                 int32_t* top_ids, float* top_log_probs, float* all, float* attention,
                                                 int32_t attention_width);

// Training (see docs/notes/0009-training.md). The numbers belong to the caller, who keeps them where they are as long as
// the trainer lives; gradients are float32 and written there too.
typedef struct {
  int32_t d_model, num_heads, d_ff, num_encoder_layers, num_decoder_layers;
  int32_t src_vocab, tgt_vocab;
  int32_t norm_first, activation;
  int32_t is_half;  // 1: factors of matrix products are rounded to bfloat16; sums and everything else stay float32
  int32_t dropped;  // dropout, of 65536 numbers
  int32_t positions;  // rows of the tables of positions
  int32_t threads;
  int32_t parameters;
  // Numbers of the parameters: embedding of the source, of the target, output matrix, learned positions of the source,
  // of the target (-1: fixed), first of the layers. Layers follow each other, each with query, key|value, output
  // (weight, bias), norm (gamma, beta), in the decoder the same for cross-attention, then inner, outer, norm; with
  // norm_first then the encoder's last norm and the decoder's. Matrices are [outputs][inputs].
  int32_t first[6];
  const float* src_positions;  // [positions][d_model]; read where the positions are fixed
  const float* tgt_positions;
  float* const* weights;    // of each parameter
  float* const* gradients;  // the same for parameters that are one
  const int64_t* counts;
} dragoman_network;

typedef struct {
  int32_t count;
  const int32_t* src;  // ids with EOS, one pair after the other
  const int64_t* src_offsets;
  const int32_t* tgt_in;   // BOS and ids
  const int32_t* tgt_out;  // ids and EOS
  const int64_t* tgt_offsets;
} dragoman_pairs;

typedef struct {
  float rate, beta1, beta2, epsilon;
  float correction1, correction2;  // 1 - beta^update
  float scale;                     // what the gradient is multiplied with
  float keep;                      // of the running average of the weights: average = keep * average + (1 - keep) * weights
  const float* decays;             // of each parameter, decoupled
} dragoman_adam;

// How a matrix of `stride` columns is cut into blocks in each of which all directions move alike; of one whose rows are 0,
// each number is moved by Adam.
typedef struct {
  int32_t rows, columns, stride;
} dragoman_block;

typedef struct {
  float momentum, size, margin, tiny;
  int32_t rounds;
  const float* polynomials;      // [rounds][3]
  const dragoman_block* blocks;  // of each parameter
} dragoman_orthogonal;

typedef struct dragoman_trainer dragoman_trainer;

// Whether the instruction set in use multiplies bfloat16 faster than float32.
DRAGOMAN_API int32_t dragoman_has_bfloat16(void);

DRAGOMAN_API dragoman_trainer* dragoman_trainer_new(const dragoman_network* network);
DRAGOMAN_API void dragoman_trainer_free(dragoman_trainer* trainer);

// Summed loss of the pairs (label-smoothed cross-entropy over all target tokens) and the gradient of scale * loss, added
// to what is there or in place of it; dropout is drawn from `seed`. 0, or -1 on error.
DRAGOMAN_API int32_t dragoman_trainer_gradient(dragoman_trainer* trainer, const dragoman_pairs* pairs, uint32_t seed,
                                               float smoothing, float scale, int32_t is_added, double* loss);

// Length of the whole gradient; negative on error.
DRAGOMAN_API double dragoman_trainer_norm(dragoman_trainer* trainer);

// One update of weights, moments and average, each given for every parameter. Matrices that are cut into blocks need no
// squares, and have their momentum in place of the mean; rate, scale, keep and decays are theirs too. 0, or -1 on error.
DRAGOMAN_API int32_t dragoman_trainer_update(dragoman_trainer* trainer, const dragoman_adam* adam,
                                             const dragoman_orthogonal* orthogonal, float* const* means,
                                             float* const* squares, float* const* averages);

// The factors (0 or 1 / (1 - rate)) that dropout number `site` gives these rows of width `width`. Sites: embedding of the
// source, of the target, then the sub-layers of the encoder, then those of the decoder.
DRAGOMAN_API void dragoman_dropout(uint32_t seed, uint32_t site, uint32_t dropped, int64_t first_row, int32_t rows,
                                   int32_t width, float* out);

#ifdef __cplusplus
}
#endif
#endif
