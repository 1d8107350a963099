// main: runs every TEST, or those whose name contains the first argument.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <system_error>

#include "check.h"

namespace gz::test {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

namespace {
std::filesystem::path g_folder;
}

std::string scratch(const std::string& name) { return (g_folder / name).string(); }

}  // namespace gz::test

int main(int argc, char** argv) {
  using namespace gz::test;
  std::random_device entropy;
  g_folder = std::filesystem::temp_directory_path() / ("graphzero-core-" + std::to_string(entropy()));
  std::filesystem::create_directory(g_folder);
  int passed = 0, failed = 0;
  for (const Case& test : cases()) {
    if (argc > 1 && std::string(test.name).find(argv[1]) == std::string::npos) continue;
    try {
      test.run();
      ++passed;
    } catch (const std::exception& e) {
      std::printf("FAILED %s\n  %s\n", test.name, e.what());
      ++failed;
    }
  }
  std::error_code left;  // Wine keeps a folder for a moment after its last file is gone
  std::filesystem::remove_all(g_folder, left);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
