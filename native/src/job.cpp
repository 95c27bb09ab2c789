#include "job.h"

#include <algorithm>
#include <chrono>

#if defined(__linux__)
#include <sched.h>
#endif

namespace dragoman {
namespace {

// Hypotheses a thread grows at once: enough for the weights to pay, which are read once a step; few enough for the rows to
// stay in its cache.
constexpr int kRows = 128;
constexpr int kMostSlots = 64, kLeastSlots = 8;

constexpr int kMostMembers = 8;  // of a team: beyond, waiting costs more than the share of each saves

#if defined(__linux__)
std::vector<int> allowed_processors() {
  cpu_set_t set;
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; i++)
      if (CPU_ISSET(i, &set)) found.push_back(i);
  return found;
}

// Members of a team wait for each other all the time: two on one processor would cost a time slice at every step.
void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}
#endif

}  // namespace

int processors() {
#if defined(__linux__)
  if (int count = int(allowed_processors().size())) return count;
#endif
  return std::max(1, int(std::thread::hardware_concurrency()));
}

// What one team is doing.
struct Job::Round {
  explicit Round(std::unique_ptr<Workspace> taken) : workspace(std::move(taken)), barrier(workspace->members) {}

  std::unique_ptr<Workspace> workspace;
  std::vector<Sentence> sentences;
  Barrier barrier;
  std::vector<Source> arrivals;
  std::vector<Row> rows;
  std::vector<Choice> choices;
  int best = 0;
  std::atomic<bool> is_over{false};
};

Job::Job(const Model& model, Workspaces* workspaces, Settings settings, std::vector<Request> requests, int threads)
    : model_(model), workspaces_(workspaces), settings_(std::move(settings)), requests_(std::move(requests)), results_(requests_.size()) {
  if (requests_.empty()) return;
  bool is_team = int(requests_.size()) < threads;
  threads = is_team ? std::min(threads, kMostMembers) : threads;
  int members = is_team ? threads : 1;
  for (int i = 0; i < (is_team ? 1 : threads); i++) rounds_.push_back(std::make_unique<Round>(workspaces->take(members)));
#if defined(__linux__)
  std::vector<int> places = allowed_processors();
  static std::atomic<unsigned> teams{0};  // so that several teams at once do not crowd on the same processors
  unsigned first_place = is_team ? members * teams.fetch_add(1) : 0;
#endif
  slots_ = std::clamp(kRows / settings_.beam_size, kLeastSlots, kMostSlots);
  for (int i = 0; i < threads; i++) try {
    Round* round = rounds_[is_team ? 0 : i].get();
    Member me{&round->barrier, is_team ? i : 0, members};
    threads_.emplace_back([=, this] {
#if defined(__linux__)
      if (is_team && int(places.size()) >= members) pin(places[(first_place + i) % places.size()]);
#endif
      run(round, me);
    });
  } catch (...) {  // the system gives no more threads
    for (std::unique_ptr<Round>& round : rounds_) round->barrier.abandon();
    stop();
    throw;
  }
}

Job::~Job() {
  stop();
  for (std::unique_ptr<Round>& round : rounds_) {
    round->sentences.clear();
    workspaces_->give(std::move(round->workspace));
  }
}

void Job::stop() {
  is_stopped_ = true;
  for (std::thread& one : threads_)
    if (one.joinable()) one.join();
}

int Job::next(int milliseconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), [&] {
    return failure_ || !finished_.empty() || returned_ == int(requests_.size());
  });
  if (failure_) std::rethrow_exception(failure_);
  if (returned_ == int(requests_.size())) return -2;
  if (finished_.empty()) return -1;
  int sentence = finished_.front();
  finished_.pop_front();
  returned_++;
  return sentence;
}

// Member 0 decides what is done next and looks at what came of it; between, all members compute.
void Job::run(Round* round, const Member& me) {
  try {
    for (;;) {
      if (me.index == 0) round->is_over = !prepare(round);
      me.wait();
      if (round->is_over) return;
      round->workspace->forward.encode(me, round->arrivals);
      round->workspace->forward.step(me, round->rows);
      round->workspace->forward.choose(me, round->choices, round->best);
      if (me.index == 0) conclude(round);
    }
  } catch (...) {
    fail();
    round->barrier.abandon();
  }
}

bool Job::prepare(Round* round) {
  if (is_stopped_) return false;
  admit(round);
  round->rows.clear();
  round->choices.clear();
  round->best = 0;
  for (Sentence& sentence : round->sentences) {
    sentence.add_rows(model_.plan.bos, &round->rows, &round->choices);
    round->best = std::max(round->best, sentence.width());
  }
  round->best = std::min(round->best, int(model_.plan.tgt_vocab));
  return !round->sentences.empty();
}

// Takes what is next when a quarter of the slots is free, since encoding several costs little more than one; and never
// more than its share of what is left, so that all threads end at the same time.
void Job::admit(Round* round) {
  round->arrivals.clear();
  int busy = int(round->sentences.size());
  std::lock_guard<std::mutex> lock(mutex_);
  int left = int(requests_.size() - waiting_), teams = int(rounds_.size());
  int room = slots_ - busy;
  if (left == 0 || (busy && room * 4 < slots_)) return;
  int taken = std::min(room, std::max(1, (left + teams - 1) / teams));
  round->sentences.reserve(slots_);
  for (int i = 0; i < taken; i++, waiting_++)
    round->sentences.emplace_back(int(waiting_), requests_[waiting_], settings_,
                                  Notebook(model_.cell_bytes(), round->workspace.get()));
  for (int i = busy; i < busy + taken; i++) round->arrivals.push_back(round->sentences[i].source());
}

void Job::conclude(Round* round) {
  std::vector<Sentence> going;
  going.reserve(slots_);
  int first = 0;
  for (Sentence& sentence : round->sentences) {
    int rows = 0;
    while (first + rows < int(round->rows.size()) && round->rows[first + rows].memory == sentence.source().memory) rows++;
    if (sentence.advance(round->workspace->forward, first, round->best, model_.plan.eos))
      deliver(sentence.index(), sentence.answer());
    else
      going.push_back(std::move(sentence));
    first += rows;
  }
  round->sentences = std::move(going);
}

void Job::deliver(int sentence, std::vector<Hypothesis> answer) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    results_[sentence] = std::move(answer);
    finished_.push_back(sentence);
  }
  changed_.notify_one();
}

void Job::fail() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  is_stopped_ = true;
  changed_.notify_one();
}

}  // namespace dragoman
