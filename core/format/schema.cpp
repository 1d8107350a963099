// schema: which arrays a topology and a feature file hold, and of what type and length (FORMAT 5 and 6).
#include <string>

#include "base/error.h"
#include "format/container.h"

namespace gz {
namespace {

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

void check_topology(const Container& c, const std::string& path) {
  if (c.direction == Direction::kNone) fail<FormatError>(path, ": direction is 0, a topology has 1 to 3");
  if (c.num_nodes > (uint64_t{1} << 62) || c.num_edges > (uint64_t{1} << 62)) {
    fail<FormatError>(path, ": num_nodes is ", c.num_nodes, " and num_edges ", c.num_edges, ", expected below 2^62");
  }
  const bool narrow = c.num_nodes <= (uint64_t{1} << 32);
  for (const bool out : {true, false}) {
    if (!(out ? has_out(c.direction) : has_in(c.direction))) continue;
    const std::string side = out ? "out." : "in.";
    expect(c, path, side + "indptr", true, c.num_nodes + 1, {DType::kUInt64});
    expect(c, path, side + "indices", true, c.num_edges, {narrow ? DType::kUInt32 : DType::kUInt64});
    expect(c, path, side + "weights", false, c.num_edges, {DType::kFloat32});
    expect(c, path, side + "cumulative", false, c.num_edges, {DType::kFloat64});
    expect(c, path, side + "edge_ids", false, c.num_edges, {DType::kUInt32, DType::kUInt64});
    expect(c, path, side + "times", false, c.num_edges, {DType::kInt64});
    expect(c, path, side + "by_time", false, c.num_edges, {DType::kUInt32, DType::kUInt64});
  }
}

// A feature array "x" of int8 may have "x.scale", one float32 a column; everything else has num_nodes rows.
void check_features(const Container& c, const std::string& path) {
  for (const ArrayInfo& array : c.arrays) {
    const size_t dot = array.name.rfind(".scale");
    if (dot != std::string::npos && dot > 0 && dot + 6 == array.name.size()) {
      const ArrayInfo* scaled = c.find(array.name.substr(0, dot));
      if (scaled != nullptr) {
        expect(c, path, array.name, true, scaled->columns(), {DType::kFloat32});
        continue;
      }
    }
    if (array.rows() != c.num_nodes) {
      fail<FormatError>(path, ": array '", array.name, "' has ", array.rows(), " rows, num_nodes is ", c.num_nodes);
    }
  }
}

}  // namespace

void check_schema(const Container& c, const std::string& path) {
  if (c.kind == Kind::kTopology) {
    check_topology(c, path);
  } else {
    check_features(c, path);
  }
}

}  // namespace gz
