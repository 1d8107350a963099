// convert: each conversion by element, by vectors of eight, and for many rows.
#include "gather/convert.h"

#include <algorithm>

#include "base/prefetch.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GZ_CONVERT_X86 1
#include <immintrin.h>
#endif

namespace gz {
namespace {

struct Half {
  using Raw = uint16_t;
  static float value(Raw raw, const float*) { return half_to_float(raw); }
};
struct BFloat {
  using Raw = uint16_t;
  static float value(Raw raw, const float*) { return bfloat_to_float(raw); }
};
struct Scaled {
  using Raw = int8_t;
  static float value(Raw raw, const float* scale) { return static_cast<float>(raw) * *scale; }
};
template <class T>
struct Cast {
  using Raw = T;
  static float value(Raw raw, const float*) { return static_cast<float>(raw); }
};

// Elements [begin, end) of a run.
template <class Element>
void convert_some(const std::byte* in, size_t begin, size_t end, std::byte* out, const float* scale) {
  for (size_t i = begin; i < end; ++i) {
    const auto raw = load_element<typename Element::Raw>(in + i * sizeof(typename Element::Raw));
    const float value = Element::value(raw, scale == nullptr ? nullptr : scale + i);
    std::memcpy(out + i * sizeof value, &value, sizeof value);
  }
}

template <class Element>
void convert_plain(const std::byte* in, size_t bytes, std::byte* out, const float* scale) {
  convert_some<Element>(in, 0, bytes / sizeof(typename Element::Raw), out, scale);
}

#ifdef GZ_CONVERT_X86

// Eight elements as floats.
__attribute__((target("avx2,f16c"))) inline __m256 eight(Half, const std::byte* in, const float*) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
}
__attribute__((target("avx2,f16c"))) inline __m256 eight(BFloat, const std::byte* in, const float*) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
__attribute__((target("avx2,f16c"))) inline __m256 eight(Scaled, const std::byte* in, const float* scale) {
  const __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in)));
  return _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_loadu_ps(scale));
}

template <class Element, bool kStreaming>
__attribute__((target("avx2,f16c"))) void convert_avx2(const std::byte* in, size_t bytes, std::byte* out,
                                                       const float* scale) {
  constexpr size_t kRaw = sizeof(typename Element::Raw);
  const size_t count = bytes / kRaw;
  size_t i = kStreaming ? head_of(out, 32, count * sizeof(float)) / sizeof(float) : 0;
  convert_some<Element>(in, 0, i, out, scale);
  const bool aligned = reinterpret_cast<uintptr_t>(out + i * sizeof(float)) % 32 == 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 values = eight(Element{}, in + i * kRaw, scale == nullptr ? nullptr : scale + i);
    auto* to = reinterpret_cast<float*>(out + i * sizeof(float));
    if (kStreaming && aligned) {
      _mm256_stream_ps(to, values);
    } else {
      _mm256_storeu_ps(to, values);
    }
  }
  convert_some<Element>(in, i, count, out, scale);
}

const float* scale_at(const float* scale, size_t column) { return scale == nullptr ? nullptr : scale + column; }

template <class Element, class Row>
__attribute__((target("avx2,f16c"))) void rows_avx2(const std::byte* base, std::span<const Row> rows, size_t columns,
                                                    std::byte* out, const float* scale) {
  constexpr size_t kRaw = sizeof(typename Element::Raw), kLine = 64;
  const uint64_t row_bytes = columns * kRaw;
  const Distance distance = Distance::of(row_bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + distance.rows < rows.size()) {
      const std::byte* soon = base + from_of(rows[i + distance.rows]) * row_bytes;
      const std::byte* const end = soon + distance.bytes;
      soon -= reinterpret_cast<uintptr_t>(soon) % kLine;  // a row that starts inside a line ends in one more
      for (; soon < end; soon += kLine) prefetch(soon);
    }
    const std::byte* in = base + from_of(rows[i]) * row_bytes;
    auto* to = reinterpret_cast<float*>(out) + to_of(rows[i], i) * columns;
    size_t c = 0;
    for (; c + 16 <= columns; c += 16) {  // a line
      const __m256 first = eight(Element{}, in + c * kRaw, scale_at(scale, c));
      const __m256 second = eight(Element{}, in + (c + 8) * kRaw, scale_at(scale, c + 8));
      _mm256_stream_ps(to + c, first);
      _mm256_stream_ps(to + c + 8, second);
    }
    if (c < columns) _mm256_stream_ps(to + c, eight(Element{}, in + c * kRaw, scale_at(scale, c)));
  }
}

#endif

template <class Element>
RowKernel conversion([[maybe_unused]] const KernelChoice& choice) {
#ifdef GZ_CONVERT_X86
  if (choice.vectors != Vectors::kPlain) {
    return choice.streaming ? convert_avx2<Element, true> : convert_avx2<Element, false>;
  }
#endif
  return convert_plain<Element>;
}

}  // namespace

RowKernel conversion_kernel(const KernelChoice& choice) {
  switch (choice.from) {
    case DType::kFloat16:
      return conversion<Half>(choice);
    case DType::kBFloat16:
      return conversion<BFloat>(choice);
    case DType::kFloat64:
      return convert_plain<Cast<double>>;
    case DType::kInt64:
      return convert_plain<Cast<int64_t>>;
    case DType::kInt32:
      return convert_plain<Cast<int32_t>>;
    case DType::kInt16:
      return convert_plain<Cast<int16_t>>;
    case DType::kInt8:
      return choice.scaled ? conversion<Scaled>(choice) : convert_plain<Cast<int8_t>>;
    case DType::kUInt8:
    case DType::kBool:
      return convert_plain<Cast<uint8_t>>;
    case DType::kUInt32:
      return convert_plain<Cast<uint32_t>>;
    case DType::kUInt64:
      return convert_plain<Cast<uint64_t>>;
    case DType::kFloat32:
      break;
  }
  return nullptr;
}

template <class Row>
ConvertRows<Row> convert_rows_kernel([[maybe_unused]] const KernelChoice& choice) {
#ifdef GZ_CONVERT_X86
  if (choice.vectors == Vectors::kPlain || !choice.streaming || choice.to != DType::kFloat32) return nullptr;
  if (choice.from == DType::kFloat16) return rows_avx2<Half, Row>;
  if (choice.from == DType::kBFloat16) return rows_avx2<BFloat, Row>;
  if (choice.from == DType::kInt8 && choice.scaled) return rows_avx2<Scaled, Row>;
#endif
  return nullptr;
}
template ConvertRows<int64_t> convert_rows_kernel<int64_t>(const KernelChoice& choice);
template ConvertRows<RowMove> convert_rows_kernel<RowMove>(const KernelChoice& choice);

}  // namespace gz
