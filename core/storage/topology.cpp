// topology: from named arrays to Csr.
#include "storage/topology.h"

namespace gz {
namespace {

template <class T>
const T* pointer(const MountedFile& file, const std::string& name, DType dtype) {
  const ArrayInfo* array = file.container().find(name);
  if (array == nullptr || array->dtype != dtype) return nullptr;
  return reinterpret_cast<const T*>(file.bytes_of(*array).data());
}

template <class Id>
Csr<Id> side(const MountedFile& file, const std::string& prefix) {
  const Container& c = file.container();
  Csr<Id> csr;
  csr.file = &file;
  const bool out = prefix == "out.";
  csr.num_nodes = out ? c.sources() : c.targets();
  csr.num_others = out ? c.targets() : c.sources();
  csr.num_edges = c.num_edges;
  csr.indptr = pointer<uint64_t>(file, prefix + "indptr", DType::kUInt64);
  csr.indices = pointer<Id>(file, prefix + "indices", sizeof(Id) == 4 ? DType::kUInt32 : DType::kUInt64);
  csr.weights = pointer<float>(file, prefix + "weights", DType::kFloat32);
  csr.cumulative = pointer<double>(file, prefix + "cumulative", DType::kFloat64);
  csr.times = pointer<int64_t>(file, prefix + "times", DType::kInt64);
  csr.edge_ids32 = pointer<uint32_t>(file, prefix + "edge_ids", DType::kUInt32);
  csr.edge_ids64 = pointer<uint64_t>(file, prefix + "edge_ids", DType::kUInt64);
  csr.by_time32 = pointer<uint32_t>(file, prefix + "by_time", DType::kUInt32);
  csr.by_time64 = pointer<uint64_t>(file, prefix + "by_time", DType::kUInt64);
  if (const ArrayInfo* indices = c.find(prefix + "indices")) csr.limit = indices->rows();
  if (const ArrayInfo* indptr = c.find(prefix + "indptr")) csr.changed.base_rows = indptr->rows() - 1;
  if (file.composed()) {
    csr.changed.index = pointer<uint64_t>(file, prefix + "rows.index", DType::kUInt64);
    csr.changed.table = pointer<uint64_t>(file, prefix + "rows.table", DType::kUInt64);
    csr.changed.count = c.find(prefix + "rows.table")->rows() / 4;
  }
  csr.sorted = (c.properties & kSortedRows) != 0;
  return csr;
}

}  // namespace

void fail_row(const MountedFile& file, uint64_t node, uint64_t begin, uint64_t end) {
  file.check();  // a page that could not be read explains it better
  fail<FormatError>(file.path(), ": row ", node, " spans ", begin, " to ", end, ", num_edges is ",
                    file.container().num_edges, ": the file is damaged, see graphzero verify");
}

void fail_neighbour(const MountedFile& file, uint64_t position, uint64_t neighbour, uint64_t limit) {
  file.check();
  fail<FormatError>(file.path(), ": indices[", position, "] = ", neighbour, " is past num_nodes = ", limit,
                    ": the file is damaged, see graphzero verify");
}

void fail_edge_id(const MountedFile& file, uint64_t position, uint64_t id) {
  file.check();
  fail<FormatError>(file.path(), ": edge_ids[", position, "] = ", id,
                    " is past 2^63: the file is damaged, see graphzero verify");
}

template <class Id>
typename Csr<Id>::Row Csr<Id>::changed_row(uint64_t node) const {
  return checked(node, changed_bounds(node));
}

template <class Id>
const uint64_t* Csr<Id>::changed_bounds(uint64_t node) const {
  return find(node).bounds;
}

template <class Id>
uint64_t Csr<Id>::changed_start(uint64_t node) const {
  return indptr[std::min(node, changed.base_rows)] + changed.shift(changed.before(node));
}

template struct Csr<uint32_t>;
template struct Csr<uint64_t>;

std::shared_ptr<const Topology> Topology::open(const std::string& path, std::span<const std::string> deltas) {
  return of(MountedFile::open(path, Kind::kTopology, deltas));
}

std::shared_ptr<const Topology> Topology::of(std::shared_ptr<const MountedFile> mounted) {
  std::shared_ptr<Topology> topology(new Topology);
  topology->file_ = std::move(mounted);
  const MountedFile& file = *topology->file_;
  const Container& c = file.container();
  const ArrayInfo* indices = c.find(has_out(c.direction) ? "out.indices" : "in.indices");
  topology->wide_ = indices != nullptr && indices->dtype == DType::kUInt64;
  if (has_out(c.direction)) {
    if (topology->wide_) {
      topology->out64_ = side<uint64_t>(file, "out.");
    } else {
      topology->out32_ = side<uint32_t>(file, "out.");
    }
  }
  if (has_in(c.direction)) {
    if (topology->wide_) {
      topology->in64_ = side<uint64_t>(file, "in.");
    } else {
      topology->in32_ = side<uint32_t>(file, "in.");
    }
  }
  return topology;
}

void Topology::need_square(const char* what) const {
  if (square()) return;
  fail<ArgumentError>(file_->path(), ": edges run from ", num_sources(), " source nodes to ", num_targets(),
                      " target nodes: ", what, " a graph with one set of nodes; see graphzero.HeteroGraph");
}

Direction Topology::resolve(Direction wanted) const {
  const Direction have = direction();
  if (wanted == Direction::kNone) return has_out(have) ? Direction::kOut : Direction::kIn;
  if (wanted == Direction::kBoth) fail<ArgumentError>("direction is 'both', expected 'out' or 'in'");
  if ((wanted == Direction::kOut && has_out(have)) || (wanted == Direction::kIn && has_in(have))) return wanted;
  fail<ArgumentError>(file_->path(), ": direction '", direction_name(wanted), "' is not in the file, which has '",
                      direction_name(have), "'; compile it with direction=\"", direction_name(wanted),
                      "\" or \"both\"");
}

}  // namespace gz
