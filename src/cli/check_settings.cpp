#include "cli/check_settings.h"

#include <filesystem>
#include <map>

#include "check/abstraction.h"
#include "formats/toml/toml.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kWeights = {"trained", "initial", "any"};
const std::vector<std::string> kAccumulate = {"float32", "same", "either"};
const std::vector<std::string> kRuntime = {"measured", "onnxruntime", "any", "exact"};
const std::vector<std::string> kTensor = {"smash", "partition", "expand"};
const std::vector<std::string> kNumeric = {"interval", "affine"};
const std::vector<std::string> kFailOn = {"confirmed", "possible", "unknown"};

std::string listed(const std::vector<std::string>& choices) {
  std::string text;
  for (const std::string& choice : choices) text += (text.empty() ? "" : ", ") + choice;
  return text;
}

void read_choice(const TomlValue& table, const char* key, const std::vector<std::string>& choices,
                 std::optional<std::string>& to) {
  const TomlValue* value = table.find(key);
  if (value == nullptr) return;
  if (std::ranges::find(choices, value->as_text()) == choices.end()) {
    throw value->error("'" + std::string(key) + "' must be one of " + listed(choices));
  }
  if (!to) to = value->as_text();
}

void read_texts(const TomlValue& table, const char* key, std::vector<std::string>& to) {
  const TomlValue* value = table.find(key);
  if (value == nullptr) return;
  std::vector<std::string> texts = value->as_texts();
  if (to.empty()) to = std::move(texts);
}

using PrefixCheck = void (*)(const std::vector<std::string>&, std::string_view);

void read_prefixes(const TomlValue& table, const char* key, PrefixCheck check, std::vector<std::string>& to) {
  const TomlValue* value = table.find(key);
  if (value == nullptr) return;
  check(value->as_texts(), value->where + ": " + key);
  read_texts(table, key, to);
}

template <class Number>
void read_number(const TomlValue& table, const char* key, std::optional<Number>& to) {
  const TomlValue* value = table.find(key);
  if (value == nullptr) return;
  if (!(value->as_number() >= 0)) throw value->error("'" + std::string(key) + "' must not be negative");
  Number number = 0;
  if constexpr (std::is_floating_point_v<Number>) number = value->as_number();
  else number = static_cast<Number>(value->as_integer());
  if (!to) to = number;
}

// Files named in finity.toml are relative to its folder.
void read_path(const TomlValue& table, const char* key, const fs::path& folder, std::optional<std::string>& to) {
  const TomlValue* value = table.find(key);
  if (value == nullptr) return;
  const std::string path = (folder / value->as_text()).string();
  if (!to) to = path;
}

void read_accept(const TomlValue& table, std::vector<AcceptEntry>& to) {
  const TomlValue* list = table.find("accept");
  if (list == nullptr) return;
  for (const TomlValue& item : list->as_list()) {
    item.as_table().only({"rule", "node", "model", "reason"});
    const TomlValue* rule = item.find("rule");
    if (rule == nullptr) throw item.error("an entry of accept needs a rule");
    check_silencers({rule->as_text()}, rule->where + ": rule");
    AcceptEntry entry = {.rule = rule->as_text(), .where = item.where};
    if (const TomlValue* node = item.find("node")) entry.node = node->as_text();
    if (const TomlValue* model = item.find("model")) entry.model = model->as_text();
    if (const TomlValue* reason = item.find("reason")) entry.reason = reason->as_text();
    to.push_back(std::move(entry));
  }
}

