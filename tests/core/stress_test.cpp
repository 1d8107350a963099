// stress_test: many threads on one thing at once. Quick as an ordinary test; `make sanitize` runs it under TSan, which
// sees a race even where the answer happens to come out right.
#include <atomic>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "check.h"
#include "compile/write/container_writer.h"
#include "load/pipeline.h"
#include "sample/subgraph/neighbours.h"
#include "sample/walk/walk.h"
#include "storage/features.h"
#include "storage/verify.h"
#include "subgraphs.h"

using namespace gz;

namespace {

constexpr uint64_t kNodes = 2000, kDegree = 5;
constexpr int kCallers = 4;

// Runs `body` on several threads at once and throws what any of them threw.
void together(int threads, const std::function<void(int)>& body) {
  std::vector<std::thread> running;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Node u has edges to u + 1 ... u + kDegree.
std::string ring_graph(const std::string& name) {
  Container c;
  c.kind = Kind::kTopology;
  c.num_nodes = kNodes;
  c.num_edges = kNodes * kDegree;
  c.direction = Direction::kOut;
  c.arrays = {{"out.indptr", DType::kUInt64, {kNodes + 1}, 0, 0, 0},
              {"out.indices", DType::kUInt32, {c.num_edges}, 0, 0, 0}};
  std::vector<uint64_t> indptr(kNodes + 1);
  std::vector<uint32_t> indices;
  for (uint64_t u = 0; u < kNodes; ++u) {
    indptr[u + 1] = indptr[u] + kDegree;
    for (uint64_t k = 1; k <= kDegree; ++k) indices.push_back(static_cast<uint32_t>((u + k) % kNodes));
  }
  const std::string path = test::scratch(name);
  ContainerWriter writer(path, c);
  writer.append<uint64_t>(0, indptr);
  writer.append<uint32_t>(1, indices);
  writer.finish();
  return path;
}

// Every number of row i is i.
std::string numbered_rows(const std::string& name, uint64_t columns = 96) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = kNodes;
  c.arrays = {{"x", DType::kFloat32, {kNodes, columns}, 0, 0, 0}};
  const std::string path = test::scratch(name);
  ContainerWriter writer(path, c);
  for (uint64_t i = 0; i < kNodes; ++i) {
    writer.append<float>(0, std::vector<float>(columns, static_cast<float>(i)));
  }
  writer.finish();
  return path;
}

std::vector<int64_t> random_ids(uint64_t seed, size_t count) {
  Random random(make_key(seed));
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.below(kNodes));
  return ids;
}

void check_rows(std::span<const int64_t> ids, const std::vector<float>& rows) {
  const size_t columns = rows.size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    CHECK(rows[i * columns] == static_cast<float>(ids[i]));
    CHECK(rows[i * columns + columns - 1] == static_cast<float>(ids[i]));
  }
}

}  // namespace

TEST(many_callers_of_parallel_for_nested_and_failing) {
  together(6, [](int caller) {
    for (int round = 0; round < 40; ++round) {
      std::atomic<uint64_t> sum{0};
      parallel_for(500, 7, 1 + caller % 4, [&](size_t begin, size_t end, int) {
        parallel_for(end - begin, 2, 2, [&](size_t b, size_t e, int) { sum += e - b; });
      });
      CHECK_EQ(sum.load(), 500u);
      CHECK_THROWS(ArgumentError, "on purpose", parallel_for(100, 1, 3, [](size_t begin, size_t, int) {
                     if (begin == 50) fail<ArgumentError>("on purpose");
                   }));
    }
  });
}

TEST(many_threads_take_and_return_buffers) {
  together(kCallers, [](int caller) {
    Random random(make_key(static_cast<uint64_t>(caller)));
    std::vector<std::shared_ptr<Buffer>> held(8);
    for (int round = 0; round < 300; ++round) {
      auto buffer = take_buffer(1 + random.below(1 << 18));
      buffer->data()[0] = std::byte{1};
      held[random.below(held.size())] = std::move(buffer);
      if (round % 64 == 0) BufferPool::of_process().clear();
    }
  });
}

TEST(files_are_closed_by_some_while_others_read_them) {
  const std::string graph = ring_graph("stress.gl"), rows = numbered_rows("stress.gd");
  std::shared_ptr<const Topology> shared = Topology::open(graph);
  std::mutex mutex;  // guards `shared`
  together(kCallers, [&](int caller) {
    for (int round = 0; round < 60; ++round) {
      std::shared_ptr<const Topology> mine;
      {
        std::lock_guard lock(mutex);
        if (round % 4 == caller % 4) shared = Topology::open(graph);  // the last of the readers closes the old one
        mine = shared;
      }
      const auto seeds = random_ids(static_cast<uint64_t>(round), 20);
      const auto part = sample_neighbours(*mine, seeds, {}, {.fanouts = {3, 2}, .seed = 1});
      CHECK_EQ(part.nodes[0].num_sampled_nodes.size(), 3u);
      CHECK(mine->file().user_mapping()->bytes().size() > 0);
      const auto features = FeatureFile::open(rows);
      CHECK(features->file().user_mapping() == features->file().user_mapping());
    }
  });
}

