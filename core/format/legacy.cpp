// legacy: two headers from before the container (FORMAT 8).
#include "format/legacy.h"

#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace gz {
namespace {

constexpr uint64_t kGraphMagic = 8388354976772092519ull;  // "graphlit"
constexpr char kDataMagic[] = "GZDATA26";
constexpr uint64_t kGraphHeader = 64, kDataHeader = 32;

template <class T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

ArrayInfo vector_of(const std::string& path, const std::string& name, DType dtype, uint64_t count, uint64_t offset,
                    uint64_t file_bytes) {
  ArrayInfo array;
  array.name = name;
  array.dtype = dtype;
  array.shape = {count};
  array.offset = offset;
  const auto bytes = checked_mul(count, dtype_bytes(dtype));
  const auto end = bytes ? checked_add(offset, *bytes) : bytes;
  if (!end || *end > file_bytes || offset % dtype_bytes(dtype) != 0) {
    fail<FormatError>(path, ": (GraphZero 0.2 file) ", name, " at byte ", offset, " with ", count,
                      " elements does not fit the file's ", file_bytes, " bytes");
  }
  array.bytes = *bytes;
  return array;
}

Container parse_graph(std::span<const std::byte> start, uint64_t file_bytes, const std::string& path) {
  Container c;
  c.kind = Kind::kTopology;
  c.major = c.minor = 0;
  c.file_bytes = file_bytes;
  c.header_bytes = kGraphHeader;
  c.direction = Direction::kOut;
  const auto indptr_bytes = load<uint64_t>(start, 8), indices_bytes = load<uint64_t>(start, 16);
  const auto indptr_at = load<uint64_t>(start, 24), indices_at = load<uint64_t>(start, 32);
  c.num_nodes = load<uint64_t>(start, 40);
  c.num_edges = load<uint64_t>(start, 48);
  const auto flags = load<uint64_t>(start, 56);
  if (c.num_nodes > (uint64_t{1} << 60) || indptr_bytes != (c.num_nodes + 1) * 8) {
    fail<FormatError>(path, ": (GraphZero 0.2 file) indptr has ", indptr_bytes, " bytes, num_nodes is ", c.num_nodes);
  }
  if (c.num_edges > (uint64_t{1} << 60) || indices_bytes != c.num_edges * 8) {
    fail<FormatError>(path, ": (GraphZero 0.2 file) indices has ", indices_bytes, " bytes, num_edges is ", c.num_edges);
  }
  c.arrays.push_back(vector_of(path, "out.indptr", DType::kUInt64, c.num_nodes + 1, indptr_at, file_bytes));
  c.arrays.push_back(vector_of(path, "out.indices", DType::kUInt64, c.num_edges, indices_at, file_bytes));
  if ((flags & 1) != 0) {  // float32 weights follow the indices on the next 64-byte boundary
    const uint64_t at = round_up(indices_at + indices_bytes, 64);
    c.arrays.push_back(vector_of(path, "out.weights", DType::kFloat32, c.num_edges, at, file_bytes));
  }
  return c;
}

Container parse_data(std::span<const std::byte> start, uint64_t file_bytes, const std::string& path) {
  constexpr DType kTypes[] = {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64};
  Container c;
  c.kind = Kind::kFeatures;
  c.major = c.minor = 0;
  c.file_bytes = file_bytes;
  c.header_bytes = kDataHeader;
  const auto code = load<uint32_t>(start, 12);
  if (code > 3) fail<FormatError>(path, ": (GraphZero 0.2 file) dtype is ", code, ", expected 0 to 3");
  c.num_nodes = load<uint64_t>(start, 16);
  const auto dim = load<uint64_t>(start, 24);
  if (c.num_nodes > (uint64_t{1} << 60)) {
    fail<FormatError>(path, ": (GraphZero 0.2 file) num_nodes is ", c.num_nodes, ", expected below 2^60");
  }
  const auto count = checked_mul(c.num_nodes, dim);
  if (!count) fail<FormatError>(path, ": (GraphZero 0.2 file) ", c.num_nodes, " rows of ", dim, " overflow 64 bits");
  ArrayInfo rows = vector_of(path, "x", kTypes[code], *count, kDataHeader, file_bytes);
  rows.shape = {c.num_nodes, dim};
  c.arrays.push_back(std::move(rows));
  return c;
}

}  // namespace

std::optional<Container> parse_legacy(std::span<const std::byte> start, uint64_t file_bytes, const std::string& path) {
  if (start.size() >= kGraphHeader && load<uint64_t>(start, 0) == kGraphMagic) {
    return parse_graph(start, file_bytes, path);
  }
  if (start.size() >= kDataHeader && std::memcmp(start.data(), kDataMagic, 8) == 0) {
    return parse_data(start, file_bytes, path);
  }
  return std::nullopt;
}

}  // namespace gz
