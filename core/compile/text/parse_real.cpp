// parse_real: by strtod, which needs a terminated string and a locale. Windows has from_chars in every library.
#include "compile/text/parse_real.h"

#ifndef _WIN32

#include <locale.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#ifdef __APPLE__
#include <xlocale.h>
#endif

namespace gz {
namespace {

constexpr size_t kShort = 64;  // longer numbers are rare and use the heap

// Strings that strtod accepts and from_chars does not contain other characters: hexadecimal, payloads of NaN.
bool belongs(char c) {
  return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || std::strchr("eEiInNfFaAtTyY", c) != nullptr;
}

template <class T>
T to_real(const char* text, char** stop) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  if constexpr (std::is_same_v<T, float>) return strtof_l(text, stop, c_locale);
  if constexpr (std::is_same_v<T, double>) return strtod_l(text, stop, c_locale);
}

template <class T>
std::from_chars_result parse(const char* first, const char* last, T& value) {
  if (first == last || *first == '+') return {first, std::errc::invalid_argument};
  const char* end = first;
  while (end < last && *end != '\0' && belongs(*end)) ++end;
  const auto length = static_cast<size_t>(end - first);
  std::array<char, kShort> small;
  std::string large;
  char* text = small.data();
  if (length < kShort) {
    std::memcpy(text, first, length);
    text[length] = '\0';
  } else {
    large.assign(first, length);
    text = large.data();
  }
  char* stop = text;
  const int before = errno;
  errno = 0;
  const T found = to_real<T>(text, &stop);
  const bool out_of_range = errno == ERANGE && (found == 0 || std::isinf(found));  // subnormal numbers are numbers
  errno = before;
  if (stop == text) return {first, std::errc::invalid_argument};
  const char* after = first + (stop - text);
  if (out_of_range) return {after, std::errc::result_out_of_range};
  value = found;
  return {after, std::errc()};
}

}  // namespace

std::from_chars_result parse_real_by_strtod(const char* first, const char* last, double& value) {
  return parse(first, last, value);
}
std::from_chars_result parse_real_by_strtod(const char* first, const char* last, float& value) {
  return parse(first, last, value);
}

}  // namespace gz

#endif
