// vote_table: votes for labels by the neighbours of one node. Reused from node to node without clearing.
#pragma once

#include <cstdint>

#include "base/open_table.h"
#include "base/random.h"

namespace gz {

class VoteTable {
 public:
  void start(uint64_t votes) {
    slots_.resize(static_cast<size_t>(votes));
    ++turn_;
  }

  // Returns the votes for `label`, this one included.
  uint32_t add(uint32_t label) {
    const auto stop = [&](const Slot& s) { return s.turn != turn_ || s.label == label; };
    Slot& slot = slots_.find(label * kGolden >> 32, stop);
    if (slot.turn != turn_) slot = {turn_, label, 0};
    return ++slot.votes;
  }

 private:
  struct Slot {
    uint64_t turn = 0;
    uint32_t label = 0, votes = 0;
  };
  OpenTable<Slot> slots_;
  uint64_t turn_ = 0;
};

}  // namespace gz
