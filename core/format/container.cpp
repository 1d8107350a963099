// container: parse, validate, lay out and serialize the header (FORMAT 2 and 3).
#include "format/container.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/error.h"

namespace gz {
namespace {

// Byte positions of the header's fields (FORMAT 2) and of a table entry's (FORMAT 3).
enum Field : size_t {
  kAtMagic = 0,
  kAtMajor = 8,
  kAtMinor = 10,
  kAtKind = 12,
  kAtCompatible = 16,
  kAtIncompatible = 24,
  kAtFileBytes = 32,
  kAtHeaderBytes = 40,
  kAtNumNodes = 48,
  kAtNumEdges = 56,
  kAtDirection = 64,
  kAtProperties = 68,
  kAtNumArrays = 72,
  kAtChecksum = 76,
  kAtNumTargets = 80,
  kAtParent = 88,
  kAtSequence = 96,
  kAtNextEdgeId = 104,
  kAtReserved = 112,
  kAtTable = 128,
};
enum EntryField : size_t {
  kAtName = 0,
  kAtDType = 32,
  kAtRank = 36,
  kAtShape = 40,
  kAtOffset = 56,
  kAtBytes = 64,
  kAtDigest = 72,
  kAtEntryReserved = 80,
};
constexpr size_t kNameBytes = 32;
constexpr size_t kEntryBytes = 96;
constexpr size_t kMostArrays = (kMostHeaderBytes - kAtTable) / kEntryBytes;

template <class T>
T load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void store(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() < kNameBytes && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == '/';
  });
}

uint32_t header_crc(std::span<const std::byte> header) {  // the checksum's own four bytes count as zero
  const std::array<std::byte, 4> zeros{};
  uint32_t crc = crc32c(header.first(kAtChecksum));
  crc = crc32c(zeros, crc);
  return crc32c(header.subspan(kAtChecksum + 4), crc);
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::optional<uint64_t> array_bytes(DType dtype, const std::vector<uint64_t>& shape) {
  std::optional<uint64_t> bytes = dtype_bytes(dtype);
  for (const uint64_t extent : shape) bytes = bytes ? checked_mul(*bytes, extent) : bytes;
  return bytes;
}

ArrayInfo parse_entry(std::span<const std::byte> entry, size_t index, const std::string& path) {
  ArrayInfo array;
  const auto* raw = reinterpret_cast<const char*>(entry.data());
  const size_t length = static_cast<size_t>(std::find(raw, raw + kNameBytes, '\0') - raw);
  array.name.assign(raw, length);
  if (!good_name(array.name) || !all_zero(entry.subspan(length, kNameBytes - length))) {
    fail<FormatError>(path, ": array ", index, ": name is not 1 to 31 letters, digits or _.-/ padded with zeros");
  }
  const auto code = load<uint32_t>(entry, kAtDType);
  const auto dtype = dtype_from_code(code);
  if (!dtype) fail<FormatError>(path, ": array '", array.name, "': dtype code is ", code, ", expected 1 to 12");
  array.dtype = *dtype;
  const auto rank = load<uint32_t>(entry, kAtRank);
  if (rank != 1 && rank != 2) {
    fail<FormatError>(path, ": array '", array.name, "': rank is ", rank, ", expected 1 or 2");
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto extent = load<uint64_t>(entry, kAtShape + 8 * i);
    if (i < rank) {
      array.shape.push_back(extent);
    } else if (extent != 0) {
      fail<FormatError>(path, ": array '", array.name, "': shape[1] is ", extent, ", expected 0 for a vector");
    }
  }
  array.offset = load<uint64_t>(entry, kAtOffset);
  array.bytes = load<uint64_t>(entry, kAtBytes);
  array.digest = load<uint64_t>(entry, kAtDigest);
  const auto bytes = array_bytes(array.dtype, array.shape);
  if (!bytes) fail<FormatError>(path, ": array '", array.name, "': the shape overflows 64 bits");
  if (*bytes != array.bytes) {
    fail<FormatError>(path, ": array '", array.name, "': bytes is ", array.bytes, ", expected ", *bytes,
                      " from its dtype and shape");
  }
  if (!all_zero(entry.subspan(kAtEntryReserved, kEntryBytes - kAtEntryReserved))) {
    fail<FormatError>(path, ": array '", array.name, "': reserved bytes are not zero");
  }
  return array;
}

}  // namespace

const char* direction_name(Direction d) {
  constexpr std::array<const char*, 4> names{"none", "out", "in", "both"};
  return names[static_cast<size_t>(d) & 3];
}

const ArrayInfo* Container::find(std::string_view name) const {
  const auto at = std::find_if(arrays.begin(), arrays.end(), [&](const ArrayInfo& a) { return a.name == name; });
  return at == arrays.end() ? nullptr : &*at;
}

