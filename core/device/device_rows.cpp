// device_rows: the threads that plan which rows a device will have, one for each shard of a cache.
#include "device/device_rows.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_name.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);  // while a shard waits for its horizon
constexpr double kPatience = 0.5;  // seconds without a new batch, with a consumer that waits for one

}  // namespace

// The rows of one batch. Grouped by shard; a shard's thread turns its group into misses, in place.
struct DeviceRequest : RowRequest {
  uint64_t number = 0, size = 0;
  std::shared_ptr<Buffer> buffer;  // two uint32 per row: its number within its shard, its position in the batch
  std::shared_ptr<Buffer> source;  // int32 per row
  std::vector<uint64_t> begins;    // by shard, and the end
  std::vector<uint64_t> misses;    // by shard
  std::vector<std::vector<RowCalendar::Admission>> admitted;
  std::optional<DeviceRows::Setting> setting;  // when the first shard begins it; guarded by the reader's mutex
  uint64_t known = 0;                          // sequence number past the batches that it is planned with
  std::atomic<uint32_t> left{0};               // shards that have not planned it
  bool is_whole = false;
  std::shared_ptr<RowRequest> inner;
  std::shared_ptr<Buffer> ids;  // of the misses
  std::exception_ptr error;

  std::span<uint32_t> rows(size_t shard) const { return group(shard, 0); }
  std::span<uint32_t> positions(size_t shard) const { return group(shard, size); }
  uint64_t num_misses() const {
    uint64_t sum = 0;
    for (const uint64_t count : misses) sum += count;
    return is_whole ? 0 : sum;
  }

 private:
  std::span<uint32_t> group(size_t shard, uint64_t offset) const {
    return {buffer->as<uint32_t>() + offset + begins[shard], begins[shard + 1] - begins[shard]};
  }
};

// -- the state of a cache ---------------------------------------------------------------------------------------------

DeviceRows::DeviceRows(uint64_t rows, uint32_t shards) : rows_(rows) {
  shards = std::bit_floor(std::max(shards, 1u));
  for (uint32_t i = 0; i < shards; ++i) {
    calendars_.push_back(std::make_unique<Shard>((rows + shards - 1 - i) / shards, shards, i));
  }
}

uint64_t DeviceRows::resize(uint64_t slots) {
  const std::lock_guard lock(mutex_);
  setting_ = {std::min(slots, rows_), setting_.generation + 1};
  stats_.slots = setting_.slots;
  return setting_.generation;
}

void DeviceRows::forget() {
  const std::lock_guard lock(mutex_);
  must_forget_ = true;
}

DeviceRows::Setting DeviceRows::setting() const {
  const std::lock_guard lock(mutex_);
  return setting_;
}

DeviceRowsStats DeviceRows::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void DeviceRows::count(uint64_t rows, uint64_t hits, uint64_t admitted) {
  const std::lock_guard lock(mutex_);
  stats_.rows += rows;
  stats_.hits += hits;
  stats_.admitted += admitted;
}

bool DeviceRows::attach() {
  {
    const std::lock_guard lock(mutex_);
    if (attached_) return false;
    attached_ = true;
    stats_.rows = stats_.hits = stats_.admitted = 0;
    if (!std::exchange(must_forget_, false)) return true;
  }
  for (const auto& shard : calendars_) shard->calendar.forget();
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
  return std::shared_ptr<DeviceReader>(
      new DeviceReader(std::move(rows), std::move(inner), std::move(file), matrix, options, std::move(events)));
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
      expected_(rows_->shards(), first_),
      planned_(rows_->shards(), first_),
      horizon_(std::min(options.horizon, RowCalendar::kHorizon)) {
  for (uint32_t shard = 0; shard < rows_->shards(); ++shard) threads_.emplace_back([this, shard] { run(shard); });
}

DeviceReader::~DeviceReader() { stop(); }

uint64_t DeviceReader::batches() const {
  const uint64_t below = inner_->batches();
  return rows_->is_resident(rows_->setting()) ? below : below + horizon_ + 1 + options_.at_once;
}

std::shared_ptr<RowRequest> DeviceReader::prepare(uint64_t number, std::span<const int64_t> ids) {
  if (rows_->is_resident(rows_->setting())) return nullptr;
  const uint32_t shards = rows_->shards();
  const auto shift = static_cast<uint32_t>(std::countr_zero(shards));
  auto request = std::make_shared<DeviceRequest>();
  request->number = number;
  request->size = ids.size();
  request->left = shards;
  request->buffer = take_buffer(std::max<size_t>(ids.size() * 2 * sizeof(uint32_t), 1));
  request->source = take_buffer(std::max<size_t>(ids.size() * sizeof(int32_t), 1));
  request->misses.resize(shards);
  request->admitted.resize(shards);
  std::vector<uint64_t> counts(shards + 1);
  uint64_t largest = 0;
  for (const int64_t id : ids) {
    largest = std::max(largest, static_cast<uint64_t>(id));  // a negative one becomes huge
    ++counts[(static_cast<uint64_t>(id) & (shards - 1)) + 1];
  }
  if (largest >= matrix_.rows) check_row_ids(*file_, matrix_, ids);
  for (uint32_t i = 0; i < shards; ++i) counts[i + 1] += counts[i];
  request->begins = counts;
  uint32_t* const rows = request->buffer->as<uint32_t>();
  uint32_t* const positions = rows + ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    const uint64_t to = counts[id & (shards - 1)]++;
    rows[to] = static_cast<uint32_t>(id >> shift);
    positions[to] = static_cast<uint32_t>(i);
  }
  return request;
}

