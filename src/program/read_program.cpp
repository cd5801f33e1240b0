#include "program/read_program.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <initializer_list>

#include "base/error.h"
#include "formats/model_format.h"
#include "formats/toml/toml.h"
#include "program/data.h"
#include "program/draws.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void flatten(const TomlValue& value, std::vector<double>& numbers, Dims& dims, std::size_t depth) {
  if (!value.is_list()) {
    if (depth != dims.size()) throw value.error("the rows of 'values' have different depths");
    numbers.push_back(value.as_number());
    return;
  }
  const std::vector<TomlValue>& items = value.as_list();
  const auto size = static_cast<std::int64_t>(items.size());
  if (numbers.empty() && dims.size() == depth) dims.push_back(size);
  else if (depth >= dims.size() || dims[depth] != size)
    throw value.error("the rows of 'values' have different lengths");
  for (const TomlValue& item : items) flatten(item, numbers, dims, depth + 1);
}

Tensor literal(const TomlValue& value) {
  std::vector<double> numbers;
  Dims dims;
  flatten(value, numbers, dims, 0);
  if (numbers.empty()) throw value.error("'" + value.key + "' holds no numbers");
  return from_elements<double>(DType::float64, std::move(dims), numbers);
}

LegalRange range_from(const TomlValue& value) {
  if (value.is_text()) {
    if (value.as_text() != "any") throw value.error("'range' is [lo, hi] or \"any\"");
    return {};
  }
  const std::vector<TomlValue>& ends = value.as_list();
  if (ends.size() != 2) throw value.error("'" + value.key + "' takes two numbers");
  const LegalRange range = {ends[0].as_number(), ends[1].as_number()};
  if (!(range.lo <= range.hi)) throw value.error("'" + value.key + "' is empty");
  return range;
}

// What f throws is said of this line.
template <class F>
auto said_of(const TomlValue& value, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    throw value.error(error.what());
  }
}

Draw draw_from(const TomlValue& value) {
  return said_of(value, [&] { return parse_draw(value.as_text()); });
}

std::string text_of(const TomlValue& table, std::string_view key) {
  const TomlValue* value = table.find(key);
  return value == nullptr ? "" : value->as_text();
}

bool flag_of(const TomlValue& table, std::string_view key, bool otherwise) {
  const TomlValue* value = table.find(key);
  return value == nullptr ? otherwise : value->as_boolean();
}

class ProgramReader {
 public:
  ProgramReader(std::string file, std::string folder, const ProgramParts& parts)
      : file_(std::move(file)), folder_(std::move(folder)), parts_(parts) {}

  Program read(const TomlValue& root) {
    root.only({"model", "loss", "watch", "batch", "flush_subnormals", "shuffle", "inputs", "weights", "optimiser"});
    Program program;
    program.name = file_;
    program.graph = graph_of(root);
    program.loss = text_of(root, "loss");
    if (const TomlValue* watch = root.find("watch")) program.watch = watch->as_texts();
    if (const TomlValue* batch = root.find("batch")) {
      program.batch = batch->as_integer();
      if (program.batch < 1 || program.batch > kLargestAssumedSize) throw batch->error("'batch' must be at least 1");
    }
    program.flush_subnormals = flag_of(root, "flush_subnormals", false);
    program.shuffle = flag_of(root, "shuffle", true);
    for_each(root, "inputs", [&](const TomlEntry& entry) { program.inputs.push_back(input_from(entry)); });
    for_each(root, "weights", [&](const TomlEntry& entry) { program.weights.push_back(weight_from(entry)); });
    if (const TomlValue* optimiser = root.find("optimiser")) program.optimiser = optimiser_from(*optimiser);
    settle_at(program, root);
    return program;
  }

 private:
  std::shared_ptr<const Graph> graph_of(const TomlValue& root) const {
    if (parts_.graph != nullptr) return parts_.graph;
    const TomlValue* model = root.find("model");
    if (model == nullptr) throw Error(file_ + ": 'model' is missing");
    std::vector<Note> notes;
    const std::string path = (std::filesystem::path(folder_) / model->as_text()).string();
    return said_of(*model, [&] { return std::make_shared<const Graph>(read_model(path, notes)); });
  }

