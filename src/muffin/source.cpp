#include "muffin/source.h"

#include "base/error.h"
#include "muffin/generator.h"
#include "muffin/lemon.h"

namespace finity::muffin {

namespace {

constexpr SourceKind kKinds[] = {
    {"layers", "our own: all layer types, guided by coverage, numbers of ordinary size"},
    {"muffin", "Muffin as published: chains with skips and cells"},
    {"muffin-code", "Muffin as its released code does it"},
    {"muffin-ut", "single layers"},
    {"lemon", "LEMON: its twelve mutators on small versions of its eleven seed models, forward only"}};

class Generated final : public Source {
 public:
  explicit Generated(GeneratorOptions options) : generator_(std::move(options)) {}
  Model next() override { return generator_.next(); }

 private:
  Generator generator_;
};

}  // namespace

std::span<const SourceKind> source_kinds() { return kKinds; }

std::unique_ptr<Source> make_source(std::string_view mode, const SourceOptions& options) {
  GeneratorOptions own{.seed = options.seed, .data = options.data, .libraries = options.libraries};
  if (options.small) {
    own.batch = 1;
    own.limits = {.elements = 13'000, .weights = 60'000, .nodes = 100, .all_nodes = 250};
  }
  for (const Mode known : {Mode::layers, Mode::muffin, Mode::muffin_code, Mode::muffin_ut}) {
    if (name(known) != mode) continue;
    own.mode = known;
    return std::make_unique<Generated>(own);
  }
  if (mode == "lemon") return make_lemon(options);
  std::string names;
  for (const SourceKind& kind : kKinds) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  throw Error("there is no mode '" + std::string(mode) + "'; there are " + names);
}

}  // namespace finity::muffin
