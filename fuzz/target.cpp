// target: opens the bytes from memory, then samples, walks, gathers and verifies what opened.
#include "target.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/random.h"
#include "format/legacy.h"
#include "gather/gather.h"
#include "guard.h"
#include "sample/link/link.h"
#include "sample/link/negatives.h"
#include "sample/merged/merged.h"
#include "sample/rows/fanout.h"
#include "sample/subgraph/hgt.h"
#include "sample/subgraph/induce.h"
#include "sample/subgraph/neighbours.h"
#include "sample/walk/walk.h"
#include "storage/features.h"
#include "storage/topology.h"
#include "storage/verify.h"

namespace gz::fuzz {
namespace {

constexpr size_t kChecksumAt = 76, kHeaderBytesAt = 40;
constexpr double kMostSeconds = 1.0;
constexpr size_t kSpareBytes = size_t{16} << 20;  // "a little": buffers whose size does not come from the file

// The bytes as a file with a path, removed by the destructor.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0 || write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::perror("fuzz: memfd");
      std::abort();
    }
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Runs calls, each of which may return or throw a gz::Error; any other exception propagates and ends the process.
class Calls {
 public:
  Calls(Outcome& outcome, uint64_t seed) : random(seed), outcome_(outcome) {}

  template <class F>
  void run(const char* name, F&& call) {
    const double start = processor_seconds();
    try {
      call();
      ++outcome_.answered;
    } catch (const Error&) {
      ++outcome_.refused;
    }
    if (const double taken = processor_seconds() - start; taken > kMostSeconds) {
      std::fprintf(stderr, "fuzz: %s took %.1f s of processor time\n", name, taken);
      std::abort();
    }
  }

  // Ids, a few of which may be out of range.
  std::vector<int64_t> ids(uint64_t count, uint64_t nodes) {
    std::vector<int64_t> out(count);
    for (int64_t& id : out) id = static_cast<int64_t>(random.below(nodes == 0 ? 1 : nodes));
    if (random.below(16) == 0) out.push_back(static_cast<int64_t>(random.next()));
    return out;
  }

  Random random;

