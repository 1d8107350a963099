// rows: windows and whole copies, the block that each rank of a host publishes, and one reader per part.
#include "load/rows.h"

#include <algorithm>

#include "base/checked.h"
#include "sweep/rank_peers.h"
#include "sweep/sweep_reader.h"

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
  for (const Part& part : plan.parts) purpose += text("/", part.name, part.file->file().identity());
  return purpose;
}

// How many batches can be sampled ahead of those that are built.
uint64_t batches_ahead(const LoadPlan& plan, const Division& d) {
  const uint64_t built = (static_cast<uint64_t>(d.depth) + static_cast<uint64_t>(plan.options.held)) * d.sizes.batch;
  const uint64_t room = minus(plan.pool->limit(), built);
  return std::min(DeviceReader::kAhead, room / std::max<uint64_t>(d.sizes.sampling, 1));
}

// Whether rows of a part are copied from its mapping.
bool is_mapped(const LoadPlan& plan, const Division& division, size_t part) {
  return division.ways[part] == Way::kMapped && (plan.options.io == Io::kAuto || plan.options.io == Io::kMmap);
}

}  // namespace

// Allocates the windows and whole copies that hold rows.
void hold_rows(LoadPlan& plan, const Sizes& sizes, Division& d, Progress* progress) {
  uint64_t rows = 0, copies = 0;
  const auto bytes_of = [&](size_t i) { return sizes.rows[i] * RowWindow::row_cost(matrix_of(plan.parts[i])); };
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    rows += d.ways[i] == Way::kWindow ? bytes_of(i) : 0;
    copies += d.ways[i] == Way::kWhole ? WholeRows::bytes_for(matrix_of(plan.parts[i])) : 0;
  }
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = matrix_of(plan.parts[i]);
    if (d.ways[i] != Way::kWhole) plan.wholes[i].reset();
    if (d.ways[i] != Way::kWindow) plan.windows[i].reset();
    if (d.ways[i] == Way::kWhole && !plan.wholes[i]) {
      plan.wholes[i] = std::make_shared<WholeRows>(plan.parts[i].file, matrix, progress);
    }
    if (d.ways[i] != Way::kWindow) continue;
    const double share = static_cast<double>(bytes_of(i)) / static_cast<double>(std::max<uint64_t>(rows, 1));
    const auto budget = static_cast<uint64_t>(static_cast<double>(minus(d.store_bytes, copies)) * share);
    if (budget < RowWindow::least_bytes(matrix)) {  // an epoch without batches, or another part needs all of it
      d.ways[i] = Way::kDirect;
      plan.windows[i].reset();
      continue;
    }
    const uint64_t before = plan.windows[i] ? plan.windows[i]->stats().budget_bytes : 0;
    if (before > 0 && before <= budget + budget / 8 && budget <= before + before / 8) continue;
    plan.windows[i].reset();
    plan.windows[i] = std::make_shared<RowWindow>(plan.parts[i].file, matrix, budget);
  }
}

void join_local_ranks(LoadPlan& plan) {
  if (plan.group || plan.options.local.count < 2) return;
  plan.group = LocalGroup::join(plan.options.local, purpose_of(plan), plan_block(plan) + kPageBytes);
  if (plan.group) plan.group->settle();
}

uint64_t held_bytes(const LoadPlan& plan) {
  uint64_t held = plan.pool->used_bytes() + plan.pool->idle_bytes();
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const Matrix& matrix = matrix_of(plan.parts[i]);
    if (plan.wholes[i]) held += WholeRows::bytes_for(matrix);
    if (!plan.windows[i]) continue;
    const WindowStats window = plan.windows[i]->stats();
    held += std::min(window.capacity, window.rows_read + window.rows_taken) * RowWindow::row_cost(matrix);
  }
  return held;
}

void publish_held_bytes(const LoadPlan& plan) {
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
  options.ranks = plan->feeds_device ? plan->options.local.count : 0;
  options.starving = events.starving;
  SweepReader::Events sweep{events.ready, events.failed};
  if (group) {
    sweep.ready = [plan, ready = events.ready](uint64_t number) {
      // By try_lock: the holder may be waiting for this sweep to drop its requests.
      if (std::unique_lock held(plan->mutex, std::try_to_lock); held) publish_held_bytes(*plan);
      ready(number);
    };
  }
  Readers readers;
  for (size_t i = 0; i < plan->parts.size(); ++i) {
    const Part& part = plan->parts[i];
    const Matrix& matrix = matrix_of(part);
    if (division.window > 0 && windows[i]) {
      auto peers = make_peers(*part.file, matrix, group, i, division.published_bytes, division.read_bytes);
      readers.push_back(std::make_shared<SweepReader>(windows[i], options, std::move(peers), sweep));
    } else if (wholes[i]) {
      readers.push_back(wholes[i]);
    } else {
      // A file that does not fit bypasses the page cache, which the topology needs.
      readers.push_back(std::make_shared<FileRows>(part.file, matrix, division.ways[i] == Way::kWindow));
    }
    if (plan->device_rows.empty()) continue;
    const DeviceReader::Options device{.ahead = batches_ahead(*plan, division),
                                       .at_once = static_cast<uint64_t>(division.threads),
                                       .ranks = options.ranks,
                                       .is_mapped = is_mapped(*plan, division, i),
                                       .pool = plan->pool};
    auto above = DeviceReader::attach(plan->device_rows[i], readers.back(), part.file, matrix, device,
                                      {events.ready, events.end, events.starving});
    if (above) readers.back() = std::move(above);  // else another epoch in flight has the cache
  }
  return readers;
}

void release_rows(LoadPlan& plan, bool swept) {
  const std::lock_guard lock(plan.mutex);
  const bool is_only = plan.pipelines.size() == 1;
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
