#include "trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace dragoman {
namespace {

constexpr int64_t kPiece = 1 << 14;  // numbers whose squares are added up apart
constexpr int64_t kChunk = 768;  // tokens of a pass: many rows for the products, few enough for the caches

int64_t tokens(const Pairs& pairs, int first, int last) {
  return pairs.src_offsets[last] - pairs.src_offsets[first] + pairs.tgt_offsets[last] - pairs.tgt_offsets[first];
}

}  // namespace

Trainer::Trainer(const dragoman_network& n, const TrainKernels& kernels)
    : network_(n, kernels), crew_(n.threads), weights_(n.weights, n.weights + n.parameters), gradients_(n.gradients, n.gradients + n.parameters) {
  std::map<float*, int64_t> place;
  int64_t all = 0;
  for (int p = 0; p < network_.parameters(); p++)
    if (place.emplace(gradients_[p], all).second) {
      distinct_.push_back(p);
      for (int64_t first = 0; first < network_.count(p); first += kPiece)
        pieces_.emplace_back(gradients_[p] + first, std::min(kPiece, network_.count(p) - first));
      all += up(network_.count(p), kBlock);
    }
  for (int member = 0; member < crew_.members(); member++) {
    passes_.push_back(std::make_unique<Pass>(network_));
    orthogonals_.emplace_back(kernels, network_.products());
    of_member_.push_back(gradients_);
    if (member == 0) continue;
    float* memory = memories_.emplace_back(size_t(all)).data();
    for (int p = 0; p < network_.parameters(); p++) of_member_[member][p] = memory + place[gradients_[p]];
  }
}

void Trainer::check(const Pairs& pairs) const {
  auto side = [&](const char* name, const int32_t* ids, const int64_t* offsets, int vocab) {
    for (int i = 0; i < pairs.count; i++) {
      int64_t length = offsets[i + 1] - offsets[i];
      if (length < 1 || length > network_.sizes.positions)
        throw std::invalid_argument(std::string(name) + " of pair " + std::to_string(i) + " has " + std::to_string(length) +
                                    " tokens; 1 to " + std::to_string(network_.sizes.positions) + " are possible");
    }
    for (int64_t i = offsets[0]; i < offsets[pairs.count]; i++)
      if (ids[i] < 0 || ids[i] >= vocab)
        throw std::invalid_argument(std::string(name) + " has id " + std::to_string(ids[i]) + " of a vocabulary of " + std::to_string(vocab));
  };
  side("the source", pairs.src, pairs.src_offsets, network_.sizes.src_vocab);
  side("the target", pairs.tgt_in, pairs.tgt_offsets, network_.sizes.tgt_vocab);
  side("the target", pairs.tgt_out, pairs.tgt_offsets, network_.sizes.tgt_vocab);
}

// Which pairs each member takes: about as many tokens each.
std::vector<int> Trainer::shares(const Pairs& pairs) const {
  std::vector<int> edges = {0};
  int64_t all = tokens(pairs, 0, pairs.count);
  for (int member = 1, i = 0; member <= crew_.members(); member++) {
    while (i < pairs.count && 2 * tokens(pairs, 0, i) + tokens(pairs, i, i + 1) <= 2 * all * member / crew_.members()) i++;
    edges.push_back(member == crew_.members() ? pairs.count : i);
  }
  return edges;
}

double Trainer::run(Task task, bool is_added) {
  const Pairs& pairs = *task.pairs;
  check(pairs);
  std::vector<int> edges = shares(pairs);
  std::vector<double> losses(crew_.members());
  crew_.run([&](int member) {
    network_.pack(member, crew_.members());
    clear(member, is_added);
  });
  crew_.run([&](int member) {
    int end = edges[member + 1];
    for (int first = edges[member], last; first < end; first = last) {
      for (last = first + 1; last < end && tokens(pairs, first, last + 1) <= kChunk;) last++;
      losses[member] += passes_[member]->run(task, first, last, of_member_[member].data());
    }
  });
  if (crew_.members() > 1) crew_.run([&](int member) { collect(member); });
  double total = 0;
  for (double one : losses) total += one;
  return total;
}

void Trainer::clear(int member, bool is_added) {
  for (int p : distinct_) {
    if (member > 0) {
      std::memset(of_member_[member][p], 0, sizeof(float) * network_.count(p));
    } else if (!is_added) {
      std::memset(gradients_[p], 0, sizeof(float) * network_.count(p));
    }
  }
}

// The members' gradients into one, always in the same order.
void Trainer::collect(int member) {
  for (int p : distinct_) {
    int64_t first = edge(network_.count(p), member), last = edge(network_.count(p), member + 1);
    for (int other = 1; other < crew_.members(); other++)
      network_.kernels.add(of_member_[other][p] + first, last - first, 1, gradients_[p] + first);
  }
}

// The same bits for any number of members.
double Trainer::norm() {
  std::vector<double> squares(pieces_.size());
  crew_.run([&](int member) {
    for (size_t i = member; i < pieces_.size(); i += crew_.members())
      squares[i] = network_.kernels.sum_of_squares(pieces_[i].first, pieces_[i].second);
  });
  double total = 0;
  for (double one : squares) total += one;
  return std::sqrt(total);
}

void Trainer::update(const dragoman_adam& a, const dragoman_orthogonal& orthogonal, float* const* means,
                     float* const* squares, float* const* averages) {
  std::vector<Block> blocks;
  int64_t all = 0;
  for (int p : distinct_)
    for (const Block& block : cut(p, network_.count(p), orthogonal.blocks[p])) blocks.push_back(block), all += block.cost();
  for (const Block& block : blocks)
    for (Orthogonal& one : orthogonals_) one.reserve(block);
  crew_.run([&](int member) {
    int64_t done = 0;
    for (const Block& block : blocks) {  // each whole, so that it does not matter who takes it
      int p = block.parameter;
      if (done * crew_.members() / all == member)
        orthogonals_[member].update(block, a, orthogonal, gradients_[p], weights_[p], means[p], averages[p]);
      done += block.cost();
    }
    for (int p : distinct_) {
      if (orthogonal.blocks[p].rows) continue;
      int64_t first = edge(network_.count(p), member), last = edge(network_.count(p), member + 1);
      Adam adam = {a.rate, a.beta1, a.beta2, a.epsilon, a.decays[p], a.correction1, a.correction2, a.scale, a.keep};
      network_.kernels.update(adam, last - first, gradients_[p] + first, weights_[p] + first, means[p] + first, squares[p] + first,
                              averages[p] + first);
    }
  });
}

}  // namespace dragoman
