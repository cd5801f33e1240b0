#include "fuzz/meaning.h"

#include <set>

#include "ops/table/op.h"

namespace finity::fuzz {

std::vector<std::string> meanings(const Sample& sample) {
  std::vector<std::string> result;
  std::set<std::string> done;
  for (const Step& step : sample.steps) {
    if (!done.insert(step.op).second) continue;
    const OpDef* op = find_op(step.domain, step.op);
    result.push_back(step.op + ": " + std::string(op != nullptr ? op->identity.summary : "") + ".");
  }
  return result;
}

}  // namespace finity::fuzz
