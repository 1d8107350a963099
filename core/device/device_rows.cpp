// device_rows: the threads that plan which rows a device will have, each for some of the shards of a cache.
#include "device/device_rows.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_name.h"
#include "base/threads.h"
#include "device/device_request.h"

namespace gz {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);  // while a thread waits for its horizon
constexpr double kPatience = 0.5;  // seconds without a new batch, with a consumer that waits for one

// How many batches are planned together if so many are there. Most of them are there to be known ahead.
uint64_t together_of(uint64_t batches) { return std::min(DeviceReader::kTogether, 1 + (batches - 1) / 5); }

}  // namespace

// -- the state of a cache ---------------------------------------------------------------------------------------------

DeviceRows::DeviceRows(uint64_t rows, uint32_t threads, uint32_t shards) : rows_(rows), threads_(threads) {
  const uint64_t longest = (rows + shards - 1) / shards;
  words_ = Buffer::zeroed(std::max<size_t>(longest * shards * sizeof(uint64_t), 1), Purpose::kTables);
  for (uint32_t i = 0; i < shards; ++i) {
    calendars_.push_back(std::make_unique<Shard>(
        std::span(words_.as<uint64_t>() + i * longest, static_cast<size_t>((rows + shards - 1 - i) / shards))));
  }
}

uint32_t DeviceRows::shards_for(uint64_t rows) {
  constexpr uint64_t kRows = uint64_t{1} << 17;  // their words are 1 MB
  return static_cast<uint32_t>(std::bit_ceil(std::clamp<uint64_t>((rows + kRows - 1) / kRows, 1, kMostShards)));
}

std::vector<uint64_t> divide_slots(uint64_t bytes, std::span<const SlotNeeds> parts) {
  std::vector<uint64_t> slots(parts.size());
  std::vector<size_t> left(parts.size());  // parts that are not divided yet
  std::iota(left.begin(), left.end(), size_t{0});
  const auto needs = [&](size_t i) {
    return static_cast<double>(std::max<uint64_t>(parts[i].per_batch, 1)) * static_cast<double>(parts[i].row_bytes);
  };
  while (!left.empty()) {
    double all = 0;
    for (const size_t i : left) all += needs(i);
    const uint64_t remaining = bytes;
    const size_t before = left.size();
    std::erase_if(left, [&](size_t i) {
      const double part = needs(i) / std::max(all, 1.0);
      const uint64_t share = part < 1 ? static_cast<uint64_t>(static_cast<double>(remaining) * part) : remaining;
      const uint64_t fit = parts[i].row_bytes > 0 ? share / parts[i].row_bytes : parts[i].rows;
      slots[i] = std::min(fit, parts[i].rows);
      if (fit < parts[i].rows) return false;
      bytes -= std::min(bytes, parts[i].rows * parts[i].row_bytes);
      return true;
    });
    if (left.size() == before) break;
  }
  return slots;
}

void DeviceRows::resize(uint64_t slots) {
  const std::lock_guard lock(mutex_);
  setting_ = {std::min(slots, rows_), setting_.generation + 1};
}

void DeviceRows::confirm(uint64_t sequence) {
  uint64_t before = confirmed_;
  while (before <= sequence && !confirmed_.compare_exchange_weak(before, sequence + 1)) {
  }
}

DeviceRows::Setting DeviceRows::setting() const {
  const std::lock_guard lock(mutex_);
  return setting_;
}

bool DeviceRows::attach() {
  {
    const std::lock_guard lock(mutex_);
    if (attached_) return false;
    attached_ = true;
  }
  if (confirmed_ == sequence_) return true;
  for (const auto& shard : calendars_) shard->calendar.forget();
  confirmed_ = sequence_;
  return true;
}

void DeviceRows::detach() {
  const std::lock_guard lock(mutex_);
  attached_ = false;
}

// -- requests ---------------------------------------------------------------------------------------------------------

std::shared_ptr<DeviceReader> DeviceReader::attach(std::shared_ptr<DeviceRows> rows, std::shared_ptr<RowReader> inner,
                                                   std::shared_ptr<const FeatureFile> file, const Matrix& matrix,
                                                   const Options& options, Events events) {
  if (!rows->attach()) return nullptr;
  rows->is_mapped_ = options.is_mapped;
  try {
    return std::shared_ptr<DeviceReader>(
        new DeviceReader(rows, std::move(inner), std::move(file), matrix, options, std::move(events)));
  } catch (...) {
    rows->detach();
    throw;
  }
}

