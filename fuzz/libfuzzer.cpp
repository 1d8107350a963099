// libfuzzer: the target for clang's coverage-guided fuzzer. Seeds are the files of tests/oracles/corpus (make fuzz).
#include <algorithm>
#include <vector>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(bytes, bytes + size);
  gz::fuzz::sum_again(file);  // a fuzzer cannot guess a checksum: correct it after each mutation
  gz::fuzz::run_one(file);
  if (!std::equal(file.begin(), file.end(), bytes)) gz::fuzz::run_one({bytes, size});
  return 0;
}
