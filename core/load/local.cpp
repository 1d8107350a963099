// local: the name of the group of ranks, and the last page of the block that each of them publishes.
#include "load/local.h"

#include <algorithm>

#include "base/checked.h"
#include "sweep/shared_ring.h"

namespace gz {
namespace {

struct PlanBlock {
  std::atomic<uint64_t> held_bytes;
};

size_t plan_block(const LoadPlan& plan) { return plan.parts.size() * kSweepBytes; }

// Identifies the loader within the job: the one for training must not be grouped with the one for validation.
std::string purpose_of(const LoadPlan& plan) {
  const LoadOptions& options = plan.options;
  std::string purpose = text(options.batch_size, "/", plan.seeds->count(), options.shuffle ? "/shuffled" : "");
  for (const int64_t fanout : options.sample.fanouts) purpose += text("/", fanout);
  for (const Part& part : plan.parts) purpose += text("/", part.name, identity_of(part.file->file().file()));
  return purpose;
}

}  // namespace

void meet_local_ranks(LoadPlan& plan) {
  if (plan.group || plan.options.local.count < 2) return;
  plan.group = LocalGroup::join(plan.options.local, purpose_of(plan), plan_block(plan) + kPageBytes);
  if (plan.group) plan.group->settle();
}

uint64_t held_bytes(const LoadPlan& plan) {
  uint64_t held = plan.pool->used_bytes() + plan.pool->idle_bytes();
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = plan.parts[i].file->matrix(plan.parts[i].matrix);
    if (plan.wholes[i]) held += WholeRows::bytes_for(matrix);
    if (!plan.windows[i]) continue;
    const WindowStats window = plan.windows[i]->stats();
    held += std::min(window.capacity, window.rows_read + window.rows_taken) * RowWindow::row_cost(matrix);
  }
  return held;
}

void tell_held_bytes(const LoadPlan& plan) {
  if (!plan.group) return;
  auto* block = reinterpret_cast<PlanBlock*>(plan.group->own().data() + plan_block(plan));
  block->held_bytes.store(held_bytes(plan), std::memory_order_relaxed);
}

uint64_t held_by_others(const LoadPlan& plan) {
  uint64_t held = 0;
  for (uint32_t rank = 0; plan.group && rank < plan.options.local.count; ++rank) {
    const auto member = plan.group->member(rank);
    if (!member || member->block().size() < plan_block(plan) + sizeof(PlanBlock)) continue;
    const auto* block = reinterpret_cast<const PlanBlock*>(member->block().data() + plan_block(plan));
    held += block->held_bytes.load(std::memory_order_relaxed);
  }
  return held;
}

}  // namespace gz