 private:
  Outcome& outcome_;
};

void read_unchecked(const Topology& topology) {
  topology.visit(Direction::kNone, [](const auto& csr) {
    volatile uint64_t sum = 0;
    for (uint64_t node = 0; node < csr.num_nodes; ++node) {
      for (uint64_t i = csr.indptr[node]; i < csr.indptr[node + 1]; ++i) sum = sum + csr.indptr[csr.indices[i]];
    }
  });
}

void read_rows(const Topology& topology, Calls& calls) {
  for (const Direction direction : {Direction::kNone, Direction::kOut, Direction::kIn}) {
    calls.run("rows", [&] {
      topology.visit(direction, [&](const auto& csr) {
        for (uint64_t node = 0; node < csr.num_nodes; ++node) {
          const auto row = csr.row(node);
          for (uint64_t i = row.begin; i < row.end; ++i) csr.neighbour(i);
        }
      });
    });
  }
}

void sample(const Topology& topology, Calls& calls) {
  Random& random = calls.random;
  for (int i = 0; i < 6; ++i) {
    SampleOptions options;
    for (uint64_t hop = 0; hop <= random.below(3); ++hop) {
      options.fanouts.push_back(static_cast<int64_t>(random.below(8)) - 1);
    }
    options.replace = random.below(2) == 0;
    options.weighted = random.below(2) == 0;
    options.disjoint = random.below(2) == 0;
    options.choice = random.below(4) == 0 ? Choice::kLabor : Choice::kUniform;
    options.temporal = random.below(2) == 0 ? Temporal::kLast : Temporal::kUniform;
    options.direction = static_cast<Direction>(random.below(3));
    options.seed = random.next();
    const auto seeds = calls.ids(random.below(12), topology.num_nodes());
    const std::vector<int64_t> times(random.below(3) == 0 ? seeds.size() : 0, 5);
    calls.run("sample", [&] {
      check_options(topology, options, !times.empty());
      sample_neighbours(topology, seeds, times, options);
    });
    const MergedBatch batches[] = {{seeds, times, options.seed}, {seeds, times, 1}};
    MergedOptions merged;
    merged.past_page_cache = random.below(2) == 0;
    calls.run("sample together", [&] { sample_merged(topology, batches, options, merged); });
  }
}

// The graph as one of types: one node type where it is square, else two, with rows by target.
void sample_around_edges(const Topology& topology, Calls& calls) {
  Random& random = calls.random;
  const bool square = topology.square();
  std::vector<NodeType> nodes{{"a", topology.num_sources(), {}}};
  if (!square) nodes.push_back({"b", topology.num_targets(), {}});
  for (int i = 0; i < 4; ++i) {
    const auto direction = square ? static_cast<Direction>(random.below(3)) : Direction::kIn;
    const std::vector<EdgeType> edges{{&topology, direction, 0, nodes.size() - 1, {3, 2}, nullptr}};
    SampleOptions options;
    options.fanouts = edges[0].fanouts;
    options.weighted = random.below(2) == 0;
    options.disjoint = random.below(2) == 0;
    options.seed = random.next();
    LinkOptions how;
    how.negatives = static_cast<LinkNegatives>(random.below(3));
    how.strict = random.below(2) == 0;
    how.by_degree = random.below(2) == 0;
    how.exclude = static_cast<LinkExclude>(random.below(3));
    auto positions = calls.ids(random.below(9), topology.num_edges());
    std::vector<int64_t> source(positions.size()), target(positions.size()), times(positions.size());
    calls.run("edges", [&] {
      topology.resolve(direction);
      edges_at(topology, direction, positions,
               {source, target, {}, random.below(2) == 0 ? times : std::span<int64_t>()});
    });
    if (random.below(2) == 0) times.clear();
    calls.run("links", [&] { sample_links(nodes, edges, {0, source, target, times}, how, options); });
    const TypedSeeds seeds{0, source, {}};
    const std::vector<std::vector<int64_t>> counts(nodes.size(), {2, 3});
    calls.run("hgt", [&] {
      topology.resolve(direction);
      sample_hgt(nodes, edges, {&seeds, 1}, counts, 7, 1);
    });
  }
}

void walk(const Topology& topology, Calls& calls) {
  Random& random = calls.random;
  for (int i = 0; i < 4; ++i) {
    WalkOptions options;
    options.length = random.below(12);
    options.p = random.below(2) == 0 ? 1 : 0.25;
    options.q = random.below(2) == 0 ? 1 : 4;
    options.weighted = random.below(2) == 0;
    options.restart = random.below(3) == 0 ? 0.2 : 0;
    options.direction = static_cast<Direction>(random.below(3));
    options.seed = random.next();
    options.threads = 1;
    options.plain = random.below(4) == 0;
    const auto starts = calls.ids(random.below(80), topology.num_nodes());
    std::vector<int64_t> out(starts.size() * (options.length + 1));
    calls.run("walk", [&] { random_walks(topology, starts, options, out); });
  }
}

void draw(const Topology& topology, Calls& calls) {
  Random& random = calls.random;
  for (int i = 0; i < 3; ++i) {
    FanoutOptions options;
    options.count = 1 + random.below(12);
    if (random.below(2) == 0) options.pad = -1;
    options.weighted = random.below(2) == 0;
    options.direction = static_cast<Direction>(random.below(3));
    options.seed = random.next();
    options.threads = 1;
    options.plain = random.below(4) == 0;
    const auto ids = calls.ids(random.below(40), topology.num_nodes());
    std::vector<int64_t> out(ids.size() * options.count);
    calls.run("fanout", [&] { random_fanout(topology, ids, options, out); });
    calls.run("neighbours", [&] { random_neighbours(topology, 0, options); });
  }
  for (int i = 0; i < 3; ++i) {
    NegativeOptions options;
    options.by_degree = random.below(2) == 0;
    options.exclude_edges = random.below(2) == 0;
    options.exclude_self = random.below(2) == 0;
    options.seed = random.next();
    options.threads = 1;
    options.plain = random.below(4) == 0;
    std::optional<std::vector<int64_t>> sources;
    if (random.below(2) == 0) sources = calls.ids(4, topology.num_nodes());
    std::vector<int64_t> source(sources ? 3 * sources->size() : 20), target(source.size());
    calls.run("negatives", [&] { negative_edges(topology, sources, options, source, target); });
  }
}

void use_features(const std::shared_ptr<const FeatureFile>& file, Calls& calls) {
  Random& random = calls.random;
  for (const Matrix& matrix : file->matrices()) {
    for (const Io io : {Io::kAuto, Io::kMmap, Io::kUring, Io::kPread}) {
      GatherOptions options;
      options.io = io;
      options.threads = 1;
      if (random.below(2) == 0) options.out_dtype = DType::kFloat32;
      const auto ids = calls.ids(random.below(24), matrix.rows);
      calls.run("gather", [&] {
        check_row_ids(*file, matrix, ids);  // as in the bindings, before memory is allocated for the rows
        std::vector<std::byte> out(ids.size() * gathered_row_bytes(matrix, options) + 1);  // never null
        gather(*file, matrix, ids, out.data(), options);
      });
    }
  }
}

}  // namespace