TEST(one_topology_serves_samplers_walkers_and_a_verifier) {
  const auto topology = Topology::open(ring_graph("serve.gl"));
  const auto seeds = random_ids(1, 50);
  const auto expected = sample_neighbours(*topology, seeds, {}, {.fanouts = {4, 3}, .seed = 9});
  together(kCallers, [&](int caller) {
    for (int round = 0; round < 15; ++round) {
      if (caller == 0) {
        verify(topology->shared_file(), 2, nullptr);
      } else if (caller == 1) {
        std::vector<int64_t> walks(seeds.size() * 11);
        random_walks(*topology, seeds, {.length = 10, .p = 0.5, .seed = 3, .threads = 2}, walks);
      } else {
        const auto part = sample_neighbours(*topology, seeds, {}, {.fanouts = {4, 3}, .seed = 9, .threads = caller});
        CHECK(test::same(part, expected));
      }
    }
  });
}

TEST(rows_are_gathered_by_many_on_every_path) {
  const auto file = FeatureFile::open(numbered_rows("gather.gd"));
  const Matrix& x = file->matrix("x");
  together(kCallers, [&](int caller) {
    for (int round = 0; round < 8; ++round) {
      for (const Io io : {Io::kAuto, Io::kMmap, Io::kPread, Io::kUring}) {
        const auto ids = random_ids(static_cast<uint64_t>(caller * 100 + round), 400);
        std::vector<float> out(ids.size() * x.columns);
        try {
          gather(*file, x, ids, reinterpret_cast<std::byte*>(out.data()), {.io = io, .threads = 2});
        } catch (const StorageError&) {
          if (io != Io::kUring) throw;  // rings may be refused on this machine
          continue;
        }
        check_rows(ids, out);
      }
    }
  });
}

TEST(pipelines_are_run_stopped_and_dropped_at_once) {
  const auto topology = Topology::open(ring_graph("load.gl"));
  const auto file = FeatureFile::open(numbered_rows("load.gd"));
  std::vector<int64_t> seeds(400);
  std::iota(seeds.begin(), seeds.end(), 0);
  LoadOptions options;
  options.sample.fanouts = {3, 2};
  options.batch_size = 32;
  options.memory = uint64_t{64} << 20;
  options.threads = 2;
  options.shuffle = true;
  const Part part{.name = "x", .file = file, .matrix = "x", .by_edge = false, .out_dtype = {}};
  const auto plan = make_plan(topology, {part}, node_seeds(Numbers::range(seeds.size())), options, {}, nullptr);
  together(3, [&](int caller) {
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      Pipeline pipeline(plan, epoch, Share{});
      LoadedBatch batch;
      uint64_t seen = 0;
      const uint64_t most = caller == 0 ? UINT64_MAX : epoch + static_cast<uint64_t>(caller);  // some leave early
      while (seen < most) {
        const auto state = pipeline.next(batch, 50);
        if (state == Pipeline::State::kEnd) break;
        if (state == Pipeline::State::kNotYet) continue;
        CHECK_EQ(batch.number, seen);
        const auto* rows = reinterpret_cast<const float*>(batch.parts.at(0).buffer->data());
        const auto ids = batch.graph.nodes[0].node.span();
        for (size_t i = 0; i < ids.size(); ++i) CHECK(rows[i * 96] == static_cast<float>(ids[i]));
        ++seen;
        pipeline.stats();
      }
      if (caller == 0) CHECK_EQ(seen, pipeline.num_batches());
      if (caller == 2) pipeline.stop();
    }
  });
}

#ifndef _WIN32  // where a mapped file cannot be truncated
TEST(a_file_is_cut_while_many_read_it_and_others_mount) {
  const std::string path = numbered_rows("cut.gd", 1024);
  const auto file = FeatureFile::open(path);
  const Matrix& x = file->matrix("x");
  std::atomic<int> raised{0};
  std::filesystem::resize_file(path, 65536);
  const std::string other = ring_graph("other.gl");
  together(kCallers, [&](int caller) {
    if (caller == 0) {
      for (int round = 0; round < 50; ++round) Topology::open(other)->file().check();
      return;
    }
    const auto ids = random_ids(static_cast<uint64_t>(caller), 500);
    std::vector<float> out(ids.size() * x.columns);
    try {
      gather(*file, x, ids, reinterpret_cast<std::byte*>(out.data()), {.io = Io::kMmap, .threads = 2});
    } catch (const StorageError&) {
      ++raised;
    }
  });
  CHECK_EQ(raised.load(), kCallers - 1);
}
#endif
