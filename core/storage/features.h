// features: an open .gd file as named matrices of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/mounted.h"

namespace gz {

// One named array of a .gd file; a vector is a matrix of one column. Pointers live as long as the FeatureFile.
struct Matrix {
  std::string name;
  DType dtype = DType::kFloat32;
  uint64_t rows = 0, columns = 1;
  bool is_vector = false;
  uint64_t row_bytes = 0;
  uint64_t offset = 0;              // of row 0 in the file
  const std::byte* data = nullptr;  // of row 0 in the mapping
  const float* scale = nullptr;     // per column, for int8 with float scales
};

class FeatureFile {
 public:
  static std::shared_ptr<const FeatureFile> open(const std::string& path, std::span<const std::string> deltas = {});

  const MountedFile& file() const { return *file_; }
  const std::shared_ptr<const MountedFile>& shared_file() const { return file_; }
  uint64_t num_nodes() const { return file_->container().num_nodes; }
  const std::vector<Matrix>& matrices() const { return matrices_; }  // scales are not among them
  // By name; throws ArgumentError that lists the names there are.
  const Matrix& matrix(const std::string& name) const;

 private:
  FeatureFile() = default;
  std::shared_ptr<const MountedFile> file_;
  std::vector<Matrix> matrices_;
};

}  // namespace gz
