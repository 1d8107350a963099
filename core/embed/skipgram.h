// skipgram: one step of skip-gram with negative sampling, for a few contexts and a few outputs at once.
//
// The contexts of a node share its negatives, so that a step is a small matrix product: every loaded row is used by
// several others while it is in the first-level cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gz {

constexpr size_t kLaneFloats = 8;  // rows are padded with zeros to a multiple of this

// Adds one gradient step, at `rate`, of the sum over all contexts x and outputs y of
//   log sigmoid(x.y) for the first output if it is `positive`, and log sigmoid(-x.y) for the others.
// Products are taken before any row changes. Then, context by context, outputs collect what the context adds to them,
// and the context changes; outputs change last. An output must not occur twice; a context may.
struct SkipGramStep {
  static constexpr size_t kMostContexts = 32, kMostOutputs = 6;  // 6: outputs and their sums fit 16 registers

  std::array<float*, kMostContexts> contexts;
  std::array<float*, kMostOutputs> outputs;
  size_t num_contexts = 0, num_outputs = 0;
  size_t width = 0;  // floats of a row, a multiple of kLaneFloats
  bool positive = true;
  float rate = 0;
};

// Rows may be changed by several threads at once (Hogwild): an update can be lost, which training tolerates.
using SkipGramKernel = void (*)(const SkipGramStep& step);
// The fastest that this processor has; `plain`: the portable one, which is the reference for the other.
SkipGramKernel skipgram_kernel(bool plain = false);

}  // namespace gz
