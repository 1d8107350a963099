// file_test: the door to the operating system: whole transfers, temporaries, publishing, mappings and their advice.
#include "storage/file.h"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "storage/mapping.h"

using namespace gz;
namespace fs = std::filesystem;

namespace {

std::vector<std::byte> bytes_of(const std::string& s) {
  std::vector<std::byte> out(s.size());
  std::memcpy(out.data(), s.data(), s.size());
  return out;
}

std::string contents(const File& file) {
  std::vector<std::byte> all(file.size());
  file.read_at(all, 0);
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

void write_file(const std::string& path, const std::string& s) {
  File file = File::create(path);
  file.write_at(bytes_of(s), 0);
  file.sync();
}

size_t entries(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST(a_file_is_written_resized_and_read_back) {
  const std::string path = test::scratch("written \xc3\xa9.bin");
  {
    File file = File::create(path);
    file.reserve(100);
    CHECK_EQ(file.size(), 100u);
    file.write_at(bytes_of("hello"), 10);
    file.start_writeback(0, 100);
    file.resize(15);
    file.sync();
    CHECK(file.is_regular());
  }
  const File file = File::open(path);
  CHECK_EQ(contents(file), std::string(10, '\0') + "hello");
  std::vector<std::byte> more(10);
  CHECK_EQ(file.read_some_at(more, 12), 3u);
  CHECK_EQ(file.read_some_at(more, 15), 0u);
  CHECK_EQ(file.read_some_at(more, 1 << 20), 0u);
  CHECK_THROWS(StorageError, "the file ends at byte 15", file.read_at(more, 12));
  file.drop_cache(0, 15);
  CHECK_EQ(contents(file).size(), 15u);
}

TEST(an_error_of_open_names_path_and_reason) {
  const std::string path = test::scratch("absent");
  try {
    File::open(path);
    CHECK(false);
  } catch (const StorageError& e) {
    CHECK_EQ(e.code, ENOENT);
    CHECK_EQ(e.path, path);
    CHECK(std::string(e.what()).find(path + ": cannot open: ") == 0);
  }
  CHECK_THROWS(StorageError, "cannot create", File::create(test::scratch("no_folder/x")));
  CHECK_THROWS(StorageError, "cannot create a spill file", File::create_nameless(test::scratch("no_folder")));
  CHECK_THROWS(StorageError, "cannot get the free space", free_bytes(test::scratch("no_folder")));
}

TEST(a_nameless_file_leaves_nothing) {
  const std::string folder = test::scratch("spill");
  fs::create_directory(folder);
  {
    File spill = File::create_nameless(folder);
    spill.write_at(bytes_of("abc"), 0);
    CHECK_EQ(contents(spill), "abc");
  }
  CHECK_EQ(entries(folder), 0u);
  CHECK(free_bytes(folder) > 0);
}

TEST(publish_replaces_and_old_readers_keep_the_old_file) {
  const std::string target = test::scratch("published"), temporary = temporary_name(target);
  CHECK_EQ(fs::path(temporary).parent_path(), fs::path(target).parent_path());
  CHECK(temporary != temporary_name(target));
  write_file(target, "old");
  const File reader = File::open(target);
  const auto mapped = Mapping::map(reader, 3, Mapping::Access::kReadOnly);
  write_file(temporary, "newer");
  bool replaced = true;
#ifdef _WIN32  // a file system without POSIX renames refuses while the target is mapped: an error, and both files stay
               // intact
  try {
    publish(temporary, target);
  } catch (const StorageError& e) {
    CHECK(std::string(e.what()).find("is it open in another program?") != std::string::npos);
    replaced = false;
  }
#else
  publish(temporary, target);
#endif
  CHECK(fs::exists(temporary) != replaced);
  CHECK_EQ(contents(File::open(target)), replaced ? "newer" : "old");
  CHECK_EQ(contents(reader), "old");
  CHECK_EQ(std::memcmp(mapped->bytes().data(), "old", 3), 0);
}

TEST(publish_says_what_it_could_not_do) {
  CHECK_THROWS(StorageError, "cannot ", publish(test::scratch("absent"), test::scratch("never")));
}

TEST(only_temporaries_without_a_maker_are_removed) {
  const std::string folder = test::scratch("tidy");
  fs::create_directory(folder);
  const std::string target = (fs::path(folder) / "g.gl").string();
  const std::string dead = temporary_name(target), alive = temporary_name(target);
  write_file(dead, "x");
  write_file((fs::path(folder) / "other").string(), "x");
  File maker = File::create(alive);
  CHECK(maker.try_lock());
  CHECK(!File::open(alive).try_lock());
  remove_abandoned_temporaries(target);
  CHECK(!fs::exists(dead) && fs::exists(alive));
  CHECK_EQ(entries(folder), 2u);
  maker = File();
  remove_abandoned_temporaries(target);
  CHECK(!fs::exists(alive));
}

TEST(folders_of_paths) {
  CHECK_EQ(folder_of("x"), ".");
  CHECK_EQ(folder_of("/x"), "/");
  CHECK_EQ(folder_of("a/b/c"), "a/b");
}

TEST(a_copy_on_write_mapping_keeps_writes_to_itself) {
  const std::string path = test::scratch("mapped");
  write_file(path, std::string(5000, 'a'));
  const File file = File::open(path);
  const auto engine = Mapping::map(file, 5000, Mapping::Access::kReadOnly);
  const auto user = Mapping::map(file, 5000, Mapping::Access::kCopyOnWrite);
  user->writable()[4999] = std::byte{'b'};
  CHECK(user->bytes()[4999] == std::byte{'b'});
  CHECK(engine->bytes()[4999] == std::byte{'a'});
  CHECK_EQ(contents(file), std::string(5000, 'a'));
  CHECK(!user->damaged());
  user->check();
}

TEST(advice_is_taken_anywhere_and_an_empty_mapping_is_empty) {
  const std::string path = test::scratch("advised");
  write_file(path, std::string(10000, 'a'));
  const auto mapping = Mapping::map(File::open(path), 10000, Mapping::Access::kReadOnly);
  using Advice = Mapping::Advice;
  for (const Advice a : {Advice::kNormal, Advice::kRandom, Advice::kSequential, Advice::kWillNeed, Advice::kDontNeed}) {
    mapping->advise(5000, 1, a);
    mapping->advise(9999, SIZE_MAX, a);
    mapping->advise(10000, 5, a);
  }
  mapping->populate(4097, SIZE_MAX);
  std::vector<unsigned char> pages(3, 0);
  if (mapping->resident(0, 10000, pages.data())) CHECK((pages[0] & 1) == 1);
  CHECK(mapping->bytes()[9999] == std::byte{'a'});
  CHECK(Mapping::map(File::open(path), 0, Mapping::Access::kReadOnly)->bytes().empty());
}
