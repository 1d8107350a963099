// sweep_reader: the rows of a part through a sweep, on a thread of its own.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "gather/row_reader.h"
#include "sweep/sweep.h"

namespace gz {

class SweepReader : public RowReader {
 public:
  // Called by the sweep's thread, without locks.
  struct Events {
    std::function<void(uint64_t number)> ready;      // a request became ready
    std::function<void(std::exception_ptr)> failed;  // reading is impossible; no more requests become ready
  };

  // Starts the sweep. A window has one reader at a time.
  SweepReader(std::shared_ptr<RowWindow> window, const SweepOptions& options, std::unique_ptr<SweepPeers> peers,
              Events events);
  ~SweepReader() override;

  std::shared_ptr<RowRequest> prepare(uint64_t number, std::span<const int64_t> ids) override;
  void submit(std::shared_ptr<RowRequest> request) override;
  bool ready(const RowRequest* request) const override;
  void copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
            GatherStats* stats, Progress* progress) override;
  void cancel() override;
  void stop() override;
  uint64_t batches() const override { return window_->stats().target; }
  std::optional<WindowStats> stats() const override { return window_->stats(); }

 private:
  const std::shared_ptr<RowWindow> window_;
  const Events events_;
  Mailbox mailbox_;
  std::thread thread_;
};

}  // namespace gz
