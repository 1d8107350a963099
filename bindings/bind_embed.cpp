// bind_embed: vectors of nodes, and the parts of training that tests compare with NumPy.
#include "base/ids.h"
#include "base/threads.h"
#include "bindings.h"
#include "embed/alias_table.h"
#include "embed/embed.h"
#include "embed/skipgram.h"

namespace gz::bindings {
namespace {

// Vectors that were trained, in RAM or on disk.
class Embedding {
 public:
  Embedding(NodeVectors&& vectors) : vectors_(std::move(vectors)) {}

  uint32_t partitions() const { return vectors_.shape().partitions; }

  // All of them, without a copy, and only once. In RAM only.
  Array take() {
    const VectorShape& shape = vectors_.shape();
    if (shape.partitions > 1) fail<ArgumentError>("the vectors are on disk; use read()");
    auto owner = std::make_shared<Buffer>(without_gil([&] { return vectors_.take(); }));
    return array_over(owner->data(), {static_cast<size_t>(shape.nodes), static_cast<size_t>(shape.dim)},
                      nb::dtype<float>(), owner);
  }

  Array read(uint64_t begin, uint64_t count) {
    const VectorShape& shape = vectors_.shape();
    if (begin > shape.nodes || count > shape.nodes - begin) fail<IndexError>("rows are out of range");
    const Result<float> out(static_cast<size_t>(count * shape.dim));
    interruptible([&] {
      vectors_.read(begin, count, out.data);
      return 0;
    });
    return out.array({static_cast<size_t>(count), static_cast<size_t>(shape.dim)});
  }

 private:
  NodeVectors vectors_;
};

Embedding embed_graph(const Topology& topology, uint64_t dim, uint64_t walk_length, uint64_t walks_per_node,
                      uint64_t epochs, uint64_t window, uint64_t negatives, double p, double q, bool weighted,
                      const std::optional<std::string>& direction, double learning_rate, uint64_t seed, int threads,
                      uint64_t memory, uint64_t beside, uint32_t partitions, const std::string& folder,
                      nb::object progress, bool plain) {
  PyProgress listener(std::move(progress));
  const EmbedOptions options{.dim = dim,
                             .walk_length = walk_length,
                             .walks_per_node = walks_per_node,
                             .epochs = epochs,
                             .window = window,
                             .negatives = negatives,
                             .p = p,
                             .q = q,
                             .weighted = weighted,
                             .direction = parse_direction(direction),
                             .learning_rate = learning_rate,
                             .seed = seed,
                             .threads = resolve_threads(threads),
                             .memory = memory,
                             .beside = beside,
                             .partitions = partitions,
                             .folder = folder,
                             .progress = &listener,
                             .plain = plain};
  return interruptible([&] { return Embedding(embed(topology, options)); });
}

using Table = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// One step on rows of two tables, which are changed.
void skipgram_step(Table own, Table outputs, const Ids& contexts, const Ids& targets, float rate, bool plain) {
  SkipGramStep step;
  if (own.shape(1) != outputs.shape(1) || own.shape(1) % kLaneFloats != 0) {
    fail<ArgumentError>("rows have ", own.shape(1), " and ", outputs.shape(1), " floats, expected a multiple of 8");
  }
  if (contexts.size() > step.contexts.size() || targets.size() > step.outputs.size()) {
    fail<ArgumentError>("expected at most 32 contexts and 6 outputs");
  }
  check_ids(span_of(contexts), "contexts", {own.shape(0), "rows", "table"});
  check_ids(span_of(targets), "outputs", {outputs.shape(0), "rows", "table"});
  step.width = own.shape(1);
  step.rate = rate;
  for (const int64_t id : span_of(contexts)) step.contexts[step.num_contexts++] = own.data() + id * own.shape(1);
  for (const int64_t id : span_of(targets)) step.outputs[step.num_outputs++] = outputs.data() + id * own.shape(1);
  skipgram_kernel(plain)(step);
}

// Draws from an alias table of these weights.
Array draw_by_weight(const nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>& weights,
                     uint64_t count, uint64_t seed) {
  const Result<int64_t> out(static_cast<size_t>(count));
  AliasTable table(weights.size());
  if (!(table.build(0, {weights.data(), weights.size()}) > 0)) fail<ArgumentError>("weights are all 0");
  Random random(make_key(seed));
  for (uint64_t i = 0; i < count; ++i) out.data[i] = static_cast<int64_t>(table.draw(random, 0, weights.size()));
  return out.array({static_cast<size_t>(count)});
}

}  // namespace

void bind_embed(nb::module_& m) {
  nb::class_<Embedding>(m, "Embedding")
      .def_prop_ro("partitions", &Embedding::partitions)
      .def("take", &Embedding::take)
      .def("read", &Embedding::read, nb::arg("begin"), nb::arg("count"));
  m.def("embed", &embed_graph, nb::arg("topology"), nb::kw_only(), nb::arg("dim"), nb::arg("walk_length"),
        nb::arg("walks_per_node"), nb::arg("epochs"), nb::arg("window"), nb::arg("negatives"), nb::arg("p"),
        nb::arg("q"), nb::arg("weighted"), nb::arg("direction").none(), nb::arg("learning_rate"), nb::arg("seed"),
        nb::arg("threads"), nb::arg("memory"), nb::arg("beside") = 0, nb::arg("partitions") = 0,
        nb::arg("folder") = ".", nb::arg("progress").none() = nb::none(), nb::arg("plain") = false);
  m.def("skipgram_step", &skipgram_step, nb::arg("own"), nb::arg("outputs"), nb::arg("contexts"), nb::arg("targets"),
        nb::arg("rate"), nb::arg("plain") = false);
  m.def("draw_by_weight", &draw_by_weight, nb::arg("weights"), nb::arg("count"), nb::arg("seed") = 0);
}

}  // namespace gz::bindings
