// files: valid files in memory, small enough to test thousands per second, and their mutations.
#pragma once

#include <cstddef>
#include <vector>

#include "base/random.h"

namespace gz::fuzz {

std::vector<std::byte> topology_file(Random& random);  // every array the schema knows, one or both directions
std::vector<std::byte> features_file(Random& random);  // a matrix of every dtype
std::vector<std::byte> legacy_file(Random& random);    // as GraphZero 0.2 wrote them, .gl or .gd
std::vector<std::byte> any_file(Random& random);

// Header fields, elements of arrays, lengths: values at the limits of words, near the valid ones, or random. The
// header's checksum is mostly corrected, so that the mutation passes it.
void change(std::vector<std::byte>& file, Random& random);

}  // namespace gz::fuzz
