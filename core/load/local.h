// local: the same loader on several ranks of one host: how the ranks find each other, and what they share.
#pragma once

#include "load/plan.h"

namespace gz {

// Joins the group of the other ranks, if there are any and the plan has not joined yet.
void meet_local_ranks(LoadPlan& plan);

// Bytes that this plan holds now, shown to the other ranks, which choose their memory by it; what those hold.
uint64_t held_bytes(const LoadPlan& plan);   // with plan.mutex held
void tell_held_bytes(const LoadPlan& plan);  // with plan.mutex held
uint64_t held_by_others(const LoadPlan& plan);

}  // namespace gz
