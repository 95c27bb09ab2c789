#include "scoring.h"

#include <algorithm>
#include <span>

#include "search.h"

namespace dragoman {
namespace {

constexpr int kRows = 128;  // target tokens looked at together, as many as a search grows at once

// All places of a target are rows of the same step, since their tokens are known: in each layer a row's key and value are
// written before the later rows of its target look back at them.
struct Places {
  std::vector<Notebook> notebooks;
  std::vector<std::vector<void*>> cells;
  std::vector<Source> sources;
  std::vector<Row> rows;
  std::vector<Choice> choices;
};

Places lay_out(const Model& model, Workspace* workspace, const Pair* begin, const Pair* end) {
  Places places;
  for (const Pair& pair : std::span(begin, end)) {
    Notebook& notebook = places.notebooks.emplace_back(model.cell_bytes(), workspace);
    std::vector<void*>& cells = places.cells.emplace_back();
    for (size_t t = 0; t < pair.target.size(); t++) cells.push_back(notebook.fresh_cell());
    places.sources.push_back({pair.source.data(), int(pair.source.size()), notebook.memory()});
    for (size_t t = 0; t < pair.target.size(); t++) {
      places.rows.push_back({t ? pair.target[t - 1] : model.plan.bos, notebook.memory(), cells.data(), int(t) + 1});
      places.choices.push_back({model.never.data(), pair.target[t]});
    }
  }
  return places;
}

void look(Forward* forward, const Places& places, std::vector<float>* found) {
  forward->encode(Member(), places.sources);
  for (size_t begin = 0; begin < places.rows.size(); begin += kRows) {
    size_t end = std::min(begin + kRows, places.rows.size());
    std::vector<Choice> choices(places.choices.begin() + begin, places.choices.begin() + end);
    forward->step(Member(), {places.rows.begin() + begin, places.rows.begin() + end});
    forward->choose(Member(), choices, 1);
    for (size_t i = 0; i < choices.size(); i++) found->push_back(*forward->log_probs(int(i)));
  }
}

}  // namespace

std::vector<float> score(const Model& model, Workspaces* workspaces, const std::vector<Pair>& pairs) {
  std::unique_ptr<Workspace> workspace = workspaces->take(1);
  std::vector<float> found;
  const Pair *end, *last = pairs.data() + pairs.size();
  for (const Pair* begin = pairs.data(); begin < last; begin = end) {
    size_t rows = begin->target.size();
    for (end = begin + 1; end < last && rows + end->target.size() <= kRows; end++) rows += end->target.size();
    look(&workspace->forward, lay_out(model, workspace.get(), begin, end), &found);
  }
  workspaces->give(std::move(workspace));
  return found;
}

}  // namespace dragoman
