// target: one input of the fuzzers: arbitrary bytes as a file, through every call that reads files.
//
// For any bytes, a call returns a result or throws a gz::Error. Anything else ends the process:
// another exception, a read outside the arrays (sanitizer, guard pages), an allocation larger than the file warrants, a
// call that takes more than a second of processor time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gz::fuzz {

struct Outcome {
  bool opened = false;  // the header was accepted
  int answered = 0;     // calls that returned a result
  int refused = 0;      // calls that threw a gz::Error
};

// `unchecked` also reads the rows as a careless kernel would: the control that shows that the harness sees such reads.
Outcome run_one(std::span<const std::byte> file, bool unchecked = false);

// Whether one of the parsers accepts the first bytes of a file of `file_bytes`.
bool parses(std::span<const std::byte> header, uint64_t file_bytes);

// Corrects the header's checksum, so that later checks see the mutation.
void sum_again(std::span<std::byte> file);

}  // namespace gz::fuzz
