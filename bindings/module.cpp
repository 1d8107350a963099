// module: graphzero._core, one init call a topic.
#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The native core of GraphZero. Use the graphzero package, which documents and types it.";
  // What a global of the program, or a worker of torch, still holds when the interpreter ends is no leak of ours to
  // report on people's terminals; tests/faults/test_leaks.py counts what is.
  nanobind::set_leak_warnings(false);
  gz::bindings::bind_base(m);
  gz::bindings::bind_storage(m);
  gz::bindings::bind_walks(m);
  gz::bindings::bind_sample(m);
  gz::bindings::bind_hetero(m);
  gz::bindings::bind_gather(m);
  gz::bindings::bind_measure(m);
  gz::bindings::bind_memory(m);
  gz::bindings::bind_load(m);
  gz::bindings::bind_links(m);
  gz::bindings::bind_compile(m);
  gz::bindings::bind_ranges(m);
  gz::bindings::bind_order(m);
  gz::bindings::bind_ids(m);
}
