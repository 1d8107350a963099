// group_sampler: samples batches in groups, out of a topology that is not in RAM, and begins those that come next.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "budget/divide.h"
#include "load/batch.h"
#include "sample/merged/merged.h"

namespace gz {

// Batches of the pipeline that were not started, in order, and how many of them will be sampled at a time.
struct FollowingBatches {
  struct Following {
    uint64_t number;
    std::shared_ptr<const Epoch> epoch;
  };
  std::vector<Following> batches;
  size_t group = 1;
};

// Those from `first` on, of the plan of the one before it: as many groups as have a hop in the same passes as its own.
FollowingBatches following_batches(BatchQueue& queue, const EpochQueue& epochs, uint64_t first, uint64_t group);

// Of one pipeline, whose numbers mean the same batches as long as it lives. For one thread at a time.
class GroupSampler {
 public:
  // Draws the seeds and samples around them, by all threads of the division. Calls `sampled` with each batch as soon as
  // it is sampled; several threads may call it at once. Returns the bytes of topology that were read explicitly. All
  // batches are of one plan, those ahead too. After an error, forget() must be called.
  uint64_t sample(const std::vector<Batch*>& batches, const FollowingBatches& ahead, const Division& division,
                  Progress& cancel, const std::function<void(Batch&)>& sampled);
  void forget();           // drops batches that are begun
  uint64_t bytes() const;  // that these take

 private:
  std::shared_ptr<DrawnSeeds> draw(uint64_t number, const Epoch& epoch);

  std::shared_ptr<const LoadPlan> plan_;
  std::optional<MergedSampler> merged_;                    // of this plan
  std::map<uint64_t, std::shared_ptr<DrawnSeeds>> drawn_;  // of batches that are begun
};

}  // namespace gz
