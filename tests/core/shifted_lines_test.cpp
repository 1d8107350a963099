// shifted_lines_test: rows streamed to places that do not begin on a cache line, against memcpy, to the byte before and
// the byte after.
#include <cstring>
#include <vector>

#include "check.h"
#include "gather/copy.h"
#include "gather_files.h"

using namespace gz;

TEST(rows_of_whole_lines_go_to_any_place) {
  constexpr size_t kRows = 9;
  for (const Vectors vectors : {Vectors::kPlain, Vectors::kAvx2, Vectors::kAvx512}) {
    if (vectors > best_vectors()) continue;
    for (const uint64_t columns : {16u, 32u, 128u}) {
      Matrix matrix;
      matrix.rows = kRows;
      matrix.columns = columns;
      matrix.row_bytes = columns * 4;
      matrix.dtype = DType::kFloat32;
      const auto source = test::noise_bytes(kRows * matrix.row_bytes, columns);
      const RowCopier copier(matrix, matrix.dtype, true, vectors);
      const std::vector<int64_t> ids{3, 0, 8, 8, 1, 7, 2};
      for (size_t count = 0; count <= ids.size(); ++count) {
        for (size_t shift = 1; shift <= 64; ++shift) {
          std::vector<std::byte> room(ids.size() * matrix.row_bytes + 256, std::byte{0x5a}), want = room;
          const size_t to = 64 - reinterpret_cast<uintptr_t>(room.data()) % 64 + shift;
          for (size_t i = 0; i < count; ++i) {
            std::memcpy(want.data() + to + i * matrix.row_bytes,
                        source.data() + static_cast<size_t>(ids[i]) * matrix.row_bytes, matrix.row_bytes);
          }
          copier.gather(source.data(), std::span(ids).first(count), room.data() + to, 0);
          finish_streaming();
          CHECK(room == want);
        }
      }
    }
  }
}
