// ids: the range check of ids that come from a user.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gz {

// What ids count: `size` nodes, rows or edges of a file or a type.
struct IdRange {
  uint64_t size;
  std::string_view of;     // "nodes"
  std::string_view where;  // a path or "node type 'x'"; may be empty
};

// Throws IndexError for the first id that is not in [0, range.size): `seeds[3] = 40 is out of range for g.gl with 40
// nodes`, where `name` is "seeds".
void check_ids(std::span<const int64_t> ids, std::string_view name, const IdRange& range);
// The same for an argument that is one id: `node = 40 is out of range ...`.
void check_id(int64_t id, std::string_view name, const IdRange& range);

}  // namespace gz
