// The engine through its C interface, on models with random weights: a search alone, in a batch, by a team and step by
// step gives one answer; what cannot be is refused.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

#include "check.h"
#include "kernels.h"
#include "packed.h"

using namespace dragoman;

namespace {

struct Toy {
  Random random;
  dragoman_plan plan = {};
  std::vector<std::unique_ptr<PackedMatrix>> owned;
  std::vector<Matrix> matrices;
  std::vector<dragoman_norm> norms;
  std::vector<float> ones, zeros, src, tgt, places;
  dragoman_model* model;

  Toy(int seed, bool is_int8) : random(seed) {
    plan.num_heads = 1 + random.below(3);
    plan.d_model = plan.num_heads * (4 + random.below(20));
    plan.d_ff = 1 + random.below(90);
    plan.num_encoder_layers = 1 + random.below(2);
    plan.num_decoder_layers = 1 + random.below(2);
    plan.src_vocab = 20;
    plan.tgt_vocab = 10 + random.below(400);
    plan.pieces = plan.tgt_vocab - random.below(3);
    plan.bos = 1;
    plan.eos = 2;
    plan.norm_first = random.below(2);
    plan.activation = random.below(4);
    plan.positions = 40;
    plan.is_cache_float = !is_int8;
    int heads = padded(plan.d_model / plan.num_heads, 16) * plan.num_heads;
    int inner = (plan.activation >= DRAGOMAN_SWIGLU ? 2 : 1) * plan.d_ff, d = plan.d_model;
    auto add = [&](int outputs, int inputs) {
      owned.push_back(std::make_unique<PackedMatrix>(random, outputs, inputs, is_int8, 2 / std::sqrt(float(inputs))));
      matrices.push_back(owned.back()->matrix);
    };
    for (int i = 0; i < plan.num_encoder_layers; i++) add(3 * heads, d), add(d, heads), add(inner, d), add(d, plan.d_ff);
    for (int i = 0; i < plan.num_decoder_layers; i++)
      add(3 * heads, d), add(d, heads), add(heads, d), add(2 * heads, d), add(d, heads), add(inner, d), add(d, plan.d_ff);
    add(plan.tgt_vocab, d);
    ones.assign(padded(d, kWidth), 0);
    std::fill_n(ones.begin(), d, 1);
    zeros.assign(ones.size(), 0);
    norms.assign(2 * plan.num_encoder_layers + 3 * plan.num_decoder_layers + 2, {ones.data(), zeros.data()});
    src = random.normals(size_t(plan.src_vocab) * d);
    tgt = random.normals(size_t(plan.tgt_vocab) * d);
    places = random.normals(size_t(plan.positions) * d);
    plan.src_embedding = src.data(), plan.tgt_embedding = tgt.data();
    plan.src_positions = plan.tgt_positions = places.data();
    plan.matrices = matrices.data(), plan.norms = norms.data();
    model = dragoman_model_new(&plan);
    CHECK(model, "%s", dragoman_error());
  }
  Toy(const Toy&) = delete;
  ~Toy() { dragoman_model_free(model); }

