// ids: the range check of ids that come from a user.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace gz {

// What ids count: `size` nodes, rows or edges of a file or a type.
struct IdRange {
  uint64_t size;
  std::string_view of;     // "nodes"
  std::string_view where;  // a path or "node type 'x'"; may be empty
};

// Throws IndexError for an id that is not in [0, range.size): `node = 40 is out of range for g.gl with 40 nodes`, where
// `name` is "node".
inline void check_id(int64_t id, std::string_view name, const IdRange& range) {
  if (static_cast<uint64_t>(id) < range.size) return;  // a negative id becomes huge
  fail<IndexError>(name, " = ", id, " is out of range for ", range.where, range.where.empty() ? "" : " with ",
                   range.size, " ", range.of);
}

// The same for the first such id of a list: `seeds[3] = 40 is out of range ...`. A fast loop says whether all are good,
// and a slow one then finds the first that is not.
inline void check_ids(std::span<const int64_t> ids, std::string_view name, const IdRange& range) {
  const auto is_good = [&](int64_t id) { return static_cast<uint64_t>(id) < range.size; };
  bool good = true;
  for (const int64_t id : ids) good &= is_good(id);  // no early exit, so that the loop vectorises
  if (good) return;
  const auto bad = std::find_if_not(ids.begin(), ids.end(), is_good);
  check_id(*bad, text(name, "[", bad - ids.begin(), "]"), range);
}

}  // namespace gz
