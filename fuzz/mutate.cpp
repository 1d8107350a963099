// mutate: the fuzzer for machines without clang: mutates valid files and runs the same target.
//
//   fuzz_mutate [--seconds S] [--seed N] [--control]
//
// Prints how many files were tried, opened, rejected. `--control` adds a kernel that trusts the file and must be
// caught.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "base/random.h"
#include "files.h"
#include "target.h"

using namespace gz;
using namespace gz::fuzz;

namespace {

struct Settings {
  double seconds = 10;
  uint64_t seed = 1;
  bool control = false;
};

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--control") {
      settings.control = true;
    } else if (word == "--seconds" && i + 1 < argc) {
      settings.seconds = std::stod(argv[++i]);
    } else if (word == "--seed" && i + 1 < argc) {
      settings.seed = std::stoull(argv[++i]);
    } else {
      throw std::invalid_argument("usage: fuzz_mutate [--seconds S] [--seed N] [--control]");
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  for (const bool topology : {true, false}) {  // creates rings and pools before allocations are limited
    Random random(make_key(settings.seed, topology));
    const Outcome sound = run_one(topology ? topology_file(random) : features_file(random));
    if (!sound.opened) throw std::logic_error("a sound file was refused: nothing would be tested");
  }
  uint64_t tried = 0, opened = 0, answered = 0, refused = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  for (; elapsed() < settings.seconds; ++tried) {
    Random random(make_key(settings.seed, 100 + tried));
    std::vector<std::byte> file = any_file(random);
    change(file, random);
    const Outcome outcome = run_one(file, settings.control);
    opened += outcome.opened ? 1 : 0;
    answered += static_cast<uint64_t>(outcome.answered);
    refused += static_cast<uint64_t>(outcome.refused);
  }
  std::printf("files=%llu opened=%llu answered=%llu refused=%llu seconds=%.1f\n",
              static_cast<unsigned long long>(tried), static_cast<unsigned long long>(opened),
              static_cast<unsigned long long>(answered), static_cast<unsigned long long>(refused), elapsed());
  return opened > tried / 20 && refused > tried / 20 ? 0 : 2;  // all or nothing would mean that little is tested
}