void DeviceReader::submit(std::shared_ptr<RowRequest> request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(std::static_pointer_cast<DeviceRequest>(std::move(request)));
  changed_.notify_all();
}

std::shared_ptr<OnDevice> DeviceReader::on_device(RowRequest* given, std::span<const int64_t> ids) {
  auto made = std::make_shared<OnDevice>();
  made->rows = ids.size();
  auto* const request = static_cast<DeviceRequest*>(given);
  const auto setting = request != nullptr ? *request->setting : rows_->setting();
  made->generation = setting.generation;
  made->slots = setting.slots;
  made->is_whole = request != nullptr ? request->is_whole : rows_->is_resident(setting);
  if (made->is_whole) {
    check_row_ids(*file_, matrix_, ids);
    if (request == nullptr) rows_->count(ids.size(), ids.size(), 0);
    return made;
  }
  if (request == nullptr) return nullptr;
  if (request->error) std::rethrow_exception(request->error);
  made->misses = request->num_misses();
  for (const auto& admitted : request->admitted) made->admissions += admitted.size();
  const auto take = [](uint64_t count) { return take_buffer(std::max<size_t>(count * sizeof(int32_t), 1)); };
  made->source = request->source;
  made->positions = take(made->misses);
  made->admitted = take(2 * made->admissions);
  request->ids = take_buffer(std::max<size_t>(made->misses * sizeof(int64_t), 1));
  int32_t* const source = made->source->as<int32_t>();
  int32_t *position = made->positions->as<int32_t>(), *miss = made->admitted->as<int32_t>();
  int32_t* slot = miss + made->admissions;
  int64_t* id = request->ids->as<int64_t>();
  int32_t base = 0;
  for (size_t shard = 0; shard < request->misses.size(); ++shard) {
    for (const auto& [number, to] : request->admitted[shard]) {
      *miss++ = base + static_cast<int32_t>(number);
      *slot++ = static_cast<int32_t>(to);
    }
    for (const uint32_t at : request->positions(shard).first(request->misses[shard])) {
      source[at] = -1 - base++;
      *position++ = static_cast<int32_t>(at);
      *id++ = ids[at];
    }
  }
  return made;
}

void DeviceReader::copy(RowRequest* given, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
                        GatherStats* stats, Progress* progress) {
  if (given == nullptr) return inner_->copy(nullptr, ids, out, options, stats, progress);
  auto& request = *static_cast<DeviceRequest*>(given);
  const std::span<const int64_t> misses{request.ids->as<int64_t>(), request.num_misses()};
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

void DeviceReader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  const bool was_running = !threads_.empty();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  inner_->stop();
  if (!was_running) return;
  if (!requests_.empty()) rows_->forget();
  rows_->sequence_ = first_ + requests_.size();
  rows_->detach();
}

// -- the threads ------------------------------------------------------------------------------------------------------

void DeviceReader::run(uint32_t shard) {
  const BufferPool::Use use(*options_.pool);
  name_thread("graphzero-plan");
  lower_thread_priority();
  std::unique_lock lock(mutex_);
  while (wait_for_work(shard, lock)) advance(shard, lock);
}

