// packed: the encodings of blocks of numbers, and how one is chosen.
#include "sample/subgraph/packed.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "sample/subgraph/graph.h"

namespace gz {
namespace {

constexpr size_t kStretch = 1024;  // numbers with one encoding

// How a block is stored.
//
// kSteps: the first number, and one-byte differences. kBits: the same if no difference is above 1, a bit each: targets
// of edges. kRuns: a bit for each number that is one more than the number before it, and the others in full: edge ids
// of whole rows. kFresh: a bit for each that is one more than the largest number of the array so far, and the others in
// full: nodes are numbered in the order in which edges reach them. kOne to kWhole: so many bytes per number.
enum Form : uint8_t {
  kSteps = 0,
  kOne = 1,
  kTwo = 2,
  kThree = 3,
  kFour = 4,
  kBits = 5,
  kRuns = 6,
  kFresh = 7,
  kWhole = 8
};

using Numbers64 = std::span<const int64_t>;

size_t bitmap_bytes(size_t count) { return (count + 7) / 8; }
size_t width_of(uint64_t bits) {
  const int width = (static_cast<int>(std::bit_width(bits)) + 7) / 8;
  return width > 4 ? sizeof(int64_t) : static_cast<size_t>(std::max(width, 1));
}

int64_t after(int64_t value) { return static_cast<int64_t>(static_cast<uint64_t>(value) + 1); }  // may wrap around

// The number that is expected after `value`, where `expected` was expected before it.
int64_t next_of_run(int64_t, int64_t value) { return after(value); }
int64_t next_of_fresh(int64_t expected, int64_t value) { return std::max(expected, after(value)); }

// A block, the encoding that takes the fewest bytes, and how many.
struct Encoding {
  Form form = kWhole;
  size_t width = 8;  // bytes of numbers in full
  size_t bytes = 0;
};

// `unused` is the number after the largest of the array before the block, and afterwards with it.
Encoding encoding_of(Numbers64 values, int64_t& unused) {
  const size_t count = values.size();
  uint64_t bits = 0, steps = 0;
  size_t runs = 0, fresh = 0;
  int64_t expected = unused;
  for (size_t i = 0; i < count; ++i) {
    bits |= static_cast<uint64_t>(values[i]);
    fresh += values[i] == expected ? 1 : 0;
    expected = next_of_fresh(expected, values[i]);
    if (i == 0) continue;
    const auto step = static_cast<uint64_t>(values[i]) - static_cast<uint64_t>(values[i - 1]);
    steps |= step;
    runs += step == 1 ? 1 : 0;
  }
  unused = expected;
  const size_t width = width_of(bits), header = sizeof(int64_t);
  Encoding best{static_cast<Form>(width), width, width * count};
  const auto consider = [&](Form form, size_t bytes) {
    if (bytes < best.bytes) best = {form, width, bytes};
  };
  if (steps <= UINT8_MAX) consider(kSteps, header + count - 1);
  if (steps <= 1) consider(kBits, header + bitmap_bytes(count));
  consider(kRuns, 1 + bitmap_bytes(count) + (count - runs) * width);
  consider(kFresh, 1 + header + bitmap_bytes(count) + (count - fresh) * width);
  return best;
}

// Numbers of a fixed number of bytes, little-endian.
template <size_t kBytes>
std::byte* write(Numbers64 values, std::byte* to) {
  for (const int64_t value : values) {
    std::memcpy(to, &value, kBytes);
    to += kBytes;
  }
  return to;
}
template <size_t kBytes>
const std::byte* read(std::span<int64_t> values, const std::byte* from) {
  for (int64_t& value : values) {
    uint64_t wide = 0;
    std::memcpy(&wide, from, kBytes);
    value = static_cast<int64_t>(wide);
    from += kBytes;
  }
  return from;
}

std::byte* write(size_t width, Numbers64 values, std::byte* to) {
  switch (width) {
    case 1:
      return write<1>(values, to);
    case 2:
      return write<2>(values, to);
    case 3:
      return write<3>(values, to);
    case 4:
      return write<4>(values, to);
    default:
      return write<8>(values, to);
  }
}
const std::byte* read(size_t width, std::span<int64_t> values, const std::byte* from) {
  switch (width) {
    case 1:
      return read<1>(values, from);
    case 2:
      return read<2>(values, from);
    case 3:
      return read<3>(values, from);
    case 4:
      return read<4>(values, from);
    default:
      return read<8>(values, from);
  }
}

using Bitmap = std::array<uint8_t, kStretch / 8>;
bool has_bit(const Bitmap& bitmap, size_t i) { return (bitmap[i / 8] >> i % 8 & 1) != 0; }

// kRuns and kFresh: a bit where a number is the expected one, which `next` returns after each number; and the others.
template <class Next>
std::byte* write_expected(Numbers64 values, size_t width, int64_t expected, const Next& next, std::byte* to) {
  Bitmap bitmap{};
  std::array<int64_t, kStretch> others;
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_expected = values[i] == expected;
    bitmap[i / 8] |= static_cast<uint8_t>(is_expected << i % 8);
    others[count] = values[i];
    count += is_expected ? 0 : 1;
    expected = next(expected, values[i]);
  }
  *to++ = static_cast<std::byte>(width);
  std::memcpy(to, bitmap.data(), bitmap_bytes(values.size()));
  return write(width, Numbers64(others.data(), count), to + bitmap_bytes(values.size()));
}
template <class Next>
const std::byte* read_expected(std::span<int64_t> values, int64_t expected, const Next& next, const std::byte* from) {
  const auto width = static_cast<size_t>(*from++);
  Bitmap bitmap{};
  std::memcpy(bitmap.data(), from, bitmap_bytes(values.size()));
  from += bitmap_bytes(values.size());
  size_t count = values.size();
  for (const uint8_t byte : bitmap) count -= static_cast<size_t>(std::popcount(byte));
  std::array<int64_t, kStretch + 1> others;  // one more is looked at
  from = read(width, {others.data(), count}, from);
  others[count] = 0;
  for (size_t i = 0, at = 0; i < values.size(); ++i) {
    const bool is_expected = has_bit(bitmap, i);
    values[i] = is_expected ? expected : others[at];
    at += is_expected ? 0 : 1;
    expected = next(expected, values[i]);
  }
  return from;
}

// `unused` is the number after the largest of the array before the block.
std::byte* pack(const Encoding& how, Numbers64 values, int64_t unused, std::byte* to) {
  switch (how.form) {
    case kSteps:
      to = write<8>(values.first(1), to);
      for (size_t i = 1; i < values.size(); ++i) *to++ = static_cast<std::byte>(values[i] - values[i - 1]);
      return to;
    case kBits: {
      to = write<8>(values.first(1), to);
      Bitmap bitmap{};
      for (size_t i = 1; i < values.size(); ++i) {
        bitmap[i / 8] |= static_cast<uint8_t>((values[i] - values[i - 1]) << i % 8);
      }
      std::memcpy(to, bitmap.data(), bitmap_bytes(values.size()));
      return to + bitmap_bytes(values.size());
    }
    case kRuns:
      return write_expected(values, how.width, after(values[0]), next_of_run, to);  // the first one is not expected
    case kFresh:
      to = write<8>(Numbers64(&unused, 1), to);
      return write_expected(values, how.width, unused, next_of_fresh, to);
    default:
      return write(how.form, values, to);
  }
}

const std::byte* unpack(Form form, const std::byte* from, std::span<int64_t> values) {
  switch (form) {
    case kSteps:
      from = read<8>(values.first(1), from);
      for (size_t i = 1; i < values.size(); ++i) values[i] = values[i - 1] + static_cast<int64_t>(*from++);
      return from;
    case kBits: {
      from = read<8>(values.first(1), from);
      Bitmap bitmap{};
      std::memcpy(bitmap.data(), from, bitmap_bytes(values.size()));
      for (size_t i = 1; i < values.size(); ++i) values[i] = values[i - 1] + (has_bit(bitmap, i) ? 1 : 0);
      return from + bitmap_bytes(values.size());
    }
    case kRuns:
      return read_expected(values, 0, next_of_run, from);
    case kFresh: {
      int64_t unused = 0;
      from = read<8>({&unused, 1}, from);
      return read_expected(values, unused, next_of_fresh, from);
    }
    default:
      return read(form, values, from);
  }
}

template <class T, class Work>
void each_stretch(std::span<T> values, const Work& work) {
  for (size_t begin = 0; begin < values.size(); begin += kStretch) {
    work(values.subspan(begin, std::min(kStretch, values.size() - begin)));
  }
}

}  // namespace

