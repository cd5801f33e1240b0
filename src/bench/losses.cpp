#include "bench/losses.h"

namespace finity {

namespace {
constexpr double kTiny = 1e-10;
}  // namespace

std::string at_least_tiny(Maker& maker, const std::string& p) { return maker.clip(p, kTiny, 1); }

std::string cross_entropy(Maker& maker, const std::string& p, const std::string& labels, Over over, bool repaired,
                          const std::string& log) {
  maker.node("Log", {repaired ? at_least_tiny(maker, p) : p}, "", log);
  const std::string rows = maker.row_sums(maker.node("Mul", {labels, log}));
  return maker.node("Neg", {over == Over::sum ? maker.sum(rows) : maker.mean(rows)});
}

BinaryTerms binary_logs(Maker& maker, const std::string& p, bool repaired) {
  const std::string not_p = maker.node("Sub", {maker.number(1), p});
  return {.of_p = maker.node("Log", {repaired ? at_least_tiny(maker, p) : p}, "", "log"),
          .of_not_p = maker.node("Log", {repaired ? at_least_tiny(maker, not_p) : not_p}, "", "log_not")};
}

std::string binary_cross_entropy(Maker& maker, const std::string& p, const std::string& labels, bool repaired) {
  const BinaryTerms logs = binary_logs(maker, p, repaired);
  const std::string hits = maker.node("Mul", {labels, logs.of_p});
  const std::string misses = maker.node("Mul", {maker.node("Sub", {maker.number(1), labels}), logs.of_not_p});
  return maker.node("Neg", {maker.node("Add", {hits, misses})});
}

}  // namespace finity
