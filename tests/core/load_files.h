// load_files: small relations and feature files with distinguishable rows, and a way to wait for a batch.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "compile/write/container_writer.h"
#include "load/pipeline.h"
#include "storage/features.h"
#include "storage/topology.h"

namespace gz::test {

struct Relation {
  uint64_t sources, targets;
  Direction direction = Direction::kIn;
  bool is_sorted = false;
};

// A topology in which `neighbours` appends those of each row; a row is a target, or a source where edges point out.
inline std::shared_ptr<const Topology> write_relation(
    const std::string& name, const Relation& relation,
    const std::function<void(uint64_t row, std::vector<uint32_t>& indices)>& neighbours) {
  const bool in = relation.direction == Direction::kIn;
  const uint64_t rows = in ? relation.targets : relation.sources;
  std::vector<uint64_t> indptr{0};
  std::vector<uint32_t> indices;
  for (uint64_t row = 0; row < rows; ++row) {
    neighbours(row, indices);
    indptr.push_back(indices.size());
  }
  Container c;
  c.kind = Kind::kTopology;
  c.num_nodes = relation.sources;
  if (relation.sources != relation.targets) {
    c.num_targets = relation.targets;
    c.minor = kRectangularMinor;
    c.incompatible = kRectangular;
  }
  c.num_edges = indices.size();
  c.direction = relation.direction;
  c.properties = relation.is_sorted ? 1 : 0;
  const std::string side = in ? "in" : "out";
  c.arrays = {{side + ".indptr", DType::kUInt64, {rows + 1}, 0, 0, 0},
              {side + ".indices", DType::kUInt32, {c.num_edges}, 0, 0, 0}};
  const std::string path = scratch(name);
  ContainerWriter writer(path, c);
  writer.append<uint64_t>(0, indptr);
  writer.append<uint32_t>(1, indices);
  writer.finish();
  return Topology::open(path);
}

// Row i of 'x' holds i in every column.
inline std::shared_ptr<const FeatureFile> write_numbered_rows(const std::string& name, uint64_t rows,
                                                              uint64_t columns) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = rows;
  c.arrays = {{"x", DType::kFloat32, {rows, columns}, 0, 0, 0}};
  const std::string path = scratch(name);
  ContainerWriter writer(path, c);
  for (uint64_t i = 0; i < rows; ++i) writer.append<float>(0, std::vector<float>(columns, static_cast<float>(i)));
  writer.finish();
  return FeatureFile::open(path);
}

// The next batch, false at the end; fails if none comes, instead of waiting indefinitely.
inline bool next_batch(Pipeline& pipeline, LoadedBatch& batch) {
  for (int i = 0; i < 600; ++i) {
    const auto state = pipeline.next(batch, 50);
    if (state == Pipeline::State::kEnd) return false;
    if (state == Pipeline::State::kReady) return true;
  }
  throw std::runtime_error("no batch for 30 s: the epoch hangs");
}

}  // namespace gz::test
