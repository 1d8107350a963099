// hub_plan: a loader over a graph with hubs, whose batches differ in size by far, and what its batches must be.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "load/pipeline.h"
#include "load_files.h"

namespace gz::test {

constexpr uint64_t kHubNodes = 3000;

using Degree = uint64_t (*)(uint64_t node);
inline uint64_t every_50th_is_a_hub(uint64_t node) { return node % 50 == 49 ? 1500 : 1; }
inline uint64_t node_27_is_a_hub(uint64_t node) { return node == 27 ? 300'000 : 20; }
inline uint64_t no_node_is_a_hub(uint64_t) { return 20; }

struct HubSetting {
  uint64_t memory = uint64_t{64} << 20;
  int threads = 4;
  CacheMode cache = CacheMode::kAuto;
  Io io = Io::kAuto;
  Degree degree = every_50th_is_a_hub;
  uint64_t columns = 96;
  uint64_t seeds = 400, batch_size = 8, seed = 0;
  uint64_t device_bytes = 0;
};

struct HubFiles {
  std::shared_ptr<const Topology> topology;
  std::shared_ptr<const FeatureFile> rows;
};

// Node u has edges to u + 1, u + 2, ...
inline HubFiles hub_files(const std::string& name, const HubSetting& setting) {
  const Relation shape{.sources = kHubNodes, .targets = kHubNodes, .direction = Direction::kOut};
  auto topology = write_relation(name + ".gl", shape, [&](uint64_t u, std::vector<uint32_t>& indices) {
    for (uint64_t k = 1; k <= setting.degree(u); ++k) indices.push_back(static_cast<uint32_t>((u + k) % kHubNodes));
  });
  return {std::move(topology), write_numbered_rows(name + ".gd", kHubNodes, setting.columns)};
}

inline std::shared_ptr<LoadPlan> hub_plan(const HubFiles& files, const HubSetting& setting) {
  LoadOptions options;
  options.sample.fanouts = {-1};
  options.batch_size = setting.batch_size;
  options.shuffle = setting.degree != node_27_is_a_hub;
  options.seed = setting.seed;
  options.memory = setting.memory;
  options.threads = setting.threads;
  options.cache = setting.cache;
  options.io = setting.io;
  options.device_bytes = setting.device_bytes;
  const Part part{.name = "x", .file = files.rows, .matrix = "x", .by_edge = false, .out_dtype = {}};
  return make_plan(files.topology, {part}, node_seeds(Numbers::range(setting.seeds)), options, {}, nullptr);
}

inline std::shared_ptr<LoadPlan> hub_plan(const std::string& name, const HubSetting& setting) {
  return hub_plan(hub_files(name, setting), setting);
}

// Reads rows by a window whatever the plan has chosen.
inline void put_window(LoadPlan& plan) {
  const Part& part = plan.parts[0];
  plan.wholes[0] = nullptr;
  plan.windows[0] = std::make_shared<RowWindow>(part.file, part.file->matrix("x"), uint64_t{1} << 20);
  plan.division.ways[0] = Way::kWindow;
  plan.division.window = 32;
  plan.outgrown = false;
}

inline void check_batch(const LoadPlan& plan, uint64_t epoch, const LoadedBatch& batch, const Share& share = {}) {
  const EpochBatches batches = epoch_batches(plan, epoch, share);
  const auto input = batches.input(batch.number);
  CHECK(std::ranges::equal(batch.input.span(), input));
  const auto expected = sample_batch(plan, batch_seeds(plan, epoch, batches.number(batch.number), input));
  CHECK(std::ranges::equal(batch.graph.nodes[0].node.span(), expected.nodes[0].node.span()));
  CHECK(std::ranges::equal(batch.graph.edges[0].edge_index.span(), expected.edges[0].edge_index.span()));
  const GatheredPart& part = batch.parts.at(0);
  const auto* rows = reinterpret_cast<const float*>(part.buffer->data());
  const auto ids = batch.graph.nodes[0].node.span();
  CHECK_EQ(part.rows, ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const float *first = rows + i * part.columns, *last = first + part.columns - 1;
    CHECK(*first == static_cast<float>(ids[i]) && *last == static_cast<float>(ids[i]));
  }
}

}  // namespace gz::test
