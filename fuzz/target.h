// target: one input of the fuzzers: arbitrary bytes as a file, through every call that reads files.
//
// Whatever the bytes are, a call gives a result or throws one of gz's own errors. Anything else ends the process:
// another exception, a read outside the arrays (sanitizer, guard pages), an allocation larger than the file warrants, a
// call that takes more than a second of processor time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gz::fuzz {

struct Outcome {
  bool opened = false;  // the header was accepted
  int answered = 0;     // calls that gave a result
  int refused = 0;      // calls that threw a gz::Error
};

// `unchecked` also reads the rows as a careless kernel would: the control that shows that the harness sees such reads.
Outcome run_one(std::span<const std::byte> file, bool unchecked = false);

// Makes the header's checksum right again, so that a change is seen by the checks behind it.
void sum_again(std::span<std::byte> file);

}  // namespace gz::fuzz
