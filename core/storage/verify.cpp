// verify: checks run in slices over all threads; the fault at the lowest position of the first bad field is reported.
#include "storage/verify.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <optional>
#include <vector>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/threads.h"
#include "storage/delta_chain.h"
#include "storage/topology.h"

namespace gz {
namespace {

constexpr size_t kSlice = size_t{1} << 16;      // rows per chunk
constexpr size_t kEdgeSlice = size_t{1} << 16;  // edges a chunk: stays in the second-level cache for its two loops
constexpr size_t kStride = kBlockBytes * 64;    // bytes between two progress reports
constexpr size_t kRowStride = size_t{1} << 22, kEdgeStride = size_t{1} << 26;  // rows and edges between two

// Collects faults from all threads and keeps the one at the lowest position, so that the report does not depend on
// luck.
class FirstFault {
 public:
  void add(uint64_t position, std::string message) {
    std::lock_guard lock(mutex_);
    if (!found_ || position < position_) {
      position_ = position;
      message_ = std::move(message);
      found_ = true;
    }
  }
  void raise_if_any() const {
    if (found_) throw FormatError(message_);
  }

 private:
  std::mutex mutex_;
  bool found_ = false;     // guarded by mutex_
  uint64_t position_ = 0;  // guarded by mutex_
  std::string message_;    // guarded by mutex_
};

class Verifier {
 public:
  Verifier(const std::shared_ptr<const MountedFile>& file, int threads, Progress* progress)
      : shared_(file),
        file_(*file),
        threads_(threads),
        progress_(progress),
        total_(file->container().file_bytes),
        unique_((file->container().properties & kDeduplicated) != 0),
        loopless_((file->container().properties & kNoSelfLoops) != 0) {}

  VerifyReport run() {
    const auto start = Clock::now();
    const Container& c = file_.container();
    VerifyReport report;
    if (file_.composed()) {
      for (size_t i = 0; i <= file_.deltas().size(); ++i) check_file(i, report);
      if (c.kind == Kind::kTopology) check_topology(c);
      file_.check();
      report.seconds = seconds_since(start);
      return report;
    }
    report.checksummed = !file_.legacy();
    for (const ArrayInfo& array : c.arrays) {
      if (report.checksummed) check_digest(array);
      check_padding(array);
      check_bools(array);
      report.bytes += array.bytes;
      ++report.arrays;
    }
    if (c.kind == Kind::kTopology && !c.delta) check_topology(c);
    file_.check();
    report.seconds = seconds_since(start);
    return report;
  }

 private:
  // The base (0) or a delta by itself, and that the rows of a delta go on where the file before it ends.
  void check_file(size_t number, VerifyReport& report) {
    const auto file = MountedFile::open(number == 0 ? file_.path() : file_.deltas()[number - 1]->path());
    const VerifyReport one = Verifier(file, threads_, progress_).run();
    report.bytes += one.bytes;
    report.arrays += one.arrays;
    if (number == 0 || file->container().kind != Kind::kFeatures) return;
    std::vector<std::string> paths;
    for (size_t i = 0; i + 1 < number; ++i) paths.push_back(file_.deltas()[i]->path());
    const auto before = MountedFile::open(file_.path(), Kind::kFeatures, paths);
    for (const ArrayInfo& array : file->container().arrays) {
      const ArrayInfo* old = before->container().find(array.name);
      if (old == nullptr) continue;
      const auto rest = before->bytes_of(*old).subspan(old->bytes / kPageBytes * kPageBytes);
      if (!std::ranges::equal(rest, file->bytes_of(array).first(rest.size()))) {
        fail<FormatError>(file->path(), ": array '", array.name,
                          "' does not start with the last page of the file before it");
      }
    }
  }

  void report_progress(const char* phase, uint64_t done) {
    if (progress_ != nullptr) progress_->report(phase, done, total_);
  }

  void check_digest(const ArrayInfo& array) {
    const auto bytes = file_.bytes_of(array);
    Digest sum;
    for (size_t at = 0; at < bytes.size(); at += kStride) {
      const auto part = bytes.subspan(at, std::min(kStride, bytes.size() - at));
      sum.add_blocks(part, threads_);
      report_progress("checksums", array.offset + at + part.size());
    }
    file_.check();
    if (sum.value() != array.digest) {
      fail<FormatError>(file_.path(), ": array '", array.name, "': digest is ", sum.value(), ", expected ",
                        array.digest, ": its bytes are damaged");
    }
  }