uint64_t announced_header_bytes(std::span<const std::byte> first_page, const std::string& path) {
  if (first_page.size() < kPageBytes) {
    fail<FormatError>(path, ": ", first_page.size(), " bytes, a GraphZero file has at least ", kPageBytes,
                      "; it was truncated, or is not a compiled file (see graphzero compile)");
  }
  if (std::memcmp(first_page.data(), kMagic.data(), kMagic.size()) != 0) {
    fail<FormatError>(path,
                      ": not a GraphZero file: the magic bytes at 0 are missing; compile edges and rows first, "
                      "see graphzero compile");
  }
  const auto major = load<uint16_t>(first_page, kAtMajor);
  if (major != kVersionMajor) {
    fail<FormatError>(path, ": format version ", major, ".", load<uint16_t>(first_page, kAtMinor),
                      ", this GraphZero reads version ", kVersionMajor, ".x; upgrade GraphZero");
  }
  const auto bytes = load<uint64_t>(first_page, kAtHeaderBytes);
  if (bytes < kPageBytes || bytes > kMostHeaderBytes || bytes % kPageBytes != 0) {
    fail<FormatError>(path, ": header_bytes is ", bytes, ", expected a multiple of ", kPageBytes, " up to ",
                      kMostHeaderBytes);
  }
  return bytes;
}

Container parse_header(std::span<const std::byte> header, uint64_t file_bytes, const std::string& path) {
  Container c;
  c.header_bytes = announced_header_bytes(header, path);
  if (header.size() < c.header_bytes) {
    fail<FormatError>(path, ": the file ends inside its header (", header.size(), " of ", c.header_bytes, " bytes)");
  }
  header = header.first(c.header_bytes);
  const auto stored = load<uint32_t>(header, kAtChecksum), computed = header_crc(header);
  if (stored != computed) {
    fail<FormatError>(path, ": header checksum is ", stored, ", expected ", computed, ": the header is damaged");
  }
  c.major = load<uint16_t>(header, kAtMajor);
  c.minor = load<uint16_t>(header, kAtMinor);
  c.compatible = load<uint64_t>(header, kAtCompatible);
  c.incompatible = load<uint64_t>(header, kAtIncompatible);
  if ((c.incompatible & ~(kRectangular | kDelta)) != 0) {
    fail<FormatError>(path, ": incompatible flags are ", c.incompatible, " (version ", c.major, ".", c.minor,
                      "), this GraphZero supports only 1 and 2; upgrade GraphZero");
  }
  const auto kind = load<uint32_t>(header, kAtKind);
  if (kind != 1 && kind != 2) {
    fail<FormatError>(path, ": kind is ", kind, ", expected 1 (topology) or 2 (features)");
  }
  c.kind = static_cast<Kind>(kind);
  c.file_bytes = load<uint64_t>(header, kAtFileBytes);
  if (c.file_bytes != file_bytes) {
    fail<FormatError>(path, ": file_bytes is ", c.file_bytes, ", the file has ", file_bytes,
                      c.file_bytes > file_bytes ? ": it was truncated" : ": data was appended");
  }
  c.num_nodes = load<uint64_t>(header, kAtNumNodes);
  c.num_edges = load<uint64_t>(header, kAtNumEdges);
  const auto targets = load<uint64_t>(header, kAtNumTargets);
  if ((c.incompatible & kRectangular) != 0) {
    c.num_targets = targets;
  } else if (targets != 0) {
    fail<FormatError>(path, ": num_targets is ", targets, ", expected 0 in a file that is not rectangular");
  }
  const auto direction = load<uint32_t>(header, kAtDirection);
  if (direction > 3) fail<FormatError>(path, ": direction is ", direction, ", expected 0 to 3");
  c.direction = static_cast<Direction>(direction);
  c.properties = load<uint32_t>(header, kAtProperties);
  if ((c.incompatible & kDelta) != 0) {
    c.delta = {load<uint64_t>(header, kAtParent), load<uint64_t>(header, kAtSequence),
               load<uint64_t>(header, kAtNextEdgeId)};
  }
  c.checksum = stored;
  const size_t reserved = c.delta ? kAtReserved : kAtParent;
  if (!all_zero(header.subspan(reserved, kAtTable - reserved))) {
    fail<FormatError>(path, ": reserved header bytes are not zero");
  }
  const auto count = load<uint32_t>(header, kAtNumArrays);
  const uint64_t room = (c.header_bytes - kAtTable) / kEntryBytes;
  if (count > room) {
    fail<FormatError>(path, ": num_arrays is ", count, ", the header has room for ", room);
  }
  std::unordered_set<std::string> names;
  uint64_t expected_offset = c.header_bytes;
  for (size_t i = 0; i < count; ++i) {
    ArrayInfo array = parse_entry(header.subspan(kAtTable + i * kEntryBytes, kEntryBytes), i, path);
    if (!names.insert(array.name).second) fail<FormatError>(path, ": array '", array.name, "' is listed twice");
    if (array.offset != expected_offset) {  // no holes, no overlap
      fail<FormatError>(path, ": array '", array.name, "': offset is ", array.offset, ", expected ", expected_offset);
    }
    const auto end = checked_add(array.offset, array.bytes);
    const auto next = end ? checked_round_up(*end, kPageBytes) : end;
    if (!next || *end > file_bytes) {
      fail<FormatError>(path, ": array '", array.name, "' ends past the file's ", file_bytes, " bytes");
    }
    expected_offset = *next;
    c.arrays.push_back(std::move(array));
  }
  if (expected_offset != file_bytes) {
    fail<FormatError>(path, ": the arrays end at ", expected_offset, ", the file at ", file_bytes);
  }
  if (!all_zero(header.subspan(kAtTable + count * kEntryBytes))) {
    fail<FormatError>(path, ": bytes after the array table are not zero");
  }
  check_schema(c, path);
  return c;
}

