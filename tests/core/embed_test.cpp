// embed_test: kernels against each other, draws by weight, and training by several threads, in RAM and in partitions.
#include "embed/embed.h"

#include <array>
#include <cmath>
#include <vector>

#include "check.h"
#include "embed/alias_table.h"
#include "embed/skipgram.h"
#include "storage/file.h"

using namespace gz;

namespace {

constexpr uint64_t kNodes = 96;

// Two rings of neighbours at a distance of up to three, and one node without edges.
std::shared_ptr<const Topology> two_rings() {
  std::vector<uint64_t> indptr{0};
  std::vector<uint32_t> indices;
  const auto half = static_cast<uint32_t>(kNodes / 2);
  for (uint32_t node = 0; node < kNodes; ++node) {
    const uint32_t first = node < half ? 0 : half;
    for (const uint32_t step : {1u, 2u, 3u, half - 3, half - 2, half - 1}) {
      indices.push_back(first + (node - first + step) % half);
    }
    indptr.push_back(indices.size());
  }
  indptr.push_back(indices.size());
  Container c;
  c.num_nodes = kNodes + 1;
  c.num_edges = indices.size();
  c.direction = Direction::kOut;
  c.properties = kUndirected;
  c.arrays = {{.name = "out.indptr", .dtype = DType::kUInt64, .shape = {indptr.size()}},
              {.name = "out.indices", .dtype = DType::kUInt32, .shape = {indices.size()}}};
  lay_out(c);
  const std::string path = test::scratch("rings.gl");
  File file = File::create(path);
  file.resize(c.file_bytes);
  file.write_at(serialize_header(c), 0);
  file.write_at(std::as_bytes(std::span(indptr)), c.arrays[0].offset);
  file.write_at(std::as_bytes(std::span(indices)), c.arrays[1].offset);
  return Topology::open(path);
}

EmbedOptions small_options() {
  return {
      .dim = 20, .walk_length = 10, .walks_per_node = 20, .seed = 3, .threads = 3, .memory = 1 << 30, .folder = "."};
}

double cosine(const float* a, const float* b, size_t dim) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t d = 0; d < dim; ++d) {
    ab += a[d] * b[d];
    aa += a[d] * a[d];
    bb += b[d] * b[d];
  }
  return ab / std::sqrt(aa * bb);
}

// Means of cosines of nodes within a ring, and across.
void check_separated(NodeVectors vectors, size_t dim) {
  std::vector<float> x((kNodes + 1) * dim);
  vectors.read(0, kNodes + 1, x.data());
  double near = 0, far = 0;
  for (size_t i = 0; i < kNodes / 2; ++i) {
    near += cosine(&x[i * dim], &x[(i + 1) % (kNodes / 2) * dim], dim);
    far += cosine(&x[i * dim], &x[(i + kNodes / 2) * dim], dim);
  }
  CHECK(near > far + 0.3 * kNodes / 2);
  for (size_t d = 0; d < dim; ++d) CHECK(x[kNodes * dim + d] == 0);
}

}  // namespace

TEST(kernels_make_the_same_step) {
  constexpr size_t kWidth = 24, kRows = 40;
  for (size_t contexts = 1; contexts <= SkipGramStep::kMostContexts; ++contexts) {
    for (size_t outputs = 1; outputs <= SkipGramStep::kMostOutputs; ++outputs) {
      std::array<std::vector<float>, 2> tables;
      for (const bool plain : {false, true}) {
        std::vector<float>& table = tables[plain ? 1 : 0];
        Random random(make_key(contexts, outputs));
        for (size_t i = 0; i < kRows * kWidth; ++i) table.push_back(static_cast<float>(random.unit()) - 0.5f);
        SkipGramStep step;
        step.width = kWidth;
        step.rate = 0.1f;
        step.positive = contexts % 2 == 0;
        for (size_t i = 0; i < contexts; ++i) step.contexts[i] = table.data() + (i % 30) * kWidth;
        for (size_t j = 0; j < outputs; ++j) step.outputs[j] = table.data() + (30 + j) * kWidth;
        step.num_contexts = contexts;
        step.num_outputs = outputs;
        skipgram_kernel(plain)(step);
      }
      for (size_t i = 0; i < tables[0].size(); ++i) CHECK(std::abs(tables[0][i] - tables[1][i]) < 1e-5f);
    }
  }
}

TEST(ranges_of_an_alias_table_are_drawn_from_alone) {
  AliasTable table(10);
  const std::array<float, 4> some{0, 3, 0, 1};
  const std::array<float, 6> others{1, 1, 1, 1, 1, 1};
  CHECK(table.build(0, some) == 4);
  CHECK(table.build(4, others) == 6);
  Random random(make_key(1));
  std::array<int, 10> counts{};
  for (int i = 0; i < 40000; ++i) ++counts[table.draw(random, 0, 4)];
  CHECK(counts[0] == 0 && counts[2] == 0);
  CHECK(std::abs(counts[1] - 30000) < 600);  // seven standard deviations
  for (int i = 0; i < 1000; ++i) CHECK(table.draw(random, 4, 6) >= 4);
}

TEST(threads_and_partitions_separate_two_rings) {
  const auto graph = two_rings();
  for (const uint32_t partitions : {1u, 2u, 5u}) {
    EmbedOptions options = small_options();
    options.partitions = partitions;
    check_separated(embed(*graph, options), options.dim);
  }
}

TEST(one_thread_is_deterministic) {
  const auto graph = two_rings();
  EmbedOptions options = small_options();
  options.threads = 1;
  std::array<std::vector<float>, 2> found;
  for (auto& x : found) {
    x.resize((kNodes + 1) * options.dim);
    embed(*graph, options).read(0, kNodes + 1, x.data());
  }
  CHECK(found[0] == found[1]);
}
