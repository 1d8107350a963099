// gather_files: small feature files full of noise, for tests.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "check.h"
#include "format/container.h"
#include "storage/features.h"

namespace gz::test {

struct NoiseArray {
  std::string name;
  DType dtype;
  uint64_t rows, columns;  // 0 columns: a vector
};

inline std::vector<std::byte> noise_bytes(uint64_t bytes, uint64_t seed) {
  Random random(make_key(seed));
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random.next());
  return out;
}

inline std::vector<int64_t> some_ids(uint64_t rows, size_t count, uint64_t seed) {
  Random random(make_key(seed));
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.below(rows));
  return ids;
}

inline std::string write_features(const std::string& name, const std::vector<NoiseArray>& arrays) {
  Container container;
  container.kind = Kind::kFeatures;
  container.num_nodes = arrays[0].rows;
  for (const NoiseArray& a : arrays) {
    ArrayInfo info;
    info.name = a.name;
    info.dtype = a.dtype;
    info.shape = a.columns == 0 ? std::vector<uint64_t>{a.rows} : std::vector<uint64_t>{a.rows, a.columns};
    container.arrays.push_back(info);
  }
  lay_out(container);
  const std::string path = scratch(name);
  File file = File::create(path);
  file.resize(container.file_bytes);
  file.write_at(serialize_header(container), 0);
  for (size_t i = 0; i < container.arrays.size(); ++i) {
    const ArrayInfo& array = container.arrays[i];
    std::vector<std::byte> bytes = noise_bytes(array.bytes, i + 1);
    if (array.name.ends_with(".scale")) {  // noise would be NaNs
      for (size_t k = 0; k < bytes.size() / 4; ++k)
        reinterpret_cast<float*>(bytes.data())[k] = 0.01f * static_cast<float>(k + 1);
    }
    file.write_at(bytes, array.offset);
  }
  file.sync();
  return path;
}

// The layout of GraphZero 0.2: rows from byte 32 to the last byte of the file.
inline std::string write_legacy_features(const std::string& name, uint64_t rows, uint64_t columns) {
  struct {
    char magic[8] = {'G', 'Z', 'D', 'A', 'T', 'A', '2', '6'};
    uint32_t flags = 0;
    int32_t dtype = 2;
    uint64_t rows, columns;
  } header;
  header.rows = rows;
  header.columns = columns;
  const std::string path = scratch(name);
  File file = File::create(path);
  file.write_at({reinterpret_cast<const std::byte*>(&header), sizeof header}, 0);
  file.write_at(noise_bytes(rows * columns * 4, 1), sizeof header);
  file.sync();
  return path;
}

}  // namespace gz::test
