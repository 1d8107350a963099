// parse_real: std::from_chars for floating-point numbers, also where the library lacks it.
#pragma once

#include <charconv>
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

}  // namespace gz
