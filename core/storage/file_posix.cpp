// file_posix: files on Linux and macOS.
#ifndef _WIN32
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "storage/file.h"

namespace gz {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux transfers at most 2 GiB - 4 KiB a call
constexpr const char* kTemporaryMark = ".gztmp-";

std::string base_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

int fd_of(intptr_t handle) { return static_cast<int>(handle); }

}  // namespace

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

File File::open(const std::string& path) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_storage(path, "cannot open", errno);
  return File(fd, path);
}

File File::reopen_direct() const {
#if defined(__linux__) && defined(O_DIRECT)
  const std::string self = text("/proc/self/fd/", fd_of(handle_));
  File direct(::open(self.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT), path_);
  if (!direct) return {};
  // Some file systems take the flag and refuse the reads.
  alignas(4096) static thread_local std::byte page[4096];
  if (pread(fd_of(direct.handle_), page, sizeof page, 0) < 0) return {};
  return direct;
#elif defined(F_NOCACHE)
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  File direct(fd, path_);
  struct stat ours, theirs;
  if (fd < 0 || fstat(fd, &theirs) != 0 || fstat(fd_of(handle_), &ours) != 0) return {};
  if (ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino || fcntl(fd, F_NOCACHE, 1) != 0) return {};
  return direct;
#else
  return {};
#endif
}

File File::create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail_storage(path, "cannot create", errno);
  return File(fd, path);
}

File File::edit(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail_storage(path, "cannot open for writing", errno);
  return File(fd, path);
}

File File::create_nameless(const std::string& folder) {
#ifdef O_TMPFILE
  const int nameless = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (nameless >= 0) return File(nameless, folder + "/(spill)");
#endif
  std::string name = folder + "/.gzspill-XXXXXX";
  const int fd = mkstemp(name.data());
  if (fd < 0) fail_storage(folder, "cannot create a spill file in", errno);
  unlink(name.c_str());  // the file lives as long as the descriptor
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return File(fd, folder + "/(spill)");
}

File File::direct() const {
#if defined(__linux__) && defined(O_DIRECT)
  const std::string self = text("/proc/self/fd/", handle_);  // a file without a name has this one
  const int past_cache = ::open(self.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  if (past_cache >= 0) return File(past_cache, path_);
#endif
  const int same = fcntl(fd_of(handle_), F_DUPFD_CLOEXEC, 0);
  if (same < 0) fail_storage(path_, "cannot open again", errno);
  return File(same, path_);
}

File::~File() {
  if (handle_ != -1) ::close(fd_of(handle_));
}

uint64_t File::size() const {
  struct stat info;
  if (fstat(fd_of(handle_), &info) != 0) fail_storage(path_, "cannot stat", errno);
  return static_cast<uint64_t>(info.st_size);
}

bool File::is_regular() const {
  struct stat info;
  return fstat(fd_of(handle_), &info) == 0 && S_ISREG(info.st_mode);
}

size_t File::read_some_at(std::span<std::byte> buffer, uint64_t offset) const {
  for (;;) {
    const size_t most = std::min(buffer.size(), kMostAtOnce);
    const ssize_t got = pread(fd_of(handle_), buffer.data(), most, static_cast<off_t>(offset));
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail_storage(path_, text("cannot read at byte ", offset), errno);
  }
}

void File::write_at(std::span<const std::byte> buffer, uint64_t offset) {
  while (!buffer.empty()) {
    const size_t most = std::min(buffer.size(), kMostAtOnce);
    const ssize_t put = pwrite(fd_of(handle_), buffer.data(), most, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_storage(path_, text("cannot write at byte ", offset), put < 0 ? errno : EIO);
    buffer = buffer.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
}

void File::resize(uint64_t bytes) {
  while (ftruncate(fd_of(handle_), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) fail_storage(path_, text("cannot resize to ", bytes, " bytes"), errno);
  }
}

void File::reserve(uint64_t bytes) {
#ifdef __linux__
  while (bytes > 0 && fallocate(fd_of(handle_), 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS) break;  // not supported by the file system: writing will show
    fail_storage(path_, text("cannot reserve ", bytes, " bytes"), errno);
  }
#endif
  resize(bytes);
}

void File::start_writeback(uint64_t offset, uint64_t bytes) {
#ifdef __linux__
  sync_file_range(fd_of(handle_), static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
#else
  (void)offset, (void)bytes;
#endif
}

std::optional<uint64_t> File::cached_pages(uint64_t offset, uint64_t bytes) const {
#ifdef __linux__
  constexpr long kCachestat = 451;  // since 6.5; the C library's headers do not have it yet
  const struct {
    uint64_t offset, bytes;
  } range{offset, bytes};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } found{};
  if (syscall(kCachestat, static_cast<unsigned>(handle_), &range, &found, 0u) == 0) return found.cached;
#else
  (void)offset, (void)bytes;
#endif
  return std::nullopt;
}

// Asks by a read that must not wait: unlike mincore it is right about files of other users. But
// Linux since 5.12 starts readahead for it.
std::optional<bool> File::cached(uint64_t offset) const {
#if defined(__linux__) && defined(RWF_NOWAIT)
  char byte;
  const iovec piece{&byte, 1};
  const ssize_t got = preadv2(static_cast<int>(handle_), &piece, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (got >= 0) return true;
  if (errno == EAGAIN) return false;
#else
  (void)offset;
#endif
  return std::nullopt;
}

void File::drop_cache(uint64_t offset, uint64_t bytes) const {
#ifdef POSIX_FADV_DONTNEED
  posix_fadvise(fd_of(handle_), static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
#else
  (void)offset, (void)bytes;
#endif
}

void File::sync() {
  for (;;) {
#ifdef F_FULLFSYNC
    if (fcntl(fd_of(handle_), F_FULLFSYNC) == 0) return;  // macOS: fsync alone stops at the drive's cache
#endif
    if (fsync(fd_of(handle_)) == 0) return;
    if (errno != EINTR) fail_storage(path_, "cannot sync", errno);
  }
}

bool File::try_lock() { return flock(fd_of(handle_), LOCK_EX | LOCK_NB) == 0; }

void publish(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail_storage(to, "cannot publish", errno);
  const std::string folder = folder_of(to);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_storage(folder, "cannot open", errno);
  const bool synced = fsync(fd) == 0 || errno == EINVAL;  // some network file systems cannot sync a folder
  const int code = errno;
  ::close(fd);
  if (!synced) fail_storage(folder, "cannot sync", code);
}

void remove_if_exists(const std::string& path) noexcept { unlink(path.c_str()); }

uint64_t free_bytes(const std::string& folder) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) != 0) fail_storage(folder, "cannot get the free space of", errno);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

std::string temporary_name(const std::string& target) {
  static std::atomic<uint64_t> counter{0};
  const auto word = make_key(static_cast<uint64_t>(getpid()), static_cast<uint64_t>(time(nullptr)), ++counter);
  return text(folder_of(target), "/.", base_of(target), kTemporaryMark, Hex{word});
}

void remove_abandoned_temporaries(const std::string& target) noexcept {
  const std::string folder = folder_of(target);
  DIR* open_folder = opendir(folder.c_str());
  if (open_folder == nullptr) return;
  const std::string prefix = text(".", base_of(target), kTemporaryMark);
  while (const dirent* entry = readdir(open_folder)) {
    const std::string name = entry->d_name;
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string path = folder + "/" + name;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());  // not locked: its maker is dead
    ::close(fd);
  }
  closedir(open_folder);
}

}  // namespace gz
#endif
