// sweep_peers: other ranks that sweep the same matrix and share their reads.
#pragma once

#include <cstdint>
#include <memory>

#include "gather/gather.h"
#include "storage/features.h"
#include "storage/local_ranks.h"
#include "storage/page_reads.h"
#include "storage/reader.h"

namespace gz {

// Used only by the sweep's thread.
class SweepPeers {
 public:
  enum class State : uint32_t {
    kAway = 0,  // no sweep
    kIdle,      // no rows are wanted: it may continue at any segment
    kHeld,      // rows are wanted, but no slot is free for them
    kMoving,
  };
  virtual ~SweepPeers() = default;

  // The reader to use, and the part of its memory where reads are visible to other ranks (null: any of it).
  virtual std::shared_ptr<Reader> reader(Io io) const = 0;
  virtual std::shared_ptr<ReadBuffers> buffers() const = 0;
  virtual void publish(uint64_t offset, uint32_t bytes, const std::byte* data) = 0;  // a read that has arrived

  // Looks up what the others have read of [begin, end) of the file; false if nothing. Then copy() copies bytes of it,
  // in file order; false if they are not, or no longer, available.
  virtual bool find(uint64_t begin, uint64_t end) = 0;
  virtual bool copy(uint64_t offset, size_t bytes, std::byte* to) = 0;

  // Publishes the position of this sweep: `segment` is planned next, `undone` of those before it have reads in flight.
  virtual void announce(State state, uint64_t segment, uint64_t undone) = 0;
  // The segment to continue with, for a sweep that may continue anywhere.
  virtual uint64_t meeting_point(uint64_t segment) = 0;
  // Whether `segment` must wait for another rank; if so, call wait(). `starving`: our own consumer waits for a batch.
  virtual bool must_wait(uint64_t segment) = 0;
  virtual void wait(bool starving, bool briefly) = 0;  // briefly: reads of our own are in flight
  virtual double waited() const = 0;                   // seconds
  // Whether a sweep with enough batches ready may pause. Peers keep the pace of the fastest rank.
  virtual bool allow_pause() const = 0;
};

// A sweep without peers.
class NoPeers : public SweepPeers {
 public:
  explicit NoPeers(size_t arena = kArena) : arena_(arena) {}  // of its reader
  std::shared_ptr<Reader> reader(Io io) const override;
  std::shared_ptr<ReadBuffers> buffers() const override { return nullptr; }
  void publish(uint64_t, uint32_t, const std::byte*) override {}
  bool find(uint64_t, uint64_t) override { return false; }
  bool copy(uint64_t, size_t, std::byte*) override { return false; }
  void announce(State, uint64_t, uint64_t) override {}
  uint64_t meeting_point(uint64_t segment) override { return segment; }
  bool must_wait(uint64_t) override { return false; }
  void wait(bool, bool) override {}
  double waited() const override { return 0; }
  bool allow_pause() const override { return true; }

 private:
  const size_t arena_;
};

// How a matrix is divided into segments, which are planned one at a time.
struct Segments {
  explicit Segments(const Matrix& matrix);
  uint64_t rows;   // of each except the last
  uint64_t count;  // at least 1
};

// The ranks of `group` that sweep the same matrix, each as part number `part` of its loader; NoPeers if there is no
// group, or too little to share. `arena`: of the reader, where there are no peers.
std::unique_ptr<SweepPeers> make_peers(const FeatureFile& file, const Matrix& matrix,
                                       const std::shared_ptr<LocalGroup>& group, size_t part, uint64_t published_bytes,
                                       size_t arena = kArena);

}  // namespace gz
