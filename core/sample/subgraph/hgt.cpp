// hgt: budgets, draws, and the edges between what was drawn.
#include "sample/subgraph/hgt.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/ids.h"
#include "base/interrupt.h"
#include "base/random.h"
#include "base/threads.h"
#include "sample/rows/draw.h"
#include "sample/subgraph/growing.h"
#include "sample/subgraph/induce.h"

namespace gz {
namespace {

constexpr uint64_t kStream = 0x746768;  // "hgt": separate from other draws of the same seed

// The nodes of one type: those that were sampled, and the budgets of those that may be.
class Budgets {
 public:
  std::vector<int64_t> nodes;
  std::vector<int64_t> num_sampled;

  void sample(int64_t node) {
    nodes.push_back(node);
    sampled_.insert(node);
  }

  void add(int64_t node, double share) {
    if (sampled_.count(node) != 0) return;
    const auto [at, fresh] = places_.try_emplace(node, candidates_.size());
    if (fresh) {
      candidates_.push_back(node);
      budgets_.push_back(0);
    }
    budgets_[at->second] += share;
  }

  // Draws up to `count` candidates, in the order of the draws; all of them, in the order they were met, where there are
  // no more.
  void draw(size_t count, Random random) {
    std::vector<int64_t> drawn(std::min(count, candidates_.size()));
    if (count >= candidates_.size()) {
      for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = static_cast<int64_t>(i);
    } else {
      std::vector<double> sums;
      double sum = 0;
      for (const double budget : budgets_) sums.push_back(sum += budget * budget);
      WeightedScratch scratch;
      const auto weight_of = [&](size_t i) { return budgets_[i] * budgets_[i]; };
      drawn.resize(draw_weighted_distinct(random, sums, weight_of, count, drawn.data(), scratch));
    }
    std::vector<bool> gone(candidates_.size());
    for (const int64_t i : drawn) {
      gone[static_cast<size_t>(i)] = true;
      sample(candidates_[static_cast<size_t>(i)]);
    }
    remove(gone);
  }

 private:
  void remove(const std::vector<bool>& gone) {
    size_t kept = 0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (gone[i]) {
        places_.erase(candidates_[i]);
        continue;
      }
      candidates_[kept] = candidates_[i];
      budgets_[kept] = budgets_[i];
      places_[candidates_[i]] = kept++;
    }
    candidates_.resize(kept);
    budgets_.resize(kept);
  }

  std::unordered_set<int64_t> sampled_;
  std::vector<int64_t> candidates_;  // in the order they were reached
  std::vector<double> budgets_;
  std::unordered_map<int64_t, size_t> places_;  // among the candidates
};

// Lets the nodes from `begin[t]` on raise the budgets of their neighbours.
void spend(std::span<const EdgeType> edge_types, std::vector<Budgets>& types, const std::vector<size_t>& begin) {
  std::vector<std::vector<int64_t>> fresh;
  for (size_t t = 0; t < types.size(); ++t) {
    std::unordered_set<int64_t> seen;
    auto& nodes = fresh.emplace_back();
    for (size_t i = begin[t]; i < types[t].nodes.size(); ++i) {
      if (seen.insert(types[t].nodes[i]).second) nodes.push_back(types[t].nodes[i]);
    }
  }
  for (const EdgeType& type : edge_types) {
    type.topology->visit(type.direction, [&](const auto& csr) {
      for (const int64_t node : fresh[type.target]) {
        check_interrupt();
        const auto row = csr.row(static_cast<uint64_t>(node));
        const double share = 1.0 / static_cast<double>(row.degree());
        for (uint64_t at = row.begin; at < row.end; ++at) {
          types[type.source].add(static_cast<int64_t>(csr.neighbour(at)), share);
        }
      }
    });
    type.topology->file().check();
  }
}

void check_counts(std::span<const NodeType> node_types, const std::vector<std::vector<int64_t>>& counts) {
  if (counts.size() != node_types.size()) fail<ArgumentError>("num_samples has ", counts.size(), " node types");
  if (counts.empty() || counts[0].empty()) fail<ArgumentError>("num_samples is empty, expected one number per hop");
  for (size_t t = 0; t < counts.size(); ++t) {
    for (const int64_t count : counts[t]) {
      if (count >= 0 && static_cast<uint64_t>(count) < kMostLabels) continue;
      fail<ArgumentError>("num_samples of '", node_types[t].name, "' has ", count, ", expected 0 to ", kMostLabels - 1);
    }
  }
}

}  // namespace

HeteroSubgraph sample_hgt(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                          std::span<const TypedSeeds> seeds, const std::vector<std::vector<int64_t>>& counts,
                          uint64_t seed, int threads) {
  check_counts(node_types, counts);
  std::vector<Budgets> types(node_types.size());
  for (const TypedSeeds& part : seeds) {
    const NodeType& type = node_types[part.type];
    check_ids(part.nodes, "seeds", {type.num_nodes, "nodes", "node type '" + type.name + "'"});
    if (part.nodes.size() >= kMostLabels)
      fail<ArgumentError>(part.nodes.size(), " seeds, expected below ", kMostLabels);
    for (const int64_t node : part.nodes) types[part.type].sample(node);
  }
  std::vector<size_t> begin(types.size());
  for (Budgets& type : types) type.num_sampled.push_back(static_cast<int64_t>(type.nodes.size()));
  for (size_t hop = 0; hop < counts[0].size(); ++hop) {
    spend(edge_types, types, begin);
    for (size_t t = 0; t < types.size(); ++t) {
      begin[t] = types[t].nodes.size();
      types[t].draw(static_cast<size_t>(counts[t][hop]), Random(make_key(seed, kStream, hop, t)));
      types[t].num_sampled.push_back(static_cast<int64_t>(types[t].nodes.size() - begin[t]));
    }
  }
  HeteroSubgraph made;
  std::vector<std::span<const int64_t>> nodes;
  for (Budgets& type : types) {
    SampledNodes& part = made.nodes.emplace_back();
    part.node = {take_buffer(std::max<size_t>(type.nodes.size(), 1) * sizeof(int64_t)), type.nodes.size()};
    std::copy(type.nodes.begin(), type.nodes.end(), part.node.data());
    part.num_sampled_nodes = std::move(type.num_sampled);
    nodes.push_back(part.node.span());
  }
  made.edges = induced_edges(edge_types, nodes, resolve_threads(threads));
  return made;
}

}  // namespace gz
