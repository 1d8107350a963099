// file: the one door to the operating system's files. file_posix.cpp and file_windows.cpp are its two rooms.
//
// Every call finishes the whole transfer or throws StorageError with the path and the reason; EINTR and short transfers
// are retried inside.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"

namespace gz {

class File {
 public:
  static File open(const std::string& path);  // for reading
  // Opens this file again (even if its path now names another) to bypass the page cache; no file if that fails.
  File reopen_direct() const;
  static File create(const std::string& path);             // new or emptied, for reading and writing
  static File edit(const std::string& path);               // as it is, for reading and writing
  static File create_nameless(const std::string& folder);  // vanishes when closed, or when the process dies
  // A second handle that bypasses the page cache if the system allows it, otherwise an ordinary one.
  // Offsets, sizes and memory must be whole pages.
  File direct() const;
  File() = default;
  File(File&& other) noexcept : handle_(other.handle_), path_(std::move(other.path_)) { other.handle_ = -1; }
  File& operator=(File&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(path_, other.path_);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  explicit operator bool() const { return handle_ != -1; }
  const std::string& path() const { return path_; }
  intptr_t handle() const { return handle_; }  // a POSIX descriptor, or a Windows HANDLE

  uint64_t size() const;
  bool is_regular() const;
  // Reads exactly buffer.size() bytes; the end of the file before that is an error.
  void read_at(std::span<std::byte> buffer, uint64_t offset) const;
  // Reads up to buffer.size() bytes; 0 at the end of the file.
  size_t read_some_at(std::span<std::byte> buffer, uint64_t offset) const;
  void write_at(std::span<const std::byte> buffer, uint64_t offset);
  void resize(uint64_t bytes);
  void reserve(uint64_t bytes);  // allocates disk space, so that a full disk fails before the work
  void start_writeback(uint64_t offset, uint64_t bytes);  // begins writing out, does not wait: a hint
  // Pages of [offset, offset + bytes) that are in RAM or being read; nothing if the system cannot count them.
  std::optional<uint64_t> cached_pages(uint64_t offset, uint64_t bytes) const;
  // Whether the page at `offset` is in RAM; nothing if the system does not report it.
  std::optional<bool> cached(uint64_t offset) const;
  void drop_cache(uint64_t offset, uint64_t bytes) const;  // these pages will not be read again soon: a hint
  void sync();                                             // on return the bytes are on the device
  bool try_lock();                                         // an advisory lock that dies with the process

 private:
  explicit File(intptr_t handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  intptr_t handle_ = -1;
  std::string path_;
};

// Replaces `to` by `from` atomically and durably: the folder is synced too (FORMAT 7).
void publish(const std::string& from, const std::string& to);
void remove_if_exists(const std::string& path) noexcept;
uint64_t free_bytes(const std::string& folder);
std::string folder_of(const std::string& path);

// A name for a temporary file next to `target`, locked by its creator. Files of creators that died are removed first.
std::string temporary_name(const std::string& target);
void remove_abandoned_temporaries(const std::string& target) noexcept;

inline void File::read_at(std::span<std::byte> buffer, uint64_t offset) const {
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
