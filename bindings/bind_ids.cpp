// bind_ids: maps between original ids and dense ones: built while edges are read, and looked up.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/error.h"
#include "base/threads.h"
#include "bindings.h"
#include "compile/ids/id_map_builder.h"
#include "compile/ids/id_map_text.h"
#include "compile/text/fields.h"
#include "compile/text/number_text.h"
#include "storage/id_map.h"

namespace gz::bindings {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableIds = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Strings as bytes and offsets, or numbers where there are no bytes.
KeyColumn column_of(const std::optional<Bytes>& bytes, const Ids& values) {
  KeyColumn column;
  if (!bytes) {
    column.count = values.size();
    column.values = values.data();
    return column;
  }
  if (values.size() == 0) fail<ArgumentError>("offsets of strings are empty, expected one more than there are strings");
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    if (values.data()[i] > values.data()[i + 1]) fail<ArgumentError>("offsets of strings must not decrease");
  }
  if (values.data()[0] < 0 || static_cast<uint64_t>(values.data()[values.size() - 1]) > bytes->size()) {
    fail<ArgumentError>("offsets of strings exceed their bytes");
  }
  column.count = values.size() - 1;
  column.bytes = reinterpret_cast<const char*>(bytes->data());
  column.offsets = values.data();
  return column;
}

void check_kind(bool text, const KeyColumn& column) {
  if (text != (column.offsets != nullptr)) {
    fail<InputError>(text ? "found integers, expected strings; a map has ids of one kind"
                          : "found strings, expected integers; a map has ids of one kind");
  }
}

template <class T>
Array as_array(std::vector<T> values) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return array_over(owner->data(), {owner->size()}, nb::dtype<T>(), owner);
}

void bind_builder(nb::module_& m) {
  nb::class_<IdMapBuilder>(m, "IdMapBuilder")
      .def(
          "__init__",
          [](IdMapBuilder* self, bool text, uint64_t memory, int threads, std::string spill_folder) {
            new (self) IdMapBuilder({text, memory, resolve_threads(threads), std::move(spill_folder)});
          },
          nb::kw_only(), nb::arg("text"), nb::arg("memory"), nb::arg("threads"), nb::arg("spill_folder"))
      .def_prop_ro("count", &IdMapBuilder::count)
      .def_prop_ro("late", &IdMapBuilder::late)
      .def_prop_ro("spilled_bytes", &IdMapBuilder::spilled_bytes)
      .def_prop_ro("is_text", [](const IdMapBuilder& b) { return b.options().text; })
      .def(
          "map",
          [](IdMapBuilder& b, const std::optional<Bytes>& bytes, const Ids& values) {
            const KeyColumn column = column_of(bytes, values);
            check_kind(b.options().text, column);
            Result<int64_t> out(column.count);
            {
              nb::gil_scoped_release release;
              int64_t* const to[] = {out.data};
              b.map({&column, 1}, to);
            }
            return out.array({column.count});
          },
          nb::arg("bytes").none(), nb::arg("values"))
      .def(
          "append",
          [](IdMapBuilder& b, const std::optional<Bytes>& bytes, const Ids& values) {
            const KeyColumn column = column_of(bytes, values);
            check_kind(b.options().text, column);
            nb::gil_scoped_release release;
            b.append(column);
          },
          nb::arg("bytes").none(), nb::arg("values"))
      .def_prop_ro("repeats", &IdMapBuilder::repeats)
      .def(
          "map_edges",
          [](IdMapBuilder& b, const std::optional<Bytes>& src_bytes, const Ids& src,
             const std::optional<Bytes>& dst_bytes, const Ids& dst) {
            const KeyColumn columns[] = {column_of(src_bytes, src), column_of(dst_bytes, dst)};
            for (const KeyColumn& column : columns) check_kind(b.options().text, column);
            if (columns[0].count != columns[1].count) {
              fail<InputError>("a block of edges has ", columns[0].count, " sources and ", columns[1].count,
                               " targets; lengths must match");
            }
            Result<int64_t> u(columns[0].count), v(columns[0].count);
            {
              nb::gil_scoped_release release;
              int64_t* const to[] = {u.data, v.data};
              b.map(columns, to);
            }
            return nb::make_tuple(u.array({columns[0].count}), v.array({columns[0].count}));
          },
          nb::arg("src_bytes").none(), nb::arg("src"), nb::arg("dst_bytes").none(), nb::arg("dst"))
      .def("close",
           [](IdMapBuilder& b) {
             nb::gil_scoped_release release;
             b.close();
           })
      .def("resolve",
           [](IdMapBuilder& b, MutableIds ids) {
             nb::gil_scoped_release release;
             b.resolve({ids.data(), ids.size()});
           })
      .def(
          "write",
          [](IdMapBuilder& b, const std::string& path, const std::string& text_path, nb::object callback) {
            PyProgress progress(std::move(callback));
            nb::gil_scoped_release release;
            return b.write(path, text_path, &progress);
          },
          nb::arg("path"), nb::arg("text_path"), nb::arg("progress").none());
}

