// batch: the steps that make it.
#include "load/batch.h"

#include <algorithm>

#include "sample/merged/merged.h"

namespace gz {
namespace {

// Allocates memory for the rows. PoolFull reports what all of them need.
void take_parts(const std::vector<Part>& parts, const HeteroSubgraph& graph, LoadedBatch& batch) {
  uint64_t missing = 0;
  for (const Part& part : parts) {
    const Matrix& matrix = part.file->matrix(part.matrix);
    const GatherOptions how = gather_options(part);
    GatheredPart result;
    result.rows = ids_of(part, graph).size();
    result.columns = matrix.columns;
    result.is_vector = matrix.is_vector;
    result.dtype = gathered_dtype(matrix, how);
    const uint64_t bytes = result.rows * gathered_row_bytes(matrix, how);
    if (missing > 0) {
      missing += bytes;
      continue;
    }
    try {
      result.buffer = take_buffer(bytes);
    } catch (const PoolFull& full) {
      missing = full.needed;
    }
    batch.parts.push_back(std::move(result));
  }
  if (missing > 0) throw PoolFull(missing);
}

// The batch without its rows. Allocates first: if that fails, the batch is unchanged.
LoadedBatch take_memory(Batch& batch, const std::vector<Part>& parts) {
  LoadedBatch loaded;
  loaded.number = batch.number - batch.pass->begin;
  if (batch.packed) loaded.graph = batch.packed->unpack();
  take_parts(parts, batch.packed ? loaded.graph : batch.graph, loaded);
  loaded.input.size = batch.input.size();
  loaded.input.buffer = take_buffer(loaded.input.size * sizeof(int64_t));
  std::copy(batch.input.begin(), batch.input.end(), loaded.input.data());
  if (!batch.packed) loaded.graph = std::move(batch.graph);
  batch.packed = nullptr;
  loaded.arrays = std::move(batch.arrays);
  return loaded;
}

// The seeds of the sample.
BatchSeeds draw_seeds(Batch& batch) {
  const Pass& pass = *batch.pass;
  const uint64_t i = batch.number - pass.begin;
  batch.input = pass.batches.input(i);
  BatchSeeds seeds = batch_seeds(*pass.plan, pass.epoch, pass.batches.number(i), batch.input);
  batch.arrays = std::move(seeds.arrays);
  return seeds;
}

}  // namespace

uint64_t bytes_of(const LoadedBatch& batch) {
  uint64_t bytes = subgraph_bytes(batch.graph) + batch.input.buffer->size() + array_bytes(batch.arrays);
  for (const GatheredPart& part : batch.parts) bytes += part.buffer->size();
  return bytes;
}

std::vector<std::weak_ptr<Buffer>> buffers_of(const LoadedBatch& batch) {
  std::vector<std::weak_ptr<Buffer>> buffers;
  buffers.emplace_back(batch.input.buffer);
  for_each_array(batch.graph, [&](const Int64Array& array) { buffers.emplace_back(array.buffer); });
  for (const GatheredPart& part : batch.parts) buffers.emplace_back(part.buffer);
  for (const BatchArray& array : batch.arrays) buffers.emplace_back(array.buffer);
  return buffers;
}

void Batch::go_back() {
  static_cast<Slot&>(*this) = {};
  input.clear();
  graph = {};
  packed = nullptr;
  arrays.clear();
  requests.clear();
  loaded = {};
  cancelled = false;
}

uint64_t sample(const std::vector<Batch*>& batches, std::optional<uint64_t> merge_gap, Progress& cancel,
                const std::function<void(Batch&)>& sampled) {
  const LoadPlan& plan = *batches.front()->pass->plan;
  std::vector<BatchSeeds> seeds;
  for (Batch* batch : batches) seeds.push_back(draw_seeds(*batch));
  if (!merge_gap) {
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i]->graph = sample_batch(plan, seeds[i]);
      sampled(*batches[i]);
    }
    return 0;
  }
  std::vector<MergedBatch> group;  // of homogeneous graphs only
  for (const BatchSeeds& batch : seeds) {
    group.push_back({batch.seeds.at(0).nodes, batch.seeds.at(0).times, batch.key, batch.exclude_of(0)});
  }
  SampleOptions options = plan.options.sample;
  options.threads = 1;
  MergedStats read;
  MergedOptions merged;
  merged.progress = &cancel;
  merged.gap = *merge_gap;
  merged.stats = &read;
  sample_merged(plan.graph.topology(0), group, options, merged, [&](size_t i, HeteroSubgraph&& graph) {
    batches[i]->graph = std::move(graph);
    sampled(*batches[i]);
  });
  return read.bytes_read;
}

void prepare_requests(Batch& batch, const std::vector<Part>& parts, const Readers& readers) {
  for (size_t i = 0; i < readers.size(); ++i) {
    batch.requests.push_back(readers[i]->prepare(batch.number, ids_of(parts[i], batch.graph)));
  }
}

void submit_requests(const Batch& batch, const Readers& readers) {
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    if (batch.requests[i]) readers[i]->submit(batch.requests[i]);
  }
}

void pack(Batch& batch) { batch.packed = std::make_shared<const PackedSubgraph>(std::move(batch.graph)); }

LoadedBatch finish(Batch& batch, const LoadPlan& plan, const Readers& readers, Progress& cancel, GatherStats& stats) {
  LoadedBatch loaded = take_memory(batch, plan.parts);
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    GatherOptions how = gather_options(plan.parts[i]);
    how.io = plan.options.io;
    how.threads = 1;  // the pipeline's threads are the parallelism
    RowRequest* request = batch.requests.empty() ? nullptr : batch.requests[i].get();
    const auto ids = ids_of(plan.parts[i], loaded.graph);
    readers[i]->copy(request, ids, loaded.parts[i].buffer->data(), how, &stats, &cancel);
  }
  return loaded;
}

}  // namespace gz
