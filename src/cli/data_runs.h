// What a model does on inputs that people have (--data): findings that come true on them, and the numbers seen on the
// way, which are printed beside what is proved. For --as, inputs drawn inside the contract are seen too.
#pragma once

#include <memory>
#include <vector>

#include "check/convert.h"
#include "check/observed.h"
#include "cli/model_runs.h"
#include "formats/recorded_values.h"

namespace finity {

class DataRuns {
 public:
  DataRuns(const ModelAnalysis& model, const CheckPlan& plan);

  // Runs every data set, and returns an input for every finding that came true. Throws Error naming the file when one
  // does not fit the model or lies outside what was declared.
  std::vector<FailingRun> run();

  // Fills `observed` of the alarms.
  void tell(Report& report) const;
  // Fills `reached` for these nodes of the list.
  void tell(const NodeSet& kept, BlockList& list) const;

 private:
  const Graph& as_it_is() const { return converted_ ? model_.original : model_.graph; }
  const Types& types_as_it_is() const { return converted_ ? model_.original_types : model_.types; }
  void run_recorded(const RecordedValues& recorded, VerifyReport& report, std::vector<FailingRun>& witnesses);
  void draw_some();

  const ModelAnalysis& model_;
  const CheckPlan& plan_;
  bool converted_;
  std::unique_ptr<Worker> torch_;
  Observer observer_;
};

}  // namespace finity
