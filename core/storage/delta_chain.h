// delta_chain: a base file and the deltas after it, read as one file (FORMAT 9).
//
// Readers see one container whose arrays are as long as base and deltas together, at offsets of a file that does not
// exist. Each page of it is a page of one of the files: an extent says which.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/container.h"

namespace gz {

constexpr uint64_t kPositionStep = 1024;  // rows of a delta start at a multiple of this: a page boundary in every array

// Pages [at, at + bytes) of the composed file, from byte `offset` of file `file`: 0 for the base, then the deltas.
struct Extent {
  uint64_t at = 0, bytes = 0;
  uint32_t file = 0;
  uint64_t offset = 0;
};

struct ChainedFile {
  const Container& container;
  const std::string& path;
};

struct Composition {
  Container container;
  std::vector<Extent> extents;  // one after the other, without holes
};

// `files` are the base and at least one delta, oldest first. Throws FormatError if they do not belong together.
Composition compose(std::span<const ChainedFile> files);

// Whether an array of a topology has an element for every edge of a direction.
bool by_position(const std::string& name, Direction direction);

// Elements of an array of features that are before a delta, with `rows` rows before it: whole pages of them.
inline uint64_t elements_before(const ArrayInfo& base, uint64_t rows) {
  return rows * base.row_bytes() / kPageBytes * kPageBytes / dtype_bytes(base.dtype);
}

}  // namespace gz
