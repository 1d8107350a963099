// local: loaders of several ranks of one host that are the same loader: how they meet, and what each tells the others.
#pragma once

#include "load/plan.h"

namespace gz {

// Lets the plan meet those of the other ranks, if there are any and it has not yet.
void meet_local_ranks(LoadPlan& plan);

// Bytes that this plan holds now, as the others' choice of memory must know, and what the others hold.
uint64_t held_bytes(const LoadPlan& plan);   // with plan.mutex held
void tell_held_bytes(const LoadPlan& plan);  // likewise
uint64_t held_by_others(const LoadPlan& plan);

}  // namespace gz
