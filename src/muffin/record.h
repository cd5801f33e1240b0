// What a run keeps: a database with the models, the distances of libraries at every layer, and what follows from them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muffin/cover.h"
#include "muffin/refound.h"
#include "muffin/verdict.h"
#include "store/database.h"

namespace finity::muffin {

class Record {
 public:
  // Throws Error when the file has another run.
  Record(const std::string& path, const std::string& configuration, bool resume);

  std::int64_t models() const { return models_; }
  // One model, in one transaction. `milliseconds` by trace.
  void add(const Model& model, const std::vector<Trace>& traces, const Verdict& verdict, double distance,
           const std::vector<double>& milliseconds);

  // What the source heard of a model.
  double heard(std::int64_t model);

  // Distinct ones, counted as the paper does: once per data set, layer type, pair and phase.
  std::int64_t inconsistencies();
  std::int64_t count(const std::string& table);
  std::int64_t layer_types();

 private:
  void add_model(const Model& model, const std::vector<Trace>& traces);
  void add_coverage(const Model& model);
  void add_pairs(const Model& model, const std::vector<Trace>& traces, const Verdict& verdict);
  void add_looks(const std::vector<Trace>& traces, const std::vector<Look>& looks);

  std::unique_ptr<Database> database_;
  std::int64_t models_ = 0;
};

}  // namespace finity::muffin