// Returns when the next batch of a shard can be planned: all that it should know of are there, or no more will come.
// False at the end.
bool DeviceReader::wait_for_work(uint32_t shard, std::unique_lock<std::mutex>& lock) {
  uint64_t seen = 0;
  auto since = Clock::now();
  for (;;) {
    if (stopping_) return false;
    const uint64_t next = planned_[shard], submitted = first_ + requests_.size();
    if (cancelling_ || next >= submitted) {
      changed_.wait(lock);
      continue;
    }
    if (requests_[next - first_]->setting || submitted > next + horizon_ || submitted == stuck_at_) return true;
    if (std::exchange(seen, submitted) != submitted) since = Clock::now();
    const uint64_t last = requests_.back()->number;
    lock.unlock();
    const bool at_end = last + 1 >= events_.end() || rows_->is_resident(rows_->setting());
    // Memory is too short for so many batches, or one of them failed.
    const bool is_stuck = !at_end && seconds_since(since) > kPatience && events_.starving();
    lock.lock();
    if (stopping_ || cancelling_ || first_ + requests_.size() != submitted || planned_[shard] != next) continue;
    if (is_stuck) {
      horizon_ = submitted - next - 1;
      stuck_at_ = submitted;
    }
    if (is_stuck || at_end) return true;
    changed_.wait_for(lock, kPoll);
  }
}

void DeviceReader::advance(uint32_t shard, std::unique_lock<std::mutex>& lock) {
  const uint64_t next = planned_[shard];
  const auto request = requests_[next - first_];
  if (!request->setting) {
    request->setting = rows_->setting();
    request->is_whole = rows_->is_resident(*request->setting);
    request->known = std::min(first_ + requests_.size(), next + 1 + horizon_);
  }
  DeviceRows::Shard& own = *rows_->calendars_[shard];
  const bool is_new = own.generation != request->setting->generation;
  uint64_t expected = is_new ? next + 1 : std::max(expected_[shard], next + 1);
  std::vector<std::shared_ptr<DeviceRequest>> more;
  for (uint64_t i = expected; i < request->known; ++i) more.push_back(requests_[i - first_]);
  ++busy_;
  lock.unlock();
  try {
    if (!request->is_whole) {
      if (is_new) own.calendar.resize(request->setting->slots / rows_->shards());
      own.generation = request->setting->generation;
      for (const auto& coming : more) own.calendar.expect(expected++, coming->rows(shard));
      auto& admitted = request->admitted[shard];
      request->misses[shard] = own.calendar.plan(next, request->rows(shard), request->positions(shard),
                                                 request->source->as<int32_t>(), admitted);
    }
  } catch (...) {
    const std::lock_guard guard(mutex_);
    request->error = std::current_exception();
  }
  if (request->left.fetch_sub(1) == 1) complete(*request);
  lock.lock();
  --busy_;
  planned_[shard] = next + 1;
  expected_[shard] = expected;
  while (!requests_.empty() && std::ranges::all_of(planned_, [&](uint64_t planned) { return planned > first_; })) {
    requests_.pop_front();
    ++first_;
  }
  if (cancelling_) changed_.notify_all();
}

// All shards have planned it: the reader below gets what is missing. In the order of batches, since each shard keeps
// it.
void DeviceReader::complete(DeviceRequest& request) {
  const uint64_t misses = request.num_misses();
  uint64_t admissions = 0;
  for (const auto& admitted : request.admitted) admissions += admitted.size();
  rows_->count(request.size, request.size - misses, admissions);
  if (misses > 0 && inner_->batches() > 0 && !request.error) {
    try {
      std::vector<int64_t> ids;
      ids.reserve(misses);
      for (uint32_t shard = 0; shard < rows_->shards(); ++shard) {
        for (const uint32_t row : request.rows(shard).first(request.misses[shard])) {
          ids.push_back(int64_t{row} * rows_->shards() + shard);
        }
      }
      request.inner = inner_->prepare(request.number, ids);
    } catch (const PoolFull&) {  // it reads its rows directly
    }
  }
  if (request.inner) {
    inner_->submit(request.inner);
  } else {
    events_.ready(request.number);
  }
}

}  // namespace gz