  std::vector<std::vector<int32_t>> sources(int count) {
    std::vector<std::vector<int32_t>> made(count);
    for (auto& ids : made)
      for (int i = 1 + random.below(12); i > 0; i--) ids.push_back(3 + random.below(plan.src_vocab - 3));
    return made;
  }
};

struct Answer {
  std::vector<int32_t> ids, lengths;
  std::vector<double> scores, token_log_probs;
  bool operator==(const Answer&) const = default;
};

std::vector<Answer> translate(const Toy& toy, const std::vector<std::vector<int32_t>>& sources, int beam, int best, int threads,
                              int repeats = 0) {
  std::vector<int32_t> ids, most(sources.size(), 12), least(sources.size(), 0);
  std::vector<int64_t> offsets{0}, none(sources.size() + 1, 0);
  for (const auto& source : sources) {
    ids.insert(ids.end(), source.begin(), source.end());
    offsets.push_back(int64_t(ids.size()));
  }
  dragoman_search search{beam, best, 1.0, 0, repeats, nullptr, 0};
  dragoman_job* job = dragoman_job_new(toy.model, &search, int32_t(sources.size()), ids.data(), offsets.data(), nullptr, none.data(),
                                       most.data(), least.data(), threads);
  CHECK(job, "%s", dragoman_error());
  std::vector<Answer> answers(sources.size());
  for (int32_t at; (at = dragoman_job_next(job, 50)) != -2;) {
    CHECK(at != -3, "%s", dragoman_error());
    if (at < 0) continue;
    Answer& one = answers[at];
    int32_t count = dragoman_job_hypotheses(job, at);
    int64_t tokens = dragoman_job_tokens(job, at);
    std::vector<double> log_probs(count);
    std::vector<int32_t> ended(count);
    one.scores.resize(count), one.lengths.resize(count), one.ids.resize(tokens), one.token_log_probs.resize(tokens);
    dragoman_job_result(job, at, log_probs.data(), one.scores.data(), one.lengths.data(), ended.data(), one.ids.data(),
                        one.token_log_probs.data());
  }
  dragoman_job_free(job);
  return answers;
}

// Whether the last n ids stand together somewhere before as well.
bool ends_with_a_repeat(const std::vector<int32_t>& ids, int n) {
  if (!n || int(ids.size()) < n) return false;
  return std::search(ids.begin(), ids.end(), ids.end() - n, ids.end()) != ids.end() - n;
}

// Greedy search written out with states: what the job must find with a beam of 1.
std::vector<int32_t> greedy(const Toy& toy, const std::vector<int32_t>& source, int repeats = 0) {
  int64_t offsets[] = {0, int64_t(source.size())};
  dragoman_state* state = dragoman_state_start(toy.model, 1, source.data(), offsets);
  std::vector<int32_t> ids;
  std::vector<int32_t> best(toy.plan.tgt_vocab);
  std::vector<float> log_probs(toy.plan.tgt_vocab);
  int32_t newest = toy.plan.bos;
  while (ids.size() < 12 && (ids.empty() || ids.back() != toy.plan.eos)) {
    dragoman_state* next =
        dragoman_state_step(state, &newest, toy.plan.tgt_vocab, best.data(), log_probs.data(), nullptr, nullptr, 0);
    CHECK(next, "%s", dragoman_error());
    dragoman_state_free(state);
    state = next;
    ids.push_back(best[0]);
    for (int k = 1; ends_with_a_repeat(ids, repeats); k++) ids.back() = best[k];
    newest = ids.back();
  }
  dragoman_state_free(state);
  return ids;
}

// What the search says of its own answers, however many are looked at together.
void test_scores(const Toy& toy, const std::vector<std::vector<int32_t>>& sources, const std::vector<Answer>& answers) {
  std::vector<int32_t> ids, targets;
  std::vector<int64_t> offsets{0}, target_offsets{0};
  std::vector<double> wanted;
  for (size_t i = 0; i < sources.size(); i++) {
    ids.insert(ids.end(), sources[i].begin(), sources[i].end());
    offsets.push_back(int64_t(ids.size()));
    targets.insert(targets.end(), answers[i].ids.begin(), answers[i].ids.begin() + answers[i].lengths[0]);
    target_offsets.push_back(int64_t(targets.size()));
    wanted.insert(wanted.end(), answers[i].token_log_probs.begin(), answers[i].token_log_probs.begin() + answers[i].lengths[0]);
  }
  std::vector<float> found(targets.size());
  CHECK(!dragoman_score(toy.model, int32_t(sources.size()), ids.data(), offsets.data(), targets.data(), target_offsets.data(), found.data()),
        "%s", dragoman_error());
  CHECK(std::equal(found.begin(), found.end(), wanted.begin()), "an answer's score differs from the search's");
}

void test_answers(int seed, bool is_int8) {
  Toy toy(seed, is_int8);
  std::vector<std::vector<int32_t>> sources = toy.sources(40);
  std::vector<Answer> together = translate(toy, sources, 3, 2, 2);
  CHECK(together == translate(toy, sources, 3, 2, 1), "model %d: one thread and two differ", seed);
  test_scores(toy, sources, together);
  std::vector<Answer> first = translate(toy, sources, 1, 1, 3);
  for (int i = 0; i < 5; i++) {
    CHECK(translate(toy, {sources[i]}, 3, 2, 1)[0] == together[i], "model %d: sentence %d alone differs", seed, i);
    CHECK(translate(toy, {sources[i]}, 3, 2, 3)[0] == together[i], "model %d: sentence %d by a team differs", seed, i);
    CHECK(greedy(toy, sources[i]) == first[i].ids, "model %d: sentence %d step by step differs", seed, i);
    for (int n = 1; n <= 3; n++)
      CHECK(greedy(toy, sources[i], n) == translate(toy, {sources[i]}, 1, 1, 1 + n % 2, n)[0].ids,
            "model %d: sentence %d without a second %d-gram differs", seed, i, n);
  }
  CHECK(translate(toy, sources, 3, 2, 2, 2)[0] == translate(toy, {sources[0]}, 3, 2, 3, 2)[0],
        "model %d: without a second 2-gram a sentence alone differs", seed);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&] { CHECK(translate(toy, sources, 3, 2, 2) == together, "at once: differs"); });
  for (std::thread& one : threads) one.join();
}

