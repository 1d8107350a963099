// feature_delta: the last page of each array as it was, continued.
#include "compile/append/feature_delta.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "compile/write/container_writer.h"

namespace gz {

uint64_t write_feature_delta(const FeatureFile& features, uint64_t count, std::span<const AppendedRows> arrays,
                             const std::string& out, const AppendOptions& options) {
  const MountedFile& file = features.file();
  const Container& before = file.container();
  if (before.major == 0) {
    fail<ArgumentError>(file.path(), ": is a file of GraphZero 0.2; convert it with graphzero compile first");
  }
  for (const AppendedRows& array : arrays) features.matrix(array.name);  // throws for an unknown name
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = before.num_nodes + count;
  const uint64_t parent = file.composed() ? file.deltas().back()->container().identity() : before.identity();
  c.delta = {parent, file.deltas().size() + 1, 0};
  std::vector<const AppendedRows*> given;
  for (const Matrix& matrix : features.matrices()) {
    const auto found = std::find_if(arrays.begin(), arrays.end(),
                                    [&](const AppendedRows& array) { return array.name == matrix.name; });
    if (found == arrays.end()) fail<ArgumentError>(file.path(), ": no rows for '", matrix.name, "' were given");
    if (checked_mul(count, matrix.row_bytes) != found->bytes.size()) {
      fail<ArgumentError>("'", matrix.name, "' has ", found->bytes.size(), " bytes, expected ", count, " rows of ",
                          matrix.row_bytes);
    }
    given.push_back(&*found);
    const ArrayInfo& old = *before.find(matrix.name);
    ArrayInfo array;
    array.name = matrix.name;
    array.dtype = matrix.dtype;
    array.shape = {c.num_nodes * matrix.columns - elements_before(old, matrix.rows)};
    c.arrays.push_back(std::move(array));
  }
  ContainerWriter writer(out, std::move(c));
  for (size_t i = 0; i < given.size(); ++i) {
    const ArrayInfo& old = *before.find(given[i]->name);
    const auto bytes = file.bytes_of(old);
    writer.append(i, bytes.subspan(elements_before(old, old.rows()) * dtype_bytes(old.dtype)));
    constexpr size_t kStep = size_t{16} << 20;
    for (size_t at = 0; at < given[i]->bytes.size(); at += kStep) {
      writer.append(i, given[i]->bytes.subspan(at, std::min(kStep, given[i]->bytes.size() - at)));
      if (options.progress != nullptr) options.progress->report("appending", i, given.size());
    }
  }
  file.check();
  return writer.finish(options.threads, options.progress);
}

}  // namespace gz
