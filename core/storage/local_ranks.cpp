// local_ranks: abstract sockets, memfds, and one thread that answers processes that join and notices those that end.
#include "storage/local_ranks.h"

#ifdef __linux__
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/per_process.h"
#include "base/random.h"

namespace gz {
namespace {

constexpr uint32_t kHello = 0x475a4c31;  // "GZL1": another layout of blocks takes another number
constexpr int kMostRanks = 1024;
constexpr int kSettleMs = 50;

// A file descriptor with an owner.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int fd) : fd_(fd) {}
  Handle(Handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Handle() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Abstract names begin with a zero byte. Any process that knows the name may connect, so peers are checked.
Address address_of(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.name.sun_path - 1);
  std::memcpy(address.name.sun_path + 1, name.data(), length);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// Becomes readable when the process ends, also where a child that it forked keeps its sockets open.
Handle process_of(int socket) {
#ifdef SYS_pidfd_open
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid != getpid()) {
    return Handle(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  }
#endif
  return {};
}

struct Hello {
  uint32_t magic = kHello;
  uint32_t rank = 0;
  uint64_t bytes = 0;
};

bool send_hello(int socket, const Hello& hello, int block) {
  Hello copy = hello;
  iovec data{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &block, sizeof block);
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof copy);
}

// The descriptor that came with a greeting; none where there was no greeting, or not a right one.
Handle receive_hello(int socket, Hello& hello) {
  iovec data{&hello, sizeof hello};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* head = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int))) return {};
  int block = -1;
  std::memcpy(&block, CMSG_DATA(head), sizeof block);
  Handle found(block);
  if (got != static_cast<ssize_t>(sizeof hello) || hello.magic != kHello) return {};
  return found;
}

class Member : public LocalMember {
 public:
  // Null unless the size of the block is sealed: reading one that shrank would be a fault.
  static std::shared_ptr<Member> of(const Handle& block, uint64_t bytes) {
    struct stat state {};
    const int seals = fcntl(block.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
    if (fstat(block.get(), &state) != 0 || static_cast<uint64_t>(state.st_size) != bytes || bytes == 0) return nullptr;
    void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, block.get(), 0);
    if (data == MAP_FAILED) return nullptr;
    auto member = std::make_shared<Member>();
    member->block_ = {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)};
    return member;
  }
  ~Member() override {
    if (!block_.empty()) munmap(const_cast<std::byte*>(block_.data()), block_.size());
  }
  void set_gone() { gone_.store(true, std::memory_order_release); }
};

class Group : public LocalGroup {
 public:
  static std::shared_ptr<Group> make(const LocalRanks& ranks, const std::string& purpose, size_t bytes) {
    auto group = std::make_shared<Group>();
    group->ranks_ = ranks;
    group->prefix_ = "graphzero/" + std::to_string(geteuid()) + "/" + hex(ranks.group) + hex(purpose) + "/";
    if (!group->make_block(bytes) || !group->listen()) return nullptr;
    group->greet_all();
    try {
      group->thread_ = std::make_unique<std::thread>([g = group.get()] { g->serve(); });
    } catch (const std::system_error&) {
      return nullptr;
    }
    return group;
  }

  ~Group() override {
    if (process_ != process_id()) {  // a forked child has neither the thread nor the block
      static_cast<void>(thread_.release());
      return;
    }
    if (thread_) {
      const uint64_t one = 1;
      static_cast<void>(write(stop_.get(), &one, sizeof one) == sizeof one);
      thread_->join();
    }
    if (!own_.empty()) munmap(own_.data(), own_.size());
  }

  std::shared_ptr<const LocalMember> member(uint32_t rank) const override {
    const std::lock_guard lock(mutex_);
    return rank < members_.size() ? members_[rank] : nullptr;
  }

  void settle() const override {
    std::unique_lock lock(mutex_);
    settled_.wait_for(lock, std::chrono::milliseconds(kSettleMs), [&] { return unanswered_ == 0; });
  }

 private:
  struct Connection {
    Handle socket, process;
    std::shared_ptr<Member> member;  // null until it has greeted
    uint32_t rank = 0;
    bool asked = false;  // by us, and not answered
  };

  // Names must fit a socket's address: two hashes of what may be long.
  static std::string hex(const std::string& text) {
    uint64_t hash = mix(text.size());
    for (const char c : text) hash = mix(hash ^ static_cast<unsigned char>(c));
    std::string digits(16, '0');
    for (char& digit : digits) {
      digit = "0123456789abcdef"[hash & 15];
      hash >>= 4;
    }
    return digits;
  }

