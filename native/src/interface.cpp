// The C interface: checks what comes in, and turns exceptions into messages.
#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "job.h"
#include "scoring.h"
#include "state.h"
#include "train/trainer.h"

struct dragoman_model {
  explicit dragoman_model(const dragoman_plan& plan) : model(plan), workspaces(model) {}

  const dragoman::Model model;
  mutable dragoman::Workspaces workspaces;  // takes care of itself, so that a model is the same for all threads
};
struct dragoman_job {
  dragoman::Job job;
};
struct dragoman_state {
  std::unique_ptr<dragoman::State> state;
};
struct dragoman_trainer {
  dragoman::Trainer trainer;
};

namespace {

using dragoman::Model;

thread_local std::string error;

template <typename F, typename R>
R guarded(R failed, F call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    error = "out of memory";
  } catch (const std::exception& what) {
    error = what.what();
  } catch (...) {
    error = "unknown failure";
  }
  return failed;
}

void check_ids(const char* what, const std::vector<int32_t>& ids, int vocabulary) {
  for (int32_t id : ids)
    if (id < 0 || id >= vocabulary)
      throw std::invalid_argument(std::string(what) + " id " + std::to_string(id) + " is outside the vocabulary of " +
                                  std::to_string(vocabulary));
}

std::vector<int32_t> slice(const int32_t* ids, const int64_t* offsets, int at) {
  if (offsets[at] < 0 || offsets[at + 1] < offsets[at]) throw std::invalid_argument("offsets must ascend");
  return std::vector<int32_t>(ids + offsets[at], ids + offsets[at + 1]);
}

std::vector<int32_t> source(const Model& model, const int32_t* ids, const int64_t* offsets, int at) {
  std::vector<int32_t> taken = slice(ids, offsets, at);
  check_ids("source", taken, model.plan.src_vocab);
  if (taken.empty() || int(taken.size()) > model.plan.positions)
    throw std::invalid_argument("a source of " + std::to_string(taken.size()) + " tokens does not fit into the 1 to " +
                                std::to_string(model.plan.positions) + " positions of this model");
  return taken;
}

}  // namespace

