// libfuzzer: the target for clang's coverage-guided fuzzer. The first byte says whether the checksum is made right.
#include <vector>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(bytes + 1, bytes + size);
  if ((data[0] & 1) != 0) gz::fuzz::sum_again(file);
  gz::fuzz::run_one(file);
  return 0;
}
