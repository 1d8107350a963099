// bind_load_stats: the statistics of a loader: its epoch, its plan, an estimate.
#pragma once

#include <vector>

#include "bindings.h"
#include "load/budget.h"
#include "load/pipeline.h"

namespace gz::bindings {

nb::dict to_python(const LoadStats& s);
nb::dict to_python(const LoadPlan& plan);
nb::dict to_python(const Estimate& e, const std::vector<Part>& parts);

}  // namespace gz::bindings
