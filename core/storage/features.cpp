// features: from named arrays to matrices.
#include "storage/features.h"

#include "base/error.h"

namespace gz {

std::shared_ptr<const FeatureFile> FeatureFile::open(const std::string& path, std::span<const std::string> deltas) {
  std::shared_ptr<FeatureFile> features(new FeatureFile);
  features->file_ = MountedFile::open(path, Kind::kFeatures, deltas);
  const MountedFile& file = *features->file_;
  const Container& c = file.container();
  for (const ArrayInfo& array : c.arrays) {
    if (c.is_scale(array)) continue;
    Matrix m;
    m.name = array.name;
    m.dtype = array.dtype;
    m.rows = array.rows();
    m.columns = array.columns();
    m.is_vector = array.shape.size() == 1;
    m.row_bytes = array.row_bytes();
    m.offset = array.offset;
    m.data = file.bytes_of(array).data();
    if (const ArrayInfo* scale = c.scale_of(array)) {
      m.scale = reinterpret_cast<const float*>(file.bytes_of(*scale).data());
    }
    features->matrices_.push_back(std::move(m));
  }
  return features;
}

const Matrix& FeatureFile::matrix(const std::string& name) const {
  std::string names;
  for (const Matrix& m : matrices_) {
    if (m.name == name) return m;
    names += (names.empty() ? "'" : ", '") + m.name + "'";
  }
  fail<ArgumentError>(file_->path(), ": no feature '", name, "', the file has ", names.empty() ? "none" : names);
}

}  // namespace gz
