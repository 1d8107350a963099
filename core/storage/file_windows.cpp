// file_windows: files on Windows. Paths are UTF-8 inside and UTF-16 at the door.
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "storage/file.h"

namespace gz {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // ReadFile and WriteFile count in 32 bits
constexpr const char* kTemporaryMark = ".gztmp-";
constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

HANDLE handle_of(intptr_t handle) { return reinterpret_cast<HANDLE>(handle); }  // INVALID_HANDLE_VALUE is -1, as ours

std::wstring wide(const std::string& narrow) {
  const int length = static_cast<int>(narrow.size());
  const int needed = MultiByteToWideChar(CP_UTF8, 0, narrow.data(), length, nullptr, 0);
  std::wstring out(static_cast<size_t>(needed), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, narrow.data(), length, out.data(), needed);
  return out;
}

std::string narrow(const wchar_t* wide_text) {
  const int needed = WideCharToMultiByte(CP_UTF8, 0, wide_text, -1, nullptr, 0, nullptr, nullptr);
  std::string out(static_cast<size_t>(needed), '\0');
  WideCharToMultiByte(CP_UTF8, 0, wide_text, -1, out.data(), needed, nullptr, nullptr);
  out.resize(std::strlen(out.c_str()));  // the terminator was counted
  return out;
}

int errno_of(DWORD code) {
  switch (code) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
      return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
      return EACCES;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
      return ENOSPC;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
      return EEXIST;
    case ERROR_TOO_MANY_OPEN_FILES:
      return EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
      return ENOMEM;
    default:
      return EIO;
  }
}

[[noreturn]] void fail_windows(const std::string& path, const std::string& what, DWORD code) {
  throw StorageError(text(path, ": ", what, ": ", std::system_category().message(static_cast<int>(code))),
                     errno_of(code), path);
}

OVERLAPPED at_byte(uint64_t offset) {
  OVERLAPPED at{};
  at.Offset = static_cast<DWORD>(offset);
  at.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return at;
}

std::string base_of(const std::string& path) {
  const size_t slash = path.find_last_of("/\\");
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string unique_suffix() {
  static std::atomic<uint64_t> counter{0};
  const auto word = make_key(GetCurrentProcessId(), static_cast<uint64_t>(time(nullptr)), ++counter);
  return text(Hex{word});
}

}  // namespace

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of("/\\");
  if (slash == std::string::npos) return ".";
  const bool root = slash == 0 || (slash == 2 && path[1] == ':');  // "\" and "C:\" keep their slash
  return path.substr(0, root ? slash + 1 : slash);
}

File File::open(const std::string& path) {
  const HANDLE handle =
      CreateFileW(wide(path).c_str(), GENERIC_READ, kShareAll, nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) fail_windows(path, "cannot open", GetLastError());
  return File(reinterpret_cast<intptr_t>(handle), path);
}

// Unbuffered handles here want more than we promise (sector-sized transfers at the file's end): reads go through the
// cache.
File File::reopen_direct() const { return {}; }

File File::create(const std::string& path) {
  const HANDLE handle = CreateFileW(wide(path).c_str(), GENERIC_READ | GENERIC_WRITE, kShareAll, nullptr, CREATE_ALWAYS,
                                    FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) fail_windows(path, "cannot create", GetLastError());
  return File(reinterpret_cast<intptr_t>(handle), path);
}

File File::edit(const std::string& path) {
  const HANDLE handle = CreateFileW(wide(path).c_str(), GENERIC_READ | GENERIC_WRITE, kShareAll, nullptr, OPEN_EXISTING,
                                    FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) fail_windows(path, "cannot open for writing", GetLastError());
  return File(reinterpret_cast<intptr_t>(handle), path);
}

File File::create_nameless(const std::string& folder) {
  const std::string path = folder + "\\.gzspill-" + unique_suffix();
  const HANDLE handle =
      CreateFileW(wide(path).c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, kShareAll, nullptr, CREATE_NEW,
                  FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, nullptr);  // the system closes what died
  if (handle == INVALID_HANDLE_VALUE) fail_windows(folder, "cannot create a spill file in", GetLastError());
  return File(reinterpret_cast<intptr_t>(handle), folder + "\\(spill)");
}

File File::direct() const {
  HANDLE same = nullptr;
  if (!DuplicateHandle(GetCurrentProcess(), handle_of(handle_), GetCurrentProcess(), &same, 0, FALSE,
                       DUPLICATE_SAME_ACCESS)) {
    fail_windows(path_, "cannot open again", GetLastError());
  }
  return File(reinterpret_cast<intptr_t>(same), path_);
}

File::~File() {
  if (handle_ != -1) CloseHandle(handle_of(handle_));
}

uint64_t File::size() const {
  LARGE_INTEGER bytes;
  if (!GetFileSizeEx(handle_of(handle_), &bytes)) fail_windows(path_, "cannot stat", GetLastError());
  return static_cast<uint64_t>(bytes.QuadPart);
}

