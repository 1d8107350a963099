// mounted: an open .gl or .gd file: its validated header and its mappings. Opening costs O(1) in the file's size.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "format/container.h"
#include "storage/delta_chain.h"
#include "storage/file.h"
#include "storage/mapping.h"
#include "storage/residency.h"

namespace gz {

// Immutable after open(), so any number of threads may read it; shared by every view into it.
class MountedFile {
 public:
  // Opens and validates the header. `kind` is what the caller expects, for a message that names the right class.
  // With `deltas`, oldest first, they are read as one file: what follows speaks of that one (storage/delta_chain.h).
  static std::shared_ptr<const MountedFile> open(const std::string& path, Kind kind,
                                                 std::span<const std::string> deltas = {});
  static std::shared_ptr<const MountedFile> open(const std::string& path);  // also a delta by itself

  const std::string& path() const { return file_.path(); }
  const Container& container() const { return container_; }
  bool legacy() const { return container_.major == 0; }
  const File& file() const { return file_; }         // the base
  uint64_t own_bytes() const { return own_bytes_; }  // of the base alone
  const std::vector<std::shared_ptr<const MountedFile>>& deltas() const { return deltas_; }
  bool composed() const { return !deltas_.empty(); }

  // The same file past the page cache, opened on first use; null where the file system has no such way.
  const File* direct() const;
  const File& preferred() const { return direct() != nullptr ? *direct() : file_; }  // past the page cache if possible
  void give_up_direct() const;  // a read was refused: direct() is null from now on

  // Where the bytes from `offset` on are: in which file, from which byte of it, and how many of them.
  struct Place {
    const MountedFile& owner;
    uint64_t offset, bytes;
  };
  Place place_of(uint64_t offset) const;
  void read_at(std::span<std::byte> buffer, uint64_t offset) const;  // through the page cache
  // See File: pages of [offset, offset + bytes) in RAM, and whether one is.
  std::optional<uint64_t> cached_pages(uint64_t offset, uint64_t bytes) const;
  std::optional<bool> cached(uint64_t offset) const;
  uint64_t identity() const;  // the same in all processes that have these very files open

  Warmth& warmth() const { return warmth_; }
  std::atomic<int>& closely_watched() const { return closely_watched_; }  // see PagePrefetcher

  // The engine's own view: read-only and shared with the page cache.
  const Mapping& mapping() const { return *mapping_; }
  std::span<const std::byte> bytes_of(const ArrayInfo& array) const {
    return mapping_->bytes().subspan(array.offset, array.bytes);
  }
  // The view that is handed to users: copy-on-write, made on first use. A user's stray write never reaches the engine.
  std::shared_ptr<Mapping> user_mapping() const;

  // Throws StorageError when a page of either mapping could not be read. Takes no lock: it ends every guarded call.
  void check() const;
  // Throws StorageError when the file is shorter than its header says by now: for calls that hand out views and touch
  // nothing themselves.
  void check_size() const;

 private:
  MountedFile() = default;
  static std::shared_ptr<MountedFile> open_one(const std::string& path);
  std::shared_ptr<Mapping> map(Mapping::Access access) const;

  File file_;
  Container container_;
  uint64_t own_bytes_ = 0;  // of the base alone
  std::vector<std::shared_ptr<const MountedFile>> deltas_;
  std::vector<Extent> extents_;  // with deltas
  std::shared_ptr<Mapping> mapping_;
  mutable std::once_flag user_once_;
  mutable std::shared_ptr<Mapping> user_mapping_;      // immutable once user_once_ ran
  mutable std::atomic<const Mapping*> user_{nullptr};  // the same, for check()
  mutable Warmth warmth_;
  mutable std::atomic<int> closely_watched_{0};
  mutable std::once_flag direct_once_;
  mutable std::atomic<bool> direct_opened_{false};
  mutable File direct_;  // immutable once direct_opened_
  mutable std::atomic<bool> direct_refused_{false};
};

// Bytes of [offset, offset + bytes) that the page cache holds; nothing where the system does not report it.
std::optional<uint64_t> cached_bytes(const MountedFile& file, uint64_t offset, uint64_t bytes);

// All files of this process that are open now, in the order they were opened.
std::vector<std::shared_ptr<const MountedFile>> mounted_files();

}  // namespace gz