  void check_padding(const ArrayInfo& array) {
    if (file_.legacy()) return;
    const auto all = file_.mapping().bytes();
    for (uint64_t i = array.offset + array.bytes; i < round_up(array.offset + array.bytes, kPageBytes); ++i) {
      if (all[i] != std::byte{0}) {
        fail<FormatError>(file_.path(), ": byte ", i, " after array '", array.name, "' is not zero");
      }
    }
  }

  // NumPy and torch take a bool to be 0 or 1; another byte compares equal to neither.
  void check_bools(const ArrayInfo& array) {
    if (array.dtype != DType::kBool) return;
    const auto bytes = file_.bytes_of(array);
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != bytes.end()) {
      fail<FormatError>(file_.path(), ": array '", array.name, "': element ", bad - bytes.begin(), " is ",
                        static_cast<int>(*bad), ", expected 0 or 1");
    }
  }

  void check_topology(const Container& c) {
    const auto topology = Topology::of(shared_);
    for (const Direction d : {Direction::kOut, Direction::kIn}) {
      if (!(d == Direction::kOut ? has_out(c.direction) : has_in(c.direction))) continue;
      topology->visit(d, [&](const auto& csr) { check_side(csr, d == Direction::kOut ? "out." : "in."); });
    }
  }

  template <class Id>
  void check_side(const Csr<Id>& csr, const std::string& side) {
    if (csr.changed) return check_changed(csr, side);
    check_indptr(csr, side);
    const bool simple = csr.weights == nullptr && !csr.has_times() && !loopless_ && (csr.sorted || !unique_);
    if (simple && neighbours_in_order(csr)) return;
    // Element by element: for what the quick look cannot see, and to find the place of what it saw.
    FirstFault faults;
    in_strides(csr.num_nodes, kRowStride, [&](size_t from, size_t to) {
      parallel_for(to - from, kSlice, threads_, [&](size_t begin, size_t end, int) {
        std::vector<bool> seen;  // check_times' own, kept over the rows of a slice
        for (size_t node = from + begin; node < from + end; ++node) {
          if (!check_row(csr, side, node, seen, faults)) return;  // later rows of this slice come after it
        }
      });
      faults.raise_if_any();
    });
  }

  // The table of changed rows (FORMAT 9), and those rows; all others are the base's.
  template <class Id>
  void check_changed(const Csr<Id>& csr, const std::string& side) {
    const std::string& path = file_.deltas().back()->path();
    const ChangedRows& changed = csr.changed;
    const uint64_t first = round_up(csr.indptr[changed.base_rows], kPositionStep);
    uint64_t count = 0;
    for (uint64_t word = 0; word <= csr.num_nodes / 64; ++word) {
      uint64_t bits = changed.index[2 * word];
      if (changed.index[2 * word + 1] != count) {
        fail<FormatError>(path, ": ", side, "rows.index[", 2 * word + 1, "] = ", changed.index[2 * word + 1],
                          ", expected ", count, ", the number of changed rows before it");
      }
      for (; bits != 0; bits &= bits - 1, ++count) {
        const uint64_t node = 64 * word + static_cast<uint64_t>(std::countr_zero(bits));
        if (node >= csr.num_nodes || count >= changed.count) {
          fail<FormatError>(path, ": ", side, "rows.index[", 2 * word, "] has row ", node, ", but there are ",
                            csr.num_nodes, " rows, of which ", changed.count, " changed");
        }
        check_entry(csr, side, node, count, first, path);
      }
    }
    if (count != changed.count) {
      fail<FormatError>(path, ": ", side, "rows.index has ", count, " rows, but rows.table ", changed.count);
    }
    for (uint64_t node = changed.base_rows; node < csr.num_nodes; ++node) {
      if (!changed.has(node)) fail<FormatError>(path, ": ", side, "rows.index does not have the new row ", node);
    }
    if (csr.start_of(csr.num_nodes) != csr.num_edges) {
      fail<FormatError>(path, ": ", side, "rows have ", csr.start_of(csr.num_nodes),
                        " edges, expected num_edges = ", csr.num_edges);
    }
    FirstFault faults;
    parallel_for(csr.num_nodes, kSlice, threads_, [&](size_t begin, size_t end, int) {
      std::vector<bool> seen;
      for (size_t node = begin; node < end; ++node) {
        if (changed.has(node) && !check_row(csr, side, node, seen, faults)) return;
      }
    });
    faults.raise_if_any();
  }

