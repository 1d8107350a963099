// passes: the order of passes, and which of them go together.
#include "load/passes.h"

#include <algorithm>

#include "sample/merged/merged.h"

namespace gz {

bool deliver_alike(const LoadPlan& a, const LoadPlan& b) {
  const auto same_part = [](const Part& p, const Part& q) {
    return p.file == q.file && p.matrix == q.matrix && p.by_edge == q.by_edge && p.out_dtype == q.out_dtype &&
           p.type == q.type;
  };
  const auto& edges = a.graph.edge_types();
  if (a.graph.typed() != b.graph.typed() || edges.size() != b.graph.edge_types().size()) return false;
  for (size_t e = 0; e < edges.size(); ++e) {
    if (&a.graph.topology(e) != &b.graph.topology(e)) return false;
  }
  return std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part) &&
         a.options.edge_order == b.options.edge_order && a.options.io == b.options.io &&
         a.options.cache == b.options.cache && a.options.held == b.options.held && a.feeds_device == b.feeds_device &&
         merged_supported(a.options.sample, a.seeds->timed()) == merged_supported(b.options.sample, b.seeds->timed());
}

std::shared_ptr<const Pass> Passes::of(uint64_t number) const {
  const auto after = [&](const auto& pass) { return number < pass->end(); };
  const auto it = std::find_if(passes_.begin(), passes_.end(), after);
  return it != passes_.end() ? *it : passes_.back();
}

void Passes::add(std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share) {
  const EpochBatches batches = epoch_batches(*plan, epoch, share);
  const uint64_t begin = passes_.empty() ? 0 : end();
  passes_.push_back(std::make_shared<const Pass>(Pass{std::move(plan), epoch, share, batches, begin}));
}

bool Passes::is_next(const LoadPlan& plan, uint64_t epoch, const Share& share) const {
  return passes_.size() > 1 && passes_[1]->plan.get() == &plan && passes_[1]->epoch == epoch &&
         passes_[1]->share == share;
}

}  // namespace gz
