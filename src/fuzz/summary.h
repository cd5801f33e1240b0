// A campaign's database as plain data, and as the text, JSON and page that `finity report` writes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace finity::fuzz {

struct FindingLine {
  std::int64_t id = 0, model = 0, steps = 0, hits = 0;
  bool optimised = false, proven = true;
  std::string backend = {}, symptom = {}, chain = {}, versions = {}, known = {}, folder = {}, text = {};
};

struct Summary {
  std::string configuration = {};
  std::int64_t models = 0, runs = 0, steps = 0, elements = 0, undecided = 0, refused = 0;
  std::vector<FindingLine> findings = {};
  std::vector<std::pair<std::string, std::int64_t>> symptoms = {};  // complaints, findings or not
  std::vector<std::pair<std::string, std::int64_t>> coverage = {};  // kind and how many cells
  std::vector<std::int64_t> cells_over_time = {};                   // covered after each twentieth of the models
};

// From a work folder or the address of a store. Throws Error naming it when it holds no campaign.
Summary read_summary(const std::string& where);

std::string as_plain_text(const Summary& summary);
std::string as_json(const Summary& summary);
std::string as_page(const Summary& summary);  // HTML that needs nothing else

}  // namespace finity::fuzz