DeviceReader::DeviceReader(std::shared_ptr<DeviceRows> rows, std::shared_ptr<RowReader> inner,
                           std::shared_ptr<const FeatureFile> file, const Matrix& matrix, const Options& options,
                           Events events)
    : rows_(std::move(rows)),
      inner_(std::move(inner)),
      file_(std::move(file)),
      matrix_(matrix),
      options_(options),
      events_(std::move(events)),
      first_(rows_->sequence_),
      expected_(rows_->threads_, first_),
      planned_(rows_->threads_, first_),
      together_(together_of(options.ahead + 1)),
      horizon_(std::min(options.ahead + 1 - together_, RowCalendar::kHorizon)),
      at_hand_(rows_->threads_) {
  for (auto& requests : at_hand_) requests.reserve(kTogether + RowCalendar::kHorizon);
  threads_.reserve(rows_->threads_);
  try {
    for (uint32_t thread = 0; thread < rows_->threads_; ++thread) {
      threads_.emplace_back([this, thread] { run(thread); });
    }
  } catch (...) {  // the system has no more threads
    end_threads();
    throw;
  }
}

DeviceReader::~DeviceReader() { stop(); }

uint64_t DeviceReader::batches() const {
  const uint64_t below = inner_->batches();
  return is_on_device() ? below : below + horizon_ + together_ + options_.at_once;
}

std::shared_ptr<RowRequest> DeviceReader::prepare(uint64_t number, std::span<const int64_t> ids) {
  if (is_on_device()) return nullptr;
  const bool for_inner = inner_->batches() > 0 && matrix_.rows <= DeviceRequest::kMostRequested;
  auto request = std::make_shared<DeviceRequest>(number, ids, rows_->shards(), for_inner);
  if (request->largest >= matrix_.rows) check_row_ids(*file_, matrix_, ids);
  request->left = rows_->threads_;
  return request;
}

void DeviceReader::submit(std::shared_ptr<RowRequest> given) {
  auto request = std::static_pointer_cast<DeviceRequest>(std::move(given));
  const std::lock_guard lock(mutex_);
  request->sequence = first_ + requests_.size();
  requests_.push_back(std::move(request));
  changed_.notify_all();
}

std::shared_ptr<OnDevice> DeviceReader::on_device(RowRequest* given, std::span<const int64_t> ids) {
  auto* const request = static_cast<DeviceRequest*>(given);
  if (request != nullptr && request->collected) return request->collected;
  auto made = std::make_shared<OnDevice>();
  made->rows = ids.size();
  const auto setting = request != nullptr ? *request->setting : rows_->setting();
  made->generation = setting.generation;
  made->slots = setting.slots;
  made->is_whole = request != nullptr ? request->is_whole : rows_->is_resident(setting);
  if (made->is_whole) {
    check_row_ids(*file_, matrix_, ids);
    return made;
  }
  if (request == nullptr) return nullptr;
  if (request->error) std::rethrow_exception(request->error);
  made->sequence = request->sequence;
  request->collect(*made);
  made->reads_host = rows_->reads_host_ && options_.is_mapped;
  request->collected = made;
  return made;
}

void DeviceReader::copy(RowRequest* given, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                        GatherStats* stats, Progress* progress) {
  if (given == nullptr) return inner_->copy(nullptr, ids, out, options, stats, progress);
  auto& request = *static_cast<DeviceRequest*>(given);
  const std::span<const int64_t> misses = request.collected->missing();
  if (request.collected->reads_host) {
    file_->file().check();
    file_->file().check_size();
    GatherStats done;
    done.rows = done.rows_mapped = misses.size();
    done.bytes_useful = misses.size() * matrix_.row_bytes;
    if (stats != nullptr) stats->add(done);
    return;
  }
  if (!misses.empty()) inner_->copy(request.inner.get(), misses, out, options, stats, progress);
}

void DeviceReader::cancel() {
  {
    std::unique_lock lock(mutex_);
    cancelling_ = true;
    changed_.wait(lock, [&] { return busy_ == 0; });
    first_ += requests_.size();
    requests_.clear();
    std::fill(planned_.begin(), planned_.end(), first_);
    std::fill(expected_.begin(), expected_.end(), first_);
    for (const auto& shard : rows_->calendars_) shard->calendar.forget();
    cancelling_ = false;
    changed_.notify_all();
  }
  inner_->cancel();
}

void DeviceReader::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void DeviceReader::stop() {
  const bool was_running = !threads_.empty();
  end_threads();
  inner_->stop();
  if (!was_running) return;
  rows_->sequence_ = first_ + requests_.size();
  rows_->detach();
}

// -- the threads ------------------------------------------------------------------------------------------------------

void DeviceReader::run(uint32_t thread) {
  const BufferPool::Use use(*options_.pool);
  name_thread("graphzero-plan");
  lower_thread_priority();
  leave_processors(options_.ranks);
  RowCalendar::Scratch scratch;
  std::unique_lock lock(mutex_);
  while (wait_for_work(thread, lock)) advance(thread, scratch, lock);
}

