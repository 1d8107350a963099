// side_delta: rows are measured first, so that their places are known, and then put together a few million edges at a
// time, by all threads.
#include "compile/append/side_delta.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "storage/page_requests.h"

namespace gz {
namespace {

constexpr uint64_t kRoundEdges = uint64_t{1} << 21;  // put together at a time, unless one row has more
constexpr size_t kRows = 64;                         // a chunk of a thread

template <class Id>
class CsrDelta final : public SideDelta {
 public:
  CsrDelta(const Csr<Id>& csr, std::string prefix, uint64_t rows_after, bool dedup, SideChange edges,
           const TopologyChange& change, uint64_t first_id)
      : csr_(csr),
        prefix_(std::move(prefix)),
        rows_after_(rows_after),
        dedup_(dedup),
        edges_(std::move(edges)),
        change_(change),
        first_id_(first_id),
        first_position_(round_up(csr.limit, kPositionStep)) {}

  void plan(const AppendOptions& options) {
    find_changed();
    ends_.resize(nodes_.size() + 1);
    ask_for(0, nodes_.size(), options.threads, false);
    std::vector<RowCounts> sums(static_cast<size_t>(options.threads));
    std::vector<uint64_t> before(static_cast<size_t>(options.threads));  // edges of the rows until now
    parallel_for(nodes_.size(), kRows, options.threads, [&](size_t begin, size_t end, int worker) {
      RowPieces<Id> pieces(csr_, dedup_);
      RowCounts& sum = sums[static_cast<size_t>(worker)];
      for (size_t k = begin; k < end; ++k) {
        const auto old = old_row(k);
        before[static_cast<size_t>(worker)] += old.degree();
        if (!dedup_ && removed_[k] == removed_[k + 1]) {
          ends_[k + 1] = old.degree() + (added_[k + 1] - added_[k]);
          continue;
        }
        pieces_of(pieces, k);
        const RowCounts& row = pieces.counts();
        ends_[k + 1] = row.degree;
        sum.removed += row.removed;
        sum.missing += row.missing;
        sum.duplicates += row.duplicates;
      }
    });
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    for (const RowCounts& sum : sums) {
      counts.removed += sum.removed;
      counts.missing += sum.missing;
      counts.duplicates += sum.duplicates;
    }
    counts.degree = ends_.back();
    rows = nodes_.size();
    edges = csr_.num_edges - std::accumulate(before.begin(), before.end(), uint64_t{0}) + counts.degree;
    fill_table();
  }

  void declare(Container& container) const override {
    const auto add = [&](const char* name, DType dtype, uint64_t count) {
      ArrayInfo array;
      array.name = prefix_ + name;
      array.dtype = dtype;
      array.shape = {count};
      container.arrays.push_back(std::move(array));
    };
    const uint64_t own = ends_.back();
    add("indices", sizeof(Id) == 4 ? DType::kUInt32 : DType::kUInt64, own);
    if (csr_.weights != nullptr) add("weights", DType::kFloat32, own);
    if (csr_.cumulative != nullptr) add("cumulative", DType::kFloat64, own);
    if (csr_.has_edge_ids()) add("edge_ids", csr_.edge_ids32 != nullptr ? DType::kUInt32 : DType::kUInt64, own);
    if (csr_.times != nullptr) add("times", DType::kInt64, own);
    if (csr_.has_times()) add("by_time", csr_.by_time32 != nullptr ? DType::kUInt32 : DType::kUInt64, own);
    add("rows.index", DType::kUInt64, index_.size());
    add("rows.table", DType::kUInt64, table_.size());
  }

  void write(ContainerWriter& writer, const AppendOptions& options) override {
    for (size_t begin = 0; begin < nodes_.size();) {
      const auto past =
          std::upper_bound(ends_.begin() + static_cast<ptrdiff_t>(begin) + 1, ends_.end(), ends_[begin] + kRoundEdges);
      const size_t end = std::max(begin + 1, static_cast<size_t>(past - ends_.begin()) - 1);
      write_round(writer, begin, end, options);
      begin = end;
      if (options.progress != nullptr) options.progress->report("appending", ends_[begin], ends_.back());
    }
    writer.append<uint64_t>(writer.index_of(prefix_ + "rows.index"), index_);
    writer.append<uint64_t>(writer.index_of(prefix_ + "rows.table"), table_);
  }

 private:
  using Row = typename Csr<Id>::Row;

  Row old_row(size_t k) const { return nodes_[k] < csr_.num_nodes ? csr_.row(nodes_[k]) : Row{0, 0}; }

