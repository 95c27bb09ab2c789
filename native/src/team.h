// Threads that work on the same rows together: each computes its columns of every matrix product, and waits for the others
// where the next step needs all columns. A product of one row takes some microseconds, so waiting must cost less than
// that: it spins first, and sleeps only when the others were evidently interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>

namespace dragoman {

class Barrier {
 public:
  explicit Barrier(int members) : members_(members) {}

  void wait() {
    uint32_t round = round_.load();
    if (waiting_.fetch_add(1) == members_ - 1) {
      waiting_.store(0);
      round_.fetch_add(1);
      if (sleeping_.load() > 0) round_.notify_all();
      return;
    }
    auto must_wait = [&] { return round_.load() == round && !is_abandoned_.load(); };
    for (int spins = 0; spins < kSpins && must_wait(); spins++) pause();
    if (must_wait()) {
      sleeping_.fetch_add(1);
      while (must_wait()) round_.wait(round);
      sleeping_.fetch_sub(1);
    }
    if (is_abandoned_.load()) throw std::runtime_error("another thread of the team has failed");
  }

  // For a member that cannot go on: whoever waits, now or later, gets an exception instead of waiting for ever.
  void abandon() {
    is_abandoned_ = true;
    round_.fetch_add(1);
    round_.notify_all();
  }

 private:
  static constexpr int kSpins = 4000;

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const int members_;
  alignas(64) std::atomic<int> waiting_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> is_abandoned_{false};
};

// One member's place in a team. A team of one waits for nobody.
struct Member {
  Barrier* barrier = nullptr;
  int index = 0;
  int members = 1;

  void wait() const {
    if (members > 1) barrier->wait();
  }

  // This member's share of `count` things.
  int begin(int count) const { return int(int64_t(count) * index / members); }
  int end(int count) const { return int(int64_t(count) * (index + 1) / members); }
};

}  // namespace dragoman
