// file: what is the same on every platform.
#include "storage/file.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace gz {

void File::read_at(std::span<std::byte> buffer, uint64_t offset) const {
  while (!buffer.empty()) {
    const size_t got = read_some_at(buffer, offset);
    if (got == 0) {
      throw StorageError(text(path_, ": the file ends at byte ", std::min(offset, size()), ", expected to reach byte ",
                              offset + buffer.size(), ": it was truncated by another process"),
                         EIO, path_);
    }
    buffer = buffer.subspan(got);
    offset += got;
  }
}

}  // namespace gz
