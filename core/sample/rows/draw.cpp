// draw: weights that cannot be drawn by.
#include "sample/rows/draw.h"

namespace gz {

double total_weight(std::span<const double> cumulative, const std::string& path) {
  const double total = cumulative.empty() ? 0.0 : cumulative.back();
  if (!std::isfinite(total)) {
    fail<FormatError>(path, ": a row's weights sum to ", total, ": the file is damaged, see graphzero verify");
  }
  return total;
}

}  // namespace gz