void lay_out(Container& c) {
  if (c.num_targets && *c.num_targets == c.num_nodes) c.num_targets.reset();
  c.incompatible = (c.num_targets ? kRectangular : 0) | (c.delta ? kDelta : 0);
  c.minor = c.delta ? kDeltaMinor : c.num_targets ? kRectangularMinor : kVersionMinor;
  if (c.arrays.size() > kMostArrays) {
    fail<ArgumentError>("a file holds at most ", kMostArrays, " arrays, got ", c.arrays.size());
  }
  c.header_bytes = round_up(kAtTable + c.arrays.size() * kEntryBytes, kPageBytes);
  std::unordered_set<std::string> names;
  uint64_t offset = c.header_bytes;
  for (ArrayInfo& array : c.arrays) {
    if (!good_name(array.name)) {
      fail<ArgumentError>("array name '", array.name, "' is not 1 to 31 letters, digits or _.-/");
    }
    if (!names.insert(array.name).second) fail<ArgumentError>("array name '", array.name, "' is used twice");
    const auto bytes = array_bytes(array.dtype, array.shape);
    const auto end = bytes ? checked_add(offset, *bytes) : bytes;
    const auto next = end ? checked_round_up(*end, kPageBytes) : end;
    if (!next) fail<ArgumentError>("array '", array.name, "' is too large for a file");
    array.offset = offset;
    array.bytes = *bytes;
    offset = *next;
  }
  c.file_bytes = offset;
}

std::vector<std::byte> serialize_header(const Container& c) {
  std::vector<std::byte> header(c.header_bytes);
  std::memcpy(header.data() + kAtMagic, kMagic.data(), kMagic.size());
  store(header, kAtMajor, c.major);
  store(header, kAtMinor, c.minor);
  store(header, kAtKind, static_cast<uint32_t>(c.kind));
  store(header, kAtCompatible, c.compatible);
  store(header, kAtIncompatible, c.incompatible);
  store(header, kAtFileBytes, c.file_bytes);
  store(header, kAtHeaderBytes, c.header_bytes);
  store(header, kAtNumNodes, c.num_nodes);
  store(header, kAtNumEdges, c.num_edges);
  store(header, kAtNumTargets, c.num_targets.value_or(0));
  store(header, kAtDirection, static_cast<uint32_t>(c.direction));
  store(header, kAtProperties, c.properties);
  if (c.delta) {
    store(header, kAtParent, c.delta->parent);
    store(header, kAtSequence, c.delta->sequence);
    store(header, kAtNextEdgeId, c.delta->next_edge_id);
  }
  store(header, kAtNumArrays, static_cast<uint32_t>(c.arrays.size()));
  for (size_t i = 0; i < c.arrays.size(); ++i) {
    const ArrayInfo& array = c.arrays[i];
    const size_t at = kAtTable + i * kEntryBytes;
    std::memcpy(header.data() + at + kAtName, array.name.data(), array.name.size());
    store(header, at + kAtDType, static_cast<uint32_t>(array.dtype));
    store(header, at + kAtRank, static_cast<uint32_t>(array.shape.size()));
    for (size_t d = 0; d < array.shape.size(); ++d) store(header, at + kAtShape + 8 * d, array.shape[d]);
    store(header, at + kAtOffset, array.offset);
    store(header, at + kAtBytes, array.bytes);
    store(header, at + kAtDigest, array.digest);
  }
  store(header, kAtChecksum, header_crc(header));
  return header;
}

}  // namespace gz
