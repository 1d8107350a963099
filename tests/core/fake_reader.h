// fake_reader: a simulated disk that is controlled by a test.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>

#include "base/memory.h"
#include "storage/reader.h"

namespace gz::test {

// Plays a disk: serves reads from the file in the order last in, first out, and does what `fault` says to each.
class FakeReader : public Reader {
 public:
  using Fault = int32_t (*)(const ReadRequest& request, int32_t result, int count);
  FakeReader(size_t depth, Fault fault) : depth_(depth), fault_(fault), arena_(size_t{1} << 20, Purpose::kReads) {}
  size_t depth() const override { return depth_; }
  size_t in_flight() const override { return queued_.size(); }
  std::span<std::byte> arena() const override { return {arena_.data(), size_t{1} << 20}; }
  void queue(const File& file, const ReadRequest& request) override { queued_.push_back({&file, request}); }
  size_t wait(std::span<ReadResult> results) override {
    const auto [file, request] = queued_.back();
    queued_.pop_back();
    const auto got = static_cast<int32_t>(file->read_some_at({request.to, request.bytes}, request.offset));
    results[0] = {request.tag, fault_(request, got, ++count)};
    return 1;
  }
  int count = 0;

 private:
  size_t depth_;
  Fault fault_;
  Buffer arena_;
  std::deque<std::pair<const File*, ReadRequest>> queued_;
};

}  // namespace gz::test