extern "C" {

const char* dragoman_error(void) { return error.c_str(); }

int32_t dragoman_version(void) { return DRAGOMAN_VERSION; }

const char* dragoman_isa(void) {
  return guarded<>(static_cast<const char*>(nullptr), [] { return dragoman::kernels().name; });
}

const char* dragoman_isas(void) {
  return guarded<>(static_cast<const char*>(nullptr), [] {
    static const std::string names = [] {
      int count;
      const dragoman::Kernels* const* all = dragoman::all_kernels(&count);
      std::string joined;
      for (int i = 0; i < count; i++) joined += std::string(i ? " " : "") + all[i]->name;
      return joined;
    }();
    return names.c_str();
  });
}

const char* dragoman_refused(void) { return dragoman::refused_kernels(); }

int32_t dragoman_processors(void) { return dragoman::processors(); }

dragoman_model* dragoman_model_new(const dragoman_plan* plan) {
  return guarded<>(static_cast<dragoman_model*>(nullptr), [&] { return new dragoman_model(*plan); });
}

void dragoman_model_free(dragoman_model* model) { delete model; }

dragoman_job* dragoman_job_new(const dragoman_model* model, const dragoman_search* search, int32_t sentences, const int32_t* ids,
                               const int64_t* offsets, const int32_t* prefix, const int64_t* prefix_offsets,
                               const int32_t* max_length, const int32_t* min_length, int32_t threads) {
  return guarded<>(static_cast<dragoman_job*>(nullptr), [&] {
    const Model& m = model->model;
    std::vector<dragoman::Request> requests;
    for (int i = 0; i < sentences; i++) {
      dragoman::Request request{source(m, ids, offsets, i), slice(prefix, prefix_offsets, i), max_length[i], min_length[i]};
      check_ids("prefix", request.prefix, m.plan.tgt_vocab);
      if (request.max_length < 1 || request.max_length > m.plan.positions || int(request.prefix.size()) > request.max_length)
        throw std::invalid_argument("a target of " + std::to_string(request.max_length) + " tokens does not fit into the " +
                                    std::to_string(m.plan.positions) + " positions of this model, or not behind its prefix");
      requests.push_back(std::move(request));
    }
    int wanted = threads > 0 ? threads : dragoman::processors();
    return new dragoman_job{{m, &model->workspaces, dragoman::Settings(m, *search), std::move(requests), std::min(wanted, 256)}};
  });
}

int32_t dragoman_job_next(dragoman_job* job, int32_t milliseconds) {
  return guarded<>(int32_t(-3), [&] { return int32_t(job->job.next(milliseconds)); });
}

int32_t dragoman_job_hypotheses(const dragoman_job* job, int32_t sentence) {
  return guarded<>(int32_t(-1), [&] { return int32_t(job->job.result(sentence).size()); });
}

int64_t dragoman_job_tokens(const dragoman_job* job, int32_t sentence) {
  return guarded<>(int64_t(-1), [&] {
    int64_t tokens = 0;
    for (const dragoman::Hypothesis& one : job->job.result(sentence)) tokens += int64_t(one.ids.size());
    return tokens;
  });
}

void dragoman_job_result(const dragoman_job* job, int32_t sentence, double* log_probs, double* scores, int32_t* lengths,
                         int32_t* ended, int32_t* ids, double* token_log_probs) {
  guarded(0, [&] {
    for (const dragoman::Hypothesis& one : job->job.result(sentence)) {
      *log_probs++ = one.log_prob;
      *scores++ = one.score;
      *lengths++ = int32_t(one.ids.size());
      *ended++ = one.is_ended;
      ids = std::copy(one.ids.begin(), one.ids.end(), ids);
      token_log_probs = std::copy(one.token_log_probs.begin(), one.token_log_probs.end(), token_log_probs);
    }
    return 0;
  });
}

void dragoman_job_free(dragoman_job* job) { delete job; }

int32_t dragoman_score(const dragoman_model* model, int32_t pairs, const int32_t* ids, const int64_t* offsets, const int32_t* targets,
                       const int64_t* target_offsets, float* log_probs) {
  return guarded(-1, [&] {
    const Model& m = model->model;
    std::vector<dragoman::Pair> wanted;
    for (int i = 0; i < pairs; i++) {
      dragoman::Pair pair{source(m, ids, offsets, i), slice(targets, target_offsets, i)};
      check_ids("target", pair.target, m.plan.tgt_vocab);
      if (int(pair.target.size()) > m.plan.positions)
        throw std::invalid_argument("a target of " + std::to_string(pair.target.size()) + " tokens is beyond the " +
                                    std::to_string(m.plan.positions) + " positions of this model");
      if (!pair.target.empty()) wanted.push_back(std::move(pair));
    }
    std::vector<float> found = dragoman::score(m, &model->workspaces, wanted);
    std::copy(found.begin(), found.end(), log_probs);
    return 0;
  });
}

dragoman_state* dragoman_state_start(const dragoman_model* model, int32_t sentences, const int32_t* ids, const int64_t* offsets) {
  return guarded<>(static_cast<dragoman_state*>(nullptr), [&] {
    std::vector<std::vector<int32_t>> sources;
    for (int i = 0; i < sentences; i++) sources.push_back(source(model->model, ids, offsets, i));
    return new dragoman_state{dragoman::State::start(model->model, &model->workspaces, sources)};
  });
}

dragoman_state* dragoman_state_select(const dragoman_state* state, const int64_t* rows, int32_t count) {
  return guarded<>(static_cast<dragoman_state*>(nullptr), [&] { return new dragoman_state{state->state->select(rows, count)}; });
}

dragoman_state* dragoman_state_join(const dragoman_state* state, const dragoman_state* other) {
  return guarded<>(static_cast<dragoman_state*>(nullptr), [&] { return new dragoman_state{state->state->join(*other->state)}; });
}

int32_t dragoman_state_rows(const dragoman_state* state) { return state->state->rows(); }

void dragoman_state_free(dragoman_state* state) { delete state; }

dragoman_state* dragoman_state_step(const dragoman_state* state, const int32_t* ids, int32_t k, int32_t* top_ids,
                                    float* top_log_probs, float* all, float* attention, int32_t attention_width) {
  return guarded<>(static_cast<dragoman_state*>(nullptr), [&] {
    const dragoman::State& from = *state->state;
    check_ids("target", std::vector<int32_t>(ids, ids + from.rows()), from.model().plan.tgt_vocab);
    if (attention && attention_width < from.longest_source()) throw std::invalid_argument("attention needs a column for each source token");
    if (k < 0 || k > from.model().plan.tgt_vocab) throw std::invalid_argument("there are no " + std::to_string(k) + " best ids");
    return new dragoman_state{from.step(ids, k, top_ids, top_log_probs, all, attention, attention_width)};
  });
}

}  // extern "C"

dragoman_trainer* dragoman_trainer_new(const dragoman_network* network) {
  return guarded<>((dragoman_trainer*)nullptr, [&] { return new dragoman_trainer{{*network, *dragoman::kernels().training}}; });
}

int32_t dragoman_has_bfloat16(void) {
  return guarded(0, [] { return int32_t(dragoman::kernels().training->halves.is_fast); });
}

void dragoman_trainer_free(dragoman_trainer* trainer) { delete trainer; }

int32_t dragoman_trainer_gradient(dragoman_trainer* trainer, const dragoman_pairs* pairs, uint32_t seed, float smoothing, float scale,
                                  int32_t is_added, double* loss) {
  return guarded(-1, [&] { return *loss = trainer->trainer.run({pairs, seed, smoothing, scale}, is_added), 0; });
}

double dragoman_trainer_norm(dragoman_trainer* trainer) {
  return guarded(-1.0, [&] { return trainer->trainer.norm(); });
}

int32_t dragoman_trainer_update(dragoman_trainer* trainer, const dragoman_adam* adam, const dragoman_orthogonal* orthogonal,
                                float* const* means, float* const* squares, float* const* averages) {
  return guarded(-1, [&] { return trainer->trainer.update(*adam, *orthogonal, means, squares, averages), 0; });
}

void dragoman_dropout(uint32_t seed, uint32_t site, uint32_t dropped, int64_t first_row, int32_t rows, int32_t width, float* out) {
  guarded(0, [&] {
    std::fill(out, out + int64_t(rows) * width, 1.0f);
    dragoman::kernels().training->dropout(out, nullptr, rows, width, {seed, site, dropped}, first_row, out);
    return 0;
  });
}
