// edge_text: lines of integers (CSV, TSV, blanks) -> edges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compile/graph_builder.h"
#include "compile/text_chunks.h"

namespace gz {

// How a text is to be read. Columns are counted from 0; -1: none.
struct EdgeTextOptions {
  std::string name;      // for messages
  char delimiter = ',';  // ' ': any run of spaces and tabs
  int width = 2;         // columns of every line; those that are read are below it
  int src = 0, dst = 1, weight = -1, time = -1;
  bool guessed_weight = false;  // the caller did not name the weights: integers of 2^24 and more are refused
  uint64_t begin = 0;           // where the data starts: after a byte order mark and a header
  uint64_t lines_before = 0;    // lines up to there
  bool skip_errors = false;
};

struct EdgeTextReport {
  uint64_t lines = 0, skipped = 0;
  std::vector<std::string> examples;  // of skipped lines
};

// A finite number of at least 0, or an integer; empty, or what is wrong with the field.
std::string parse_weight(std::string_view field, float& weight);
std::string parse_time(std::string_view field, int64_t& time);

// Parses whole lines into `out`. `text` must be followed by kTextPadding readable bytes. Returns false when a bad line
// was met and they are not to be skipped.
bool parse_edges(std::string_view text, const EdgeTextOptions& options, const GraphOptions& graph, IdLimits limits,
                 ChunkWriter& out, ChunkLines& lines);

// A whole file, chunks in parallel.
EdgeTextReport read_edge_file(GraphBuilder& builder, const std::string& path, const EdgeTextOptions& options);

// A text that comes in blocks of bytes, as from a decompressor. `begin` counts in what comes.
class EdgeTextStream {
 public:
  EdgeTextStream(GraphBuilder& builder, EdgeTextOptions options);
  void feed(std::string_view block, uint64_t units);  // units: of GraphBuilder::expect()
  EdgeTextReport finish();

 private:
  void parse(std::string_view whole_lines, uint64_t units);
  GraphBuilder& builder_;
  EdgeTextOptions options_;
  LineCarry carry_;
  LineAccount account_;
  uint64_t to_skip_;
};

}  // namespace gz
