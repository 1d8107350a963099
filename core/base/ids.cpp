// ids: a fast pass that only says whether all are good, then a slow one that finds the first bad id.
#include "base/ids.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gz {

void check_id(int64_t id, std::string_view name, const IdRange& range) {
  if (static_cast<uint64_t>(id) < range.size) return;  // a negative id becomes huge
  fail<IndexError>(name, " = ", id, " is out of range for ", range.where, range.where.empty() ? "" : " with ",
                   range.size, " ", range.of);
}

void check_ids(std::span<const int64_t> ids, std::string_view name, const IdRange& range) {
  const auto is_good = [&](int64_t id) { return static_cast<uint64_t>(id) < range.size; };
  bool good = true;
  for (const int64_t id : ids) good &= is_good(id);  // no early exit, so that the loop vectorises
  if (good) return;
  const auto bad = std::find_if_not(ids.begin(), ids.end(), is_good);
  check_id(*bad, text(name, "[", bad - ids.begin(), "]"), range);
}

}  // namespace gz
