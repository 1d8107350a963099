// check: a test runner in one page: TEST(name) { CHECK(...); } and a main that runs them all.
//
// Written here because a bare machine has a C++ compiler and no test library, and `make test` must run there.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace gz::test {

struct Case {
  const char* name;
  void (*run)();
};
std::vector<Case>& cases();

struct Register {
  Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail_at(const char* file, int line, const std::string& what) {
  std::ostringstream out;
  out << file << ":" << line << ": " << what;
  throw Failure(out.str());
}

// The message of the exception of type E that `f` throws; fails when it throws nothing or something else.
template <class E>
std::string message_of(const std::function<void()>& f, const char* file, int line) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    fail_at(file, line, std::string("threw another exception: ") + e.what());
  }
  fail_at(file, line, "threw nothing");
}

std::string scratch(const std::string& name);  // a path in a folder that is removed when the run ends

}  // namespace gz::test

#define GZ_JOIN2(a, b) a##b
#define GZ_JOIN(a, b) GZ_JOIN2(a, b)
#define TEST(name)                                                       \
  static void test_##name();                                             \
  static const ::gz::test::Register register_##name(#name, test_##name); \
  static void test_##name()
#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) ::gz::test::fail_at(__FILE__, __LINE__, "expected " #condition); \
  } while (false)
#define CHECK_EQ(a, b)                                       \
  do {                                                       \
    const auto left_ = (a);                                  \
    const auto right_ = (b);                                 \
    if (!(left_ == right_)) {                                \
      std::ostringstream out_;                               \
      out_ << #a " is " << left_ << ", expected " << right_; \
      ::gz::test::fail_at(__FILE__, __LINE__, out_.str());   \
    }                                                        \
  } while (false)
#define CHECK_THROWS(E, part, ...)                                                                             \
  do {                                                                                                         \
    const std::string message_ = ::gz::test::message_of<E>([&] { __VA_ARGS__; }, __FILE__, __LINE__);          \
    if (message_.find(part) == std::string::npos) {                                                            \
      ::gz::test::fail_at(__FILE__, __LINE__, "message '" + message_ + "' lacks '" + std::string(part) + "'"); \
    }                                                                                                          \
  } while (false)
