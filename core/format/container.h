// container: the header of a .gl or .gd file, as bytes and as a validated value. FORMAT.md is the specification;
// section numbers below are its.
//
// Guarantee: parse_header() accepts any bytes, reads only the header, and returns a Container whose arrays are inside
// the file, on page boundaries, in order, without overlap or holes, with sizes that follow from dtype and shape. It
// does not look at the arrays themselves: that is verify()'s work (storage/verify.h).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/dtype.h"

namespace gz {

// Files are memory images, and little-endian (1).
static_assert(std::endian::native == std::endian::little, "GraphZero runs on little-endian machines only");

constexpr uint64_t kPageBytes = 4096;  // header pages and array boundaries (2)
constexpr uint64_t kMostHeaderBytes = uint64_t{1} << 20;
constexpr uint16_t kVersionMajor = 1;
constexpr uint16_t kVersionMinor = 0;  // of files that need no more
constexpr uint16_t kRectangularMinor = 1, kDeltaMinor = 2;
constexpr uint64_t kRectangular = 1, kDelta = 2;  // incompatible flags: of a file with num_targets, of a delta (2)
constexpr std::array<uint8_t, 8> kMagic{0x89, 'G', 'Z', 'F', '\r', '\n', 0x1a, '\n'};

enum class Kind : uint32_t { kTopology = 1, kFeatures = 2 };

// Which way the rows of a topology run (5): row u of `out` holds the targets of u's edges, row v of `in` the sources.
enum class Direction : uint32_t { kNone = 0, kOut = 1, kIn = 2, kBoth = 3 };
constexpr bool has_out(Direction d) { return (static_cast<uint32_t>(d) & 1) != 0; }
constexpr bool has_in(Direction d) { return (static_cast<uint32_t>(d) & 2) != 0; }
const char* direction_name(Direction d);

// Properties of a topology (5), each a promise of the writer that `verify` checks where it can.
constexpr uint32_t kSortedRows = 1;    // every row ascends by neighbour id
constexpr uint32_t kUndirected = 2;    // each source edge was stored in both directions
constexpr uint32_t kDeduplicated = 4;  // no (row, neighbour) twice
constexpr uint32_t kNoSelfLoops = 8;

struct ArrayInfo {
  std::string name;  // at most 31 bytes of [a-z A-Z 0-9 _ . - /], unique in the file
  DType dtype = DType::kUInt8;
  std::vector<uint64_t> shape;  // one or two numbers
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t digest = 0;

  uint64_t rows() const { return shape[0]; }
  uint64_t columns() const { return shape.size() == 2 ? shape[1] : 1; }
  uint64_t row_bytes() const { return columns() * dtype_bytes(dtype); }
};

// What a delta says about the files before it (9).
struct DeltaLink {
  uint64_t parent = 0;        // identity() of the file before it: the base, or another delta
  uint64_t sequence = 0;      // 1 for the first delta of a base
  uint64_t next_edge_id = 0;  // of a topology with edge ids: the first id that was never used
};

struct Container {
  Kind kind = Kind::kTopology;
  uint16_t major = kVersionMajor, minor = kVersionMinor;
  uint64_t compatible = 0, incompatible = 0;
  uint64_t file_bytes = 0;
  uint64_t header_bytes = kPageBytes;
  uint64_t num_nodes = 0, num_edges = 0;
  std::optional<uint64_t> num_targets;  // a rectangular topology: num_nodes counts its sources
  Direction direction = Direction::kNone;
  uint32_t properties = 0;
  std::vector<ArrayInfo> arrays;
  std::optional<DeltaLink> delta;  // in a delta
  uint32_t checksum = 0;           // of the header, as it was read

  // Tells apart what a delta may follow: headers hold the digests of all arrays.
  uint64_t identity() const { return (file_bytes / kPageBytes) << 32 | checksum; }

  // A topology's edges run from nodes below the one number to nodes below the other; equal for a square one.
  uint64_t sources() const { return num_nodes; }
  uint64_t targets() const { return num_targets.value_or(num_nodes); }

  const ArrayInfo* find(std::string_view name) const;
  // The scale of an int8 feature array (6), null for any other array.
  const ArrayInfo* scale_of(const ArrayInfo& array) const;
  bool is_scale(const ArrayInfo& array) const;
};

// How many header bytes `first_page` announces, so that a reader knows what to hand to parse_header(); throws
// FormatError when it is not the first page of a GraphZero file.
uint64_t announced_header_bytes(std::span<const std::byte> first_page, const std::string& path);

// Parses and validates. `file_bytes` is the size the file really has; `path` is for messages.
Container parse_header(std::span<const std::byte> header, uint64_t file_bytes, const std::string& path);

// Lays arrays out: gives each its bytes and offset, sets header_bytes and file_bytes. Throws ArgumentError for names,
// shapes or sums that the format cannot hold.
void lay_out(Container& container);

// The header pages of a container that was laid out, checksum included.
std::vector<std::byte> serialize_header(const Container& container);

// Schemas (5, 6, 9): what the arrays of each kind must be. Throws FormatError naming the array.
void check_schema(const Container& container, const std::string& path);

}  // namespace gz
