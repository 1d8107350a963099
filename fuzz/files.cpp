// files: creates and mutates them.
#include "files.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "base/checksum.h"
#include "format/container.h"
#include "target.h"

namespace gz::fuzz {
namespace {

struct Named {
  ArrayInfo info;
  std::vector<std::byte> data;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

template <class T>
Named vector_named(const std::string& name, DType dtype, const std::vector<T>& values) {
  return {{name, dtype, {values.size()}, 0, 0, 0}, bytes_of(values)};
}

std::vector<std::byte> assemble(Container c, const std::vector<Named>& arrays) {
  for (const Named& array : arrays) {
    c.arrays.push_back(array.info);
    c.arrays.back().digest = digest(array.data, 1);
  }
  lay_out(c);
  std::vector<std::byte> file = serialize_header(c);
  file.resize(c.file_bytes);
  for (size_t i = 0; i < arrays.size(); ++i) {
    std::copy(arrays[i].data.begin(), arrays[i].data.end(), file.begin() + static_cast<long>(c.arrays[i].offset));
  }
  return file;
}

struct Rows {
  std::vector<uint64_t> indptr, indices;
};

// Some nodes have no neighbours, one has many (a hub).
Rows random_rows(Random& random, uint64_t nodes, uint64_t edges) {
  std::vector<uint64_t> owners(edges);
  for (uint64_t& owner : owners) owner = random.below(4) == 0 ? 0 : random.below(nodes);
  Rows rows{std::vector<uint64_t>(nodes + 1), {}};
  for (const uint64_t owner : owners) ++rows.indptr[owner + 1];
  std::partial_sum(rows.indptr.begin(), rows.indptr.end(), rows.indptr.begin());
  for (uint64_t i = 0; i < edges; ++i) rows.indices.push_back(random.below(nodes));
  for (uint64_t node = 0; node < nodes; ++node) {
    std::sort(rows.indices.begin() + static_cast<long>(rows.indptr[node]),
              rows.indices.begin() + static_cast<long>(rows.indptr[node + 1]));
  }
  return rows;
}

void add_side(std::vector<Named>& arrays, const std::string& side, const Rows& rows, Random& random) {
  const size_t edges = rows.indices.size();
  std::vector<float> weights(edges);
  std::vector<double> cumulative(edges);
  std::vector<int64_t> times(edges);
  std::vector<uint32_t> by_time(edges);
  for (size_t node = 0; node + 1 < rows.indptr.size(); ++node) {
    double sum = 0;
    for (uint64_t i = rows.indptr[node]; i < rows.indptr[node + 1]; ++i) {
      weights[i] = static_cast<float>(random.below(4));
      cumulative[i] = sum += weights[i];
      times[i] = static_cast<int64_t>(i - rows.indptr[node]);
      by_time[i] = static_cast<uint32_t>(i - rows.indptr[node]);
    }
  }
  arrays.push_back(vector_named(side + "indptr", DType::kUInt64, rows.indptr));
  arrays.push_back(
      vector_named(side + "indices", DType::kUInt32, std::vector<uint32_t>(rows.indices.begin(), rows.indices.end())));
  if (random.below(4) != 0) {
    arrays.push_back(vector_named(side + "weights", DType::kFloat32, weights));
    if (random.below(4) != 0) arrays.push_back(vector_named(side + "cumulative", DType::kFloat64, cumulative));
  }
  if (random.below(2) == 0) {
    std::vector<uint32_t> ids(edges);
    std::iota(ids.begin(), ids.end(), 0u);
    arrays.push_back(vector_named(side + "edge_ids", DType::kUInt32, ids));
  }
  if (random.below(2) == 0) {
    arrays.push_back(vector_named(side + "times", DType::kInt64, times));
    arrays.push_back(vector_named(side + "by_time", DType::kUInt32, by_time));
  }
}

template <class T>
void put(std::vector<std::byte>& file, size_t at, T value) {
  if (at + sizeof value <= file.size()) std::memcpy(file.data() + at, &value, sizeof value);
}

// A number that is likely to reveal bugs.
uint64_t bad_number(Random& random) {
  constexpr uint64_t kSmall[] = {0, 1, 2, 3, 7, 16, 64, 255, 4095, 4096, 4097};
  switch (random.below(4)) {
    case 0:
      return kSmall[random.below(std::size(kSmall))];
    case 1:
      return (uint64_t{1} << random.below(64)) + random.below(3) - 1;
    case 2:
      return random.below(64);
    default:
      return random.next();
  }
}

}  // namespace

std::vector<std::byte> topology_file(Random& random) {
  Container c;
  c.kind = Kind::kTopology;
  c.num_nodes = 1 + random.below(40);
  c.num_edges = random.below(200);
  c.direction = static_cast<Direction>(1 + random.below(3));
  c.properties = kSortedRows;
  std::vector<Named> arrays;
  if (has_out(c.direction)) add_side(arrays, "out.", random_rows(random, c.num_nodes, c.num_edges), random);
  if (has_in(c.direction)) add_side(arrays, "in.", random_rows(random, c.num_nodes, c.num_edges), random);
  return assemble(std::move(c), arrays);
}

std::vector<std::byte> features_file(Random& random) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = 1 + random.below(40);
  std::vector<Named> arrays;
  for (uint32_t code = 1; code <= 10; ++code) {
    if (random.below(3) == 0) continue;
    const DType dtype = *dtype_from_code(code);
    const uint64_t columns = 1 + random.below(40);
    std::vector<std::byte> data(c.num_nodes * columns * dtype_bytes(dtype));
    for (std::byte& b : data) b = static_cast<std::byte>(random.next());
    arrays.push_back({{dtype_name(dtype), dtype, {c.num_nodes, columns}, 0, 0, 0}, std::move(data)});
    if (dtype == DType::kInt8 && random.below(2) == 0) {
      arrays.push_back(vector_named("int8.scale", DType::kFloat32, std::vector<float>(columns, 0.5f)));
    }
  }
  return assemble(std::move(c), arrays);
}

std::vector<std::byte> legacy_file(Random& random) {
  std::vector<std::byte> file;
  if (random.below(3) == 0) {
    file.resize(32 + 20 * 12 * 8);
    std::memcpy(file.data(), "GZDATA26", 8);
    put(file, 12, static_cast<uint32_t>(random.below(4)));
    put(file, 16, uint64_t{20});
    put(file, 24, uint64_t{12});
    return file;
  }
  const uint64_t nodes = 1 + random.below(40), edges = random.below(200);
  const bool weighted = random.below(2) == 0;
  const Rows rows = random_rows(random, nodes, edges);
  const uint64_t indices_at = (64 + (nodes + 1) * 8 + 63) / 64 * 64;
  const uint64_t weights_at = (indices_at + edges * 8 + 63) / 64 * 64;
  file.resize(weighted ? weights_at + edges * 4 : indices_at + edges * 8);
  const uint64_t words[] = {8388354976772092519ull, (nodes + 1) * 8, edges * 8, 64, indices_at, nodes, edges, weighted};
  std::memcpy(file.data(), words, sizeof words);
  std::memcpy(file.data() + 64, rows.indptr.data(), (nodes + 1) * 8);
  if (edges > 0) std::memcpy(file.data() + indices_at, rows.indices.data(), edges * 8);
  for (uint64_t i = 0; weighted && i < edges; ++i) put(file, weights_at + 4 * i, static_cast<float>(random.below(3)));
  return file;
}

std::vector<std::byte> any_file(Random& random) {
  switch (random.below(5)) {
    case 0:
      return features_file(random);
    case 1:
      return legacy_file(random);
    default:
      return topology_file(random);
  }
}

void change(std::vector<std::byte>& file, Random& random) {
  const size_t table = 128, most_table = 128 + 14 * 96;
  const uint64_t how = random.below(16);
  for (uint64_t i = 0; i <= random.below(6); ++i) {
    if (file.empty()) break;
    if (how < 3) {  // the header's own fields
      put(file, 8 + 4 * random.below(18), static_cast<uint32_t>(bad_number(random)));
    } else if (how < 6) {  // the table, or the whole of a 0.2 header
      put(file, (random.below(4) == 0 ? 0 : table) + 8 * random.below((most_table - table) / 8), bad_number(random));
    } else if (how < 10) {  // elements, by 8 bytes
      put(file, random.below(file.size()) & ~size_t{7}, bad_number(random));
    } else if (how < 14) {  // elements, by 4 bytes, most of them near the front of an array
      const size_t array = 4096 * (1 + random.below(file.size() / 4096 + 1));
      put(file, array + 4 * random.below(64), static_cast<uint32_t>(bad_number(random)));
    } else {
      file[random.below(file.size())] = static_cast<std::byte>(random.next());
    }
  }
  if (random.below(32) == 0) file.resize(random.below(2 * file.size() + 1));
  if (random.below(8) != 0) sum_again(file);
}

}  // namespace gz::fuzz
