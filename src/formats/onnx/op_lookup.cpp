#include "formats/onnx/op_lookup.h"

#include <utility>

#include "formats/onnx/opset_versions.h"
#include "ops/table/op.h"

namespace finity::onnx {

OpLookup::OpLookup(const std::vector<Bytes>& functions, const std::byte* file, GraphBuilder& builder, std::string where,
                   std::vector<Note>& notes)
    : builder_(builder), where_(std::move(where)), notes_(notes) {
  for (const Bytes message : functions) {
    const Function& function = functions_.emplace_back(scan_function(message, file));
    function_nodes_ += function.nodes.size();
    if (!by_key_.try_emplace({function.domain, function.name, function.overload}, &function).second) {
      throw Error("function '" + qualified(function.domain, function.name) + "' is defined twice");
    }
    contexts_[&function].imports = &function.opsets;
  }
}

const Meaning& OpLookup::find(OpContext& context, const NodeFields& node) {
  const OpKey key{node.domain, node.op_type, node.overload};
  const auto [place, fresh] = context.known.try_emplace(key);
  Meaning& meaning = place->second;
  if (!fresh) return meaning;
  if (const auto function = by_key_.find(key); function != by_key_.end()) {
    meaning.function = function->second;
    return meaning;
  }
  meaning.op = find_op(node.domain, node.op_type);
  meaning.op_type = builder_.intern(node.op_type);
  meaning.domain = builder_.intern(node.domain);
  meaning.version = version_of(context, node.domain);
  return meaning;
}

// A function may use a domain that only the model imports, and the other way round: once
// it is inlined, the model uses that domain too.
int OpLookup::version_of(const OpContext& context, std::string_view domain) {
  Opsets& model = builder_.info().opsets;
  if (context.imports != nullptr) {
    const auto own = context.imports->find(domain);
    if (own != context.imports->end()) {
      model.try_emplace(own->first, own->second);
      return own->second;
    }
  }
  const auto import = model.find(domain);
  return import != model.end() ? import->second : guess_version(domain);
}

// Before IR 3 there were no imports and everything meant version 1. Later they must be there; where they are not, the
// newest operator set of the model's time is the likeliest for the default domain, and 1 for any other.
int OpLookup::guess_version(std::string_view domain) {
  const std::int64_t ir = builder_.info().ir_version;
  const int version = domain.empty() ? opset_of_ir(ir) : 1;
  builder_.info().opsets.emplace(domain, version);
  if (ir < kOpsetsIr && domain.empty()) return version;
  const std::string which = domain.empty() ? "the default domain" : "domain '" + std::string(domain) + "'";
  notes_.push_back({where_, "the model does not say which operator set of " + which + " it uses; taking version " +
                                std::to_string(version)});
  return version;
}

}  // namespace finity::onnx
