// dtype: names and sizes.
#include "format/dtype.h"

#include <array>
#include <string>

#include "base/error.h"

namespace gz {
namespace {

struct Row {
  DType dtype;
  const char* name;
  uint32_t bytes;
};

constexpr std::array<Row, 12> kRows{{{DType::kFloat64, "float64", 8},
                                     {DType::kFloat32, "float32", 4},
                                     {DType::kFloat16, "float16", 2},
                                     {DType::kBFloat16, "bfloat16", 2},
                                     {DType::kInt64, "int64", 8},
                                     {DType::kInt32, "int32", 4},
                                     {DType::kInt16, "int16", 2},
                                     {DType::kInt8, "int8", 1},
                                     {DType::kUInt8, "uint8", 1},
                                     {DType::kBool, "bool", 1},
                                     {DType::kUInt32, "uint32", 4},
                                     {DType::kUInt64, "uint64", 8}}};

const Row& row(DType dtype) { return kRows[static_cast<uint32_t>(dtype) - 1]; }

}  // namespace

std::optional<DType> dtype_from_code(uint32_t code) {
  if (code < 1 || code > kRows.size()) return std::nullopt;
  return static_cast<DType>(code);
}

DType dtype_from_name(std::string_view name) {
  std::string known;
  for (const Row& r : kRows) {
    if (name == r.name) return r.dtype;
    known += (known.empty() ? "" : ", ") + std::string(r.name);
  }
  fail<ArgumentError>("unsupported dtype '", name, "'; expected one of ", known);
}

const char* dtype_name(DType dtype) { return row(dtype).name; }
uint32_t dtype_bytes(DType dtype) { return row(dtype).bytes; }

}  // namespace gz