void test_refusals() {
  Toy toy(3, true);
  auto refused = [&](auto change, const char* words) {
    dragoman_plan plan = toy.plan;
    std::vector<Matrix> matrices = toy.matrices;
    plan.matrices = matrices.data();
    change(plan, matrices);
    CHECK(!dragoman_model_new(&plan), "a bad plan was taken: %s", words);
    CHECK(std::string(dragoman_error()).find(words) != std::string::npos, "'%s' does not say '%s'", dragoman_error(), words);
  };
  refused([](auto& p, auto&) { p.d_model = -1; }, "d_model");
  refused([](auto& p, auto&) { p.d_model = 2000000000; }, "d_model");
  refused([](auto& p, auto&) { p.num_heads = p.d_model + 1; }, "num_heads");
  refused([](auto& p, auto&) { p.num_decoder_layers = 100000; }, "num_decoder_layers");
  refused([](auto& p, auto&) { p.tgt_vocab = 0; }, "target vocabulary");
  refused([](auto& p, auto&) { p.pieces = p.tgt_vocab + 1; }, "pieces");
  refused([](auto& p, auto&) { p.eos = p.tgt_vocab; }, "eos");
  refused([](auto& p, auto&) { p.positions = 0; }, "positions");
  refused([](auto& p, auto&) { p.src_embedding = nullptr; }, "missing");
  refused([](auto&, auto& m) { m[1].outputs++; }, "encoder out");
  refused([](auto&, auto& m) { m.back().weights = nullptr; }, "output");

  dragoman_search search{2, 1, 1.0, 0, 0, nullptr, 0};
  int64_t offsets[] = {0, 2}, none[] = {0, 0};
  int32_t good[] = {3, 4}, bad[] = {3, 99}, most = 10, too_many = 41, least = 0;
  auto job = [&](const int32_t* ids, const int32_t* limit, const dragoman_search& s) {
    return dragoman_job_new(toy.model, &s, 1, ids, offsets, nullptr, none, limit, &least, 1);
  };
  CHECK(!job(bad, &most, search), "an id outside the vocabulary was taken");
  CHECK(!job(good, &too_many, search), "a target beyond the positions was taken");
  CHECK(!job(good, &most, {2, 3, 1.0, 0, 0, nullptr, 0}), "more best than the beam has were taken");
  CHECK(!job(good, &most, {0, 1, 1.0, 0, 0, nullptr, 0}), "a beam of nothing was taken");
  CHECK(!job(good, &most, {2, 1, 1.0, 0, -1, nullptr, 0}), "n-grams of less than nothing were taken");
  CHECK(!dragoman_state_start(toy.model, 1, good, none), "an empty source was taken");
  float log_probs[2];
  CHECK(dragoman_score(toy.model, 1, good, offsets, bad, none, log_probs) == 0, "an empty target was not taken");
  int32_t outside[] = {3, toy.plan.tgt_vocab};
  CHECK(dragoman_score(toy.model, 1, good, offsets, outside, offsets, log_probs) == -1, "a target id outside the vocabulary was taken");
}

void test_here(int rounds) {
  for (int seed = 1; seed <= rounds; seed++) test_answers(seed, seed % 2);
  test_refusals();
  std::printf("engine on %s: %d models\n", dragoman_isa(), rounds);
}

}  // namespace

// A process has one instruction set, so each set gets a process.
void test_engine(int rounds) {
  int count;
  const Kernels* const* all = all_kernels(&count);
  for (int i = 0; i < count; i++) {
    pid_t child = fork();
    CHECK(child >= 0, "no process for %s", all[i]->name);
    if (!child) {
      setenv("DRAGOMAN_ISA", all[i]->name, 1);
      test_here(rounds);
      std::exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the engine on %s", all[i]->name);
  }
}
