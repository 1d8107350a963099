// bind_batch: arrays over the buffers of a batch, without a copy.
#include "bind_batch.h"

#include <memory>

namespace gz::bindings {
namespace {

Array int32_array(const std::shared_ptr<Buffer>& buffer, std::initializer_list<size_t> shape) {
  return array_over(buffer->data(), shape, nb::dtype<int32_t>(), buffer);
}

// What a device needs to assemble the rows of a part; None if it gets all of them.
nb::object device_to_python(const GatheredPart& part) {
  const OnDevice* const given = part.device.get();
  if (given == nullptr) return nb::none();
  nb::dict d;
  d["rows"] = given->rows;
  d["generation"] = given->generation;
  d["slots"] = given->slots;
  d["is_whole"] = given->is_whole;
  if (given->is_whole) return d;
  d["sequence"] = given->sequence;
  d["reads_host"] = given->reads_host;
  d["admissions"] = given->admissions;
  d["misses"] = given->misses;
  d["lists"] = array_over(given->lists->data(), {given->rows + given->misses}, nb::dtype<int64_t>(), given->lists);
  d["page_locked"] = given->lists->page_locked() && (given->reads_host || part.buffer->page_locked());
  return d;
}

// The ids of a batch as int32, how many of them belong to each array (edge_index and e_id of each edge type, then n_id
// of each node type), and whether the array is page-locked.
nb::object narrow_to_python(const LoadedBatch& batch) {
  const auto& narrow = batch.narrow.buffer;
  if (!narrow) return nb::none();
  nb::list sizes;
  for (const SampledEdges& type : batch.graph.edges) {
    sizes.append(2 * type.edge.size);
    sizes.append(type.edge.size);
  }
  for (const SampledNodes& type : batch.graph.nodes) sizes.append(type.node.size);
  return nb::make_tuple(int32_array(narrow, {batch.narrow.count}), sizes, narrow->page_locked());
}

}  // namespace

nb::dict to_python(const LoadedBatch& batch) {
  nb::dict d;
  d["number"] = batch.number;
  d["input_id"] = vector_of(batch.input);
  nb::list nodes, edges, parts;
  const bool is_narrow = batch.narrow.buffer != nullptr;
  for (const SampledNodes& type : batch.graph.nodes) {
    nb::dict of_type;
    if (!is_narrow) of_type["n_id"] = vector_of(type.node);
    if (type.batch.buffer) of_type["batch"] = vector_of(type.batch);
    of_type["num_sampled_nodes"] = nb::cast(type.num_sampled_nodes);
    if (!type.num_padding_nodes.empty()) of_type["num_padding_nodes"] = nb::cast(type.num_padding_nodes);
    nodes.append(of_type);
  }
  for (const SampledEdges& type : batch.graph.edges) {
    nb::dict of_type;
    if (!is_narrow) {
      of_type["e_id"] = vector_of(type.edge);
      of_type["edge_index"] = edge_index_of(type);
    }
    of_type["num_sampled_edges"] = nb::cast(type.num_sampled_edges);
    edges.append(of_type);
  }
  for (const GatheredPart& part : batch.parts) {
    nb::object rows = nb::none();
    if (!part.device || !part.device->is_whole) {
      rows =
          nb::cast(rows_array(part.buffer->data(), part.rows, part.columns, part.is_vector, part.dtype, part.buffer));
    }
    parts.append(nb::make_tuple(rows, dtype_name(part.dtype), device_to_python(part)));
  }
  d["nodes"] = nodes;
  d["edges"] = edges;
  d["parts"] = parts;
  d["narrow"] = narrow_to_python(batch);
  nb::dict arrays;
  for (const BatchArray& array : batch.arrays) {
    arrays[array.name.c_str()] = array_over(array.buffer->data(), array.shape, dlpack_dtype(array.dtype), array.buffer);
  }
  d["arrays"] = arrays;
  return d;
}

}  // namespace gz::bindings