  // Entry `at` of the table, of the row of `node`. Rows of deltas begin at position `first`.
  template <class Id>
  static void check_entry(const Csr<Id>& csr, const std::string& side, uint64_t node, uint64_t at, uint64_t first,
                          const std::string& path) {
    const ChangedRows& changed = csr.changed;
    const uint64_t begin = changed.table[4 * at], end = changed.table[4 * at + 1], start = changed.table[4 * at + 2];
    if (begin > end || begin < first || end > csr.limit) {
      fail<FormatError>(path, ": ", side, "rows.table[", 4 * at, "]: row ", node, " spans ", begin, " to ", end,
                        ", expected positions from ", first, " to ", csr.limit);
    }
    const uint64_t base_start = csr.indptr[std::min(node, changed.base_rows)];
    const uint64_t base_end = csr.indptr[std::min(node + 1, changed.base_rows)];
    if (start != base_start + changed.shift(at)) {
      fail<FormatError>(path, ": ", side, "rows.table[", 4 * at + 2, "] = ", start, ", expected ",
                        base_start + changed.shift(at));
    }
    const uint64_t shift = changed.shift(at) + (end - begin) - (base_end - base_start);
    if (changed.shift(at + 1) != shift) {
      fail<FormatError>(path, ": ", side, "rows.table[", 4 * at + 3, "] = ", changed.shift(at + 1), ", expected ",
                        shift);
    }
  }

  // Whether every neighbour is below num_nodes and every row in the order that is promised, without saying where not.
  // Rows are in order exactly when each fall of `indices` is at a row's start, so falls are counted twice: in a loop
  // that the compiler turns into vectors, and at row starts. Four times the speed of going row by row
  // (benchmarks/mount.py).
  template <class Id>
  bool neighbours_in_order(const Csr<Id>& csr) {
    std::atomic<bool> good{true};
    in_strides(csr.num_edges, kEdgeStride, [&](size_t from, size_t to) {
      parallel_for(to - from, kEdgeSlice, threads_, [&](size_t begin, size_t end, int) {
        if (!slice_in_order(csr, from + begin, from + end)) good = false;
      });
    });
    return good;
  }

  template <class Id>
  bool slice_in_order(const Csr<Id>& csr, size_t begin, size_t end) const {
    const Id* const at = csr.indices;
    Id most = 0;
    for (size_t i = begin; i < end; ++i) most = std::max(most, at[i]);
    if (most >= csr.num_others) return false;
    if (!csr.sorted) return true;
    const size_t first = std::max<size_t>(begin, 1);
    const auto falls = [&](size_t i) { return unique_ ? at[i] <= at[i - 1] : at[i] < at[i - 1]; };
    size_t all = 0, at_starts = 0;
    for (size_t i = first; i < end; ++i) all += falls(i) ? 1 : 0;
    const uint64_t* const last = csr.indptr + csr.num_nodes;
    const uint64_t* row = std::lower_bound(csr.indptr, last, first);  // the first row that starts in the slice
    for (uint64_t before = 0; row != last && *row < end; ++row) {
      if (*row != before) at_starts += falls(*row) ? 1 : 0;  // empty rows share their start with the next
      before = *row;
    }
    return all == at_starts;
  }

  // work(from, to) over [0, n) in pieces, with a report, and so a chance to stop, after each.
  template <class Work>
  void in_strides(size_t n, size_t stride, const Work& work) {
    report_progress("structure", 0);
    for (size_t from = 0; from < n; from += stride) {
      const size_t to = std::min(n, from + stride);
      work(from, to);
      report_progress("structure", static_cast<uint64_t>(static_cast<double>(to) / static_cast<double>(n) *
                                                         static_cast<double>(total_)));
    }
  }

