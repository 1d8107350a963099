// schema: which arrays a topology and a feature file hold, and of what type and length (FORMAT 5 and 6).
#include <algorithm>
#include <string>

#include "base/error.h"
#include "format/container.h"

namespace gz {
namespace {

constexpr std::string_view kScale = ".scale";

void expect(const Container& c, const std::string& path, const std::string& name, bool required, uint64_t rows,
            std::initializer_list<DType> dtypes) {
  const ArrayInfo* array = c.find(name);
  if (array == nullptr) {
    if (required) fail<FormatError>(path, ": array '", name, "' is missing");
    return;
  }
  bool known = false;
  std::string names;
  for (const DType dtype : dtypes) {
    known = known || array->dtype == dtype;
    names += (names.empty() ? "" : " or ") + std::string(dtype_name(dtype));
  }
  if (!known) {
    fail<FormatError>(path, ": array '", name, "' has dtype ", dtype_name(array->dtype), ", expected ", names);
  }
  if (array->shape.size() != 1 || array->rows() != rows) {
    fail<FormatError>(path, ": array '", name, "' has ", array->rows(),
                      array->shape.size() == 2 ? " rows" : " elements", ", expected a vector of ", rows);
  }
}

void expect_together(const Container& c, const std::string& path, const std::string& derived,
                     const std::string& source) {
  if (c.find(derived) != nullptr && c.find(source) == nullptr) {
    fail<FormatError>(path, ": array '", derived, "' is there without '", source, "'");
  }
}

void check_rectangle(const Container& c, const std::string& path) {
  if (*c.num_targets > (uint64_t{1} << 62)) {
    fail<FormatError>(path, ": num_targets is ", *c.num_targets, ", expected at most 2^62");
  }
  if (*c.num_targets == c.num_nodes) {
    fail<FormatError>(path, ": num_targets is ", *c.num_targets, " like num_nodes, a rectangular file has two counts");
  }
  if ((c.properties & (kUndirected | kNoSelfLoops)) != 0) {
    fail<FormatError>(path, ": properties are ", c.properties,
                      ", a rectangular file is neither undirected (2) nor free of self-loops (8)");
  }
}

// The table of changed rows of one side of a delta (9). Returns the number of edges of the rows that the delta holds.
uint64_t check_changed_rows(const Container& c, const std::string& path, const std::string& side, uint64_t rows) {
  expect(c, path, side + "rows.index", true, 2 * (rows / 64 + 1), {DType::kUInt64});
  const ArrayInfo* table = c.find(side + "rows.table");
  expect(c, path, side + "rows.table", true, table == nullptr ? 0 : table->rows() / 4 * 4, {DType::kUInt64});
  const ArrayInfo* indices = c.find(side + "indices");
  return indices == nullptr ? 0 : indices->rows();
}

void check_topology(const Container& c, const std::string& path) {
  if (c.direction == Direction::kNone) fail<FormatError>(path, ": direction is 0, a topology has 1 to 3");
  if (c.num_nodes > (uint64_t{1} << 62) || c.num_edges > (uint64_t{1} << 62)) {
    fail<FormatError>(path, ": num_nodes is ", c.num_nodes, " and num_edges ", c.num_edges, ", expected below 2^62");
  }
  if (c.num_targets) check_rectangle(c, path);
  const bool narrow = std::max(c.sources(), c.targets()) <= (uint64_t{1} << 32);
  for (const bool out : {true, false}) {
    if (!(out ? has_out(c.direction) : has_in(c.direction))) continue;
    const std::string side = out ? "out." : "in.";
    const uint64_t rows = out ? c.sources() : c.targets();
    uint64_t edges = c.num_edges;
    if (c.delta) {
      edges = check_changed_rows(c, path, side, rows);
    } else {
      expect(c, path, side + "indptr", true, rows + 1, {DType::kUInt64});
    }
    expect(c, path, side + "indices", true, edges, {narrow ? DType::kUInt32 : DType::kUInt64});
    expect(c, path, side + "weights", false, edges, {DType::kFloat32});
    expect(c, path, side + "cumulative", false, edges, {DType::kFloat64});
    expect(c, path, side + "edge_ids", false, edges, {DType::kUInt32, DType::kUInt64});
    expect(c, path, side + "times", false, edges, {DType::kInt64});
    expect(c, path, side + "by_time", false, edges, {DType::kUInt32, DType::kUInt64});
    expect_together(c, path, side + "cumulative", side + "weights");
    expect_together(c, path, side + "by_time", side + "times");
  }
}

// The arrays of a delta are the ends of the arrays of the files before it: how long they are is checked when those are
// known (storage/delta_chain.h). All others:
// Every array has num_nodes rows but the scales of int8 arrays, which have one number per column.
void check_features(const Container& c, const std::string& path) {
  if (c.num_targets) fail<FormatError>(path, ": the rectangular flag is set, which only topologies may have");
  if (c.direction != Direction::kNone) {
    fail<FormatError>(path, ": direction is ", static_cast<uint32_t>(c.direction), ", features have 0");
  }
  if (c.num_nodes > (uint64_t{1} << 62)) {
    fail<FormatError>(path, ": num_nodes is ", c.num_nodes, ", expected below 2^62");
  }
  for (const ArrayInfo& array : c.arrays) {
    if (c.delta && array.shape.size() != 1) {
      fail<FormatError>(path, ": array '", array.name, "' of a delta has two dimensions, expected one");
    }
    if (c.delta) continue;
    if (const ArrayInfo* scale = c.scale_of(array)) {
      expect(c, path, scale->name, true, array.columns(), {DType::kFloat32});
    }
    if (!c.is_scale(array) && array.rows() != c.num_nodes) {
      fail<FormatError>(path, ": array '", array.name, "' has ", array.rows(), " rows, num_nodes is ", c.num_nodes);
    }
  }
}

}  // namespace

const ArrayInfo* Container::scale_of(const ArrayInfo& array) const {
  return array.dtype == DType::kInt8 ? find(array.name + std::string(kScale)) : nullptr;
}

bool Container::is_scale(const ArrayInfo& array) const {
  const std::string_view name = array.name;
  if (!name.ends_with(kScale)) return false;
  const ArrayInfo* scaled = find(name.substr(0, name.size() - kScale.size()));
  return scaled != nullptr && scaled->dtype == DType::kInt8;
}

void check_schema(const Container& c, const std::string& path) {
  if (c.kind == Kind::kTopology) {
    check_topology(c, path);
  } else {
    check_features(c, path);
  }
}

}  // namespace gz
