// packed: narrowing and widening, block by block.
#include "sample/subgraph/packed.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sample/subgraph/graph.h"

namespace gz {
namespace {

constexpr size_t kStretch = 1024;  // numbers with one encoding

// How a block is stored: a fixed number of bytes per number, or the first number and one-byte differences.
// Columns ascend in steps of 0 and 1, labels of nodes mostly fit two bytes, ids three or four.
enum Form : uint8_t { kSteps = 0, kOne = 1, kTwo = 2, kThree = 3, kFour = 4, kWhole = 8 };

using Numbers64 = std::span<const int64_t>;

size_t bytes_of(Form form, size_t count) {
  return form == kSteps ? sizeof(int64_t) + count - 1 : static_cast<size_t>(form) * count;
}

Form form_of(Numbers64 values) {
  uint64_t bits = 0, steps = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    bits |= static_cast<uint64_t>(values[i]);
    if (i > 0) steps |= static_cast<uint64_t>(values[i]) - static_cast<uint64_t>(values[i - 1]);
  }
  const int width = (static_cast<int>(std::bit_width(bits)) + 7) / 8;
  const auto plain = static_cast<Form>(width > 4 ? kWhole : std::max(width, 1));
  return steps <= UINT8_MAX && bytes_of(kSteps, values.size()) < bytes_of(plain, values.size()) ? kSteps : plain;
}

// Numbers of a fixed number of bytes, little-endian.
template <size_t kBytes>
void write(Numbers64 values, std::byte* to) {
  for (const int64_t value : values) {
    std::memcpy(to, &value, kBytes);
    to += kBytes;
  }
}

template <size_t kBytes>
void read(std::span<int64_t> values, const std::byte* from) {
  for (int64_t& value : values) {
    uint64_t wide = 0;
    std::memcpy(&wide, from, kBytes);
    value = static_cast<int64_t>(wide);
    from += kBytes;
  }
}

void pack(Form form, Numbers64 values, std::byte* to) {
  switch (form) {
    case kSteps:
      std::memcpy(to, values.data(), sizeof(int64_t));
      to += sizeof(int64_t);
      for (size_t i = 1; i < values.size(); ++i) *to++ = static_cast<std::byte>(values[i] - values[i - 1]);
      break;
    case kOne:
      return write<1>(values, to);
    case kTwo:
      return write<2>(values, to);
    case kThree:
      return write<3>(values, to);
    case kFour:
      return write<4>(values, to);
    case kWhole:
      return write<8>(values, to);
  }
}

void unpack(Form form, const std::byte* from, std::span<int64_t> values) {
  switch (form) {
    case kSteps:
      std::memcpy(values.data(), from, sizeof(int64_t));
      from += sizeof(int64_t);
      for (size_t i = 1; i < values.size(); ++i) values[i] = values[i - 1] + static_cast<int64_t>(*from++);
      break;
    case kOne:
      return read<1>(values, from);
    case kTwo:
      return read<2>(values, from);
    case kThree:
      return read<3>(values, from);
    case kFour:
      return read<4>(values, from);
    case kWhole:
      return read<8>(values, from);
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
  std::vector<Form> forms;
  size_t bytes = 0;
  for_each_array(graph, [&](const Int64Array& source) {
    arrays_.push_back({source.size, source.buffer != nullptr});
    each_stretch(Numbers64(source.span()), [&](Numbers64 values) {
      forms.push_back(form_of(values));
      bytes += bytes_of(forms.back(), values.size());
    });
  });
  bytes_ = forms.size() + bytes;
  memory_ = take_buffer(bytes_, Purpose::kTables);
  std::byte* to = memory_->data();
  if (!forms.empty()) std::memcpy(to, forms.data(), forms.size());
  to += forms.size();
  auto form = forms.begin();
  for_each_array(graph, [&](Int64Array& source) {
    each_stretch(Numbers64(source.span()), [&](Numbers64 values) {
      pack(*form, values, to);
      to += bytes_of(*form++, values.size());
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
    each_stretch(target.span(), [&](std::span<int64_t> values) {
      const auto how = static_cast<Form>(*form++);
      gz::unpack(how, from, values);
      from += bytes_of(how, values.size());
    });
  });
  return graph;
}

}  // namespace gz
