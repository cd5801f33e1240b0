// Campaigns over faulty_worker, a library whose faults are known.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/campaign.h"
#include "store/database.h"

namespace finity::fuzz {

// As if it were ONNX Runtime: optimised and not.
inline Backend faulty(const std::string& fault) {
  const BackendName name = parse_backend("ort@1.0.0");
  return Backend({.family = "ort", .version = "1.0.0"},
                 finity::Backend(name, {.command = {FINITY_FAULTY_WORKER, fault}}));
}

struct CampaignTest : testing::Test {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("finity_fuzz_" + std::to_string(::getpid()));
  void SetUp() override { std::filesystem::remove_all(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  CampaignOptions options(const std::string& fault, const std::string& name, std::int64_t models) const {
    CampaignOptions result;
    result.version = "test";
    result.models = models;
    result.workdir = (folder / name).string();
    result.backends = {{.family = "ort", .version = "1.0.0"}};
    result.open = [fault](const BackendSpec&) { return faulty(fault); };
    result.strips = false;
    return result;
  }

  // Everything but times, of which there are none.
  std::vector<std::string> contents(const std::string& name) const {
    const auto database = open_sqlite((folder / name / "campaign.sqlite").string());
    std::vector<std::string> lines;
    for (const char* table : {"run", "model", "execution", "complaint", "finding", "looked", "coverage"}) {
      for (const Row& row : database->query("SELECT * FROM " + std::string(table))) {
        std::string line = table;
        for (const Cell& cell : row)
          line += "|" + (std::holds_alternative<std::int64_t>(cell) ? std::to_string(as_int(cell)) : as_text(cell));
        lines.push_back(std::move(line));
      }
    }
    return lines;
  }
};

}  // namespace finity::fuzz
