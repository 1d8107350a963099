// error: the message of a failed system call.
#include "base/error.h"

#include <system_error>

namespace gz {

void fail_storage(const std::string& path, const std::string& what, int code) {
  throw StorageError(text(path, ": ", what, ": ", std::generic_category().message(code)), code, path);
}

}  // namespace gz