  template <class F>
  static void for_each(const TomlValue& root, std::string_view key, F&& f) {
    const TomlValue* table = root.find(key);
    if (table == nullptr) return;
    for (const TomlEntry& entry : table->as_table().entries) f(entry);
  }

  LoadedData load(const TomlValue& value) const {
    constexpr std::string_view kGiven = "given:";
    const std::string& source = value.as_text();
    return said_of(value, [&]() -> LoadedData {
      if (!source.starts_with(kGiven)) return load_data(source, folder_);
      const auto found = parts_.data.find(source.substr(kGiven.size()));
      if (found == parts_.data.end()) throw Error("'" + source + "' was not given");
      return {.tensor = found->second};
    });
  }

  ProgramInput input_from(const TomlEntry& entry) {
    const TomlValue& table = entry.value.as_table();
    table.only({"data", "values", "draw", "each", "scale", "one_hot", "range", "change", "label"});
    places_[entry.name] = &table;
    ProgramInput input = {.name = entry.name};
    const TomlValue *data = table.find("data"), *values = table.find("values"), *draw = table.find("draw");
    if ((data != nullptr) + (values != nullptr) + (draw != nullptr) != 1) {
      throw table.error("input '" + entry.name + "' needs one of 'data', 'values' and 'draw'");
    }
    if (draw != nullptr) set_draw(input, table, *draw);
    else input.data = preprocessed(table, data != nullptr ? load(*data) : with_ends(literal(*values)), input);
    if (const TomlValue* each = table.find("each")) {
      const std::string& when = each->as_text();
      if (when != "step" && when != "run") throw each->error("'each' is \"step\" or \"run\"");
      if (draw == nullptr) throw each->error("'each' speaks of draws");
      input.each_step = when == "step";
    }
    if (const TomlValue* range = table.find("range")) input.range = range_from(*range);
    if (const TomlValue* change = table.find("change")) input.change = change->as_boolean();
    input.label = flag_of(table, "label", input.label);
    return input;
  }

  static void set_draw(ProgramInput& input, const TomlValue& table, const TomlValue& draw) {
    input.draw = draw_from(draw);
    input.label = input.draw->kind == Draw::Kind::one_hot;
    for (const char* key : {"scale", "one_hot"}) {
      if (const TomlValue* given = table.find(key)) {
        throw given->error(std::string("'") + key + "' speaks of data; classes are drawn by draw = \"one_hot\"");
      }
    }
  }

  static LoadedData with_ends(Tensor tensor) {
    LoadedData data = {.tensor = std::move(tensor)};
    const std::vector<double> numbers = elements<double>(data.tensor);
    data.lo = *std::ranges::min_element(numbers);
    data.hi = *std::ranges::max_element(numbers);
    return data;
  }

  static Tensor preprocessed(const TomlValue& table, LoadedData data, ProgramInput& input) {
    if (const TomlValue* scale = table.find("scale")) {
      const LegalRange to = range_from(*scale);
      data.tensor = said_of(*scale, [&] { return rescaled(data.tensor, data.lo, data.hi, to.lo, to.hi); });
    }
    if (const TomlValue* classes = table.find("one_hot")) {
      data.tensor = said_of(*classes, [&] { return one_hot(data.tensor, classes->as_integer()); });
      input.label = true;
    }
    return std::move(data.tensor);
  }

  ProgramWeight weight_from(const TomlEntry& entry) {
    const TomlValue& table = entry.value.as_table();
    table.only({"init", "start", "values", "range", "reach", "train", "loss", "update"});
    places_[entry.name] = &table;
    ProgramWeight weight = {.name = entry.name};
    if (const TomlValue* init = table.find("init")) weight.init = draw_from(*init);
    if (const TomlValue* start = table.find("start")) weight.start = load(*start).tensor;
    if (const TomlValue* values = table.find("values")) weight.start = literal(*values);
    if (const TomlValue* range = table.find("range")) weight.range = range_from(*range);
    if (const TomlValue* reach = table.find("reach")) {
      weight.reach = reach->as_number();
      if (!(weight.reach > 0)) throw reach->error("'reach' must be greater than 0");
    }
    weight.train = flag_of(table, "train", true);
    weight.loss = text_of(table, "loss");
    weight.update = text_of(table, "update");
    return weight;
  }

