// compact: a file and its deltas -> one file, as compiling everything together would write it.
#pragma once

#include <cstdint>
#include <string>

#include "compile/append/append_options.h"
#include "storage/features.h"
#include "storage/topology.h"

namespace gz {

// Both return the bytes of the file.
uint64_t compact_topology(const Topology& topology, const std::string& out, const AppendOptions& options);
uint64_t compact_features(const FeatureFile& features, const std::string& out, const AppendOptions& options);

}  // namespace gz