  // Rows with an added or removed edge, and all rows of new nodes.
  void find_changed() {
    const auto& [added, removed] = edges_;
    const auto next_of = [](const auto& list, size_t at) { return at < list.size() ? list[at].row : UINT64_MAX; };
    size_t a = 0, r = 0;
    for (uint64_t next_new = csr_.num_nodes;;) {
      const uint64_t node =
          std::min({next_of(added, a), next_of(removed, r), next_new < rows_after_ ? next_new : UINT64_MAX});
      added_.push_back(a);
      removed_.push_back(r);
      if (node == UINT64_MAX) break;
      nodes_.push_back(node);
      while (next_of(added, a) == node) ++a;
      while (next_of(removed, r) == node) ++r;
      if (node == next_new) ++next_new;
    }
  }

  std::span<const RowPiece> pieces_of(RowPieces<Id>& pieces, size_t k) const {
    return pieces.of(old_row(k), std::span(edges_.added).subspan(added_[k], added_[k + 1] - added_[k]), added_[k],
                     std::span(edges_.removed).subspan(removed_[k], removed_[k + 1] - removed_[k]));
  }

  // Prefetches what rows [begin, end) of the change read of the files before.
  void ask_for(size_t begin, size_t end, int threads, bool edges_too) const {
    PagePrefetcher pages(*csr_.file, threads);
    for (size_t k = begin; k < end; ++k) {
      if (nodes_[k] < csr_.num_nodes) pages.add(csr_.bounds_of(nodes_[k]), 2);
    }
    pages.request_added();
    const auto ask = [&](const auto* array) {
      for (size_t k = begin; array != nullptr && edges_too && k < end; ++k) {
        if (const Row row = old_row(k); row.begin < row.end) pages.add(array + row.begin, row.degree());
      }
      pages.request_added();
    };
    ask(csr_.indices), ask(csr_.weights), ask(csr_.times), ask(csr_.edge_ids32), ask(csr_.edge_ids64);
  }

  void fill_table() {
    const ChangedRows& earlier = csr_.changed;
    const uint64_t words = rows_after_ / 64 + 1, words_before = earlier ? csr_.num_nodes / 64 + 1 : 0;
    index_.assign(2 * words, 0);
    for (uint64_t w = 0; w < words_before; ++w) index_[2 * w] = earlier.index[2 * w];
    for (const uint64_t node : nodes_) index_[2 * (node >> 6)] |= uint64_t{1} << (node & 63);
    uint64_t shift = 0;
    size_t k = 0;  // the next row that is written
    for (uint64_t w = 0; w < words; ++w) {
      index_[2 * w + 1] = table_.size() / 4;
      for (uint64_t bits = index_[2 * w]; bits != 0; bits &= bits - 1) {
        const uint64_t node = w * 64 + static_cast<uint64_t>(std::countr_zero(bits));
        const bool is_new = k < nodes_.size() && nodes_[k] == node;
        const Row row = is_new ? Row{first_position_ + ends_[k], first_position_ + ends_[k + 1]} : csr_.row(node);
        k += is_new ? 1 : 0;
        const uint64_t start = csr_.indptr[std::min(node, earlier.base_rows)];
        const uint64_t base_degree = csr_.indptr[std::min(node + 1, earlier.base_rows)] - start;
        table_.insert(table_.end(), {row.begin, row.end, start + shift, shift + row.degree() - base_degree});
        shift = table_.back();
      }
    }
  }

  template <class T>
  T* room(Buffer& buffer, uint64_t count) const {
    if (buffer.size() < count * sizeof(T)) {
      buffer = Buffer();
      buffer = Buffer(count * sizeof(T), Purpose::kCompile);
    }
    return buffer.as<T>();
  }

  // Fills an array of the round, from the old one and the added edges, and appends it.
  template <class T, class Added>
  void write_array(ContainerWriter& writer, const char* name, const T* old, size_t begin, size_t end, Buffer& buffer,
                   const AppendOptions& options, const Added& added_value) const {
    T* const out = room<T>(buffer, ends_[end] - ends_[begin]);
    parallel_for(end - begin, kRows, options.threads, [&](size_t from, size_t to, int) {
      RowPieces<Id> pieces(csr_, dedup_);
      for (size_t k = begin + from; k < begin + to; ++k) {
        T* at = out + (ends_[k] - ends_[begin]);
        for (const RowPiece& piece : pieces_of(pieces, k)) {
          if (!piece.added) {
            at = std::copy_n(old + piece.from, piece.count, at);
            continue;
          }
          for (uint64_t i = 0; i < piece.count; ++i) *at++ = static_cast<T>(added_value(edges_.added[piece.from + i]));
        }
      }
    });
    append(writer, name, out, begin, end);
  }

