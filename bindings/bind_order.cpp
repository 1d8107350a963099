// bind_order: node orders, and topologies with new ids.
#include <algorithm>

#include "base/threads.h"
#include "bindings.h"
#include "compile/order/node_order.h"
#include "compile/order/relabel.h"

namespace gz::bindings {
namespace {

using Counts = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class Id>
using NewIds = nb::ndarray<const Id, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Array as_array(Buffer&& order, size_t nodes) {
  auto owner = std::make_shared<Buffer>(std::move(order));
  return array_over(owner->data(), {nodes}, nb::dtype<uint32_t>(), owner);
}

template <class Id>
nb::dict relabelled(const Topology& topology, const NewIds<Id>& to_new, const std::string& path, bool number_edges,
                    uint64_t memory, int threads, std::string spill_folder, nb::object progress) {
  PyProgress listener(std::move(progress));
  GraphReport report;
  {
    nb::gil_scoped_release release;
    const RelabelOptions options{number_edges, memory, resolve_threads(threads), std::move(spill_folder)};
    report = relabel<Id>(topology, {to_new.data(), to_new.size()}, path, options, &listener);
  }
  nb::dict d;
  d["bytes"] = report.bytes;
  d["peak_bytes"] = report.peak_bytes;
  d["spilled_bytes"] = report.spilled_bytes;
  return d;
}

template <class Id>
void bind_relabel(nb::module_& m) {
  m.def("relabel_graph", &relabelled<Id>, nb::arg("topology"), nb::arg("to_new"), nb::arg("path"), nb::kw_only(),
        nb::arg("number_edges"), nb::arg("memory"), nb::arg("threads"), nb::arg("spill_folder"),
        nb::arg("progress").none());
}

}  // namespace

void bind_order(nb::module_& m) {
  m.def(
      "check_order",
      [](const Topology& topology, const std::optional<std::string>& direction) {
        check_orderable(topology);
        topology.resolve(parse_direction(direction));
      },
      nb::arg("topology"), nb::arg("direction").none());
  m.def(
      "order_nodes",
      [](const Topology& topology, const std::string& by, const std::optional<std::string>& direction,
         const std::optional<Counts>& counts, nb::object progress) {
        const NodeOrder wanted = parse_choice<NodeOrder>(
            "by", by,
            {{"hot", NodeOrder::kHot}, {"bfs", NodeOrder::kBreadthFirst}, {"community", NodeOrder::kCommunity}});
        const Direction side = parse_direction(direction);
        std::span<const uint32_t> uses;
        if (counts) uses = {counts->data(), counts->size()};
        PyProgress listener(std::move(progress));
        Buffer order = without_gil([&] { return order_nodes(topology, wanted, side, uses, &listener); });
        return as_array(std::move(order), static_cast<size_t>(topology.num_nodes()));
      },
      nb::arg("topology"), nb::arg("by"), nb::arg("direction").none(), nb::arg("counts").none(),
      nb::arg("progress").none());
  bind_relabel<int32_t>(m);
  bind_relabel<int64_t>(m);
}

}  // namespace gz::bindings
