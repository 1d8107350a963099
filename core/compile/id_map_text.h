// id_map_text: lines whose ids may be anything -> edges between dense ids.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "compile/id_map_builder.h"
#include "compile/text_chunks.h"

namespace gz {

// How the text is to be read. Columns are counted from 0; -1: none. A target of -1: the lines list keys, no edges.
struct KeyTextOptions {
  std::string name;      // for messages
  char delimiter = ',';  // ' ': any run of spaces and tabs
  int width = 2;         // columns of every line; those that are read are below it
  int src = 0, dst = 1, weight = -1, time = -1;
  uint64_t lines_before = 0;  // of the file, before the text that is fed
  bool skip_errors = false;
  bool refuse_missing = true;  // NULL, nan and the like are not ids
};

// One block of edges; ids as IdMapBuilder::map() gives them.
struct KeyEdges {
  std::vector<int64_t> src, dst, times;
  std::vector<float> weights;
};

// What one chunk of lines holds.
struct ParsedKeys {
  std::vector<Key> keys;
  std::vector<float> weights;
  std::vector<int64_t> times;
  std::deque<std::string> unescaped;  // keys that do not stand in the text as they are
  ChunkLines lines;
};

// Parses whole lines. Returns false at a bad line that is not to be skipped.
bool parse_keys(std::string_view text, const KeyTextOptions& options, bool text_keys, ParsedKeys& out);

class KeyText {
 public:
  KeyText(IdMapBuilder& ids, KeyTextOptions options);
  // The edges of the lines that are whole by now; `last`: the rest is a line too.
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