  static Optimiser optimiser_from(const TomlValue& table) {
    table.as_table().only({"kind", "rate", "momentum", "decay", "epsilon", "beta1", "beta2", "centred", "amsgrad",
                           "epsilon_inside", "accumulator", "l1", "l2", "shrinkage", "power", "weight_decay",
                           "rate_decay", "rate_decay_steps"});
    Optimiser optimiser;
    if (const TomlValue* kind = table.find("kind")) {
      const std::optional<Optimiser::Kind> found = optimiser_named(kind->as_text());
      if (!found) {
        throw kind->error("'" + kind->as_text() + "' is none of sgd, momentum, nesterov, adagrad, adadelta, rmsprop, " +
                          "adam, adamw, adamax, nadam, ftrl");
      }
      optimiser.kind = *found;
    }
    const bool rolls = optimiser.kind == Optimiser::Kind::momentum || optimiser.kind == Optimiser::Kind::nesterov;
    if (rolls) optimiser.momentum = 0.9;
    read_number(table, "rate", 0, optimiser.rate);
    read_number(table, "momentum", 0, optimiser.momentum);
    read_number(table, "decay", 0, optimiser.decay);
    read_number(table, "epsilon", 0, optimiser.epsilon);
    read_number(table, "beta1", 0, optimiser.beta1);
    read_number(table, "beta2", 0, optimiser.beta2);
    read_number(table, "accumulator", 0, optimiser.accumulator);
    read_number(table, "l1", 0, optimiser.l1);
    read_number(table, "l2", 0, optimiser.l2);
    read_number(table, "shrinkage", 0, optimiser.shrinkage);
    read_number(table, "power", 0, optimiser.power);
    read_number(table, "weight_decay", 0, optimiser.weight_decay);
    read_number(table, "rate_decay", 0, optimiser.rate_decay);
    optimiser.centred = flag_of(table, "centred", false);
    optimiser.amsgrad = flag_of(table, "amsgrad", false);
    optimiser.epsilon_inside = flag_of(table, "epsilon_inside", false);
    if (const TomlValue* steps = table.find("rate_decay_steps")) {
      optimiser.rate_decay_steps = steps->as_integer();
      if (optimiser.rate_decay_steps < 1) throw steps->error("'rate_decay_steps' must be at least 1");
    }
    return optimiser;
  }

  static void read_number(const TomlValue& table, std::string_view key, double least, double& number) {
    const TomlValue* value = table.find(key);
    if (value == nullptr) return;
    number = value->as_number();
    if (!(number >= least) || std::isinf(number)) throw value->error("'" + std::string(key) + "' must not be negative");
  }

  // What contradicts is said of the table it is about, where a name tells.
  void settle_at(Program& program, const TomlValue& root) const {
    try {
      settle(program);
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const auto& [name, table] : places_) {
        if (text.find("'" + name + "'") != std::string::npos) throw table->error(text);
      }
      const TomlValue* loss = root.find("loss");
      if (loss != nullptr && text.starts_with("loss")) throw loss->error(text);
      throw Error(file_ + ": " + text);
    }
  }

  std::string file_, folder_;
  const ProgramParts& parts_;
  std::map<std::string, const TomlValue*> places_;
};

}  // namespace

bool is_program_file(std::string_view path) { return path.ends_with(".toml"); }

Program parse_program(std::string_view text, const std::string& file, const std::string& folder,
                      const ProgramParts& parts) {
  return ProgramReader(file, folder, parts).read(parse_toml(text, file));
}

Program read_program(const std::string& path) {
  return ProgramReader(path, std::filesystem::path(path).parent_path().string(), {}).read(read_toml(path));
}

}  // namespace finity