bool File::is_regular() const {
  BY_HANDLE_FILE_INFORMATION info;
  return GetFileType(handle_of(handle_)) == FILE_TYPE_DISK && GetFileInformationByHandle(handle_of(handle_), &info) &&
         (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0;
}

size_t File::read_some_at(std::span<std::byte> buffer, uint64_t offset) const {
  OVERLAPPED at = at_byte(offset);
  DWORD got = 0;
  const auto most = static_cast<DWORD>(std::min(buffer.size(), kMostAtOnce));
  if (ReadFile(handle_of(handle_), buffer.data(), most, &got, &at)) return got;
  const DWORD code = GetLastError();
  if (code == ERROR_HANDLE_EOF) return 0;
  fail_windows(path_, text("cannot read at byte ", offset), code);
}

void File::write_at(std::span<const std::byte> buffer, uint64_t offset) {
  while (!buffer.empty()) {
    OVERLAPPED at = at_byte(offset);
    DWORD put = 0;
    const auto most = static_cast<DWORD>(std::min(buffer.size(), kMostAtOnce));
    if (!WriteFile(handle_of(handle_), buffer.data(), most, &put, &at) || put == 0) {
      fail_windows(path_, text("cannot write at byte ", offset), GetLastError());
    }
    buffer = buffer.subspan(put);
    offset += put;
  }
}

void File::resize(uint64_t bytes) {
  FILE_END_OF_FILE_INFO end{};
  end.EndOfFile.QuadPart = static_cast<LONGLONG>(bytes);
  if (!SetFileInformationByHandle(handle_of(handle_), FileEndOfFileInfo, &end, sizeof end)) {
    fail_windows(path_, text("cannot resize to ", bytes, " bytes"), GetLastError());
  }
}

void File::reserve(uint64_t bytes) {
  FILE_ALLOCATION_INFO room{};
  room.AllocationSize.QuadPart = static_cast<LONGLONG>(bytes);
  if (!SetFileInformationByHandle(handle_of(handle_), FileAllocationInfo, &room, sizeof room) &&
      errno_of(GetLastError()) == ENOSPC) {  // other errors: not supported, and writing will show
    fail_windows(path_, text("cannot reserve ", bytes, " bytes"), ERROR_DISK_FULL);
  }
  resize(bytes);
}

// Windows has no call for these two hints.
void File::start_writeback(uint64_t, uint64_t) {}
std::optional<uint64_t> File::cached_pages(uint64_t, uint64_t) const { return std::nullopt; }
std::optional<bool> File::cached(uint64_t) const { return std::nullopt; }  // not reported by the system
void File::drop_cache(uint64_t, uint64_t) const {}

void File::sync() {
  if (!FlushFileBuffers(handle_of(handle_))) fail_windows(path_, "cannot sync", GetLastError());
}

bool File::try_lock() {
  // Locks bind readers and writers here, so the locked byte is one that no file has.
  OVERLAPPED at = at_byte(uint64_t{1} << 62);
  return LockFileEx(handle_of(handle_), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at) != 0;
}

namespace {

// FILE_RENAME_INFO as Windows 10 has it; older headers lack the flags.
struct RenameRequest {
  DWORD flags;
  HANDLE root;
  DWORD name_bytes;
  wchar_t name[1];
};
constexpr auto kFileRenameInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);
constexpr DWORD kReplaceIfExists = 1, kPosixSemantics = 2;

// POSIX semantics: the old file stays for those that have it open or mapped, which a plain move refuses.
bool rename_over(HANDLE file, const std::wstring& to) {
  std::vector<std::byte> room(sizeof(RenameRequest) + to.size() * sizeof(wchar_t));
  auto* request = reinterpret_cast<RenameRequest*>(room.data());
  request->flags = kReplaceIfExists | kPosixSemantics;
  request->name_bytes = static_cast<DWORD>(to.size() * sizeof(wchar_t));
  std::memcpy(room.data() + offsetof(RenameRequest, name), to.data(), request->name_bytes);
  return SetFileInformationByHandle(file, kFileRenameInfoEx, room.data(), static_cast<DWORD>(room.size())) != 0;
}

}  // namespace

void publish(const std::string& from, const std::string& to) {
  const HANDLE file = CreateFileW(wide(from).c_str(), GENERIC_WRITE | DELETE, kShareAll, nullptr, OPEN_EXISTING,
                                  FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) fail_windows(from, "cannot open", GetLastError());
  const bool renamed = rename_over(file, wide(to));
  if (renamed) FlushFileBuffers(file);  // writes the journal out, and the new name with it
  CloseHandle(file);
  if (renamed) return;
  // FAT, network shares, Windows before 10: the move waits for the disk, and refuses a target that is mapped.
  if (!MoveFileExW(wide(from).c_str(), wide(to).c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
    fail_windows(to, "cannot publish (is it open in another program?)", GetLastError());
  }
}

void remove_if_exists(const std::string& path) noexcept { DeleteFileW(wide(path).c_str()); }

uint64_t free_bytes(const std::string& folder) {
  ULARGE_INTEGER bytes;
  if (!GetDiskFreeSpaceExW(wide(folder).c_str(), &bytes, nullptr, nullptr)) {
    fail_windows(folder, "cannot get the free space of", GetLastError());
  }
  return bytes.QuadPart;
}

std::string temporary_name(const std::string& target) {
  return folder_of(target) + "\\." + base_of(target) + kTemporaryMark + unique_suffix();
}

void remove_abandoned_temporaries(const std::string& target) noexcept {
  const std::string prefix = folder_of(target) + "\\." + base_of(target) + kTemporaryMark;
  WIN32_FIND_DATAW found;
  const HANDLE search = FindFirstFileW(wide(prefix + "*").c_str(), &found);
  if (search == INVALID_HANDLE_VALUE) return;
  do {
    const std::string path = folder_of(target) + "\\" + narrow(found.cFileName);
    bool abandoned = false;
    try {
      abandoned = File::open(path).try_lock();  // not locked: its maker is dead
    } catch (const StorageError&) {
      continue;  // another process was faster
    }
    if (abandoned) remove_if_exists(path);
  } while (FindNextFileW(search, &found));
  FindClose(search);
}

}  // namespace gz
#endif
