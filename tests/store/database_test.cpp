#include "store/database.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

struct DatabaseTest : testing::Test {
  fs::path folder = fs::path(testing::TempDir()) / ("finity_store_" + std::to_string(::getpid()));
  void SetUp() override {
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path() const { return (folder / "a.sqlite").string(); }
};

TEST_F(DatabaseTest, KeepsWhatWasCommittedAndNothingElse) {
  {
    const auto opened = open_sqlite(path());
    Database& first = *opened;
    first.run("CREATE TABLE t(a INTEGER, b TEXT, c REAL)");
    first.begin();
    first.run("INSERT INTO t VALUES(?, ?, ?)", {std::int64_t{7}, std::string("it's"), 0.5});
    first.commit();
    first.begin();
    first.run("INSERT INTO t VALUES(8, NULL, NULL)");
  }  // ends in the middle of a transaction
  const auto again = open_sqlite(path());
  Database& second = *again;
  const std::vector<Row> rows = second.query("SELECT a, b, c FROM t WHERE a >= ?", {std::int64_t{1}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(as_int(rows[0][0]), 7);
  EXPECT_EQ(as_text(rows[0][1]), "it's");
  EXPECT_EQ(std::get<double>(rows[0][2]), 0.5);
}

TEST_F(DatabaseTest, SaysWhichFileIsNoDatabase) {
  std::ofstream(path()) << "something else, and long enough to be looked at as a header of a database file";
  try {
    open_sqlite(path())->run("CREATE TABLE t(a)");
    FAIL() << "took it";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
  }
  EXPECT_THROW(open_sqlite("/nonexistent/folder/a.sqlite"), Error);
}

}  // namespace
}  // namespace finity
