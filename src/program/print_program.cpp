#include <cmath>
#include <cstdio>

#include "program/draws.h"
#include "program/read_program.h"

namespace finity {

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      result += c;
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    result += code;
  }
  return result + "\"";
}

std::string text_of(double x) {
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

std::string text_of(bool flag) { return flag ? "true" : "false"; }

std::string text_of(const LegalRange& range) {
  return range.bounded() ? "[" + text_of(range.lo) + ", " + text_of(range.hi) + "]" : "\"any\"";
}

class Printer {
 public:
  Printer(const Program& program, std::string prefix) : program_(program), prefix_(std::move(prefix)) {}

  PrintedProgram print(const std::string& model) {
    line("model", quoted(model));
    line("loss", quoted(program_.loss));
    std::string watched;
    for (const std::string& name : program_.watch) watched += (watched.empty() ? "" : ", ") + quoted(name);
    line("watch", "[" + watched + "]");
    line("batch", std::to_string(program_.batch));
    if (program_.flush_subnormals) line("flush_subnormals", "true");
    if (!program_.shuffle) line("shuffle", "false");
    for (const ProgramInput& input : program_.inputs) print_input(input);
    for (const ProgramWeight& weight : program_.weights) print_weight(weight);
    print_optimiser(program_.optimiser);
    return std::move(printed_);
  }

 private:
  void line(const std::string& key, const std::string& value) { printed_.text += key + " = " + value + "\n"; }
  std::string given(const std::string& key, const Tensor& tensor) {
    printed_.data[key] = tensor;
    return quoted(prefix_ + key);
  }

  void print_input(const ProgramInput& input) {
    printed_.text += "\n[inputs." + quoted(input.name) + "]\n";
    if (input.draw) {
      line("draw", quoted(to_string(*input.draw)));
      line("each", input.each_step ? "\"step\"" : "\"run\"");
    } else {
      line("data", given(input.name, input.data));
    }
    if (input.range) line("range", text_of(*input.range));
    if (input.change) line("change", text_of(*input.change));
    if (input.label) line("label", "true");
  }

  void print_weight(const ProgramWeight& weight) {
    printed_.text += "\n[weights." + quoted(weight.name) + "]\n";
    if (!weight.start.empty()) line("start", given(weight.name, weight.start));
    else if (weight.init) line("init", quoted(to_string(*weight.init)));
    if (weight.range) line("range", text_of(*weight.range));
    if (!std::isinf(weight.reach)) line("reach", text_of(weight.reach));
    if (!weight.train) line("train", "false");
    if (!weight.loss.empty()) line("loss", quoted(weight.loss));
    if (!weight.update.empty()) line("update", quoted(weight.update));
  }

  void print_optimiser(const Optimiser& optimiser) {
    const Optimiser usual;
    printed_.text += "\n[optimiser]\n";
    line("kind", quoted(std::string(name(optimiser.kind))));
    line("rate", text_of(optimiser.rate));
    line("momentum", text_of(optimiser.momentum));
    const auto unless_usual = [&](const char* key, auto now, auto then) {
      if (now != then) line(key, text_of(now));
    };
    unless_usual("decay", optimiser.decay, usual.decay);
    unless_usual("epsilon", optimiser.epsilon, usual.epsilon);
    unless_usual("beta1", optimiser.beta1, usual.beta1);
    unless_usual("beta2", optimiser.beta2, usual.beta2);
    unless_usual("centred", optimiser.centred, usual.centred);
    unless_usual("amsgrad", optimiser.amsgrad, usual.amsgrad);
    unless_usual("epsilon_inside", optimiser.epsilon_inside, usual.epsilon_inside);
    unless_usual("accumulator", optimiser.accumulator, usual.accumulator);
    unless_usual("l1", optimiser.l1, usual.l1);
    unless_usual("l2", optimiser.l2, usual.l2);
    unless_usual("shrinkage", optimiser.shrinkage, usual.shrinkage);
    unless_usual("power", optimiser.power, usual.power);
    unless_usual("weight_decay", optimiser.weight_decay, usual.weight_decay);
    unless_usual("rate_decay", optimiser.rate_decay, usual.rate_decay);
    if (optimiser.rate_decay_steps != 1) line("rate_decay_steps", std::to_string(optimiser.rate_decay_steps));
  }

  const Program& program_;
  std::string prefix_;
  PrintedProgram printed_;
};

}  // namespace

PrintedProgram print_program(const Program& program, const std::string& model, const std::string& prefix) {
  return Printer(program, prefix).print(model);
}

}  // namespace finity
