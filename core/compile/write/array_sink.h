// array_sink: where the bytes of a container's arrays go, each array from its start to its end.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace gz {

class ArraySink {
 public:
  virtual ~ArraySink() = default;

  virtual size_t index_of(std::string_view name) const = 0;  // throws ArgumentError

  // The next bytes of array `index`.
  virtual void append(size_t index, std::span<const std::byte> bytes) = 0;
  template <class T>
  void append(size_t index, std::span<const T> values) {
    append(index, std::as_bytes(values));
  }
};

}  // namespace gz
