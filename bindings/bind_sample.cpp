// bind_sample: multi-hop neighbourhoods, and the keys that seeds are made of.
#include "base/random.h"
#include "bindings.h"

namespace gz::bindings {

void bind_sample(nb::module_& m) {
  m.def(
      "make_key",
      [](uint64_t seed, const std::vector<uint64_t>& words) {
        uint64_t key = make_key(seed);
        for (const uint64_t word : words) key = absorb(key, word);
        return key;
      },
      nb::arg("seed"), nb::arg("words"));
}

}  // namespace gz::bindings
