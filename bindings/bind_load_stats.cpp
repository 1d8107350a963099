// bind_load_stats: the statistics of a loader, as dicts.
#include "bind_load_stats.h"

namespace gz::bindings {

nb::dict to_python(const LoadStats& s) {
  nb::dict d;
  d["batches"] = s.batches;
  d["nodes"] = s.nodes;
  d["edges"] = s.edges;
  d["sample_seconds"] = s.sample_seconds;
  d["read_seconds"] = s.read_seconds;
  d["copy_seconds"] = s.copy_seconds;
  d["blocked_seconds"] = s.blocked_seconds;
  d["starved_seconds"] = s.starved_seconds;
  d["consumer_seconds"] = s.consumer_seconds;
  d["depth_sum"] = s.depth_sum;
  d["peak_bytes"] = s.peak_bytes;
  d["remade"] = s.remade;
  d["topology_bytes_read"] = s.topology_bytes_read;
  d["rows"] = s.gather.rows;
  d["rows_mapped"] = s.gather.rows_mapped;
  d["rows_cached"] = s.gather.rows_cached;
  d["bytes_useful"] = s.gather.bytes_useful;
  d["bytes_read"] = s.gather.bytes_read;
  d["reads"] = s.gather.reads;
  nb::list device;
  for (const auto& part : s.device) {
    nb::dict one;
    one["rows"] = part.rows;
    one["hits"] = part.hits;
    one["admitted"] = part.admitted;
    device.append(one);
  }
  d["device"] = device;
  return d;
}

namespace {

nb::dict to_python(const WindowStats& s) {
  nb::dict d;
  d["budget_bytes"] = s.budget_bytes;
  d["capacity"] = s.capacity;
  d["held"] = s.held;
  d["batches"] = s.target;
  d["circles"] = s.circles;
  d["stalls"] = s.stalls;
  d["rows_read"] = s.rows_read;
  d["rows_shared"] = s.rows_shared;
  d["rows_from_ranks"] = s.rows_taken;
  d["reads"] = s.reads;
  d["bytes_read"] = s.bytes_read;
  d["read_seconds"] = s.read_seconds;
  d["rank_seconds"] = s.rank_seconds;
  return d;
}

// The number of other ranks of this host that currently share their reads with this one.
int ranks_met(const LoadPlan& plan) {
  int met = 0;
  for (uint32_t rank = 0; plan.group && rank < plan.options.local.count; ++rank) {
    met += plan.group->member(rank) ? 1 : 0;
  }
  return met;
}

}  // namespace

nb::dict to_python(const LoadPlan& plan) {
  Division division;
  std::vector<std::shared_ptr<RowWindow>> held;
  int met = 0;
  {
    // Without the GIL: an epoch that starts holds this lock while it reports progress to Python.
    nb::gil_scoped_release release;
    std::lock_guard lock(plan.mutex);
    division = plan.division;
    held = plan.windows;
    met = ranks_met(plan);
  }
  nb::dict d;
  d["threads"] = division.threads;
  d["memory"] = division.memory;
  d["local_world_size"] = plan.options.local.count;
  d["host_memory"] = division.memory * plan.options.local.count;
  d["local_ranks_met"] = met;
  d["depth"] = division.depth;
  d["window"] = division.window;
  d["group"] = division.group;
  d["fixed_bytes"] = division.fixed_bytes;
  d["sampling_bytes"] = division.sizes.sampling;
  d["waiting_bytes"] = division.sizes.packed;
  d["batch_bytes"] = division.sizes.batch;
  d["held_rows_bytes"] = division.store_bytes;
  d["page_cache_bytes"] = division.shared_bytes;
  d["topology"] = division.merges ? "merged reads" : "page cache";
  nb::dict ways, windows, rows;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    ways[plan.parts[i].name.c_str()] = way_name(division.ways[i]);
    rows[plan.parts[i].name.c_str()] = division.sizes.rows[i];
    if (held[i]) windows[plan.parts[i].name.c_str()] = to_python(held[i]->stats());
  }
  d["ways"] = ways;
  d["windows"] = windows;
  d["rows"] = rows;
  nb::dict disk;
  disk["reads_per_second"] = division.disk.reads;
  disk["bytes_per_second"] = division.disk.bytes;
  disk["gap_bytes"] = division.disk.gap();
  d["disk"] = disk;
  d["why"] = division.why;
  return d;
}

nb::dict to_python(const Estimate& e, const std::vector<Part>& parts) {
  nb::dict d, ways, rows, row_bytes, slots, hits;
  d["threads"] = e.division.threads;
  d["memory"] = e.division.memory;
  d["window"] = e.division.window;
  d["batch_bytes"] = e.division.sizes.batch;
  for (size_t i = 0; i < parts.size(); ++i) {
    ways[parts[i].name.c_str()] = way_name(e.division.ways[i]);
    rows[parts[i].name.c_str()] = e.division.sizes.rows[i];
    row_bytes[parts[i].name.c_str()] = matrix_of(parts[i]).row_bytes;
    slots[parts[i].name.c_str()] = e.slots[i];
    hits[parts[i].name.c_str()] = e.hits[i];
  }
  d["row_bytes"] = row_bytes;
  d["ways"] = ways;
  d["rows"] = rows;
  d["slots"] = slots;
  d["hits"] = hits;
  d["batches"] = e.batches;
  d["topology_bytes"] = e.topology;
  d["mapped_bytes"] = e.mapped;
  d["swept_bytes"] = e.swept;
  d["swept_rows_bytes"] = e.swept_rows;
  d["load_seconds"] = e.load_seconds;
  d["disk_seconds"] = e.disk_seconds;
  d["sample_seconds"] = e.sample_seconds;
  d["why"] = e.division.why;
  return d;
}

}  // namespace gz::bindings
