// Fields of lines: what delimits, what quotes protect, and how many there are.
#include "compile/text/fields.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "check.h"
#include "compile/text/number_text.h"

using namespace gz;

namespace {

using Words = std::vector<std::string>;

std::string fault_of(std::string_view line, size_t read, size_t width, char delimiter = ',') {
  std::deque<std::string> unescaped;
  Fields fields({delimiter}, unescaped);
  std::string_view field;
  size_t taken = 0;
  if (!fields.start(line)) return "no fields";
  while (taken < read && fields.next(field)) ++taken;
  return fields.end(taken, width);
}

}  // namespace

TEST(fields_are_those_of_rfc_4180) {
  CHECK(split_fields("a,b,,c\r", {}) == (Words{"a", "b", "", "c"}));
  CHECK(split_fields(R"( "a,b" , "say ""hi""" ,"" , x y )", {}) == (Words{"a,b", R"(say "hi")", "", "x y"}));
  CHECK(split_fields(R"(a"b,c)", {}) == (Words{R"(a"b)", "c"}));
  CHECK(split_fields("\ta\t \tb\t", {'\t'}) == (Words{"", "a", "", "b", ""}));
  CHECK(split_fields(R"(  a "b c"  d )", {' '}) == (Words{"a", "b c", "d"}));
  CHECK(split_fields("# a,b", {}).empty());
  CHECK(split_fields("# a,b", {',', true, false}) == (Words{"# a", "b"}));
  CHECK(split_fields(R"("a",b)", {',', false}) == (Words{R"("a")", "b"}));
  CHECK_THROWS(InputError, "does not end on its line", split_fields(R"("a,b)", {}));
  CHECK_THROWS(InputError, "text after a closing quote", split_fields(R"("a"b,c)", {}));
}

TEST(lines_have_as_many_fields_as_the_first) {
  for (const size_t read : {size_t{1}, size_t{2}, size_t{3}}) {
    CHECK_EQ(fault_of("1,2,3", read, 3), "");
    CHECK_EQ(fault_of("1,2,3,", read, 3), "");
    CHECK_EQ(fault_of("1,2,\"3,4\"", read, 3), "");
    CHECK_EQ(fault_of("1,2,\"3\",", read, 3), "");
    CHECK_EQ(fault_of(" 1  2 3 ", read, 3, ' '), "");
    CHECK(fault_of("1,2", read, 3).starts_with("found 2 columns, expected 3 separated by ','"));
    CHECK(fault_of("1,2,3,4", read, 3).starts_with("found 4 columns, expected 3"));
    CHECK(fault_of("1,2,3,,", read, 3).starts_with("found 5 columns, expected 3"));
    CHECK(fault_of("1 2 3 4", read, 3, ' ').starts_with("found 4 columns, expected 3 separated by blanks"));
  }
  CHECK(fault_of("1,\"2", 1, 2).starts_with("a quoted field does not end on its line"));
  CHECK_EQ(fault_of("  ", 1, 2), "no fields");
}

TEST(numbers_without_ids) {
  NumberText<double> text({"n", ',', 2, 1, false, 2});
  std::vector<double> all;
  for (const std::string_view block : {"1,2\n\"3\"", ",4.5\n# c\n\n-1e3,", "\n"}) {
    for (const double value : text.feed(block, false)) all.push_back(value);
  }
  CHECK_EQ(all.size(), size_t{6});
  CHECK(all[3] == 4.5 && all[4] == -1000 && std::isnan(all[5]));
  CHECK_THROWS(InputError, "n: line 7: found 'x', expected a number", text.feed("1,x\n", false));
  NumberText<int64_t> whole({"n", ',', 1, 0, true, 1});
  CHECK_EQ(whole.feed("7\n8", true).size(), size_t{2});
  CHECK_THROWS(InputError, "expected a 64-bit integer", whole.feed("\n", true));
}
