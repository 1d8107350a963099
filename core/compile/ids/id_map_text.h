// id_map_text: lines with arbitrary ids -> edges between dense ids.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "compile/ids/id_map_builder.h"
#include "compile/text/text_chunks.h"

namespace gz {

// How to read the text. Columns are numbered from 0; -1: none. With a target of -1, lines contain keys instead of
// edges.
struct KeyTextOptions {
  std::string name;      // for messages
  char delimiter = ',';  // ' ': any run of spaces and tabs
  int width = 2;         // columns of every line
  int src = 0, dst = 1, weight = -1, time = -1;
  uint64_t lines_before = 0;  // of the file, before the first fed byte
  bool skip_errors = false;
  bool refuse_missing = true;  // NULL, nan and the like are not ids
};

// One block of edges; ids as returned by IdMapBuilder::map().
struct KeyEdges {
  std::vector<int64_t> src, dst, times;
  std::vector<float> weights;
};

// What one chunk of lines holds.
struct ParsedKeys {
  std::vector<Key> keys;
  std::vector<float> weights;
  std::vector<int64_t> times;
  std::deque<std::string> unescaped;  // keys that differ from the text (quotes)
  ChunkLines lines;
};

// Parses whole lines. Returns false at a bad line, unless bad lines are skipped.
bool parse_keys(std::string_view text, const KeyTextOptions& options, bool text_keys, ParsedKeys& out);

class KeyText {
 public:
  KeyText(IdMapBuilder& ids, KeyTextOptions options);
  // The edges of all complete lines so far; `last`: the remainder is a line too.
  KeyEdges feed(std::string_view block, bool last);
  const LineAccount& account() const { return account_; }

 private:
  IdMapBuilder& ids_;
  KeyTextOptions options_;
  LineCarry carry_;
  LineAccount account_;
  std::vector<ParsedKeys> parsed_;
  std::vector<Key> keys_;
};

}  // namespace gz
