// compact: rows are copied a few million edges at a time.
#include "compile/append/compact.h"

#include <algorithm>

#include "base/memory.h"
#include "base/threads.h"
#include "compile/write/container_writer.h"
#include "storage/merged_rows.h"

namespace gz {
namespace {

constexpr uint64_t kRoundEdges = uint64_t{1} << 22, kRoundRows = uint64_t{1} << 20;
constexpr size_t kStep = size_t{16} << 20;

void append_whole(ContainerWriter& writer, size_t index, std::span<const std::byte> bytes, Progress* progress) {
  for (size_t at = 0; at < bytes.size(); at += kStep) {
    writer.append(index, bytes.subspan(at, std::min(kStep, bytes.size() - at)));
    if (progress != nullptr) progress->report("merging", at, bytes.size());
  }
}

// The arrays of one side.
template <class Id>
void write_side(ContainerWriter& writer, const Csr<Id>& csr, const std::string& prefix, const AppendOptions& options) {
  const Container& from = csr.file->container();
  const size_t indptr = writer.index_of(prefix + "indptr");
  writer.append<uint64_t>(indptr, std::array<uint64_t, 1>{0});
  std::vector<uint64_t> ends;
  Buffer buffer;
  for (uint64_t first = 0; first < csr.num_nodes;) {
    const uint64_t start = csr.start_of(first);
    uint64_t last = std::min(csr.num_nodes, first + kRoundRows);
    if (csr.start_of(last) > start + kRoundEdges) last = std::max(csr.node_at(start + kRoundEdges), first + 1);
    ends.clear();
    for (uint64_t node = first; node < last; ++node) ends.push_back(csr.start_of(node + 1));
    if (ends.back() < start || ends.back() > csr.num_edges) fail_row(*csr.file, first, start, ends.back());
    writer.append<uint64_t>(indptr, ends);
    const uint64_t edges = ends.back() - start;
    for (const ArrayInfo& array : from.arrays) {
      if (!array.name.starts_with(prefix) || !by_position(array.name, from.direction)) continue;
      const uint64_t width = dtype_bytes(array.dtype);
      if (buffer.size() < edges * width) buffer = Buffer(edges * width, Purpose::kCompile);
      copy_rows(csr, csr.file->bytes_of(array).data(), width, first, last, buffer.data(), options.threads);
      writer.append(writer.index_of(array.name), std::span<const std::byte>(buffer.data(), edges * width));
    }
    csr.file->check();
    first = last;
    if (options.progress != nullptr) options.progress->report("merging", ends.back(), csr.num_edges);
  }
}

Container plain_container(const Container& from) {
  Container c;
  c.kind = from.kind;
  c.num_nodes = from.num_nodes;
  c.num_targets = from.num_targets;
  c.num_edges = from.num_edges;
  c.direction = from.direction;
  c.properties = from.properties;
  for (ArrayInfo array : from.arrays) {
    if (from.kind == Kind::kTopology && array.name.find(".rows.") != std::string::npos) continue;
    if (by_position(array.name, from.direction)) array.shape = {from.num_edges};
    if (array.name == "out.indptr") array.shape = {from.sources() + 1};
    if (array.name == "in.indptr") array.shape = {from.targets() + 1};
    c.arrays.push_back(std::move(array));
  }
  return c;
}

}  // namespace

uint64_t compact_topology(const Topology& topology, const std::string& out, const AppendOptions& options) {
  const MountedFile& file = topology.file();
  const Container& from = file.container();
  ContainerWriter writer(out, plain_container(from));
  for (const Direction side : {Direction::kOut, Direction::kIn}) {
    const bool is_out = side == Direction::kOut;
    if (!(is_out ? has_out(from.direction) : has_in(from.direction))) continue;
    topology.visit(side, [&](const auto& csr) { write_side(writer, csr, is_out ? "out." : "in.", options); });
  }
  for (size_t i = 0; i < writer.container().arrays.size(); ++i) {  // arrays that this version does not know
    const std::string& name = writer.container().arrays[i].name;
    if (name == "out.indptr" || name == "in.indptr" || by_position(name, from.direction)) continue;
    append_whole(writer, i, file.bytes_of(*from.find(name)), options.progress);
  }
  file.check();
  return writer.finish(options.threads, options.progress);
}

uint64_t compact_features(const FeatureFile& features, const std::string& out, const AppendOptions& options) {
  const MountedFile& file = features.file();
  ContainerWriter writer(out, plain_container(file.container()));
  for (size_t i = 0; i < file.container().arrays.size(); ++i) {
    append_whole(writer, i, file.bytes_of(file.container().arrays[i]), options.progress);
  }
  file.check();
  return writer.finish(options.threads, options.progress);
}

}  // namespace gz
