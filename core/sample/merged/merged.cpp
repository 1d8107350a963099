// merged: the checks, what is in RAM, and the dispatch on id width.
#include "sample/merged/merged.h"

#include <algorithm>

#include "base/ids.h"
#include "base/threads.h"
#include "sample/merged/merged_hops.h"
#include "sample/rows/draw.h"
#include "storage/residency.h"

namespace gz {
namespace {

constexpr uint64_t kRowBytes = 24 + 1;      // of a row in progress, and of its position in a FileOrder
constexpr uint64_t kEdgeBytes = 3 * 8;      // of an edge: its id and two labels
constexpr double kWorthSparing = 1.0 / 64;  // less of an array than this in RAM is not worth asking page by page

// Whether positions of edges fit into 32 bits, and no ids take their place.
bool positions_are_short(uint64_t edges, const ReadArray& edge_ids) {
  return edges < UINT32_MAX && edge_ids.width == 0;
}

void check_batches(const Topology& topology, std::span<const MergedBatch> batches, const SampleOptions& options) {
  for (const MergedBatch& batch : batches) {
    check_options(topology, options, !batch.times.empty());
    if (batch.seeds.size() >= kMostLabels) {
      fail<ArgumentError>(batch.seeds.size(), " seeds, expected below ", kMostLabels);
    }
    check_ids(batch.seeds, "seeds", {topology.num_nodes(), "nodes", topology.file().path()});
  }
}

ReadArray array_named(const MountedFile& file, const std::string& name) {
  const ArrayInfo* array = file.container().find(name);
  if (array == nullptr) return {};
  return {name, array->offset, dtype_bytes(array->dtype), array->bytes};
}

// What a sample reads of one direction.
MergedArrays arrays_of(const Topology& topology, const SampleOptions& options) {
  const std::string prefix = topology.resolve(options.direction) == Direction::kOut ? "out." : "in.";
  MergedArrays arrays{
      array_named(topology.file(), prefix + "indptr"), array_named(topology.file(), prefix + "indices"), {}};
  if (options.edge_ids) arrays.edge_ids = array_named(topology.file(), prefix + "edge_ids");
  return arrays;
}

std::optional<double> share_of(const MountedFile& file, const ReadArray& array) {
  if (array.bytes == 0) return 1.0;
  const auto cached = cached_bytes(file, array.offset, array.bytes);
  if (!cached) return std::nullopt;
  return static_cast<double>(*cached) / static_cast<double>(array.bytes);
}

// Decides array by array; returns whether any is partly in RAM and worth asking page by page.
bool find_mapped(const MountedFile& file, const SampleOptions& options, const MergedOptions& merged,
                 MergedArrays& arrays) {
  bool spare = false;
  const auto mapped = [&](const ReadArray& array) {
    if (array.bytes == 0) return false;
    if (options.io == TopologyIo::kMmap) return true;
    if (merged.past_page_cache) return false;
    const double share = share_of(file, array).value_or(0);
    spare = spare || (share > kWorthSparing && residency_is_reported(file.file()));
    return share >= 1;
  };
  arrays.indptr_mapped = mapped(arrays.indptr);
  arrays.indices_mapped = mapped(arrays.indices);
  arrays.edge_ids_mapped = mapped(arrays.edge_ids);
  return spare;
}

ReadWay way_of(const MountedFile& file, int threads, const MergedOptions& merged) {
  ReadWay way;
  const ReaderKind kind = merged.kind.value_or(uring_works() ? ReaderKind::kUring : ReaderKind::kPread);
  way.file = &file;
  way.source = &file.preferred();
  way.reader = merged.reader ? merged.reader : [kind, &merged] { return take_reader(kind, merged.arena); };
  way.workers = merged.reader ? 1 : kind == ReaderKind::kUring ? std::min(threads, kMostRings) : kPreadThreads;
  way.gap = merged.gap;
  way.progress = merged.progress;
  return way;
}

void one_by_one(const Topology& topology, std::span<const MergedBatch> batches, SampleOptions options,
                Progress* progress, const MergedSink& done) {
  for (size_t i = 0; i < batches.size(); ++i) {
    options.seed = batches[i].seed;
    options.exclude = batches[i].exclude;
    options.dependent = batches[i].dependent;
    done(i, sample_neighbours(topology, batches[i].seeds, batches[i].times, options));
    if (progress != nullptr) progress->report("sample", i + 1, batches.size());
  }
}

SampleOptions resolved(SampleOptions options) {
  options.threads = resolve_threads(options.threads);
  return options;
}

std::unique_ptr<AnyHops> make_hops(const Topology& topology, const SampleOptions& options) {
  return topology.visit(options.direction, [&]<class Id>(const Csr<Id>& csr) -> std::unique_ptr<AnyHops> {
    if constexpr (sizeof(Id) == 4) {
      if (!options.disjoint) {
        if (positions_are_short(csr.limit, arrays_of(topology, options).edge_ids)) {
          return std::make_unique<MergedHops<Csr<Id>, true, uint32_t>>(csr, options);
        }
        return std::make_unique<MergedHops<Csr<Id>, true, int64_t>>(csr, options);
      }
    }
    return std::make_unique<MergedHops<Csr<Id>, false, int64_t>>(csr, options);
  });
}

}  // namespace

bool merged_supported(const SampleOptions& options, bool with_times) { return !with_times && !options.weighted; }

std::vector<HeteroSubgraph> sample_merged(const Topology& topology, std::span<const MergedBatch> batches,
                                          const SampleOptions& options, const MergedOptions& merged) {
  std::vector<HeteroSubgraph> made(batches.size());
  sample_merged(topology, batches, options, merged,
                [&](size_t i, HeteroSubgraph&& subgraph) { made[i] = std::move(subgraph); });
  return made;
}

void sample_merged(const Topology& topology, std::span<const MergedBatch> batches, const SampleOptions& options,
                   const MergedOptions& merged, const MergedSink& done) {
  MergedSampler(topology, options).sample(batches, {}, merged, done);
}

MergedSampler::MergedSampler(const Topology& topology, const SampleOptions& options)
    : topology_(topology), options_(resolved(options)), hops_(make_hops(topology, options_)) {}

MergedSampler::~MergedSampler() = default;

void MergedSampler::sample(std::span<const MergedBatch> batches, const MergedAhead& ahead, const MergedOptions& merged,
                           const MergedSink& done) {
  check_batches(topology_, batches, options_);
  check_batches(topology_, ahead.batches, options_);
  const bool timed =
      std::any_of(batches.begin(), batches.end(), [](const auto& batch) { return !batch.times.empty(); });
  if (batches.empty() || !merged_supported(options_, timed)) {
    return one_by_one(topology_, batches, options_, merged.progress, done);
  }
  const MountedFile& file = topology_.file();
  MergedArrays arrays = arrays_of(topology_, options_);
  ReadWay way = way_of(file, options_.threads, merged);
  way.spare_resident = find_mapped(file, options_, merged, arrays);
  if (way.spare_resident) {  // a page that is dropped after all must not bring in the device's whole readahead
    file.mapping().advise(0, file.mapping().bytes().size(), Mapping::Advice::kRandom);
  }
  MergedStats ignored;
  try {
    hops_->run(batches, ahead, arrays, way, done, merged.stats != nullptr ? *merged.stats : ignored);
  } catch (...) {
    forget();
    throw;
  }
  file.check();
}

void MergedSampler::forget() { hops_->forget(); }

uint64_t MergedSampler::bytes() const { return hops_->bytes(); }

uint64_t merged_bytes(const Topology& topology, const SampleOptions& options, const HeteroSubgraph& batch) {
  const uint64_t node_bytes = options.disjoint ? 16 : 8;
  const bool is_short =
      !options.disjoint && positions_are_short(topology.num_edges(), arrays_of(topology, options).edge_ids);
  const uint64_t chosen_bytes = topology.num_nodes() > UINT32_MAX ? 16 : is_short ? 8 : 12;  // position and neighbour
  const auto& nodes = batch.nodes.at(0).num_sampled_nodes;
  const auto& edges = batch.edges.at(0).num_sampled_edges;
  uint64_t all = 0, grown = 0;  // all hops: each is made for another group at the same time
  for (size_t hop = 0; hop < edges.size(); ++hop) {
    const auto rows = static_cast<uint64_t>(nodes[hop]), added = static_cast<uint64_t>(edges[hop]);
    grown += rows * node_bytes;
    all += grown + rows * kRowBytes + added * chosen_bytes;
    grown += added * kEdgeBytes;
  }
  return all * 9 / 8;  // pooled buffers are an eighth larger than requested
}

std::optional<double> resident_share(const Topology& topology, const SampleOptions& options) {
  const MergedArrays arrays = arrays_of(topology, options);
  double cached = 0, all = 0;
  for (const ReadArray* array : {&arrays.indptr, &arrays.indices, &arrays.edge_ids}) {
    const auto share = share_of(topology.file(), *array);
    if (!share) return std::nullopt;
    cached += *share * static_cast<double>(array->bytes);
    all += static_cast<double>(array->bytes);
  }
  return all == 0 ? 1.0 : cached / all;
}

}  // namespace gz
