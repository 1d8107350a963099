// alone: a batch that does not fit beside others: all that was made ahead is thrown away, other epochs of the loader
// rest, what their consumers hold is not counted any more, and at last the rows that are held make room.
#include <algorithm>

#include "base/error.h"
#include "load/stages.h"

namespace gz {

// Ends the sweeps of this epoch and gives the memory of the rows held to batches. Whole copies stay while another epoch
// may be reading them, and so do windows that are another's.
void Pipeline::give_up_rows() {
  for (const auto& reader : readers_) reader->stop();
  std::unique_lock guard(plan_->mutex);
  std::unique_lock lock(mutex_);
  const bool is_only = plan_->epochs.size() == 1, sweeps = division_.window > 0;
  add_windows(stats_);
  division_.window = 0;
  readers_.clear();
  uint64_t kept = 0;
  for (size_t part = 0; part < plan_->parts.size(); ++part) {
    if (is_only || sweeps) plan_->windows[part] = nullptr;
    if (is_only) plan_->wholes[part] = nullptr;
    if (plan_->windows[part]) kept += plan_->windows[part]->stats().budget_bytes;
    if (plan_->wholes[part]) kept += WholeRows::bytes_for(plan_->wholes[part]->matrix());
  }
  plan_->outgrown = true;
  const uint64_t rest = plan_->division.memory - plan_->division.fixed_bytes - plan_->division.shared_bytes;
  plan_->pool->set_limit(std::max(plan_->pool->limit(), rest - std::min(rest, kept)));
  lock.unlock();
  guard.unlock();
  std::vector<std::shared_ptr<RowReader>> readers;
  for (size_t part = 0; part < plan_->parts.size(); ++part) readers.push_back(make_reader(part));
  lock.lock();
  readers_ = std::move(readers);
}

// Makes the other epochs of the loader rest. False where another one has all the room already: it wakes us afterwards.
bool Pipeline::claim_the_room() {
  Pipeline* nobody = nullptr;
  if (!plan_->alone.compare_exchange_strong(nobody, this)) return false;
  std::lock_guard guard(plan_->mutex);
  for (Pipeline* other : plan_->epochs) {
    if (other != this) other->shed();
  }
  return true;
}

void Pipeline::leave_the_room() {
  plan_->alone = nullptr;
  std::lock_guard guard(plan_->mutex);
  for (Pipeline* other : plan_->epochs) {
    if (other == this) continue;
    std::lock_guard lock(other->mutex_);  // who decided to wait before, waits by now
    other->work_ready_.notify_all();
  }
}

// The next batch in line, with all that was made ahead thrown away, and at last without the rows that are held.
void Pipeline::make_alone(std::unique_lock<std::mutex>& lock) {
  alone_ = true;
  drop_all(lock);
  const uint64_t number = next_to_deliver_;
  Cancel cancel(*this);
  lock.unlock();
  LoadedBatch batch;
  GatherStats gathered;
  std::exception_ptr error;
  uint64_t needed = 0;
  const bool tried = claim_the_room();
  bool over = !tried, made = false;
  for (int attempt = 0; attempt < 3 && !over; ++attempt) {
    if (attempt == 1) plan_->handed_out.count_together(plan_->options.held);
    if (attempt == 2) give_up_rows();
    bool sampled = false;
    try {
      BatchSeeds seeds;
      Draft draft = draft_of(number, seeds);
      draft.requests.resize(plan_->parts.size());
      draft.graph = sample_batch(*draft.pass->plan, seeds);
      sampled = true;
      batch = finish(draft, cancel, gathered);
      made = over = true;
    } catch (const PoolFull& full) {
      // While it is sampled nobody knows how large it will be.
      needed = sampled ? full.needed : full.needed + full.needed / 2;
    } catch (const Cancelled&) {
      over = true;
    } catch (...) {
      error = std::current_exception();
      over = true;
    }
  }
  lock.lock();
  alone_ = false;
  if (tried) too_large_ = false;
  if (made) {
    next_to_sample_ = number + 1;
    next_to_offer_ = std::max(first_claim_, number + 1);
    learn(batch);
    ready_.emplace(number, std::move(batch));
    stats_.gather.add(gathered);
  } else if (error) {
    keep_error(number, error);
  } else if (!over) {
    const uint64_t ranks = plan_->options.local.count;
    const uint64_t least = ranks * ((needed + plan_->division.fixed_bytes) / 8 * 9 + 8);  // others may be larger still
    keep_error(number, std::make_exception_ptr(
                           BudgetError(text("batch ", number - passes_.now().begin,
                                            " takes more than memory=", ranks * plan_->division.memory,
                                            " bytes allow: raise memory to ", least, " or lower batch_size or fanouts"),
                                       least)));
  }
  batch_ready_.notify_all();
  work_ready_.notify_all();
  if (!tried) return;
  lock.unlock();
  leave_the_room();
  lock.lock();
}

}  // namespace gz
