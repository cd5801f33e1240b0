// What is granted to ops, as data: complete, dated, and listed in docs/assumptions.md.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ops/table/op.h"
#include "support/paths.h"
#include "support/support.h"

namespace finity {
namespace {

constexpr std::string_view kBegin = "<!-- from the op table -->\n";
constexpr std::string_view kEnd = "<!-- until here -->\n";

std::vector<Way> every_way() {
  std::vector<Way> ways;
  for (int i = 0; i < kWays; ++i) ways.push_back(static_cast<Way>(i));
  return ways;
}

std::string name_of(const OpDef& op) {
  return (op.identity.domain.empty() ? "" : std::string(op.identity.domain) + ".") + std::string(op.identity.name);
}

std::string number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string errors_table() {
  std::string text =
      "| op | units in the last place | of 1 | beyond its values | measured on |\n|---|---|---|---|---|\n";
  const Grants usual;
  for (const OpDef* op : all_ops()) {
    const Grants& grants = op->analysis.grants;
    const Allowance& specified = grants.specified;
    const Allowance& measured = grants.measured;
    const bool more = specified.ulps != usual.specified.ulps || specified.of_one > 0 || measured.of_one > 0 ||
                      measured.beyond > 0 || measured.ulps > 0;
    if (!more) continue;
    text += "| " + name_of(*op) + " | " + std::to_string(std::max(specified.ulps, measured.ulps)) + " | " +
            number(std::max(specified.of_one, measured.of_one)) + " | " + number(measured.beyond) + " | " +
            std::string(grants.measured_on) + " |\n";
  }
  return text;
}

std::string ways_table() {
  std::string text = "| what is done | ops, measured on " + std::string(kOnnxRuntime) +
                     " | ops, elsewhere (`--runtime any`) |\n|---|---|---|\n";
  for (const Way way : every_way()) {
    std::string here, elsewhere;
    for (const OpDef* op : all_ops()) {
      if (op->analysis.grants.ways.has(way)) here += (here.empty() ? "" : ", ") + name_of(*op);
      if (op->analysis.grants.elsewhere.has(way)) elsewhere += (elsewhere.empty() ? "" : ", ") + name_of(*op);
    }
    text += "| " + std::string(describe(way)) + " | " + here + " | " + elsewhere + " |\n";
  }
  return text;
}

TEST(Grants, AreListedInTheDocumentation) {
  const std::string path = testdata_folder() + "/../docs/assumptions.md";
  const std::string page = read_text_file(path);
  const std::size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string tables = "\n" + errors_table() + "\n" + ways_table() + "\n";
  const std::string wanted = page.substr(0, begin + kBegin.size()) + tables + page.substr(end);
  if (std::getenv("FINITY_UPDATE") != nullptr) std::ofstream(path) << wanted;
  else EXPECT_EQ(page, wanted) << "FINITY_UPDATE=1 rewrites the tables";
}

TEST(Grants, SayWhereTheyWereMeasured) {
  for (const OpDef* op : all_ops()) {
    const Grants& grants = op->analysis.grants;
    const bool measured =
        !grants.ways.none() || grants.measured.ulps > 0 || grants.measured.of_one > 0 || grants.measured.beyond > 0;
    EXPECT_EQ(measured, !grants.measured_on.empty()) << name_of(*op);
  }
}

TEST(Grants, EveryWayIsDescribedAndSomeOpsOwn) {
  for (const Way way : every_way()) {
    EXPECT_FALSE(describe(way).empty());
    const bool used = std::ranges::any_of(all_ops(), [&](const OpDef* op) {
      return op->analysis.grants.ways.has(way) || op->analysis.grants.elsewhere.has(way);
    });
    EXPECT_TRUE(used) << describe(way);
  }
}

}  // namespace
}  // namespace finity
