// mounted: open, validate the header, map.
#include "storage/mounted.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "format/legacy.h"

namespace gz {
namespace {

Container read_container(const File& file) {
  const std::string& path = file.path();
  if (!file.is_regular()) fail<FormatError>(path, ": not a regular file");
  const uint64_t size = file.size();
  std::vector<std::byte> header(std::min<uint64_t>(size, kPageBytes));
  file.read_at(header, 0);
  if (auto legacy = parse_legacy(header, size, path)) return *legacy;
  const uint64_t bytes = announced_header_bytes(header, path);
  if (bytes > size) fail<FormatError>(path, ": header_bytes is ", bytes, ", the file has ", size);
  if (bytes > header.size()) {
    header.resize(bytes);
    file.read_at(header, 0);
  }
  return parse_header(header, size, path);
}

const char* kind_name(Kind kind) { return kind == Kind::kTopology ? "a topology (.gl)" : "features (.gd)"; }

}  // namespace

std::shared_ptr<const MountedFile> MountedFile::open(const std::string& path) {
  std::shared_ptr<MountedFile> mounted(new MountedFile);
  mounted->file_ = File::open(path);
  mounted->container_ = read_container(mounted->file_);
  mounted->mapping_ = Mapping::map(mounted->file_, mounted->container_.file_bytes, Mapping::Access::kReadOnly);
  return mounted;
}

std::shared_ptr<const MountedFile> MountedFile::open(const std::string& path, Kind kind) {
  auto mounted = open(path);
  if (mounted->container_.kind != kind) {
    fail<FormatError>(path, ": holds ", kind_name(mounted->container_.kind), ", expected ", kind_name(kind),
                      ": open it with ", kind == Kind::kTopology ? "FeatureStore" : "Graph");
  }
  return mounted;
}

const File* MountedFile::direct() const {
  std::call_once(direct_once_, [&] { direct_ = file_.reopen_direct(); });
  return direct_ ? &direct_ : nullptr;
}

std::shared_ptr<Mapping> MountedFile::user_mapping() const {
  std::call_once(user_once_, [&] {
    user_mapping_ = Mapping::map(file_, container_.file_bytes, Mapping::Access::kCopyOnWrite);
    user_.store(user_mapping_.get(), std::memory_order_release);
  });
  return user_mapping_;
}

void MountedFile::check() const {
  mapping_->check();
  if (const Mapping* user = user_.load(std::memory_order_acquire)) user->check();
}

void MountedFile::check_size() const {
  const uint64_t size = file_.size();
  if (size < container_.file_bytes) {
    throw StorageError(text(path(), ": the file has ", size, " bytes, it had ", container_.file_bytes,
                            " when it was opened: someone truncated it. Restore it and open it again"),
                       EIO, path());
  }
}

}  // namespace gz
