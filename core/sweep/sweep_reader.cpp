// sweep_reader: what other threads do with a sweep: submit, copy, cancel, stop.
#include "sweep/sweep_reader.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_name.h"
#include "base/threads.h"
#include "gather/copy.h"

namespace gz {
namespace {

constexpr size_t kCopyRows = 2048;  // between checks for cancellation

// Returns a claim's slots to the sweep, also on exceptions.
struct Release {
  Mailbox& mailbox;
  Claim& claim;
  ~Release() {
    std::lock_guard lock(mailbox.mutex);
    mailbox.released.push_back(claim.shared_from_this());
    mailbox.changed.notify_all();
  }
};

}  // namespace

SweepReader::SweepReader(std::shared_ptr<RowWindow> window, const SweepOptions& options,
                         std::unique_ptr<SweepPeers> peers, Events events)
    : window_(std::move(window)), events_(std::move(events)) {
  WindowStats stats = window_->stats();  // so that batches() is correct before the thread runs
  stats.target = WindowSize(options.target, options.most, stats.target, stats.capacity).target();
  window_->set_stats(stats);
  thread_ = std::thread([this, options, peers = std::move(peers)]() mutable {
    name_thread("graphzero-sweep");
    lower_thread_priority();  // it reads ahead of a training step
    leave_processors(options.ranks);
    try {
      Sweep(*window_, mailbox_, options, std::move(peers), events_.ready).run();
    } catch (...) {
      {
        std::lock_guard lock(mailbox_.mutex);
        mailbox_.ended = true;
        mailbox_.changed.notify_all();
      }
      events_.failed(std::current_exception());
    }
  });
}

SweepReader::~SweepReader() { stop(); }

std::shared_ptr<RowRequest> SweepReader::prepare(uint64_t number, std::span<const int64_t> ids) {
  check_row_ids(*window_->file(), window_->matrix(), ids);
  return std::make_shared<Claim>(number, ids);
}

void SweepReader::submit(std::shared_ptr<RowRequest> request) {
  std::lock_guard lock(mailbox_.mutex);
  mailbox_.submitted.push_back(std::static_pointer_cast<Claim>(std::move(request)));
  mailbox_.changed.notify_all();
}

bool SweepReader::ready(const RowRequest* request) const {
  return request == nullptr || static_cast<const Claim*>(request)->is_complete();
}

void SweepReader::copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                       GatherStats* stats, Progress* progress) {
  const FeatureFile& file = *window_->file();
  const Matrix& matrix = window_->matrix();
  // A file that does not fit bypasses the page cache, which the topology needs.
  GatherOptions direct = options;
  if (request == nullptr) {
    direct.past_page_cache = options.io == Io::kAuto;
    return gather(file, matrix, ids, out, direct, stats, progress);
  }
  Claim& claim = *static_cast<Claim*>(request);
  if (!claim.begin_copy()) throw Cancelled();
  const Release release{mailbox_, claim};
  if (claim.error) std::rethrow_exception(claim.error);
  const auto start = Clock::now();
  const uint64_t out_bytes = claim.size() * gathered_row_bytes(matrix, options);
  const RowCopier copier(matrix, gathered_dtype(matrix, options), is_streamed(out_bytes));
  GatherStats done;
  std::vector<RowMove> moves, missing;  // missing: of a claim that was detached from the sweep
  moves.reserve(kCopyRows);
  const auto copy_some = [&] {
    copier.gather(window_->rows().rows(), moves, out);
    done.rows += moves.size();
    moves.clear();
    if (progress != nullptr) progress->report("gather", 0, done.rows);
  };
  for (size_t i = 0; i < claim.size(); ++i) {
    (claim.has_slot(i) ? moves : missing).push_back({claim.value(i), claim.position(i)});
    if (moves.size() == kCopyRows) copy_some();
  }
  copy_some();
  finish_streaming();
  done.bytes_useful = done.rows * matrix.row_bytes;
  done.copy_seconds = seconds_since(start);
  if (!missing.empty()) {
    direct.past_page_cache = true;
    gather(file, matrix, std::span<const RowMove>(missing), out, direct, &done, progress);
  }
  if (stats != nullptr) stats->add(done);
}

void SweepReader::cancel() {
  std::unique_lock lock(mailbox_.mutex);
  for (const auto& claim : mailbox_.submitted) claim->end_unless_copying();
  mailbox_.submitted.clear();
  if (mailbox_.ended || mailbox_.stopping) return;
  mailbox_.cancelling = true;
  mailbox_.changed.notify_all();
  mailbox_.changed.wait(lock, [&] { return !mailbox_.cancelling || mailbox_.ended; });
}

void SweepReader::stop() {
  {
    std::lock_guard lock(mailbox_.mutex);
    mailbox_.stopping = true;
    mailbox_.changed.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace gz
