// bindings: shared by every bind_<folder>.cpp: arrays with owners, ids, progress, and the list of topics.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/progress.h"
#include "format/container.h"
#include "format/dtype.h"
#include "sample/subgraph/neighbours.h"

namespace nb = nanobind;

namespace gz::bindings {

void bind_base(nb::module_& m);
void bind_storage(nb::module_& m);
void bind_walks(nb::module_& m);
void bind_sample(nb::module_& m);
void bind_hetero(nb::module_& m);
void bind_gather(nb::module_& m);
void bind_machine(nb::module_& m);
void bind_load(nb::module_& m);
void bind_compile(nb::module_& m);
void bind_ranges(nb::module_& m);
void bind_order(nb::module_& m);
void bind_ids(nb::module_& m);
void bind_analytics(nb::module_& m);
void bind_append(nb::module_& m);
void bind_embed(nb::module_& m);

// Ids are contiguous int64 (ensured by graphzero/args/ids.py); the core checks their range.
using Ids = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
inline std::span<const int64_t> span_of(const Ids& ids) { return {ids.data(), ids.size()}; }

using Array = nb::ndarray<nb::numpy>;

// Looks up `name`; throws an ArgumentError that lists the accepted names, and `other` if given.
template <class Enum>
Enum parse_choice(const char* what, const std::string& name, std::initializer_list<std::pair<const char*, Enum>> names,
                  const char* other = nullptr) {
  std::vector<std::string> known;
  for (const auto& [accepted, value] : names) {
    if (name == accepted) return value;
    known.push_back(text("'", accepted, "'"));
  }
  if (other != nullptr) known.emplace_back(other);
  std::string list;
  for (size_t i = 0; i < known.size(); ++i) {
    list += text(i == 0 ? "" : i + 1 < known.size() ? ", " : " or ", known[i]);
  }
  fail<ArgumentError>(what, " is '", name, "', expected ", list);
}

// 'out', 'in', or None for the file's first.
Direction parse_direction(const std::optional<std::string>& name);
TopologyIo parse_topology_io(const std::string& name);

// The options of a sampling call, from their names in Python.
SampleOptions sample_options(std::vector<int64_t> fanouts, bool replace, bool weighted, bool disjoint,
                             const std::string& temporal, const std::string& method,
                             const std::optional<std::string>& direction);

// Edges that a call must not sample, as two arrays of ends, or None.
using EdgeEnds = std::optional<std::pair<Ids, Ids>>;
ExcludedEdges excluded_edges(const Topology& topology, Direction direction, const EdgeEnds& ends, bool reverse);

// nanobind's tag of a dtype. NumPy has no bfloat16: it is passed as uint16, and Python converts it.
nb::dlpack::dtype dlpack_dtype(DType dtype);

// A NumPy array over `data`, kept alive by `owner`, without a copy.
template <class Owner>
Array array_over(void* data, std::span<const size_t> shape, nb::dlpack::dtype dtype, std::shared_ptr<Owner> owner) {
  nb::capsule keeper(new std::shared_ptr<Owner>(std::move(owner)),
                     [](void* p) noexcept { delete static_cast<std::shared_ptr<Owner>*>(p); });
  return Array(data, shape.size(), shape.data(), keeper, nullptr, dtype);
}
template <class Owner>
Array array_over(void* data, std::initializer_list<size_t> shape, nb::dlpack::dtype dtype,
                 std::shared_ptr<Owner> owner) {
  return array_over(data, std::span<const size_t>(shape.begin(), shape.size()), dtype, std::move(owner));
}

// Rows of features: (rows, columns), or (rows,) for a vector.
template <class Owner>
Array rows_array(void* data, uint64_t rows, uint64_t columns, bool is_vector, DType dtype,
                 std::shared_ptr<Owner> owner) {
  const std::array<size_t, 2> shape{static_cast<size_t>(rows), static_cast<size_t>(columns)};
  return array_over(data, std::span(shape).first(is_vector ? 1 : 2), dlpack_dtype(dtype), std::move(owner));
}

// A result array on pooled memory; fill `data` while the GIL is released, then call array().
template <class T>
struct Result {
  explicit Result(size_t count) : buffer(take_buffer(count * sizeof(T))), data(buffer->as<T>()) {}
  Array array(std::initializer_list<size_t> shape) const { return array_over(data, shape, nb::dtype<T>(), buffer); }
  std::shared_ptr<Buffer> buffer;
  T* data;
};

// Sampled values, and the edges of one type as (2, E), without a copy.
inline Array vector_of(const Int64Array& array) {
  if (!array.buffer) return Result<int64_t>(0).array({size_t{0}});
  return array_over(array.data(), {array.size}, nb::dtype<int64_t>(), array.buffer);
}
inline Array edge_index_of(const SampledEdges& edges) {
  const auto buffer = edges.edge_index.buffer ? edges.edge_index.buffer : take_buffer(1);
  return array_over(buffer->data(), {size_t{2}, edges.edge.size}, nb::dtype<int64_t>(), buffer);
}

// Passes the core's progress to a Python callable progress(phase: str, done: int, total: int), at most ten times per
// second, and checks for Ctrl-C while the GIL is released. `callback` may be None.
class PyProgress : public Progress {
 public:
  explicit PyProgress(nb::object callback) : callback_(std::move(callback)) {}
  void report(const char* phase, uint64_t done, uint64_t total) override;

 private:
  nb::object callback_;
  std::chrono::steady_clock::time_point last_{};
  std::string last_phase_;
};

// Checks for Ctrl-C, about twenty times per second, without reporting. A short call never takes the GIL.
class Interrupts : public Progress {
 public:
  void report(const char* phase, uint64_t done, uint64_t total) override;

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Releases the GIL during its lifetime, and makes the work inside interruptible.
struct WithoutGil {
  Interrupts interrupts;
  Interruptible interruptible{interrupts};
  nb::gil_scoped_release release;
};

// The result of f(), which is called without the GIL.
template <class F>
auto without_gil(const F& f) {
  const nb::gil_scoped_release release;
  return f();
}
// The same, interruptible by Ctrl-C.
template <class F>
auto interruptible(const F& f) {
  WithoutGil work;
  return f();
}

// The header of a feature file with these arrays.
using DeclaredArray = std::tuple<std::string, std::string, std::vector<uint64_t>>;  // name, dtype, shape
Container feature_container(uint64_t num_nodes, const std::vector<DeclaredArray>& arrays);

}  // namespace gz::bindings
