// Many sentences on several threads. With as many sentences as threads or more each thread searches its own, which needs no
// waiting at all; with fewer, all threads form one team.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "search.h"

namespace dragoman {

class Job {
 public:
  Job(const Model& model, Workspaces* workspaces, Settings settings, std::vector<Request> requests, int threads);
  ~Job();

  // See dragoman_job_next; throws what a thread has thrown.
  int next(int milliseconds);

  const std::vector<Hypothesis>& result(int sentence) const { return results_.at(sentence); }

 private:
  struct Round;

  void stop();
  void run(Round* round, const Member& me);
  bool prepare(Round* round);
  void conclude(Round* round);
  void admit(Round* round);
  void deliver(int sentence, std::vector<Hypothesis> answer);
  void fail();

  const Model& model_;
  Workspaces* const workspaces_;
  const Settings settings_;
  const std::vector<Request> requests_;
  std::vector<std::vector<Hypothesis>> results_;

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t waiting_ = 0;           // the first request that nobody has taken
  std::deque<int> finished_;
  int returned_ = 0;
  std::exception_ptr failure_;
  std::atomic<bool> is_stopped_{false};
  int slots_ = 0;  // sentences a team searches at once

  std::vector<std::unique_ptr<Round>> rounds_;
  std::vector<std::thread> threads_;
};

int processors();

}  // namespace dragoman
