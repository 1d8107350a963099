// order: which seeds make up which batch of which epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gz {

// The order of one epoch over `count` seeds: positions 0 to count - 1, shuffled by (seed, epoch) or as they stand. The
// same for any number of threads or machines.
std::vector<int64_t> epoch_order(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch);

// How many batches `count` seeds make.
uint64_t count_batches(uint64_t count, uint64_t batch_size, bool drop_last);

// The positions of batch `number` in an epoch's order.
std::vector<int64_t> batch_input(std::span<const int64_t> order, uint64_t batch_size, uint64_t number);

// The key of one batch's random draws.
uint64_t batch_seed(uint64_t seed, uint64_t epoch, uint64_t number);

}  // namespace gz