void read_check_table(const TomlValue& table, const fs::path& folder, CheckSettings& settings) {
  table.only({"select",       "ignore",     "fail-on",      "ranges",           "shapes", "weights",
              "contract",     "baseline",   "as",           "accumulate",       "tensor", "numeric",
              "max-findings", "time-limit", "memory-limit", "flush-subnormals", "verify", "seed",
              "jobs",         "accept",     "runtime"});
  read_prefixes(table, "select", check_prefixes, settings.selection.select);
  read_prefixes(table, "ignore", check_silencers, settings.selection.ignore);
  read_choice(table, "fail-on", kFailOn, settings.fail_on);
  read_texts(table, "ranges", settings.config_ranges);
  read_texts(table, "shapes", settings.shapes);
  read_choice(table, "weights", kWeights, settings.weights);
  read_path(table, "contract", folder, settings.contract);
  read_path(table, "baseline", folder, settings.baseline);
  if (const TomlValue* as = table.find("as"); as != nullptr && !settings.as) settings.as = as->as_text();
  read_choice(table, "accumulate", kAccumulate, settings.accumulate);
  read_choice(table, "runtime", kRuntime, settings.runtime);
  read_choice(table, "tensor", kTensor, settings.tensor);
  read_choice(table, "numeric", kNumeric, settings.numeric);
  read_number(table, "max-findings", settings.max_findings);
  read_number(table, "time-limit", settings.time_limit);
  read_number(table, "memory-limit", settings.memory_limit);
  read_number(table, "verify", settings.verify);
  read_number(table, "seed", settings.seed);
  read_number(table, "jobs", settings.jobs);
  if (const TomlValue* flush = table.find("flush-subnormals")) settings.flush_subnormals |= flush->as_boolean();
  read_accept(table, settings.accept);
}

// finity.toml in this folder or the nearest one above; "" when there is none.
std::string find_config() {
  std::error_code error;
  fs::path folder = fs::current_path(error);
  for (; !error && !folder.empty(); folder = folder.parent_path()) {
    if (fs::is_regular_file(folder / "finity.toml", error)) {
      const fs::path shown = (folder / "finity.toml").lexically_relative(fs::current_path());
      return shown.empty() ? (folder / "finity.toml").string() : shown.string();
    }
    error.clear();
    if (folder == folder.parent_path()) break;
  }
  return "";
}

}  // namespace

void add_model_options(CLI::App& command, CheckSettings& settings) {
  const auto repeatable = [&](const char* name, std::vector<std::string>& to, const char* help) {
    command.add_option(name, to, help)->allow_extra_args(false);
  };
  repeatable("--range", settings.ranges, "What an input or weight holds: 'x:[0,1]', '*:[-50,50]' (repeatable)");
  repeatable("--shape", settings.shapes, "Bind dimensions: x:1,3,224,224 or batch=1 (repeatable)");
  command.add_option("--weights", settings.weights, "trained (as in the file), initial or any")
      ->check(CLI::IsMember(kWeights));
  command.add_option("--contract", settings.contract, "TOML file with ranges, masks and relations of the inputs");
  command.add_option("--as", settings.as,
                     "Check the model as if converted to this format: float16 (fp16, half), bfloat16 (bf16), ...");
  // CLI11's own check prints the largest double in full.
  const auto not_negative = [](const std::string& text) {
    double number = 0;
    const bool good = CLI::detail::lexical_cast(text, number) && number >= 0;
    return good ? std::string() : "'" + text + "' is not a number of at least 0";
  };
  command
      .add_option("--accumulate", settings.accumulate, "Partial sums in float32, the same format, or either (default)")
      ->check(CLI::IsMember(kAccumulate));
  command
      .add_option("--runtime", settings.runtime,
                  "Proofs hold for exact kernels and for ONNX Runtime as measured (default), also for any other, or "
                  "only for exact ones")
      ->check(CLI::IsMember(kRuntime));
  command.add_option("--tensor", settings.tensor, "smash, partition (default) or expand")
      ->check(CLI::IsMember(kTensor));
  command.add_option("--numeric", settings.numeric, "interval or affine (default)")->check(CLI::IsMember(kNumeric));
  command.add_option(
      "--compat", settings.compat,
      "Take for granted what a published tool does, though it is not sound: debar, or names of docs/check.md");
  command.add_option("--time-limit", settings.time_limit, "Seconds per model; what is not reached is unknown")
      ->check(not_negative);
  command
      .add_option("--memory-limit", settings.memory_limit,
                  "Megabytes of ranges per model (default 4096; 0: no limit); what is not reached is unknown")
      ->check(not_negative);
  command.add_flag("--train", settings.train,
                   "Check the backward pass too: gradients of the loss by inputs and weights");
  command.add_option("--loss", settings.loss,
                     "For --train: the output to take the gradient of (default: the only one)");
  repeatable("--by", settings.by, "For --train: only by these inputs and weights, names or globs (repeatable)");
  command.add_flag("--flush-subnormals", settings.flush_subnormals, "Subnormal numbers may be flushed to zero");
  command.add_option("--config", settings.config, "Settings file (default: finity.toml here or in a folder above)");
  command.add_flag("--no-config", settings.no_config, "Do not look for finity.toml");
}