void bind_key_text(nb::module_& m) {
  nb::class_<KeyText>(m, "KeyText")
      .def(
          "__init__",
          [](KeyText* self, IdMapBuilder& ids, std::string name, const std::string& delimiter, int width, int src,
             int dst, int weight, int time, uint64_t lines_before, bool skip_errors, bool refuse_missing) {
            if (delimiter.size() != 1) fail<ArgumentError>("delimiter must be one byte");
            new (self) KeyText(ids, {std::move(name), delimiter[0], width, src, dst, weight, time, lines_before,
                                     skip_errors, refuse_missing});
          },
          nb::keep_alive<1, 2>(), nb::arg("ids"), nb::kw_only(), nb::arg("name"), nb::arg("delimiter"),
          nb::arg("width"), nb::arg("src"), nb::arg("dst"), nb::arg("weight"), nb::arg("time"), nb::arg("lines_before"),
          nb::arg("skip_errors"), nb::arg("refuse_missing"))
      .def(
          "feed",
          [](KeyText& t, const nb::bytes& block, bool last) {
            const std::string_view text(block.c_str(), block.size());
            KeyEdges edges = without_gil([&] { return t.feed(text, last); });
            return nb::make_tuple(as_array(std::move(edges.src)), as_array(std::move(edges.dst)),
                                  as_array(std::move(edges.weights)), as_array(std::move(edges.times)));
          },
          nb::arg("block"), nb::arg("last"))
      .def_prop_ro("skipped", [](const KeyText& t) { return t.account().skipped(); })
      .def_prop_ro("examples", [](const KeyText& t) { return t.account().examples(); });
}

template <class T>
void bind_number_text(nb::module_& m, const char* name) {
  nb::class_<NumberText<T>>(m, name)
      .def(
          "__init__",
          [](NumberText<T>* self, std::string file, char delimiter, size_t columns, uint64_t lines_before,
             bool blank_is_missing, int threads) {
            new (self) NumberText<T>(
                {std::move(file), delimiter, columns, lines_before, blank_is_missing, resolve_threads(threads)});
          },
          nb::kw_only(), nb::arg("name"), nb::arg("delimiter"), nb::arg("columns"), nb::arg("lines_before"),
          nb::arg("blank_is_missing"), nb::arg("threads") = 0)
      .def(
          "feed",
          [](NumberText<T>& t, const nb::bytes& block, bool last) {
            const std::string_view text(block.c_str(), block.size());
            std::vector<T> values = without_gil([&] { return t.feed(text, last); });
            return as_array(std::move(values));
          },
          nb::arg("block"), nb::arg("last"));
}

void bind_fields(nb::module_& m) {
  m.def(
      "split_fields",
      [](const std::string& line, char delimiter) { return split_fields(line, {delimiter, true, false}); },
      nb::arg("line"), nb::arg("delimiter"));
  bind_number_text<double>(m, "NumberTextFloat64");
  bind_number_text<float>(m, "NumberTextFloat32");
  bind_number_text<int64_t>(m, "NumberTextInt64");
}

void bind_map(nb::module_& m) {
  constexpr size_t kGrain = size_t{1} << 16;  // searches of a piece are grouped by hash
  nb::class_<IdMap>(m, "IdMap")
      .def_static("open", &IdMap::open, nb::arg("path"), nb::arg("text_path"))
      .def_prop_ro("size", &IdMap::size)
      .def_prop_ro("is_text", &IdMap::is_text)
      .def(
          "find",
          [](const IdMap& map, const std::optional<Bytes>& bytes, const Ids& values, int threads) {
            const KeyColumn column = column_of(bytes, values);
            if (map.is_text() != (column.offsets != nullptr)) {
              fail<ArgumentError>(map.is_text() ? "the ids of this map are strings"
                                                : "the ids of this map are integers");
            }
            Result<int64_t> out(column.count);
            {
              nb::gil_scoped_release release;
              parallel_for(column.count, kGrain, resolve_threads(threads), [&](size_t begin, size_t end, int) {
                if (map.is_text()) {
                  map.find(column.bytes, {column.offsets + begin, end - begin + 1}, out.data + begin);
                } else {
                  map.find({column.values + begin, end - begin}, out.data + begin);
                }
              });
              map.check();
            }
            return out.array({column.count});
          },
          nb::arg("bytes").none(), nb::arg("values"), nb::arg("threads"))
      .def("texts",
           [](const IdMap& map, const Ids& ids) {
             nb::list out;
             for (const int64_t id : span_of(ids)) {
               const std::string_view text = map.text_of(static_cast<uint64_t>(id));
               out.append(nb::bytes(text.data(), text.size()));
             }
             map.check();
             return out;
           })
      .def("numbers", [](const IdMap& map, const Ids& ids) {
        Result<int64_t> out(ids.size());
        for (size_t i = 0; i < ids.size(); ++i) out.data[i] = map.number_of(static_cast<uint64_t>(ids.data()[i]));
        map.check();
        return out.array({ids.size()});
      });
}

}  // namespace

void bind_ids(nb::module_& m) {
  bind_builder(m);
  bind_key_text(m);
  bind_map(m);
  bind_fields(m);
}

}  // namespace gz::bindings
