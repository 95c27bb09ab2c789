// Threads that are kept for a whole training, and do one thing together at a time.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace dragoman {

class Crew {
 public:
  explicit Crew(int members) : errors_(members) {
    for (int i = 1; i < members; i++) threads_.emplace_back([this, i] { serve(i); });
  }

  ~Crew() {
    is_over_ = true;
    round_.fetch_add(1);
    round_.notify_all();
    for (std::thread& one : threads_) one.join();
  }

  Crew(const Crew&) = delete;

  int members() const { return int(errors_.size()); }

  // work(member) in each member, the caller being number 0; returns when all are done.
  void run(const std::function<void(int)>& work) {
    work_ = &work;
    busy_ = int(threads_.size());
    round_.fetch_add(1);
    round_.notify_all();
    attempt(0);
    for (int spins = 0; busy_.load() > 0; spins++)
      if (int left = busy_.load(); left > 0 && spins > kSpins) busy_.wait(left);
    for (std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  static constexpr int kSpins = 20000;

  void serve(int member) {
    for (uint32_t seen = 0;; seen++) {
      for (int spins = 0; round_.load() == seen; spins++)
        if (spins > kSpins) round_.wait(seen);
      if (is_over_) return;
      attempt(member);
      if (busy_.fetch_sub(1) == 1) busy_.notify_all();
    }
  }

  void attempt(int member) {
    try {
      (*work_)(member);
    } catch (...) {
      errors_[member] = std::current_exception();
    }
  }

  std::atomic<uint32_t> round_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> is_over_{false};
  const std::function<void(int)>* work_ = nullptr;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace dragoman
