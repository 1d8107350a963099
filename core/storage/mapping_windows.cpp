// mapping_windows: file mappings on Windows.
//
// Windows refuses to truncate a file while it is mapped, so the fault that the POSIX room guards against cannot happen
// here. A page that a failing disk or a lost network share cannot deliver is a structured exception, which no library
// can turn into an error for code it did not compile: such media are read with io="pread" instead.
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00  // PrefetchVirtualMemory
#endif
#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"
#include "storage/mapping.h"

namespace gz {

struct Mapping::Guard {};  // nothing to know: see above

namespace {

[[noreturn]] void fail_mapping(const std::string& path, uint64_t bytes, DWORD code) {
  throw StorageError(
      text(path, ": cannot map ", bytes, " bytes: ", std::system_category().message(static_cast<int>(code))),
      code == ERROR_NOT_ENOUGH_MEMORY || code == ERROR_COMMITMENT_LIMIT ? ENOMEM : EIO, path);
}

}  // namespace

std::shared_ptr<Mapping> Mapping::map(const File& file, uint64_t bytes, Access access) {
  std::shared_ptr<Mapping> mapping(new Mapping);
  mapping->path_ = file.path();
  if (bytes == 0) return mapping;
  const bool write = access == Access::kCopyOnWrite;
  const HANDLE section = CreateFileMappingW(reinterpret_cast<HANDLE>(file.handle()), nullptr,
                                            write ? PAGE_WRITECOPY : PAGE_READONLY, 0, 0, nullptr);
  if (section == nullptr) fail_mapping(file.path(), bytes, GetLastError());
  void* at = MapViewOfFile(section, write ? FILE_MAP_COPY : FILE_MAP_READ, 0, 0, static_cast<SIZE_T>(bytes));
  const DWORD code = GetLastError();
  CloseHandle(section);  // the view keeps the section
  if (at == nullptr) fail_mapping(file.path(), bytes, code);
  mapping->data_ = static_cast<std::byte*>(at);
  mapping->size_ = static_cast<size_t>(bytes);
  return mapping;
}

std::shared_ptr<Mapping> Mapping::map(const std::string& path, std::span<const Part>, Access) {
  throw StorageError(text(path, ": has deltas, which cannot be read on Windows yet; merge them with graphzero compact"),
                     ENOTSUP, path);
}

Mapping::~Mapping() {
  if (data_ != nullptr) UnmapViewOfFile(data_);
}

bool Mapping::damaged() const { return false; }
bool Mapping::damaged_at(const void*) { return false; }
void Mapping::check() const {}

// Only reading ahead has a counterpart here; the other hints are the system's own business.
void Mapping::advise(size_t offset, size_t bytes, Advice advice) const noexcept {
  if (advice != Advice::kWillNeed || offset >= size_ || bytes == 0) return;
  WIN32_MEMORY_RANGE_ENTRY range{data_ + offset, std::min(bytes, size_ - offset)};
  PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
}

size_t system_page() {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

bool Mapping::prefer_huge_pages(size_t, size_t) const noexcept { return false; }         // not for files
bool Mapping::populate(size_t, size_t) const noexcept { return false; }                  // no such call
bool Mapping::resident(size_t, size_t, unsigned char*) const noexcept { return false; }  // not reported by the system

}  // namespace gz
#endif
