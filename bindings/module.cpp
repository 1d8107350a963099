// module: graphzero._core, one init call per topic.
#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The native core of GraphZero. Use the graphzero package, which documents and types it.";
  // Objects that a global of the program or a torch worker still holds at exit are not leaks of this module, so nothing
  // is printed about them; tests/faults/test_leaks.py checks for real leaks.
  nanobind::set_leak_warnings(false);
  gz::bindings::bind_base(m);
  gz::bindings::bind_storage(m);
  gz::bindings::bind_walks(m);
  gz::bindings::bind_sample(m);
  gz::bindings::bind_gather(m);
  gz::bindings::bind_machine(m);
  gz::bindings::bind_load(m);
  gz::bindings::bind_hetero(m);
  gz::bindings::bind_compile(m);
  gz::bindings::bind_ranges(m);
  gz::bindings::bind_order(m);
  gz::bindings::bind_ids(m);
  gz::bindings::bind_analytics(m);
  gz::bindings::bind_append(m);
  gz::bindings::bind_embed(m);
}
