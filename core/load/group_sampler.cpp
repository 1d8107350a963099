// group_sampler: seeds that are drawn once, and the call of the sampler.
#include "load/group_sampler.h"

#include <algorithm>
#include <utility>

namespace gz {
namespace {

MergedBatch merged_batch(uint64_t number, const BatchSeeds& seeds, std::shared_ptr<const void> owner) {
  const SeedsOfType& of = seeds.seeds.at(0);  // of homogeneous graphs only
  return {of.nodes, of.times, seeds.key, seeds.exclude_of(0), seeds.dependent, number, std::move(owner)};
}

}  // namespace

FollowingBatches following_batches(BatchQueue& queue, const EpochQueue& epochs, uint64_t first, uint64_t group) {
  FollowingBatches following;
  const auto plan = epochs.of(first - 1)->plan;
  following.group = group_size(group, first - queue.front());
  const uint64_t groups = plan->options.sample.fanouts.size() - 1;
  const uint64_t end = std::min(epochs.end(), first + groups * following.group);
  for (uint64_t number = first; number < end; ++number) {
    const auto epoch = epochs.of(number);
    if (epoch->plan != plan || (queue.has(number) && queue.at(number).is_begun())) break;
    following.batches.push_back({number, epoch});
  }
  return following;
}

std::shared_ptr<DrawnSeeds> GroupSampler::draw(uint64_t number, const Epoch& epoch) {
  auto& drawn = drawn_[number];
  if (!drawn) drawn = std::make_shared<DrawnSeeds>(draw_seeds(number, epoch));
  return drawn;
}

uint64_t GroupSampler::sample(const std::vector<Batch*>& batches, const FollowingBatches& following,
                              const Division& division, Progress& cancel, const std::function<void(Batch&)>& sampled) {
  const auto& plan = batches.front()->epoch->plan;
  SampleOptions options = plan->options.sample;
  options.threads = division.threads;
  if (plan_ != plan) {
    forget();
    merged_.emplace(plan->graph.topology(0), options);
    plan_ = plan;
  }
  drawn_.erase(drawn_.begin(), drawn_.lower_bound(batches.front()->number));
  std::vector<MergedBatch> group, ahead;
  for (Batch* batch : batches) {
    const auto drawn = draw(batch->number, *batch->epoch);
    group.push_back(merged_batch(batch->number, drawn->seeds, drawn));
  }
  try {
    for (const auto& [number, epoch] : following.batches) {
      const auto drawn = draw(number, *epoch);
      ahead.push_back(merged_batch(number, drawn->seeds, drawn));
    }
  } catch (const std::exception&) {  // thrown again when the batch itself is sampled
  }
  MergedStats read;
  MergedOptions merged;
  merged.progress = &cancel;
  merged.gap = division.disk.gap();
  merged.arena = static_cast<size_t>(division.read_bytes);
  merged.stats = &read;
  merged_->sample(group, {ahead, following.group}, merged, [&](size_t i, HeteroSubgraph&& graph) {
    Batch& batch = *batches[i];
    auto& [input, seeds] = *drawn_.at(batch.number);
    batch.input = std::move(input);
    batch.arrays = std::move(seeds.arrays);
    batch.graph = std::move(graph);
    sampled(batch);
  });
  for (const Batch* batch : batches) drawn_.erase(batch->number);
  return read.bytes_read;
}

void GroupSampler::forget() {
  drawn_.clear();
  if (merged_) merged_->forget();
}

uint64_t GroupSampler::bytes() const { return merged_ ? merged_->bytes() : 0; }

}  // namespace gz
