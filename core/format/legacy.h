// legacy: the headers of files that GraphZero 0.1 and 0.2 wrote, read as a Container (FORMAT 8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "format/container.h"

namespace gz {

// The container that a 0.1/0.2 header describes, nothing when `start` (the first bytes of the file) is not one. Ids are
// 64-bit, rows are in no order, nothing is summed: convert such a file with `graphzero compile` to gain those.
std::optional<Container> parse_legacy(std::span<const std::byte> start, uint64_t file_bytes, const std::string& path);

}  // namespace gz
