// parse_real: std::from_chars for floating-point numbers, also where the library lacks it.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <version>

namespace gz {

// The same by strtod in the "C" locale. libc++ before 20 (macOS) has from_chars for integers alone. Like it: no blanks,
// no leading '+', no hexadecimal; a number that is too large or too small for T is result_out_of_range.
std::from_chars_result parse_real_by_strtod(const char* first, const char* last, double& value);
std::from_chars_result parse_real_by_strtod(const char* first, const char* last, float& value);

template <class T>
std::from_chars_result parse_real(const char* first, const char* last, T& value) {
#if defined(__cpp_lib_to_chars) && __cpp_lib_to_chars >= 201611L
  return std::from_chars(first, last, value);
#else
  return parse_real_by_strtod(first, last, value);
#endif
}

// A field that is a number of type T, and nothing else.
template <class T>
bool parse_whole(std::string_view field, T& value) {
  const char* end = field.data() + field.size();
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<T>) {
    result = parse_real(field.data(), end, value);
  } else {
    result = std::from_chars(field.data(), end, value);
  }
  return result.ptr == end && result.ec == std::errc() && !field.empty();
}

}  // namespace gz
