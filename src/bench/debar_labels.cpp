#include "base/error.h"
#include "bench/debar.h"

namespace finity {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    std::string_view part = text.substr(at, end - at);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ') || part.ends_with('\r')) part.remove_suffix(1);
    parts.emplace_back(part);
    at = end + 1;
  }
  return parts;
}

DebarLabel label_named(const std::string& text) {
  for (const DebarLabel label : {DebarLabel::real, DebarLabel::contract, DebarLabel::imprecision}) {
    if (text == name(label)) return label;
  }
  throw Error("'" + text + "' is none of real, contract, imprecision");
}

// "x:[0,1]; boxes[2] >= boxes[0]"
void add_declarations(DebarLabels& labels, const std::string& text) {
  for (const std::string& part : split(text, ';')) {
    if (part.empty()) continue;
    const bool order = part.find(">=") != std::string::npos || part.find("<=") != std::string::npos;
    std::vector<std::string>& to = order ? labels.orders : labels.ranges;
    if (std::find(to.begin(), to.end(), part) != to.end()) continue;
    Contract checked;
    if (order) add_order(checked, part, "declaration");
    else add_range(checked, part, "declaration");
    to.push_back(part);
  }
}

void add_line(DebarLabelFile& labels, std::string_view line) {
  const std::vector<std::string> cells = split(line, '\t');
  if (cells.size() < 3) throw Error("a line has graph, node, label, kind and declarations, separated by tabs");
  DebarLabels& own = labels[cells[0]];
  if (!own.sites.emplace(cells[1], label_named(cells[2])).second) throw Error("'" + cells[1] + "' is labelled twice");
  if (cells.size() > 4) add_declarations(own, cells[4]);
}

}  // namespace

DebarLabelFile read_debar_labels(std::string_view text, const std::string& file) {
  DebarLabelFile labels;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.empty() || line.starts_with('#') || line == "\r") continue;
    try {
      add_line(labels, line);
    } catch (Error& error) {
      error.in(file + ":" + std::to_string(number));
      throw;
    }
  }
  return labels;
}

}  // namespace finity
