// mapping: a file as memory. mapping_posix.cpp and mapping_windows.cpp are its two rooms.
//
// A page that cannot be read (the file was truncated by another process, the disk failed) would be SIGBUS and the end
// of the process. Here it reads as zeros and marks the mapping damaged; check() then throws. Kernels stay within bounds
// whatever the bytes are, so a guarded call is: work, then check().
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "storage/file.h"

namespace gz {

class Mapping {
 public:
  enum class Access {
    kReadOnly,     // shared with the page cache; a write is a fault
    kCopyOnWrite,  // a stray write goes to a private page: it hurts neither the file nor anyone else
  };
  enum class Advice { kNormal, kRandom, kSequential, kWillNeed, kDontNeed };

  // Maps the first `bytes` bytes of `file`, which may be closed afterwards. 0 bytes is an empty mapping.
  static std::shared_ptr<Mapping> map(const File& file, uint64_t bytes, Access access);

  // Maps parts of several files, whole pages of 4096 bytes, one after the other. Throws StorageError where the system
  // cannot: its pages are larger, or it is Windows.
  struct Part {
    const File* file;
    uint64_t offset, bytes;
  };
  static std::shared_ptr<Mapping> map(const std::string& path, std::span<const Part> parts, Access access);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::byte* writable() const { return data_; }  // kCopyOnWrite only
  const std::string& path() const { return path_; }
  bool damaged() const;
  void check() const;  // throws StorageError when damaged
  // Whether `address` is in a damaged mapping: for views whose file may be closed by now.
  static bool damaged_at(const void* address);
  void advise(size_t offset, size_t bytes, Advice advice) const noexcept;

  // Asks that a fault in these pages reads a whole huge page of 2 MiB. False where the system does not do that.
  bool prefer_huge_pages(size_t offset, size_t bytes) const noexcept;
  // Faults these pages in, in parallel with nothing and without a signal: returns false where a page cannot be read or
  // the kernel lacks the call.
  bool populate(size_t offset, size_t bytes) const noexcept;
  // One byte for every 4 KiB (kPageBytes) that the range touches, whatever the system's pages are: lowest bit set where
  // they are in RAM. Returns false where the system does not report it, or reports it wrongly: to users that
  // neither own a file nor may write it, Linux says that all of it is in RAM.
  bool resident(size_t offset, size_t bytes, unsigned char* pages) const noexcept;

  struct Guard;  // what the signal handler knows about a mapping

 private:
  Mapping() = default;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
  Guard* guard_ = nullptr;
  bool is_reported_ = false;  // see residency_is_reported(); immutable after map()
};

// Whether the system reports residency to this process: it owns the file or may write it.
bool residency_is_reported(const File& file);

// The bytes of a page of this system: 4 KiB on x86-64, 16 KiB on Apple silicon, up to 64 KiB on other ARM machines.
size_t system_page();

// Answers by system page, the first of which holds `offset`, as answers by 4 KiB for [offset, offset + bytes).
void spread_pages(const unsigned char* by_system_page, size_t page_bytes, size_t offset, size_t bytes,
                  unsigned char* out);

}  // namespace gz
