// delta_chain: which pages of which files make up each array.
#include "storage/delta_chain.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/checked.h"
#include "base/error.h"

namespace gz {
namespace {

constexpr const char* kRestore = "; restore the files of the dataset, or compile it again";

// Collects the extents of a composed file, array by array.
class Composer {
 public:
  explicit Composer(std::span<const ChainedFile> files) : files_(files) {
    const Container& base = files.front().container;
    made_.container = base;
    made_.container.arrays.clear();
    add(0, 0, base.header_bytes);
  }

  // Starts an array, which ends with finish().
  void begin(const ArrayInfo& array) {
    array_ = array;
    array_.offset = end_;
  }
  uint64_t bytes() const { return end_ - array_.offset; }  // of the array so far, in whole pages

  void add(uint32_t file, uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    made_.extents.push_back({end_, bytes, file, offset});
    end_ += bytes;
  }
  void add_array(uint32_t file, const ArrayInfo& array) { add(file, array.offset, round_up(array.bytes, kPageBytes)); }

  // Drops what follows the first `bytes` bytes of the array, whole pages.
  void cut(uint64_t bytes) {
    while (end_ > array_.offset + bytes) {
      Extent& last = made_.extents.back();
      const uint64_t keep = std::max(array_.offset + bytes, last.at) - last.at;
      end_ = last.at + keep;
      last.bytes = keep;
      if (keep == 0) made_.extents.pop_back();
    }
  }

  void finish(uint64_t rows) {
    array_.shape[0] = rows;
    array_.bytes = rows * array_.row_bytes();
    made_.container.arrays.push_back(array_);
  }

  Composition done() {
    const Container& newest = files_.back().container;
    Container& c = made_.container;
    c.num_nodes = newest.num_nodes;
    c.num_targets = newest.num_targets;
    c.num_edges = newest.num_edges;
    c.delta = newest.delta;
    c.file_bytes = end_;
    return std::move(made_);
  }

 private:
  std::span<const ChainedFile> files_;
  Composition made_;
  ArrayInfo array_;
  uint64_t end_ = 0;
};

void check_links(std::span<const ChainedFile> files) {
  const Container& base = files.front().container;
  const std::string& path = files.front().path;
  if (base.major == 0) {
    fail<FormatError>(path, ": a file of GraphZero 0.2 has no deltas; convert it with graphzero compile");
  }
  if (base.delta) fail<FormatError>(path, ": is a delta, expected the file that it was appended to");
  for (size_t i = 1; i < files.size(); ++i) {
    const auto& [delta, name] = files[i];
    const Container& before = files[i - 1].container;
    if (!delta.delta) fail<FormatError>(name, ": is not a delta, expected one of ", path, kRestore);
    if (delta.kind != base.kind || delta.delta->sequence != i || delta.delta->parent != before.identity()) {
      fail<FormatError>(name, ": was not written for ", files[i - 1].path, " (delta ", delta.delta->sequence,
                        " of its file, found in place ", i, ")", kRestore);
    }
    if (delta.direction != base.direction || delta.properties != base.properties) {
      fail<FormatError>(name, ": direction and properties are ", static_cast<uint32_t>(delta.direction), " and ",
                        delta.properties, ", expected ", static_cast<uint32_t>(base.direction), " and ",
                        base.properties, " as in ", path);
    }
    if (delta.sources() < before.sources() || delta.targets() < before.targets()) {
      fail<FormatError>(name, ": has ", delta.sources(), " nodes, fewer than the file before it");
    }
  }
}

const ArrayInfo& array_of(const ChainedFile& file, const ArrayInfo& like) {
  const ArrayInfo* array = file.container.find(like.name);
  if (array == nullptr) fail<FormatError>(file.path, ": array '", like.name, "' is missing", kRestore);
  if (array->dtype != like.dtype) {
    fail<FormatError>(file.path, ": array '", like.name, "' has dtype ", dtype_name(array->dtype), ", expected ",
                      dtype_name(like.dtype), " as in the file before it", kRestore);
  }
  return *array;
}

void compose_topology(std::span<const ChainedFile> files, Composer& composer) {
  const Container& base = files.front().container;
  for (const ArrayInfo& array : base.arrays) {
    composer.begin(array);
    composer.add_array(0, array);
    uint64_t limit = array.rows();
    for (uint32_t i = 1; by_position(array.name, base.direction) && i < files.size(); ++i) {
      const ArrayInfo& more = array_of(files[i], array);
      const uint64_t first = round_up(limit, kPositionStep);
      // No row is in the page or two that may be left out here. Any page will do, so that reads may cross them.
      while (composer.bytes() < first * array.row_bytes()) composer.add(0, 0, kPageBytes);
      composer.add_array(i, more);
      limit = first + more.rows();
    }
    if (array.name.ends_with(".indices") && files.back().container.num_edges > limit) {
      fail<FormatError>(files.back().path, ": num_edges is ", files.back().container.num_edges, ", but '", array.name,
                        "' has room for ", limit);
    }
    composer.finish(limit);
  }
  const auto newest = static_cast<uint32_t>(files.size() - 1);
  for (const ArrayInfo& array : files.back().container.arrays) {
    if (array.name.find(".rows.") == std::string::npos) continue;
    composer.begin(array);
    composer.add_array(newest, array);
    composer.finish(array.rows());
  }
}

void compose_features(std::span<const ChainedFile> files, Composer& composer) {
  const Container& base = files.front().container;
  for (const ArrayInfo& array : base.arrays) {
    composer.begin(array);
    composer.add_array(0, array);
    uint64_t rows = array.rows();
    for (uint32_t i = 1; !base.is_scale(array) && i < files.size(); ++i) {
      const ArrayInfo& more = array_of(files[i], array);
      const uint64_t before = elements_before(array, rows);
      rows = files[i].container.num_nodes;
      const auto elements = checked_mul(rows, array.columns());
      if (!elements || more.rows() != *elements - before) {
        fail<FormatError>(files[i].path, ": array '", array.name, "' has ", more.rows(), " elements, expected ",
                          elements.value_or(before) - before, " after the ", before, " before it");
      }
      composer.cut(before * dtype_bytes(array.dtype));
      composer.add_array(i, more);
    }
    composer.finish(rows);
  }
}

}  // namespace

bool by_position(const std::string& name, Direction direction) {
  const size_t dot = name.find('.');
  const std::string side = name.substr(0, dot + 1), what = name.substr(dot + 1);
  if (!(side == "out." && has_out(direction)) && !(side == "in." && has_in(direction))) return false;
  constexpr std::array<std::string_view, 6> kNames{"indices", "weights", "cumulative", "edge_ids", "times", "by_time"};
  return std::find(kNames.begin(), kNames.end(), what) != kNames.end();
}

Composition compose(std::span<const ChainedFile> files) {
  check_links(files);
  Composer composer(files);
  if (files.front().container.kind == Kind::kTopology) {
    compose_topology(files, composer);
  } else {
    compose_features(files, composer);
  }
  return composer.done();
}

}  // namespace gz
