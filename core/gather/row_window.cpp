// row_window: the window's rows, its post, and the copy of a complete batch.
#include "gather/row_window.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gather/copy.h"
#include "gather/held_rows.h"
#include "gather/window_claim.h"
#include "gather/window_sweep.h"

namespace gz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostRow = uint64_t{64} << 10;
constexpr uint64_t kLeastRows = 64;
constexpr size_t kCopyRows = 2048;                       // between two looks for a stop
constexpr uint64_t kStreamingBytes = uint64_t{1} << 20;  // larger batches do not fit the caches near a core

uint64_t capacity_of(const Matrix& matrix, uint64_t budget) {
  const uint64_t bitmap = HeldRows::bitmap_bytes(matrix.rows, budget);
  return std::min({(budget - bitmap) / HeldRows::row_cost(matrix.row_bytes), matrix.rows, uint64_t{UINT32_MAX} - 2});
}

}  // namespace

struct RowWindow::State {
  State(std::shared_ptr<const FeatureFile> file_, const Matrix& matrix_, uint64_t budget)
      : file(std::move(file_)),
        matrix(matrix_),
        rows(capacity_of(matrix_, budget), matrix_.row_bytes, HeldRows::bitmap_bytes(matrix_.rows, budget)) {
    post.stats.budget_bytes = budget;
    post.stats.capacity = rows.capacity();
  }

  const std::shared_ptr<const FeatureFile> file;
  const Matrix matrix;
  HeldRows rows;  // which row is where: the sweep's; the bytes of a complete claim's rows: anybody's, to read
  WindowPost post;
};

bool RowWindow::supports(const Matrix& matrix) {
  return matrix.row_bytes > 0 && matrix.row_bytes <= kMostRow && matrix.rows < UINT32_MAX;
}

uint64_t RowWindow::row_cost(const Matrix& matrix) { return HeldRows::row_cost(matrix.row_bytes); }

uint64_t RowWindow::least_bytes(const Matrix& matrix) {
  return std::max<uint64_t>(std::min(kLeastRows, matrix.rows), 1) * row_cost(matrix);
}

RowWindow::RowWindow(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes) {
  const uint64_t least = least_bytes(matrix);
  if (!supports(matrix) || budget_bytes < least) {
    throw BudgetError(text("a window over '", matrix.name, "' of ", file->file().path(), " takes at least ", least,
                           " bytes, the budget is ", budget_bytes),
                      least);
  }
  state_ = std::make_unique<State>(std::move(file), matrix, budget_bytes);
}

RowWindow::~RowWindow() = default;

const Matrix& RowWindow::matrix() const { return state_->matrix; }

std::shared_ptr<RowWindow::Claim> RowWindow::claim(uint64_t number, std::span<const int64_t> ids) const {
  check_row_ids(*state_->file, state_->matrix, ids);
  return std::make_shared<Claim>(number, ids);
}

void RowWindow::sweep(const SweepOptions& options, const Ready& ready) {
  WindowSweep(*state_->file, state_->matrix, state_->rows, state_->post, options, ready).run();
}

void RowWindow::stop_sweep() {
  std::lock_guard lock(state_->post.mutex);
  state_->post.stopping = true;
  state_->post.news.notify_all();
}

void RowWindow::expect_sweep() {
  std::lock_guard lock(state_->post.mutex);
  state_->post.stopping = false;
}

void RowWindow::offer(std::shared_ptr<Claim> claim) {
  std::lock_guard lock(state_->post.mutex);
  state_->post.offered.push_back(std::move(claim));
  state_->post.news.notify_all();
}

void RowWindow::forget() {
  WindowPost& post = state_->post;
  std::unique_lock lock(post.mutex);
  for (const auto& claim : post.offered) claim->end_unless_delivering();
  post.offered.clear();
  if (!post.sweeping || post.stopping) return;
  post.forgetting = true;
  post.news.notify_all();
  post.news.wait(lock, [&] { return !post.forgetting; });
}

uint64_t RowWindow::target() const {
  std::lock_guard lock(state_->post.mutex);
  return state_->post.stats.target;
}

WindowStats RowWindow::stats() const {
  std::lock_guard lock(state_->post.mutex);
  return state_->post.stats;
}

namespace {

// Returns a claim to the sweep, whatever happens.
struct Release {
  WindowPost& post;
  std::shared_ptr<RowWindow::Claim> claim;
  ~Release() {
    std::lock_guard lock(post.mutex);
    post.released.push_back(std::move(claim));
    post.news.notify_all();
  }
};

}  // namespace

void RowWindow::deliver(Claim& claim, std::byte* out, const GatherOptions& options, GatherStats* stats,
                        Progress* progress) {
  State& s = *state_;
  if (!claim.begin_delivery()) throw Cancelled();
  const Release release{s.post, claim.shared_from_this()};
  if (claim.error) std::rethrow_exception(claim.error);
  const auto start = Clock::now();
  const uint64_t out_bytes = claim.size() * gathered_row_bytes(s.matrix, options);
  const RowCopier copier(s.matrix, gathered_dtype(s.matrix, options), out_bytes > kStreamingBytes);
  GatherStats done;
  std::vector<RowMove> moves, missing;
  moves.reserve(kCopyRows);
  const auto copy = [&] {
    copier.gather(s.rows.rows(), moves, out);
    done.rows += moves.size();
    moves.clear();
    if (progress != nullptr) progress->report("gather", 0, done.rows);
  };
  for (size_t i = 0; i < claim.size(); ++i) {
    (claim.is_placed(i) ? moves : missing).push_back({claim.value(i), claim.position(i)});
    if (moves.size() == kCopyRows) copy();
  }
  copy();
  finish_streaming();
  done.bytes_useful = done.rows * s.matrix.row_bytes;
  done.copy_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (!missing.empty()) {
    GatherOptions direct = options;
    direct.past_page_cache = true;
    gz::gather(*s.file, s.matrix, std::span<const RowMove>(missing), out, direct, &done, progress);
  }
  if (stats != nullptr) stats->add(done);
}

}  // namespace gz
