// stats: what readers did.
#include "load/stats.h"

namespace gz {

void LoadStats::add(const GatherStats& gathered) {
  gather.add(gathered);
  read_seconds += gathered.read_seconds;
  copy_seconds += gathered.copy_seconds;
}

std::vector<WindowStats> reads_of(const std::vector<std::shared_ptr<RowReader>>& readers) {
  std::vector<WindowStats> reads;
  for (const auto& reader : readers) reads.push_back(reader->stats().value_or(WindowStats{}));
  return reads;
}

void add_reads(LoadStats& stats, const std::vector<std::shared_ptr<RowReader>>& readers,
               const std::vector<WindowStats>& before) {
  for (size_t part = 0; part < readers.size() && part < before.size(); ++part) {
    const auto window = readers[part]->stats();
    if (!window) continue;
    stats.gather.bytes_read += window->bytes_read - before[part].bytes_read;
    stats.gather.reads += window->reads - before[part].reads;
    stats.read_seconds += window->read_seconds - before[part].read_seconds;
    stats.windows.push_back(*window);
  }
}

}  // namespace gz