  bool make_block(size_t bytes) {
    block_ = Handle(static_cast<int>(syscall(SYS_memfd_create, "graphzero", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    if (!block_ || ftruncate(block_.get(), static_cast<off_t>(bytes)) != 0) return false;
    if (fcntl(block_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return false;
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, block_.get(), 0);
    if (data == MAP_FAILED) return false;
    own_ = {static_cast<std::byte*>(data), bytes};
    madvise(data, bytes, MADV_DONTFORK);  // a child is not a member
    return true;
  }

  bool listen() {
    listener_ = Handle(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    stop_ = Handle(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const Address own = address_of(prefix_ + std::to_string(ranks_.rank));
    return listener_ && stop_ && bind(listener_.get(), own.data(), own.size) == 0 &&
           ::listen(listener_.get(), kMostRanks) == 0;
  }

  // All that are there; those that come later connect to this one.
  void greet_all() {
    members_.resize(ranks_.count);
    for (uint32_t rank = 0; rank < ranks_.count; ++rank) {
      if (rank == ranks_.rank) continue;
      Handle other(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const Address address = address_of(prefix_ + std::to_string(rank));
      if (!other || connect(other.get(), address.data(), address.size) != 0) continue;
      if (add(std::move(other))) {
        connections_.back().asked = true;
        ++unanswered_;
      }
    }
  }

  bool add(Handle socket) {
    if (!is_same_user(socket.get())) return false;
    if (!send_hello(socket.get(), {.rank = ranks_.rank, .bytes = own_.size()}, block_.get())) return false;
    Connection connection;
    connection.process = process_of(socket.get());
    connection.socket = std::move(socket);
    connections_.push_back(std::move(connection));
    return true;
  }

  void serve() {
    for (;;) {
      std::vector<pollfd> waits{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Connection& c : connections_) {
        waits.push_back({c.socket.get(), POLLIN, 0});
        waits.push_back({c.process.get(), POLLIN, 0});  // -1 is passed over
      }
      if (poll(waits.data(), waits.size(), -1) < 0) continue;
      if (waits[0].revents != 0) return;
      const size_t known = connections_.size();
      std::vector<bool> over(known);
      for (size_t i = 0; i < known; ++i) {
        const bool ended = waits[3 + 2 * i].revents != 0;
        over[i] = ended || (waits[2 + 2 * i].revents != 0 && !receive(connections_[i]));
      }
      for (size_t i = known; i-- > 0;) {
        if (over[i]) end(i);
      }
      if (waits[1].revents != 0) add(Handle(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    }
  }

  // False when the connection is over.
  bool receive(Connection& connection) {
    Hello hello;
    const Handle block = receive_hello(connection.socket.get(), hello);
    if (!block || connection.member || hello.rank >= ranks_.count || hello.rank == ranks_.rank) return false;
    connection.member = Member::of(block, hello.bytes);
    if (!connection.member) return false;
    connection.rank = hello.rank;
    const std::lock_guard lock(mutex_);
    members_[hello.rank] = connection.member;
    answered(connection);
    return true;
  }

  void answered(Connection& connection) {  // with the lock held
    if (!std::exchange(connection.asked, false)) return;
    --unanswered_;
    settled_.notify_all();
  }

  void end(size_t at) {
    Connection& connection = connections_[at];
    {
      const std::lock_guard lock(mutex_);
      answered(connection);
      if (connection.member) {
        connection.member->set_gone();
        if (members_[connection.rank] == connection.member) members_[connection.rank] = nullptr;
      }
    }
    connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  std::string prefix_;
  Handle block_, listener_, stop_;
  std::vector<Connection> connections_;  // the thread's, once it runs
  mutable std::mutex mutex_;
  mutable std::condition_variable settled_;
  std::vector<std::shared_ptr<Member>> members_;  // guarded by mutex_; by rank
  int unanswered_ = 0;                            // guarded by mutex_
  std::unique_ptr<std::thread> thread_;
  const int64_t process_ = process_id();
};

}  // namespace

std::shared_ptr<LocalGroup> LocalGroup::join(const LocalRanks& ranks, const std::string& purpose, size_t bytes) {
  if (ranks.count < 2 || ranks.count > kMostRanks || ranks.rank >= ranks.count || ranks.group.empty()) return nullptr;
  return Group::make(ranks, purpose, bytes);
}

uint64_t identity_of(const File& file) {
  struct stat state {};
  if (fstat(static_cast<int>(file.handle()), &state) != 0) return 0;
  uint64_t hash = absorb(state.st_dev, state.st_ino);
  hash = absorb(hash, static_cast<uint64_t>(state.st_size));
  return absorb(absorb(hash, static_cast<uint64_t>(state.st_mtim.tv_sec)),
                static_cast<uint64_t>(state.st_mtim.tv_nsec));
}

void wait_for_change(const std::atomic<uint32_t>& word, uint32_t seen, int microseconds) {
  const timespec time{0, microseconds * 1000L};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_waiting(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace gz

#else

#include <chrono>
#include <thread>

namespace gz {

uint64_t identity_of(const File&) { return 0; }

std::shared_ptr<LocalGroup> LocalGroup::join(const LocalRanks&, const std::string&, size_t) { return nullptr; }

void wait_for_change(const std::atomic<uint32_t>&, uint32_t, int microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

void wake_waiting(const std::atomic<uint32_t>&) {}

}  // namespace gz
#endif
