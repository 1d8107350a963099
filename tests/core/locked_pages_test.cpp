// locked_pages_test: ranges of locked pages, and the memory that they leave to loaders.
#include <atomic>
#include <vector>

#include "base/system.h"
#include "check.h"
#include "format/container.h"
#include "load/budget.h"
#include "load_files.h"
#include "storage/file.h"

using namespace gz;

namespace {

// Rows that take `bytes` in all, none of which is on disk or in RAM.
std::shared_ptr<const FeatureFile> sparse_rows(const std::string& name, uint64_t bytes) {
  constexpr uint64_t kColumns = 1024;
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = bytes / kColumns / sizeof(float);
  c.arrays = {{"x", DType::kFloat32, {c.num_nodes, kColumns}, 0, 0, 0}};
  lay_out(c);
  const std::string path = test::scratch(name);
  File file = File::create(path);
  file.resize(c.file_bytes);
  file.write_at(serialize_header(c), 0);
  return FeatureFile::open(path);
}

}  // namespace

TEST(locked_ranges_are_counted_where_they_overlap) {
  constexpr uintptr_t kBegin = 1 << 30;
  CHECK_EQ(locked_pages(), 0u);
  CHECK(add_locked_pages(kBegin, 1000));
  CHECK(add_locked_pages(kBegin + 2000, 500));
  CHECK_EQ(locked_pages(), 1500u);
  CHECK_EQ(locked_pages(0, kBegin), 0u);
  CHECK_EQ(locked_pages(0, kBegin + 1), 1u);
  CHECK_EQ(locked_pages(kBegin + 999, kBegin + 2001), 2u);
  CHECK_EQ(locked_pages(kBegin + 1000, kBegin + 2000), 0u);
  CHECK_EQ(locked_pages(kBegin + 100, kBegin + 200), 100u);
  remove_locked_pages(kBegin);
  CHECK_EQ(locked_pages(), 500u);
  remove_locked_pages(kBegin);  // there is no such range any more
  remove_locked_pages(kBegin + 2000);
  CHECK_EQ(locked_pages(), 0u);
}

TEST(no_more_ranges_are_locked_than_are_counted) {
  std::vector<uintptr_t> added;
  for (uintptr_t begin = 4096; add_locked_pages(begin, 1) && added.size() < 10'000; begin += 4096)
    added.push_back(begin);
  CHECK(added.size() < 10'000);
  CHECK_EQ(locked_pages(), added.size());
  for (const uintptr_t begin : added) remove_locked_pages(begin);
  CHECK_EQ(locked_pages(), 0u);
}

TEST(locked_pages_are_not_available_but_to_loaders_that_read_them) {
  const uint64_t free = available_memory(), bytes = free / 2;
  if (free < uint64_t{1} << 30) return;  // the system does not say, or has too little for the noise of other processes
  const auto file = sparse_rows("locked.gd", bytes);
  const auto topology = test::write_relation("locked.gl", {10, 10}, [](uint64_t row, std::vector<uint32_t>& indices) {
    indices.push_back(static_cast<uint32_t>(9 - row));
  });
  LoadOptions options;
  options.sample.fanouts = {1};
  options.memory = uint64_t{64} << 20;
  const auto seeds = node_seeds(Numbers::range(10));
  const auto reads = make_outline(topology, {{"x", file, "x"}}, seeds, options, {});
  const auto does_not = make_outline(topology, {}, seeds, options, {});
  const auto begin = reinterpret_cast<uintptr_t>(file->matrix("x").data);
  CHECK(add_locked_pages(begin, bytes));
  CHECK(available_memory() < free / 4 * 3);
  CHECK(memory_for(*does_not) < free / 4 * 3);
  CHECK(memory_for(*reads) > free / 4 * 3);
  remove_locked_pages(begin);
  CHECK(memory_for(*does_not) > free / 4 * 3);
}
