// skipgram: the portable kernel, and one with AVX2 and FMA.
#include "embed/skipgram.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define GZ_SKIPGRAM_X86 1
#include <cpuid.h>
#include <immintrin.h>

#include "gather/copy.h"
#endif

// Races between threads are part of the method.
#if defined(__GNUC__)
#define GZ_HOGWILD __attribute__((no_sanitize("thread")))
#else
#define GZ_HOGWILD
#endif

namespace gz {
namespace {

constexpr size_t kContexts = SkipGramStep::kMostContexts, kOutputs = SkipGramStep::kMostOutputs;

// Dot products, then gradients; [context][output], in whole vectors.
using Gradients = std::array<float, kContexts * kLaneFloats>;
static_assert(kOutputs <= kLaneFloats);

// 1 / (1 + exp(-x)) by a rational approximation of tanh (Eigen's), to 1e-6: without branches, so that loops over it are
// vectorised. NaN stays NaN.
inline float sigmoid(float x) {
  constexpr float kMost = 15.8f;  // past it, the result is 0 or 1 to float precision
  x = x > kMost ? kMost : x;
  x = x < -kMost ? -kMost : x;
  const float half = 0.5f * x, s = half * half;
  float p = -2.76076847742355e-16f;
  p = p * s + 2.00018790482477e-13f;
  p = p * s + -8.60467152213735e-11f;
  p = p * s + 5.12229709037114e-08f;
  p = p * s + 1.48572235717979e-05f;
  p = p * s + 6.37261928875436e-04f;
  p = p * s + 4.89352455891786e-03f;
  float q = 1.19825839466702e-06f;
  q = q * s + 1.18534705686654e-04f;
  q = q * s + 2.26843463243900e-03f;
  q = q * s + 4.89352518554385e-03f;
  return 0.5f + 0.5f * (half * p / q);
}

// `wanted` is 1 for a pair that occurs together, and 0 for a negative, by output.
inline void as_gradients(Gradients& g, size_t contexts, const float* wanted, float rate) {
  for (size_t i = 0; i < contexts; ++i) {
    for (size_t j = 0; j < kLaneFloats; ++j) {
      float& at = g[i * kLaneFloats + j];
      at = rate * (wanted[j] - sigmoid(at));
    }
  }
}

GZ_HOGWILD void step_plain(const SkipGramStep& step) {
  Gradients g{};
  for (size_t i = 0; i < step.num_contexts; ++i) {
    for (size_t j = 0; j < step.num_outputs; ++j) {
      const float *x = step.contexts[i], *y = step.outputs[j];
      std::array<float, kLaneFloats> sums{};
      for (size_t d = 0; d < step.width; d += kLaneFloats) {
        for (size_t l = 0; l < kLaneFloats; ++l) sums[l] += x[d + l] * y[d + l];
      }
      float sum = 0;
      for (const float lane : sums) sum += lane;
      g[i * kLaneFloats + j] = sum;
    }
  }
  const std::array<float, kLaneFloats> wanted{step.positive ? 1.0f : 0.0f};
  as_gradients(g, step.num_contexts, wanted.data(), step.rate);
  for (size_t d = 0; d < step.width; d += kLaneFloats) {
    std::array<std::array<float, kLaneFloats>, kOutputs> added{};
    for (size_t i = 0; i < step.num_contexts; ++i) {
      float* x = step.contexts[i] + d;
      std::array<float, kLaneFloats> change{};
      for (size_t j = 0; j < step.num_outputs; ++j) {
        const float* y = step.outputs[j] + d;
        const float gradient = g[i * kLaneFloats + j];
        for (size_t l = 0; l < kLaneFloats; ++l) {
          change[l] += gradient * y[l];
          added[j][l] += gradient * x[l];
        }
      }
      for (size_t l = 0; l < kLaneFloats; ++l) x[l] += change[l];
    }
    for (size_t j = 0; j < step.num_outputs; ++j) {
      for (size_t l = 0; l < kLaneFloats; ++l) step.outputs[j][d + l] += added[j][l];
    }
  }
}

#ifdef GZ_SKIPGRAM_X86

#define GZ_AVX2 __attribute__((target("avx2,fma"))) GZ_HOGWILD

GZ_AVX2 inline float sum_of(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Products of kI contexts, from `first` on, and kJ outputs: 4 x 3 sums, 3 outputs and a context fill the registers.
template <size_t kI, size_t kJ>
GZ_AVX2 void products(const SkipGramStep& step, size_t first, size_t first_output, Gradients& g) {
  __m256 sums[kI][kJ];
  for (size_t i = 0; i < kI; ++i) {
    for (size_t j = 0; j < kJ; ++j) sums[i][j] = _mm256_setzero_ps();
  }
  for (size_t d = 0; d < step.width; d += kLaneFloats) {
    __m256 y[kJ];
    for (size_t j = 0; j < kJ; ++j) y[j] = _mm256_loadu_ps(step.outputs[first_output + j] + d);
    for (size_t i = 0; i < kI; ++i) {
      const __m256 x = _mm256_loadu_ps(step.contexts[first + i] + d);
      for (size_t j = 0; j < kJ; ++j) sums[i][j] = _mm256_fmadd_ps(x, y[j], sums[i][j]);
    }
  }
  for (size_t i = 0; i < kI; ++i) {
    for (size_t j = 0; j < kJ; ++j) g[(first + i) * kLaneFloats + first_output + j] = sum_of(sums[i][j]);
  }
}

template <size_t kJ>
GZ_AVX2 void products_of(const SkipGramStep& step, size_t first_output, Gradients& g) {
  size_t i = 0;
  for (; i + 4 <= step.num_contexts; i += 4) products<4, kJ>(step, i, first_output, g);
  for (; i < step.num_contexts; ++i) products<1, kJ>(step, i, first_output, g);
}

template <size_t kJ>
GZ_AVX2 void update(const SkipGramStep& step, const Gradients& g) {
  for (size_t d = 0; d < step.width; d += kLaneFloats) {
    __m256 y[kJ], added[kJ];
    for (size_t j = 0; j < kJ; ++j) {
      y[j] = _mm256_loadu_ps(step.outputs[j] + d);
      added[j] = y[j];
    }
    for (size_t i = 0; i < step.num_contexts; ++i) {
      const __m256 x = _mm256_loadu_ps(step.contexts[i] + d);
      __m256 changed = x;
      for (size_t j = 0; j < kJ; ++j) {
        const __m256 gradient = _mm256_broadcast_ss(&g[i * kLaneFloats + j]);
        changed = _mm256_fmadd_ps(gradient, y[j], changed);
        added[j] = _mm256_fmadd_ps(gradient, x, added[j]);
      }
      _mm256_storeu_ps(step.contexts[i] + d, changed);
    }
    for (size_t j = 0; j < kJ; ++j) _mm256_storeu_ps(step.outputs[j] + d, added[j]);
  }
}

template <size_t kJ>
GZ_AVX2 void step_avx2_of(const SkipGramStep& step) {
  Gradients g;
  if constexpr (kJ > 3) {
    products_of<3>(step, 0, g);
    products_of<kJ - 3>(step, 3, g);
  } else {
    products_of<kJ>(step, 0, g);
  }
  const std::array<float, kLaneFloats> wanted{step.positive ? 1.0f : 0.0f};
  for (size_t i = 0; i < step.num_contexts; ++i) {
    for (size_t j = kJ; j < kLaneFloats; ++j) g[i * kLaneFloats + j] = 0;
  }
  as_gradients(g, step.num_contexts, wanted.data(), step.rate);
  update<kJ>(step, g);
}

GZ_AVX2 void step_avx2(const SkipGramStep& step) {
  static_assert(kOutputs == 6);
  switch (step.num_outputs) {
    case 1:
      return step_avx2_of<1>(step);
    case 2:
      return step_avx2_of<2>(step);
    case 3:
      return step_avx2_of<3>(step);
    case 4:
      return step_avx2_of<4>(step);
    case 5:
      return step_avx2_of<5>(step);
    case 6:
      return step_avx2_of<6>(step);
    default:
      return;
  }
}

bool has_fma() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return best_vectors() != Vectors::kPlain && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_FMA) != 0;
}

#endif

}  // namespace

SkipGramKernel skipgram_kernel([[maybe_unused]] bool plain) {
#ifdef GZ_SKIPGRAM_X86
  static const bool vectors = has_fma();
  if (vectors && !plain) return step_avx2;
#endif
  return step_plain;
}

}  // namespace gz
