// The engine behind analyze(): walks the bodies in order, folds what is constant,
// asks each op's range rule for the rest, and decides every hazard site on the way.
// After an alarm the value is assumed valid, so one cause gives one alarm.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "check/analyze.h"
#include "graph/users.h"
#include "ops/shared/lengths.h"
#include "ops/table/op.h"

namespace finity {

// Why a range is not trusted further down; carried along while it stays as wide.
struct Taint {
  int overflow = -1;  // index of the finding after which the value was assumed finite
  NodeId unmodelled = {};
  bool missing = false;  // computed from weights that are not there
};

// Whether something may be infinite, or NaN.
struct Flags {
  bool infinite = false;
  bool nan = false;
};

// A machine that flushes takes every number below the smallest normal one for zero, in operands and in results.
void flush_subnormals(AbsTensor& range);
bool may_be_flushed(const AbsTensor& range);
bool has_subnormals(const Tensor& tensor);

// Formats whose nodes libraries may compute in float32.
inline bool is_narrow(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// An elementwise op and the identities of what it reads.
struct Computation {
  const OpDef* op = nullptr;
  std::array<std::int32_t, 4> inputs = {};  // plus one; 0: no such operand
  std::array<DType, 4> dtypes = {};
  bool operator==(const Computation&) const = default;
};

struct ComputationHash {
  std::size_t operator()(const Computation& key) const {
    std::uint64_t hash = reinterpret_cast<std::uintptr_t>(key.op);
    for (const std::int32_t input : key.inputs) hash = (hash ^ static_cast<std::uint32_t>(input)) * 0x9E3779B97F4A7C15U;
    return hash ^ (hash >> 32U);
  }
};

// What a node makes of its operands: computed without traces, then stored as a whole or dropped.
struct NodeResult {
  std::vector<std::optional<AbsTensor>> outputs = {};  // nothing: the rule says nothing of it
  std::vector<Site> sites = {};
};

class Analyzer {
 public:
  Analyzer(const Graph& graph, const Types& types, const Premises& premises, const CheckOptions& options);

  Analysis run();

 private:
  using Operands = std::vector<RangeCall::Operand>;
  using Restrictions = std::unordered_map<ValueId, AbsTensor>;
  // Ranges that hold under a condition, seen instead of those of all elements while it is open.
  struct Scope {
    Restrictions values = {};
    bool takes_results = false;  // what is computed in it holds in it only
  };
  class OpenScope;

  // analyze.cpp
  void store_inputs();
  void run_nodes(const Body& body);
  void run_node(NodeId id);
  const AbsTensor& get(ValueId id);
  bool restricted() const;
  AbsTensor constant_range(ValueId id);
  AbsTensor as_operand(ValueId id, AbsTensor range);
  AbsTensor settled(ValueId id, AbsTensor range);
  void store(ValueId id, AbsTensor range);
  void store_for_all(ValueId id, AbsTensor range);
  void remember(ValueId id);
  std::vector<AbsTensor> run_body(BodyId id, std::span<const AbsTensor> inputs);
  std::vector<AbsTensor> probe_body(BodyId id, std::span<const AbsTensor> inputs);
  std::vector<AbsTensor> run_branch(BodyId id, const Node& node, std::size_t condition, bool truth);
  std::string_view limit_reached();
  std::string trouble_with(NodeId id);
  std::string limit_text() const;
  void stop_at(NodeId id);
  void forget_results(NodeId id);
  void find_missing_weights();
  void count_missing_weights();
  void abandon_bodies(NodeId id, const std::string& reason);
  void undecide(NodeId id, const std::string& reason);
  void give_up(NodeId id, std::string reason, std::string_view rule);

  // evaluate.cpp
  Operands operands_of(const Node& node);
  void evaluate(NodeId id, const Node& node);
  bool store_known(const Node& node);
  bool leaves_integers(const Node& node);
  bool fold(NodeId id, const Node& node, const Operands& operands);
  RangeCall call_of(const Node& node, Operands operands);
  RangeCall::Hooks hooks_for(const Node& node);
  const AbsTensor* known_range(ValueId value);  // null when nothing is known yet
  NodeResult result_of(const Node& node, Operands operands, const RangeCall::Hooks& hooks);
  void apply_rule(NodeId id, const Node& node, Operands operands);
  void join_wider(const Node& node, RangeCall& call, const RangeCall::Hooks& hooks);
  void store_outputs(NodeId id, const Node& node, NodeResult result, const Operands& operands, const Flags& flags);
  ValueId same_computation(const Node& node);
  Taint taint_of(const Node& node) const;
  void set_taint(ValueId out, const Taint& taint);

  // unrounded.cpp
  bool may_be_unrounded(ValueId id) const;
  bool reads_unrounded(const Node& node) const;
  bool may_round(const Node& node) const;
  void mark_unrounded(const Node& node, ValueId out);
  std::vector<AbsTensor> loosen_operands(const Node& node, Operands& operands);
  void loosen(AbsTensor& x);

  // untyped.cpp
  ValueId untyped_value(const Node& node) const;  // an operand or result that keeps the range rule from being asked
  void pass_untyped(NodeId id, const Node& node, ValueId untyped);
  // The op's sites, unknown for this reason; sites that are there already only when `again`.
  void leave_undecided(NodeId id, const std::string& reason, bool again);

  // lengths.cpp
  bool measurable(const Node& node) const;
  void shorten(const Node& node, RangeCall& call);
  double length_of(ValueId id, Rows rows);
  double length_behind(ValueId id, const Rows& rows);
  void remember_length(ValueId id, const Rows& rows, double length, AbsTensor& range);

  // recentred.cpp
  const Node* made_by(ValueId value, OrderKind kind) const;
  double centred_product(ValueId x, ValueId m, ValueId f);
  double difference_of_products(ValueId p, ValueId q);
  void recentre(const Node& node, RangeCall& call);
  void keep_near(AbsTensor& result, const Range& centre, double distance, std::initializer_list<ValueId> parts);

  // sites.cpp
  void check_operands(NodeId id, const Node& node, Operands& operands, std::vector<AbsTensor>& restricted);
  // Records what is new in the result, and gives the result without it. Infinities and NaNs of the operands explain
  // those of the result, except what `made` says the operation makes of ordinary operands too.
  void check_result(NodeId id, const Node& node, std::size_t output, AbsTensor& result, const Flags& operands,
                    const Flags& made);
  Flags flags_of_operands(const Node& node);
  Flags made_besides(const Node& node, const Operands& operands, std::size_t output, const AbsTensor& result,
                     const Flags& explained);
  Range result_without(const Node& node, const Operands& operands, std::size_t output, bool infinities);
  AbsTensor rule_result(const Node& node, Operands operands, std::size_t output);
  void blame(Finding& finding, int index, const Taint& taint);
  int ignorance_at(NodeId id) const;
  int record(NodeId id, ValueId value, const Site& site);
  int finding_of(NodeId id, ValueId value, const Site& site);
  void drop_sites(NodeId id);
  void join_sites(NodeId id);
  void explain_by_operands(NodeId id, int index);

  // guards.cpp
  AbsTensor assuming(const Node& node, std::size_t operand, std::size_t condition, bool truth);
  void collect_restrictions(ValueId condition, bool truth, Restrictions& restrictions, int depth);
  void restrict_by(ValueId value, const AbsTensor& other, Comparison comparison, bool truth,
                   Restrictions& restrictions);
  void restrict_size(ValueId value, const AbsTensor& size, Restrictions& restrictions);
  std::vector<NodeId> guarded_nodes(const Node& select, std::size_t operand);
  bool not_below(ValueId whole, ValueId part);
  bool used_only_by(ValueId value, std::span<const NodeId> nodes, NodeId select, std::size_t operand) const;
  void keep_unguarded(std::span<const NodeId> nodes);
  void keep_conditional(NodeId id, NodeId select);

  void trace_paths();

  const Graph& graph_;
  const Types& types_;
  const Premises& premises_;
  const CheckOptions& options_;
  // What rules see of the graph: with ranges where they are asked for the first time, without when asked again.
  Upstream::Around ranges_around_{graph_, [this](ValueId value) { return known_range(value); }};
  Upstream::Around graph_around_{graph_};
  Symbols symbols_;
  Analysis result_;
  std::vector<Taint> taints_;                                           // by ValueId
  std::unordered_map<ValueId, AbsTensor> joined_;                       // of body values, over all iterations
  std::vector<bool> modelled_;                                          // by NodeId
  std::vector<bool> unrounded_;                                         // by ValueId: some see more digits than it has
  std::unordered_map<Computation, ValueId, ComputationHash> computed_;  // first value of each computation
  // The findings of a node are a chain: the last one by NodeId, the one before by finding.
  std::vector<int> last_site_, site_before_;
  std::unordered_map<int, Finding> joined_findings_;  // of body nodes, over all finished iterations
  Users users_;                                       // filled when the first guard is met
  std::vector<Scope> scopes_;
  std::chrono::steady_clock::time_point deadline_;
  std::string_view limit_;  // that was reached
  NodeId stopped_at_ = {};
  std::vector<bool> missing_;  // by ValueId: a constant whose numbers are not there; empty: none is
  int missing_finding_ = -1;
  std::unordered_set<ValueId> flushed_;                // constants with numbers that may be flushed
  std::size_t stored_ = 0;                             // bytes of ranges, about
  int depth_ = 0;                                      // of subgraphs
  int probing_ = 0;                                    // > 0: nothing is recorded
  int measuring_ = 0;                                  // nodes whose operands' lengths are being asked for
  std::unordered_map<std::uint64_t, double> lengths_;  // by value and axes
};

class Analyzer::OpenScope {
 public:
  OpenScope(Analyzer& analyzer, Scope scope) : analyzer_(analyzer) { analyzer_.scopes_.push_back(std::move(scope)); }
  ~OpenScope() { analyzer_.scopes_.pop_back(); }
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;

 private:
  Analyzer& analyzer_;
};

}  // namespace finity
