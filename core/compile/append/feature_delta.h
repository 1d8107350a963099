// feature_delta: rows that are appended to the arrays of a .gd file -> a delta of it (FORMAT 9).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "compile/append/append_options.h"
#include "storage/features.h"

namespace gz {

struct AppendedRows {
  std::string name;
  std::span<const std::byte> bytes;  // of whole rows, as the array has them
};

// Writes the delta that follows the files of `features` to `out`; all arrays get the same number of rows, `count`.
// Returns its bytes. Throws ArgumentError if an array is missing, unknown or has another number of rows.
uint64_t write_feature_delta(const FeatureFile& features, uint64_t count, std::span<const AppendedRows> arrays,
                             const std::string& out, const AppendOptions& options);

}  // namespace gz
