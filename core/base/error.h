// error: the one family of exceptions that the core throws. Bindings map each to one Python class.
//
// A message names the file, the field or line, what was found and what was expected, and the fix where there is one.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace gz {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct FormatError : Error {  // a .gl or .gd file whose bytes are not what FORMAT.md says
  using Error::Error;
};
struct InputError : Error {  // source data (a line, a block of edges) that cannot be compiled
  using Error::Error;
};
struct ArgumentError : Error {  // an argument that makes no sense: Python's ValueError
  using Error::Error;
};
struct IndexError : Error {  // an id outside the graph or the store: Python's IndexError
  using Error::Error;
};
struct BudgetError : Error {  // the memory budget cannot hold the least that the work needs: `needed` bytes
  BudgetError(const std::string& message, uint64_t needed_) : Error(message), needed(needed_) {}
  uint64_t needed;
};
struct Cancelled : Error {  // the caller asked to stop (Ctrl-C, a closed loader)
  Cancelled() : Error("cancelled") {}
};
struct StorageError : Error {  // the operating system refused: `code` is its errno
  StorageError(const std::string& message, int code_, std::string path_)
      : Error(message), code(code_), path(std::move(path_)) {}
  int code;
  std::string path;
};

template <class E, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw E(text(parts...));
}

// A refused system call: `what` says what was tried, as in "cannot open".
[[noreturn]] inline void fail_storage(const std::string& path, const std::string& what, int code) {
  throw StorageError(text(path, ": ", what, ": ", std::generic_category().message(code)), code, path);
}

}  // namespace gz
