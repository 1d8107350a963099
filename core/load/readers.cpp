// readers: one per part, of the kind chosen by the division of the budget.
#include "load/readers.h"

#include <algorithm>

#include "load/divide.h"
#include "load/local.h"
#include "sweep/sweep_reader.h"

namespace gz {

Readers make_readers(const std::shared_ptr<LoadPlan>& plan, const Division& division, uint64_t requests,
                     const ReaderEvents& events) {
  std::unique_lock lock(plan->mutex);
  const auto windows = plan->windows;
  const auto wholes = plan->wholes;
  const auto group = plan->group;
  lock.unlock();
  SweepOptions options;
  options.target = division.window;
  options.most = most_window(division.window);
  options.claims = requests;
  options.gap = division.disk.gap();
  options.io = plan->options.io;
  options.starving = events.starving;
  SweepReader::Events sweep{events.ready, events.failed};
  if (group) {
    sweep.ready = [plan, ready = events.ready](uint64_t number) {
      // By try_lock: the holder may be waiting for this sweep to drop its requests.
      if (std::unique_lock held(plan->mutex, std::try_to_lock); held) tell_held_bytes(*plan);
      ready(number);
    };
  }
  Readers readers;
  for (size_t i = 0; i < plan->parts.size(); ++i) {
    const Part& part = plan->parts[i];
    const Matrix& matrix = matrix_of(part);
    if (division.window > 0 && windows[i]) {
      auto peers = make_peers(*part.file, matrix, group, i, division.ring_bytes);
      readers.push_back(std::make_shared<SweepReader>(windows[i], options, std::move(peers), sweep));
    } else if (wholes[i]) {
      readers.push_back(wholes[i]);
    } else {
      // A file that does not fit bypasses the page cache, which the topology needs.
      readers.push_back(std::make_shared<FileRows>(part.file, matrix, division.ways[i] == Way::kWindow));
    }
  }
  return readers;
}

void release_rows(LoadPlan& plan, bool swept) {
  const std::lock_guard lock(plan.mutex);
  const bool is_only = plan.epochs.size() == 1;
  uint64_t kept = 0;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    if (is_only || swept) plan.windows[i] = nullptr;
    if (is_only) plan.wholes[i] = nullptr;
    if (plan.windows[i]) kept += plan.windows[i]->stats().budget_bytes;
    if (plan.wholes[i]) kept += WholeRows::bytes_for(plan.wholes[i]->matrix());
  }
  plan.outgrown = true;
  const uint64_t rest = plan.division.memory - plan.division.fixed_bytes - plan.division.shared_bytes;
  plan.pool->set_limit(std::max(plan.pool->limit(), minus(rest, kept)));
}

}  // namespace gz
