// id_map_write: the keys by id, and an index of them in the order of their hashes (docs/dataset.md).
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "compile/container_writer.h"
#include "compile/id_map_builder.h"

namespace gz {
namespace {

struct Entry {
  int64_t hash = 0, id = 0;
  auto operator<=>(const Entry&) const = default;
};

ArrayInfo vector_of(const char* name, DType dtype, uint64_t rows) {
  ArrayInfo array;
  array.name = name;
  array.dtype = dtype;
  array.shape = {rows};
  return array;
}

Container features(uint64_t rows, std::vector<ArrayInfo> arrays) {
  Container container;
  container.kind = Kind::kFeatures;
  container.num_nodes = rows;
  container.arrays = std::move(arrays);
  return container;
}

template <class T>
void append(ContainerWriter& writer, size_t index, T value) {
  writer.append(index, std::span<const T>(&value, 1));
}

void read_sorted(const SpillStreams& from, size_t part, std::vector<Entry>& entries) {
  entries.resize(static_cast<size_t>(from.bytes(part)) / sizeof(Entry));
  SpillStreams::Reader reader(from, part, size_t{1} << 20);
  if (!entries.empty()) reader.read(entries.data(), entries.size() * sizeof(Entry));
  std::sort(entries.begin(), entries.end());
}

}  // namespace

uint64_t IdMapBuilder::write(const std::string& path, const std::string& text_path, Progress* progress) {
  close();
  const bool narrow = count_ <= uint64_t{1} << 31;
  ContainerWriter writer(path, features(count_, {vector_of("hash", DType::kInt64, count_),
                                                 vector_of("id", narrow ? DType::kInt32 : DType::kInt64, count_),
                                                 vector_of(options_.text ? "start" : "value", DType::kInt64, count_)}));
  std::unique_ptr<ContainerWriter> texts;
  const uint64_t text_bytes = store_.bytes(0);
  if (options_.text) {
    texts = std::make_unique<ContainerWriter>(text_path,
                                              features(text_bytes, {vector_of("text", DType::kUInt8, text_bytes)}));
  }
  const auto buffer = static_cast<size_t>(std::clamp<uint64_t>(options_.memory / 4 / kParts, 4096, 256 << 10));
  SpillStreams sorted(options_.spill_folder, kParts, buffer);
  SpillStreams::Reader bytes(store_, 0, size_t{1} << 20), sizes(store_, 1, size_t{1} << 20);
  std::vector<char> text;
  int64_t start = 0;
  for (uint64_t id = 0; id < count_; ++id) {
    uint64_t size = 0;
    sizes.read_value(size);
    KeyHash hash;
    if (options_.text) {
      text.resize(static_cast<size_t>(size));
      if (size > 0) bytes.read(text.data(), text.size());
      texts->append(0, std::as_bytes(std::span(text)));
      hash = hash_key(std::string_view(text.data(), text.size()));
      append(writer, 2, start);
      start += static_cast<int64_t>(size);
    } else {
      hash = hash_key(static_cast<int64_t>(size));
      append(writer, 2, static_cast<int64_t>(size));
    }
    sorted.append_value(static_cast<size_t>(hash.high >> 56), Entry{index_hash(hash), static_cast<int64_t>(id)});
    if (progress != nullptr && (id & 0xfffff) == 0) progress->report("writing the map of ids", id, count_);
  }
  // as many parts at a time as there are threads: each is a 256th of the keys
  std::vector<std::vector<Entry>> entries(std::min<size_t>(kParts, static_cast<size_t>(options_.threads)));
  for (size_t begin = 0; begin < kParts; begin += entries.size()) {
    const size_t parts = std::min(entries.size(), kParts - begin);
    parallel_for(parts, 1, options_.threads, [&](size_t first, size_t last, int) {
      for (size_t p = first; p < last; ++p) read_sorted(sorted, begin + p, entries[p]);
    });
    for (size_t p = 0; p < parts; ++p) {
      for (const Entry& entry : entries[p]) {
        append(writer, 0, entry.hash);
        if (narrow) {
          append(writer, 1, static_cast<int32_t>(entry.id));
        } else {
          append(writer, 1, entry.id);
        }
      }
    }
  }
  const uint64_t text_file = texts ? texts->finish(options_.threads) : 0;
  return writer.finish(options_.threads) + text_file;
}

}  // namespace gz
