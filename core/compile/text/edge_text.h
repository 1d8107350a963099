// edge_text: lines of integers (CSV, TSV, blanks) -> edges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compile/build/graph_builder.h"
#include "compile/text/text_chunks.h"

namespace gz {

// How to read a text. Columns are numbered from 0; -1: none.
struct EdgeTextOptions {
  std::string name;      // for messages
  char delimiter = ',';  // ' ': any run of spaces and tabs
  int width = 2;         // columns of every line
  int src = 0, dst = 1, weight = -1, time = -1;
  bool guessed_weight = false;  // the weight column was guessed: integers of 2^24 and more are rejected
  uint64_t begin = 0;           // where the data starts: after a byte order mark and a header
  uint64_t lines_before = 0;    // lines up to there
  bool skip_errors = false;
};

struct EdgeTextReport {
  uint64_t lines = 0, skipped = 0;
  std::vector<std::string> examples;  // of skipped lines
};

// Parses a finite number of at least 0, or an integer. Returns an empty string, or the error.
std::string parse_weight(std::string_view field, float& weight);
std::string parse_time(std::string_view field, int64_t& time);

// Parses whole lines into `out`. `text` must be followed by kTextPadding readable bytes. Returns false at a bad
// line, unless bad lines are skipped.
bool parse_edges(std::string_view text, const EdgeTextOptions& options, const GraphOptions& graph, IdLimits limits,
                 ChunkWriter& out, ChunkLines& lines);

// A whole file, chunks in parallel.
EdgeTextReport read_edge_file(GraphBuilder& builder, const std::string& path, const EdgeTextOptions& options);

// A text that arrives in blocks of bytes, such as from a decompressor. `begin` is an offset in that stream.
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
