// The memory that a team computes in, kept between jobs: to get tens of megabytes from the system, cleared, costs a
// short job some per cent of its time.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "forward.h"

namespace dragoman {

struct Workspace {
  Workspace(const Model& model, int members) : members(members), forward(model, members) {}

  int members;
  Forward forward;
  std::vector<Buffer<std::byte>> cells, memories;  // that no sentence uses
};

class Workspaces {
 public:
  explicit Workspaces(const Model& model) : model_(model) {}

  std::unique_ptr<Workspace> take(int members) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::unique_ptr<Workspace>& one : idle_)
      if (one->members == members) {
        std::swap(one, idle_.back());
        std::unique_ptr<Workspace> taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
      }
    return std::make_unique<Workspace>(model_, members);
  }

  void give(std::unique_ptr<Workspace> workspace) {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(workspace));
  }

 private:
  const Model& model_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace dragoman