void sum_again(std::span<std::byte> file) {
  uint64_t bytes = 0;
  if (file.size() < kPageBytes) return;
  std::memcpy(&bytes, file.data() + kHeaderBytesAt, sizeof bytes);
  if (bytes < kPageBytes || bytes > file.size() || bytes > kMostHeaderBytes) return;
  std::memset(file.data() + kChecksumAt, 0, 4);
  const uint32_t crc = crc32c(file.first(bytes));
  std::memcpy(file.data() + kChecksumAt, &crc, 4);
}

bool parses(std::span<const std::byte> header, uint64_t file_bytes) {
  const auto accepts = [&](auto&& call) {
    try {
      return call();
    } catch (const Error&) {
      return false;
    }
  };
  const bool current = accepts([&] { return parse_header(header, file_bytes, "f"), true; });
  return accepts([&] { return parse_legacy(header, file_bytes, "f").has_value(); }) || current;
}

Outcome run_one(std::span<const std::byte> bytes, bool unchecked) {
  Outcome outcome;
  Calls calls(outcome, make_key(crc32c(bytes)));
  calls.run("parse", [&] { parse_header(bytes, bytes.size(), "f"); });
  calls.run("parse 0.2", [&] { parse_legacy(bytes, bytes.size(), "f"); });
  const MemoryFile memory(bytes);
  limit_allocations(8 * bytes.size() + kSpareBytes);
  std::shared_ptr<const MountedFile> file;
  calls.run("open", [&] {
    file = MountedFile::open(memory.path());
    outcome.opened = true;
  });
  if (file) {
    calls.run("verify", [&] { verify(file, 1, nullptr); });
    if (file->container().kind == Kind::kTopology) {
      const auto topology = Topology::of(file);
      const OnlyArrays poison(*file);
      read_rows(*topology, calls);
      sample(*topology, calls);
      sample_around_edges(*topology, calls);
      walk(*topology, calls);
      draw(*topology, calls);
      if (unchecked) read_unchecked(*topology);
    } else {
      std::shared_ptr<const FeatureFile> features;
      calls.run("features", [&] { features = FeatureFile::open(memory.path()); });
      if (features) {
        const OnlyArrays poison(features->file());
        use_features(features, calls);
      }
    }
  }
  limit_allocations(0);
  return outcome;
}

}  // namespace gz::fuzz
