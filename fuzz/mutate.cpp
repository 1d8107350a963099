// mutate: the fuzzer for machines without clang: mutates valid files and runs the same target.
//
//   fuzz_mutate [--seconds S] [--seed N] [--control] [--headers COUNT]
//
// Prints how many files were tried, opened, rejected. `--control` adds a kernel that trusts the file and must be
// caught. `--headers` tries that many headers on the parsers alone, hundreds of times as fast as whole files.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "base/random.h"
#include "files.h"
#include "format/container.h"
#include "target.h"

using namespace gz;
using namespace gz::fuzz;

namespace {

struct Settings {
  double seconds = 10;
  uint64_t seed = 1;
  bool control = false;
  uint64_t headers = 0;
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
    } else if (word == "--headers" && i + 1 < argc) {
      settings.headers = std::stoull(argv[++i]);
    } else {
      throw std::invalid_argument("usage: fuzz_mutate [--seconds S] [--seed N] [--control] [--headers COUNT]");
    }
  }
  return settings;
}

int fuzz_headers(const Settings& settings) {
  std::vector<std::vector<std::byte>> sound;
  for (uint64_t i = 0; i < 256; ++i) {
    Random random(make_key(settings.seed, i));
    sound.push_back(any_file(random));
  }
  uint64_t accepted = 0;
  for (uint64_t tried = 0; tried < settings.headers; ++tried) {
    Random random(make_key(settings.seed, 1000 + tried));
    const std::vector<std::byte>& file = sound[random.below(sound.size())];
    std::vector<std::byte> header(file.begin(), file.begin() + static_cast<long>(std::min(file.size(), kPageBytes)));
    change(header, random);
    accepted += parses(header, file.size()) ? 1 : 0;
  }
  std::printf("headers=%llu accepted=%llu\n", static_cast<unsigned long long>(settings.headers),
              static_cast<unsigned long long>(accepted));
  return accepted > settings.headers / 20 && accepted < settings.headers ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  const Settings settings = parse(argc, argv);
  if (settings.headers > 0) return fuzz_headers(settings);
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