// Little-endian, as on this machine: the memory never leaves the process.
static_assert(std::endian::native == std::endian::little);

PackedSubgraph::PackedSubgraph(HeteroSubgraph&& graph) {
  std::vector<Encoding> encodings;
  for_each_array(graph, [&](const Int64Array& source) {
    arrays_.push_back({source.size, source.buffer != nullptr});
    int64_t unused = 0;
    each_stretch(Numbers64(source.span()), [&](Numbers64 values) {
      encodings.push_back(encoding_of(values, unused));
      bytes_ += 1 + encodings.back().bytes;
    });
  });
  memory_ = take_buffer(bytes_, Purpose::kTables);
  std::byte* to = memory_->data();
  for (const Encoding& how : encodings) *to++ = static_cast<std::byte>(how.form);
  auto how = encodings.begin();
  for_each_array(graph, [&](Int64Array& source) {
    int64_t unused = 0;
    each_stretch(Numbers64(source.span()), [&](Numbers64 values) {
      to = pack(*how++, values, unused, to);
      for (const int64_t value : values) unused = next_of_fresh(unused, value);
    });
    source = {};
  });
  rest_ = std::move(graph);
}

HeteroSubgraph PackedSubgraph::unpack() const {
  HeteroSubgraph graph = rest_;
  size_t stretches = 0;
  for (const Array& array : arrays_) stretches += (array.size + kStretch - 1) / kStretch;
  const std::byte *form = memory_->data(), *from = form + stretches;
  auto array = arrays_.begin();
  for_each_array(graph, [&](Int64Array& target) {
    const Array& packed = *array++;
    if (!packed.present) return;
    target.buffer = take_buffer(packed.size * sizeof(int64_t));
    target.size = packed.size;
    each_stretch(target.span(),
                 [&](std::span<int64_t> values) { from = gz::unpack(static_cast<Form>(*form++), from, values); });
  });
  return graph;
}

}  // namespace gz
