// Threads that are kept for a whole training, and do one thing together at a time.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "../team.h"

namespace dragoman {

class Crew {
 public:
  explicit Crew(int members) : barrier_(members), errors_(members) {
    try {
      for (int i = 1; i < members; i++) threads_.emplace_back([this, i] { serve(i); });
    } catch (...) {
      end();
      throw;
    }
  }

  ~Crew() { end(); }

  Crew(const Crew&) = delete;

  int members() const { return int(errors_.size()); }

  // work(member) in each member, the caller being number 0; returns when all are done.
  void run(const std::function<void(int)>& work) {
    work_ = &work;
    wait();
    attempt(0);
    wait();
    for (std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  void wait() {
    if (members() > 1) barrier_.wait();
  }

  void serve(int member) {
    try {
      for (;;) {
        wait();
        attempt(member);
        wait();
      }
    } catch (const std::runtime_error&) {  // the barrier was abandoned: there is nothing more to do
    }
  }

  void attempt(int member) {
    try {
      (*work_)(member);
    } catch (...) {
      errors_[member] = std::current_exception();
    }
  }

  void end() {
    barrier_.abandon();
    for (std::thread& one : threads_) one.join();
  }

  Barrier barrier_;
  const std::function<void(int)>* work_ = nullptr;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace dragoman