  template <class T>
  void append(ContainerWriter& writer, const char* name, const T* values, size_t begin, size_t end) const {
    writer.append<T>(writer.index_of(prefix_ + name), std::span<const T>(values, ends_[end] - ends_[begin]));
  }

  void write_round(ContainerWriter& writer, size_t begin, size_t end, const AppendOptions& options) {
    ask_for(begin, end, options.threads, true);
    const auto put = [&](const char* name, const auto* old, Buffer& buffer, const auto& added_value) {
      if (old != nullptr) write_array(writer, name, old, begin, end, buffer, options, added_value);
    };
    const auto id_of = [&](const AddedEdge& edge) {
      return change_.edge_ids != nullptr ? static_cast<uint64_t>(change_.edge_ids[edge.index]) : first_id_ + edge.index;
    };
    put("indices", csr_.indices, indices_, [](const AddedEdge& edge) { return edge.neighbour; });
    put("weights", csr_.weights, weights_, [&](const AddedEdge& edge) { return change_.weights[edge.index]; });
    put("edge_ids", csr_.edge_ids32, ids_, id_of);
    put("edge_ids", csr_.edge_ids64, ids_, id_of);
    put("times", csr_.times, times_, [&](const AddedEdge& edge) { return change_.times[edge.index]; });
    if (csr_.cumulative != nullptr) {
      double* const sums = room<double>(sums_, ends_[end] - ends_[begin]);
      each_row(begin, end, options, [&](uint64_t from, uint64_t to) {
        double sum = 0;
        for (uint64_t i = from; i < to; ++i) sums[i] = sum += weights_.as<float>()[i];
      });
      append<double>(writer, "cumulative", sums, begin, end);
    }
    if (csr_.by_time32 != nullptr) order_by_time<uint32_t>(writer, begin, end, options);
    if (csr_.by_time64 != nullptr) order_by_time<uint64_t>(writer, begin, end, options);
  }

  // work(from, to) for the edges of every row of the round.
  template <class Work>
  void each_row(size_t begin, size_t end, const AppendOptions& options, const Work& work) const {
    parallel_for(end - begin, kRows, options.threads, [&](size_t from, size_t to, int) {
      for (size_t k = begin + from; k < begin + to; ++k) work(ends_[k] - ends_[begin], ends_[k + 1] - ends_[begin]);
    });
  }

  template <class Position>
  void order_by_time(ContainerWriter& writer, size_t begin, size_t end, const AppendOptions& options) {
    Position* const order = room<Position>(order_, ends_[end] - ends_[begin]);
    each_row(begin, end, options, [&](uint64_t from, uint64_t to) {
      const int64_t* times = times_.as<int64_t>() + from;
      std::iota(order + from, order + to, Position{0});
      std::stable_sort(order + from, order + to, [&](Position a, Position b) { return times[a] < times[b]; });
    });
    append<Position>(writer, "by_time", order, begin, end);
  }

  const Csr<Id>& csr_;
  const std::string prefix_;
  const uint64_t rows_after_;
  const bool dedup_;
  const SideChange edges_;
  const TopologyChange& change_;
  const uint64_t first_id_, first_position_;
  std::vector<uint64_t> nodes_;                            // whose rows are written, ascending
  std::vector<size_t> added_, removed_;                    // the first edge of each, and the end of the last
  std::vector<uint64_t> ends_;                             // of the rows, one after the other; starts with 0
  std::vector<uint64_t> index_, table_;                    // of changed rows
  Buffer indices_, weights_, ids_, times_, sums_, order_;  // of a round
};

}  // namespace

std::unique_ptr<SideDelta> plan_side(const Topology& topology, Direction side, uint64_t rows, SideChange edges,
                                     const TopologyChange& change, uint64_t first_id, const AppendOptions& options) {
  const bool dedup = (topology.file().container().properties & kDeduplicated) != 0;
  return topology.visit(side, [&]<class Id>(const Csr<Id>& csr) -> std::unique_ptr<SideDelta> {
    auto delta = std::make_unique<CsrDelta<Id>>(csr, side == Direction::kOut ? "out." : "in.", rows, dedup,
                                                std::move(edges), change, first_id);
    delta->plan(options);
    return delta;
  });
}

}  // namespace gz
