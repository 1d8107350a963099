// bind_batch: a batch of the pipeline, as Python gets it.
#pragma once

#include "bindings.h"
#include "load/batch.h"

namespace gz::bindings {

// The subgraph's arrays by node type and by edge type, and the rows of each part: lists in the order of the plan.
// Called in the consumer's thread, so what a device does not need is not made: ids that are among the narrow ones, and
// rows of parts that it has all of.
nb::dict to_python(const LoadedBatch& batch);

}  // namespace gz::bindings
