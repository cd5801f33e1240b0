#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "ops/table/op.h"

namespace finity {

namespace {

struct Options {
  std::string name;
  std::string format = "text";
};

std::string full_name(const OpDef& op) {
  return op.identity.domain.empty() ? std::string(op.identity.name)
                                    : std::string(op.identity.domain) + "." + std::string(op.identity.name);
}

std::string opset_range(const OpDef& op) {
  const std::string since = std::to_string(op.identity.since);
  return op.identity.until == 0 ? since + " and later" : since + " to " + std::to_string(op.identity.until);
}

void print_line(const OpDef& op, std::size_t width) {
  std::printf("%s  %s%s\n", padded(full_name(op), width).c_str(), std::string(op.identity.summary).c_str(),
              op.meaning.eval == nullptr ? " (typed only)" : "");
}

void print_field(const char* title, std::string_view text) {
  if (!text.empty()) std::printf("  %-12s %s\n", title, std::string(text).c_str());
}

void print_details(const OpDef& op) {
  std::printf("%s: %s\n", full_name(op).c_str(), std::string(op.identity.summary).c_str());
  print_field("opset", opset_range(op));
  print_field("signature", op.identity.signature);
  print_field("attributes", op.identity.attrs);
  print_field("TensorFlow", op.identity.tf);
  print_field("evaluation", op.meaning.eval == nullptr ? "none" : op.traits.random ? "random numbers" : "reference");
  print_field("freedom", op.meaning.freedom);
}

nlohmann::ordered_json to_json(const OpDef& op) {
  return {{"name", op.identity.name},
          {"domain", domain_name(op.identity.domain)},
          {"since", op.identity.since},
          {"until", op.identity.until == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(op.identity.until)},
          {"summary", op.identity.summary},
          {"signature", op.identity.signature},
          {"attributes", op.identity.attrs},
          {"tensorflow", op.identity.tf},
          {"freedom", op.meaning.freedom},
          {"random", op.traits.random},
          {"evaluated", op.meaning.eval != nullptr}};
}

std::vector<const OpDef*> matching(const std::string& name) {
  std::vector<const OpDef*> result;
  for (const OpDef* op : all_ops()) {
    if (name.empty() || op->identity.name == name || full_name(*op) == name || op->identity.tf == name)
      result.push_back(op);
  }
  return result;
}

void list_ops(const std::vector<const OpDef*>& ops) {
  std::size_t width = 0;
  for (const OpDef* op : ops) width = std::max(width, full_name(*op).size());
  for (const OpDef* op : ops) print_line(*op, width);
  std::printf("%zu ops; finity ops NAME tells more\n", ops.size());
  for (const LeftOut& entry : left_out_ops()) {
    std::printf("left out: %s: %s\n", std::string(entry.name).c_str(), std::string(entry.reason).c_str());
  }
}

void show_ops(const Options& options) {
  const std::vector<const OpDef*> ops = matching(options.name);
  if (ops.empty()) {
    for (const LeftOut& entry : left_out_ops()) {
      if (entry.name == options.name)
        throw Error(options.name + " is left out of the op table: " + std::string(entry.reason));
    }
    throw Error("there is no op named '" + options.name + "' in the table (finity ops lists all)");
  }
  if (options.format == "json") {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const OpDef* op : ops) list.push_back(to_json(*op));
    std::printf("%s\n", list.dump(2).c_str());
  } else if (options.name.empty()) {
    list_ops(ops);
  } else {
    for (const OpDef* op : ops) print_details(*op);
  }
}

}  // namespace

void add_ops(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("ops", "List the operators finity knows, or tell all about one");
  auto options = std::make_shared<Options>();
  command->add_option("name", options->name, "ONNX or TensorFlow name, with or without domain");
  command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->callback([options] { show_ops(*options); });
}

}  // namespace finity
