// mounted: open, validate the header, map.
#include "storage/mounted.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/fork.h"
#include "base/random.h"
#include "format/legacy.h"
#include "storage/local_ranks.h"

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

// What is open, for mounted_files().
struct Registry {
  ForkSafeMutex mutex;
  std::vector<std::weak_ptr<const MountedFile>> files;  // guarded by mutex
};

Registry& g_registry = *new Registry;  // never destroyed: files may be opened while statics are

void remember(const std::shared_ptr<const MountedFile>& file) {
  Registry& all = g_registry;
  std::lock_guard lock(all.mutex);
  if (all.files.size() == all.files.capacity()) {  // before it grows: those that were closed make room
    std::erase_if(all.files, [](const auto& f) { return f.expired(); });
    all.files.reserve(std::max<size_t>(16, all.files.size() * 2));
  }
  all.files.push_back(file);
}

const char* kind_name(Kind kind) { return kind == Kind::kTopology ? "a topology (.gl)" : "features (.gd)"; }

}  // namespace

std::shared_ptr<MountedFile> MountedFile::open_one(const std::string& path) {
  std::shared_ptr<MountedFile> mounted(new MountedFile);
  mounted->file_ = File::open(path);
  mounted->container_ = read_container(mounted->file_);
  mounted->own_bytes_ = mounted->container_.file_bytes;
  return mounted;
}

std::shared_ptr<Mapping> MountedFile::map(Mapping::Access access) const {
  if (!composed()) return Mapping::map(file_, container_.file_bytes, access);
  std::vector<Mapping::Part> parts;
  for (const Extent& e : extents_) {
    parts.push_back({e.file == 0 ? &file_ : &deltas_[e.file - 1]->file_, e.offset, e.bytes});
  }
  return Mapping::map(path(), parts, access);
}

std::shared_ptr<const MountedFile> MountedFile::open(const std::string& path) {
  auto mounted = open_one(path);
  mounted->mapping_ = mounted->map(Mapping::Access::kReadOnly);
  remember(mounted);
  return mounted;
}

std::vector<std::shared_ptr<const MountedFile>> mounted_files() {
  Registry& all = g_registry;
  std::lock_guard lock(all.mutex);
  std::vector<std::shared_ptr<const MountedFile>> open;
  for (const auto& file : all.files) {
    if (auto live = file.lock()) open.push_back(std::move(live));
  }
  return open;
}

std::shared_ptr<const MountedFile> MountedFile::open(const std::string& path, Kind kind,
                                                     std::span<const std::string> deltas) {
  auto mounted = open_one(path);
  if (mounted->container_.kind != kind) {
    fail<FormatError>(path, ": holds ", kind_name(mounted->container_.kind), ", expected ", kind_name(kind),
                      "; open it with ", kind == Kind::kTopology ? "FeatureStore" : "Graph");
  }
  if (mounted->container_.delta) {
    fail<FormatError>(path, ": is delta ", mounted->container_.delta->sequence,
                      " of another file and cannot be opened by itself; open the dataset it belongs to");
  }
  std::vector<ChainedFile> chain{{mounted->container_, mounted->path()}};
  for (const std::string& delta : deltas) {
    mounted->deltas_.push_back(open_one(delta));
    chain.push_back({mounted->deltas_.back()->container_, mounted->deltas_.back()->path()});
  }
  if (!deltas.empty()) {
    Composition whole = compose(chain);
    mounted->container_ = std::move(whole.container);
    mounted->extents_ = std::move(whole.extents);
  }
  mounted->mapping_ = mounted->map(Mapping::Access::kReadOnly);
  remember(mounted);
  return mounted;
}

void MountedFile::give_up_direct() const {
  direct_refused_ = true;
  for (const auto& delta : deltas_) delta->give_up_direct();
}

MountedFile::Place MountedFile::place_of(uint64_t offset) const {
  if (!composed()) return {*this, offset, container_.file_bytes - std::min(offset, container_.file_bytes)};
  const auto after = std::upper_bound(extents_.begin(), extents_.end(), offset,
                                      [](uint64_t at, const Extent& extent) { return at < extent.at; });
  const Extent& e = *std::prev(after);
  const uint64_t into = offset - e.at;
  return {e.file == 0 ? *this : *deltas_[e.file - 1], e.offset + into, e.bytes - std::min(into, e.bytes)};
}

void MountedFile::read_at(std::span<std::byte> buffer, uint64_t offset) const {
  while (!buffer.empty()) {
    const Place place = place_of(offset);
    const size_t bytes = std::min<uint64_t>(buffer.size(), place.bytes);
    if (bytes == 0) return place.owner.file_.read_at(buffer, place.offset);  // past the end: throws
    place.owner.file_.read_at(buffer.first(bytes), place.offset);
    buffer = buffer.subspan(bytes);
    offset += bytes;
  }
}

std::optional<uint64_t> MountedFile::cached_pages(uint64_t offset, uint64_t bytes) const {
  if (!composed()) return file_.cached_pages(offset, bytes);
  uint64_t pages = 0;
  for (const uint64_t end = offset + bytes; offset < end;) {
    const Place place = place_of(offset);
    const uint64_t step = std::min(end - offset, std::max<uint64_t>(place.bytes, 1));
    const auto some = place.owner.file_.cached_pages(place.offset, step);
    if (!some) return std::nullopt;
    pages += *some;
    offset += step;
  }
  return pages;
}

std::optional<bool> MountedFile::cached(uint64_t offset) const {
  const Place place = place_of(offset);
  return place.owner.file_.cached(place.offset);
}

uint64_t MountedFile::identity() const {
  uint64_t identity = identity_of(file_);
  for (const auto& delta : deltas_) identity = absorb(identity, identity_of(delta->file_));
  return identity;
}

const File* MountedFile::direct() const {
  if (direct_refused_) return nullptr;
  if (!direct_opened_.load(std::memory_order_acquire)) {  // asked for each read of a file with deltas
    const NoFork whole;
    std::call_once(direct_once_, [&] {
      direct_ = file_.reopen_direct();
      direct_opened_.store(true, std::memory_order_release);
    });
  }
  return direct_ ? &direct_ : nullptr;
}

std::shared_ptr<Mapping> MountedFile::user_mapping() const {
  const NoFork whole;
  std::call_once(user_once_, [&] {
    user_mapping_ = map(Mapping::Access::kCopyOnWrite);
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
  if (size < own_bytes_) {
    throw StorageError(text(path(), ": the file has ", size, " bytes, it had ", own_bytes_,
                            " when it was opened: it was truncated. Restore it and open it again"),
                       EIO, path());
  }
  for (const auto& delta : deltas_) delta->check_size();
}

}  // namespace gz
