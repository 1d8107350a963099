// mounted: open, validate the header, map.
#include "storage/mounted.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "format/legacy.h"

#ifndef _WIN32
#include <pthread.h>
#endif

namespace gz {
namespace {

Container read_container(const File& file) {
  const std::string& path = file.path();
  if (!file.is_regular())
    fail<FormatError>(path, ": not a regular file, expected a .gl or .gd file (a dataset folder opens with Dataset)");
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

// What is open, for mounted_files(). A fork waits for the lock, so a child never finds it taken.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<const MountedFile>> files;  // guarded by mutex
};

Registry& registry() {
  static auto* all = [] {
    auto* fresh = new Registry;  // never destroyed: files may be opened while statics are
#ifndef _WIN32
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] { registry().mutex.unlock(); });
#endif
    return fresh;
  }();
  return *all;
}

void remember(const std::shared_ptr<const MountedFile>& file) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (all.files.size() == all.files.capacity()) {  // before it grows: those that were closed make room
    std::erase_if(all.files, [](const auto& f) { return f.expired(); });
    all.files.reserve(std::max<size_t>(16, all.files.size() * 2));
  }
  all.files.push_back(file);
}

const char* kind_name(Kind kind) { return kind == Kind::kTopology ? "a topology (.gl)" : "features (.gd)"; }

}  // namespace

std::shared_ptr<const MountedFile> MountedFile::open(const std::string& path) {
  std::shared_ptr<MountedFile> mounted(new MountedFile);
  mounted->file_ = File::open(path);
  mounted->container_ = read_container(mounted->file_);
  mounted->mapping_ = Mapping::map(mounted->file_, mounted->container_.file_bytes, Mapping::Access::kReadOnly);
  remember(mounted);
  return mounted;
}

std::vector<std::shared_ptr<const MountedFile>> mounted_files() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::shared_ptr<const MountedFile>> open;
  for (const auto& file : all.files) {
    if (auto live = file.lock()) open.push_back(std::move(live));
  }
  return open;
}

std::shared_ptr<const MountedFile> MountedFile::open(const std::string& path, Kind kind) {
  auto mounted = open(path);
  if (mounted->container_.kind != kind) {
    fail<FormatError>(path, ": holds ", kind_name(mounted->container_.kind), ", expected ", kind_name(kind),
                      "; open it with ", kind == Kind::kTopology ? "FeatureStore" : "Graph");
  }
  return mounted;
}

const File* MountedFile::direct() const {
  if (direct_refused_) return nullptr;
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
                            " when it was opened: it was truncated. Restore it and open it again"),
                       EIO, path());
  }
}

}  // namespace gz
