// dtype: the element types an array may have (FORMAT 3). The numbers are on disk: never reuse one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gz {

enum class DType : uint32_t {
  kFloat64 = 1,
  kFloat32 = 2,
  kFloat16 = 3,
  kBFloat16 = 4,
  kInt64 = 5,
  kInt32 = 6,
  kInt16 = 7,
  kInt8 = 8,
  kUInt8 = 9,
  kBool = 10,
  kUInt32 = 11,
  kUInt64 = 12,
};

std::optional<DType> dtype_from_code(uint32_t code);
DType dtype_from_name(std::string_view name);  // "float32", ...; throws an ArgumentError that lists the names
const char* dtype_name(DType dtype);
uint32_t dtype_bytes(DType dtype);

}  // namespace gz