// Returns when the next batches of a thread can be planned: all that they should know of are there, or no more will
// come. False at the end.
bool DeviceReader::wait_for_work(uint32_t thread, std::unique_lock<std::mutex>& lock) {
  uint64_t seen = 0;
  auto since = Clock::now();
  for (;;) {
    if (stopping_) return false;
    const uint64_t next = planned_[thread], submitted = first_ + requests_.size();
    if (cancelling_ || next >= submitted) {
      changed_.wait(lock);
      continue;
    }
    const bool is_begun = requests_[next - first_]->setting.has_value();
    if (is_begun || submitted >= next + horizon_ + together_ || submitted == stuck_at_) return true;
    if (std::exchange(seen, submitted) != submitted) since = Clock::now();
    const uint64_t last = requests_.back()->number;
    lock.unlock();
    const bool at_end = last + 1 >= events_.end() || is_on_device();
    // Memory is too short for so many batches, or one of them failed.
    const bool is_stuck = !at_end && seconds_since(since) > kPatience && events_.starving();
    lock.lock();
    if (stopping_ || cancelling_ || first_ + requests_.size() != submitted || planned_[thread] != next) continue;
    if (is_stuck) {
      together_ = together_of(submitted - next);
      horizon_ = submitted - next - together_;
      stuck_at_ = submitted;
    }
    if (is_stuck || at_end) return true;
    changed_.wait_for(lock, kPoll);
  }
}

// Plans the next batches of a thread, as many together as can be: shard by shard, so that a shard's words are fetched
// from memory once for all of them.
void DeviceReader::advance(uint32_t thread, RowCalendar::Scratch& scratch, std::unique_lock<std::mutex>& lock) {
  const uint64_t next = planned_[thread], submitted = first_ + requests_.size();
  DeviceRequest& first = *requests_[next - first_];
  if (!first.setting) first.together = std::min<uint64_t>(together_, submitted - next);
  const uint64_t count = first.together;
  uint64_t known = next + count;
  for (uint64_t i = next; i < next + count; ++i) {
    DeviceRequest& request = *requests_[i - first_];
    if (!request.setting) {
      request.setting = rows_->setting();
      request.is_whole = rows_->is_resident(*request.setting);
      request.known = std::min(submitted, i + 1 + horizon_);
    }
    known = std::max(known, request.known);
  }
  // Those that are planned, and those that they are planned with.
  auto& requests = at_hand_[thread];
  requests.assign(requests_.begin() + static_cast<ptrdiff_t>(next - first_),
                  requests_.begin() + static_cast<ptrdiff_t>(known - first_));
  const uint64_t expected = expected_[thread];
  ++busy_;
  lock.unlock();
  uint64_t reached = expected;
  std::exception_ptr error;
  try {
    for (uint32_t shard = thread; shard < rows_->shards(); shard += rows_->threads_) {
      reached = plan(shard, next, count, expected, requests, scratch);
    }
  } catch (...) {
    error = std::current_exception();
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (error) {
      const std::lock_guard guard(mutex_);
      requests[i]->error = error;
    }
    if (requests[i]->left.fetch_sub(1) == 1) complete(*requests[i]);
  }
  requests.clear();
  lock.lock();
  --busy_;
  planned_[thread] = next + count;
  expected_[thread] = reached;
  while (!requests_.empty() && std::ranges::all_of(planned_, [&](uint64_t planned) { return planned > first_; })) {
    requests_.pop_front();
    ++first_;
  }
  if (cancelling_) changed_.notify_all();
}

// Plans `count` batches of one shard: requests[i] has sequence number next + i. Those before `expected` are announced;
// returns the first that is not, afterwards.
uint64_t DeviceReader::plan(uint32_t shard, uint64_t next, uint64_t count, uint64_t expected,
                            const std::vector<std::shared_ptr<DeviceRequest>>& requests,
                            RowCalendar::Scratch& scratch) {
  auto& [calendar, generation] = *rows_->calendars_[shard];
  for (uint64_t i = next; i < next + count; ++i) {
    DeviceRequest& request = *requests[i - next];
    const bool is_new = generation != request.setting->generation;
    expected = is_new ? i + 1 : std::max(expected, i + 1);
    if (is_new && !request.is_whole) {
      calendar.resize(std::min<uint64_t>(request.setting->slots, INT32_MAX) / rows_->shards());
    }
    generation = request.setting->generation;
    if (request.is_whole) continue;
    for (; expected < request.known; ++expected) calendar.expect(expected, requests[expected - next]->rows(shard));
    request.add(shard, calendar.plan(i, request.rows(shard), request.room_for_missed(shard), scratch));
  }
  return expected;
}

// All threads have planned it: the reader below gets what is missing. In the order of batches, since each thread keeps
// it.
void DeviceReader::complete(DeviceRequest& request) {
  try {
    if (request.misses > 0 && request.for_inner && !request.error) {
      request.inner = inner_->prepare(request.number, request.missing_ids());
      if (request.inner) return inner_->submit(request.inner);
    }
  } catch (const PoolFull&) {  // it reads its rows directly
  } catch (...) {
    request.inner = nullptr;
    const std::lock_guard lock(mutex_);
    request.error = std::current_exception();
  }
  events_.ready(request.number);
}

}  // namespace gz