void add_run_options(CLI::App& command, CheckSettings& settings) {
  const auto prefixes = [&](const char* name, std::vector<std::string>& to, const char* help) {
    command.add_option(name, to, help)->delimiter(',')->allow_extra_args(false);
  };
  prefixes("--select", settings.selection.select, "Only rules with these codes, prefixes or slugs: FN1,FN203");
  prefixes("--ignore", settings.selection.ignore,
           "Not these rules; the longest match decides. FN901, FN902, FN903 only by their full codes");
  command.add_option("-j,--jobs", settings.jobs, "Models checked at the same time (default: one per processor)");
}

void load_config(CheckSettings& settings) {
  if (settings.no_config) settings.config.clear();
  else if (settings.config.empty()) settings.config = find_config();
  check_prefixes(settings.selection.select, "--select");
  check_silencers(settings.selection.ignore, "--ignore");
  if (settings.config.empty()) return;
  const TomlValue root = read_toml(settings.config);
  root.only({"check"});
  const TomlValue* table = root.find("check");
  if (table == nullptr) return;
  read_check_table(table->as_table(), fs::path(settings.config).parent_path(), settings);
}

Contract contract_of(const CheckSettings& settings) {
  Contract contract;
  if (settings.contract) contract = read_contract(*settings.contract);
  for (const std::string& range : settings.config_ranges) {
    try {
      add_range(contract, range, settings.config + ": range");
    } catch (Error& error) {
      error.in(settings.config);
      throw;
    }
    // Settings are shared by the models of a project: a pattern there need not fit each of them.
    contract.inputs.back().may_match_nothing = is_glob(contract.inputs.back().pattern);
  }
  for (const std::string& range : settings.ranges) add_range(contract, range);
  if (settings.weights == "trained") contract.weights = WeightMode::trained;
  if (settings.weights == "initial") contract.weights = WeightMode::initial;
  if (settings.weights == "any") contract.weights = WeightMode::any;
  return contract;
}

Bindings bindings_of(const CheckSettings& settings) {
  Bindings bindings;
  for (const std::string& shape : settings.shapes) add_binding(bindings, shape);
  return bindings;
}

CheckOptions check_options_of(const CheckSettings& settings) {
  CheckOptions options;
  for (const TensorAbstraction tensor : kTensorAbstractions) {
    if (settings.tensor == name(tensor)) options.ranges.max_cells = most_cells(tensor);
  }
  options.ranges.affine = settings.numeric != "interval";
  if (settings.runtime == "any") options.ranges.runtime = Runtime::any;
  if (settings.runtime == "exact") options.ranges.runtime = Runtime::exact;
  if (settings.accumulate == "float32") options.ranges.accumulate = DType::float32;
  if (settings.accumulate == "same") options.ranges.accumulate = DType::float16;  // any format but float32
  options.ranges.flush_subnormals = settings.flush_subnormals;
  options.time_limit = settings.time_limit.value_or(0);
  options.memory_limit = static_cast<std::size_t>(settings.memory_limit.value_or(4096) * 0x1p20);
  return options;
}

DType target_of(const CheckSettings& settings) {
  if (!settings.as) return DType::undefined;
  // As converters and papers call them.
  static const std::map<std::string, std::string> kAlso = {
      {"fp16", "float16"},  {"half", "float16"}, {"bf16", "bfloat16"}, {"fp32", "float32"},
      {"float", "float32"}, {"fp64", "float64"}, {"double", "float64"}};
  const auto also = kAlso.find(*settings.as);
  const std::optional<DType> dtype = dtype_from_name(also != kAlso.end() ? also->second : *settings.as);
  if (!dtype || !is_float(*dtype)) throw Error("--as: '" + *settings.as + "' is not a float format");
  return *dtype;
}

Verdict fail_on_of(const CheckSettings& settings) {
  if (settings.fail_on == "confirmed") return Verdict::confirmed;
  return settings.fail_on == "possible" ? Verdict::possible : Verdict::unknown;
}

}  // namespace finity