  template <class Id>
  void check_indptr(const Csr<Id>& csr, const std::string& side) {
    const std::string& path = file_.path();
    if (csr.indptr[0] != 0) fail<FormatError>(path, ": ", side, "indptr[0] = ", csr.indptr[0], ", expected 0");
    FirstFault faults;
    parallel_for(csr.num_nodes, kSlice, threads_, [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; ++i) {
        if (csr.indptr[i + 1] > csr.num_edges) {
          faults.add(i + 1, text(path, ": ", side, "indptr[", i + 1, "] = ", csr.indptr[i + 1],
                                 " is past num_edges = ", csr.num_edges));
          return;
        }
        if (csr.indptr[i + 1] < csr.indptr[i]) {
          faults.add(i + 1, text(path, ": ", side, "indptr[", i + 1, "] = ", csr.indptr[i + 1], " is below indptr[", i,
                                 "] = ", csr.indptr[i]));
          return;
        }
      }
    });
    faults.raise_if_any();
    if (csr.indptr[csr.num_nodes] != csr.num_edges) {
      fail<FormatError>(path, ": ", side, "indptr[", csr.num_nodes, "] = ", csr.indptr[csr.num_nodes],
                        ", expected num_edges = ", csr.num_edges);
    }
  }

  template <class Id>
  bool check_row(const Csr<Id>& csr, const std::string& side, uint64_t node, std::vector<bool>& seen,
                 FirstFault& faults) {
    const std::string& path = file_.path();
    const auto row = csr.row(node);
    for (uint64_t i = row.begin; i < row.end; ++i) {
      const uint64_t id = csr.indices[i];
      if (id >= csr.num_others) {
        faults.add(i, text(path, ": ", side, "indices[", i, "] = ", id, " is past num_nodes = ", csr.num_others));
        return false;
      }
      if (csr.sorted && i > row.begin && id < csr.indices[i - 1]) {
        faults.add(i, text(path, ": ", side, "indices[", i, "] = ", id, " is below its predecessor ",
                           csr.indices[i - 1], ": row ", node, " is not sorted"));
        return false;
      }
      if (unique_ && i > row.begin && id == csr.indices[i - 1]) {
        faults.add(i, text(path, ": ", side, "indices[", i, "] = ", id, " occurs twice in row ", node));
        return false;
      }
      if (loopless_ && id == node) {
        faults.add(i, text(path, ": ", side, "indices[", i, "] is a self-loop of node ", node));
        return false;
      }
    }
    return check_weights(csr, side, row, faults) && check_times(csr, side, row, seen, faults);
  }

  template <class Id>
  bool check_weights(const Csr<Id>& csr, const std::string& side, typename Csr<Id>::Row row, FirstFault& faults) {
    double sum = 0;
    for (uint64_t i = row.begin; i < row.end && csr.weights != nullptr; ++i) {
      if (!(csr.weights[i] >= 0) || !std::isfinite(csr.weights[i])) {
        faults.add(i,
                   text(file_.path(), ": ", side, "weights[", i, "] = ", csr.weights[i], ", expected finite and >= 0"));
        return false;
      }
      sum += csr.weights[i];
      if (csr.cumulative != nullptr && csr.cumulative[i] != sum) {
        faults.add(i, text(file_.path(), ": ", side, "cumulative[", i, "] = ", csr.cumulative[i], ", expected ", sum));
        return false;
      }
    }
    return true;
  }

  template <class Id>
  bool check_times(const Csr<Id>& csr, const std::string& side, typename Csr<Id>::Row row, std::vector<bool>& seen,
                   FirstFault& faults) {
    if (!csr.has_times()) return true;
    seen.assign(row.degree(), false);
    int64_t before = 0;
    for (uint64_t i = row.begin; i < row.end; ++i) {
      const uint64_t at = csr.by_time(i);
      if (at >= row.degree() || seen[at]) {
        faults.add(i, text(file_.path(), ": ", side, "by_time[", i, "] = ", at, " is not in a permutation of its row"));
        return false;
      }
      seen[at] = true;
      const int64_t time = csr.times[row.begin + at];
      if (i > row.begin && time < before) {
        faults.add(i, text(file_.path(), ": ", side, "by_time[", i, "]: time ", time, " comes after ", before));
        return false;
      }
      before = time;
    }
    return true;
  }

  const std::shared_ptr<const MountedFile> shared_;
  const MountedFile& file_;
  const int threads_;
  Progress* progress_;
  const uint64_t total_;
  const bool unique_, loopless_;
};

}  // namespace

VerifyReport verify(const std::shared_ptr<const MountedFile>& file, int threads, Progress* progress) {
  return Verifier(file, threads, progress).run();
}

}  // namespace gz
