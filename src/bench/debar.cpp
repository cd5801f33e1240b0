#include "bench/debar.h"

#include <time.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "base/mapped_file.h"
#include "base/peak_memory.h"
#include "bench/debar_graphs.h"
#include "check/check_graph.h"
#include "formats/model_format.h"
#include "formats/tensorflow/tensorflow.h"
#include "ops/table/rule_patterns.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

// An unsafe operation by its name in TensorFlow or ONNX, and the rules that speak of it.
struct Target {
  std::string_view op = {};
  std::array<std::string_view, 2> rules = {};
};
constexpr Target kTargets[] = {{"Exp", {"FN201", ""}},          {"Expm1", {"FN201", ""}},
                               {"Log", {"FN102", ""}},          {"Log1p", {"FN103", ""}},
                               {"RealDiv", {"FN101", "FN113"}}, {"Div", {"FN101", "FN113"}},
                               {"Reciprocal", {"FN114", ""}},   {"Inv", {"FN114", ""}},
                               {"Sqrt", {"FN104", ""}},         {"Rsqrt", {"FN105", ""}}};

const Target* find_target(std::string_view op) {
  const auto* found = std::ranges::find(kTargets, op, &Target::op);
  return found == std::ranges::end(kTargets) ? nullptr : found;
}

// TensorFlow keeps derivatives in scopes of this name.
bool is_backward(std::string_view name) {
  for (std::size_t at = 0; at != std::string_view::npos;) {
    const std::size_t end = name.find('/', at);
    if (end != std::string_view::npos && name.substr(at, end - at).starts_with("gradients")) return true;
    at = end == std::string_view::npos ? end : end + 1;
  }
  return false;
}

double cpu_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Sites of a model, and which of them a node of its graph belongs to.
struct Sites {
  std::vector<DebarSite> all = {};
  std::vector<int> of_node = {};  // by NodeId; -1: none
};

void add_site(Sites& sites, std::string node, std::string op) {
  sites.all.push_back({.node = std::move(node), .op = std::move(op)});
}

Sites tensorflow_sites(const std::vector<TensorFlowNode>& nodes, const Graph& graph) {
  Sites sites;
  std::unordered_set<std::uint64_t> computed;
  for (const Node& node : graph.nodes()) computed.insert(node.where.offset);
  std::unordered_map<std::uint64_t, int> places;
  for (const TensorFlowNode& node : nodes) {
    if (find_target(node.op) == nullptr || is_backward(node.name)) continue;
    if (node.in_function && !computed.contains(node.offset)) continue;
    places.emplace(node.offset, static_cast<int>(sites.all.size()));
    add_site(sites, node.name, node.op);
  }
  for (const Node& node : graph.nodes()) {
    const auto found = places.find(node.where.offset);
    sites.of_node.push_back(found == places.end() ? -1 : found->second);
  }
  return sites;
}

Sites graph_sites(const Graph& graph) {
  Sites sites;
  for (const Node& node : graph.nodes()) {
    const bool wanted = node.domain.empty() && find_target(node.op_type) != nullptr && !is_backward(node.name);
    sites.of_node.push_back(wanted ? static_cast<int>(sites.all.size()) : -1);
    if (!wanted) continue;
    add_site(sites, node.name.empty() ? graph.value(node.outputs.front()).name : node.name, std::string(node.op_type));
  }
  return sites;
}

// Numbers of the model that are more than one and no integers.
std::int64_t weights_of(const Graph& graph) {
  std::int64_t count = 0;
  for (const Value& value : graph.values()) {
    if (!value.constant || !is_float(value.constant->dtype())) continue;
    const std::int64_t own = element_count(value.constant->dims());
    if (own > 1) count += own;
  }
  return count;
}

Contract contract_of(const DebarSubject& subject, const DebarSetting& setting) {
  Contract contract;
  if (setting.input_ranges) {
    for (const std::string& range : subject.labels.ranges) add_range(contract, range, "declared");
    for (const std::string& order : subject.labels.orders) add_order(contract, order, "declared");
  } else {
    contract.inputs.push_back({.pattern = "*", .lo = -kMostFinite, .hi = kMostFinite, .origin = "no input ranges"});
  }
  if (!setting.parameter_ranges) contract.weights = WeightMode::any;
  return contract;
}

GraphCheckOptions options_of(const DebarSetting& setting, double limit) {
  constexpr std::size_t kMemory = std::size_t{4} << 30U;
  GraphCheckOptions options;
  options.analysis.ranges.max_cells = most_cells(setting.tensor);
  options.analysis.ranges.affine = setting.affine;
  options.analysis.time_limit = limit;
  options.analysis.memory_limit = kMemory;
  options.analysis.find_causes = false;
  if (setting.compat) options.compat = compat_from_text("debar");
  return options;
}

// The worst that is said of a site counts.
void judge(DebarSite& site, const Finding& finding) {
  const Target& target = *find_target(site.op);
  const bool own = std::ranges::find(target.rules, raised_rule(finding.rule)) != target.rules.end();
  if (finding.verdict == Verdict::proved || (!own && finding.verdict != Verdict::unknown)) return;
  if (site.verdict == Verdict::unknown) return;
  site.verdict = finding.verdict == Verdict::unknown ? Verdict::unknown : Verdict::possible;
  site.rule = finding.rule;
  site.seen = finding.verdict == Verdict::unknown ? finding.reason : to_string(finding.seen);
}

void fill(DebarResult& result, const DebarSubject& subject, const DebarSetting& setting, double limit) {
  std::vector<Note> notes;
  std::shared_ptr<const MappedFile> file;
  std::string_view bytes = subject.text;
  if (!subject.path.empty()) {
    file = MappedFile::open(subject.path);
    bytes = {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
  }
  const bool tensorflow = looks_like_tensorflow(std::as_bytes(std::span(bytes)));
  const std::string& name = subject.path.empty() ? subject.name : subject.path;
  std::vector<TensorFlowNode> listed;
  if (tensorflow) listed = tensorflow_nodes(bytes, name);
  const double start = cpu_seconds();
  Graph graph = subject.path.empty() ? read_tensorflow(bytes, name, notes) : read_model(subject.path, notes);
  Sites sites = tensorflow ? tensorflow_sites(listed, graph) : graph_sites(graph);
  result.nodes = tensorflow ? listed.size() : graph.nodes().size();
  for (const TensorFlowNode& node : listed) result.parameters += node.parameters;
  if (result.parameters == 0) result.parameters = weights_of(graph);
  const CheckedGraph checked = check_graph(std::move(graph), contract_of(subject, setting), options_of(setting, limit));
  result.seconds = cpu_seconds() - start;
  result.complete = checked.analysis.complete;
  std::vector<bool> computed(sites.all.size(), false);
  for (const int site : sites.of_node) {
    if (site >= 0) computed[static_cast<std::size_t>(site)] = true;
  }
  for (std::size_t i = 0; i < computed.size(); ++i) {
    if (computed[i]) continue;
    sites.all[i].verdict = Verdict::unknown;
    sites.all[i].seen = "nothing that is computed";
  }
  for (const Finding& finding : checked.analysis.findings) {
    if (!finding.node.valid() || finding.node.at() >= sites.of_node.size()) continue;
    const int site = sites.of_node[finding.node.at()];
    if (site >= 0) judge(sites.all[static_cast<std::size_t>(site)], finding);
  }
  result.sites = std::move(sites.all);
}

}  // namespace

std::string DebarSetting::name() const {
  std::string text = std::string(finity::name(tensor)) + (affine ? ", affine" : ", interval");
  if (!input_ranges) text += ", no input ranges";
  if (!parameter_ranges) text += ", no parameter ranges";
  if (compat) text += ", compat";
  return text;
}

std::vector<DebarSetting> debar_combinations() {
  std::vector<DebarSetting> settings;
  for (const bool affine : {false, true}) {
    for (const TensorAbstraction tensor :
         {TensorAbstraction::smash, TensorAbstraction::expand, TensorAbstraction::partition}) {
      settings.push_back({.tensor = tensor, .affine = affine});
    }
  }
  return settings;
}

std::vector<DebarSetting> debar_ablations() {
  return {{.input_ranges = false}, {.parameter_ranges = false}, {.compat = true}};
}

std::string_view name(DebarLabel label) {
  constexpr std::array<std::string_view, 3> kNames = {"real", "contract", "imprecision"};
  return kNames[static_cast<std::size_t>(label)];
}

std::vector<DebarSubject> debar_subjects(bool twins) {
  std::vector<DebarSubject> subjects;
  for (const DebarGraph& graph : debar_graphs()) {
    DebarSubject subject = {
        .name = graph.name, .text = graph.make(twins), .labels = {.ranges = graph.ranges}, .labelled = true};
    if (twins) subject.twin_of = std::exchange(subject.name, graph.name + ", repaired");
    else
      for (const std::string& bug : graph.bugs) subject.labels.sites.emplace(bug, DebarLabel::real);
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

std::vector<DebarSubject> folder_subjects(const std::string& folder, const DebarLabelFile& labels) {
  std::error_code failure;
  std::vector<DebarSubject> subjects;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (!entry.is_regular_file()) continue;
    DebarSubject subject = {.name = entry.path().filename().string(), .path = entry.path().string()};
    const auto found = labels.find(subject.name);
    if (found != labels.end()) subject.labels = found->second;
    subject.labelled = !labels.empty();
    subjects.push_back(std::move(subject));
  }
  if (failure) throw Error(folder + ": " + failure.message());
  if (subjects.empty()) throw Error(folder + ": there are no files in it");
  std::ranges::sort(subjects, {}, &DebarSubject::name);
  return subjects;
}

std::size_t DebarResult::count(Verdict verdict) const {
  return static_cast<std::size_t>(std::ranges::count(sites, verdict, &DebarSite::verdict));
}

DebarResult measure(const DebarSubject& subject, const DebarSetting& setting, double limit) {
  DebarResult result = {.subject = subject.name, .setting = setting};
  forget_peak_memory();
  try {
    fill(result, subject, setting, limit);
  } catch (const Error& error) {
    result.error = error.what();
  } catch (const std::bad_alloc&) {
    result.error = subject.name + ": there is not enough memory";
  }
  result.peak_bytes = peak_memory();
  return result;
}

void DebarScore::add(const DebarScore& other) {
  true_positives += other.true_positives;
  true_negatives += other.true_negatives;
  false_positives += other.false_positives;
  false_negatives += other.false_negatives;
}

double DebarScore::accuracy() const { return sites() == 0 ? 100 : 100.0 * (true_positives + true_negatives) / sites(); }

DebarScore score(const DebarSubject& subject, const DebarResult& result) {
  DebarScore score;
  for (const DebarSite& site : result.sites) {
    const auto label = subject.labels.sites.find(site.node);
    const bool real = label != subject.labels.sites.end() && label->second == DebarLabel::real;
    const bool alarm = site.verdict != Verdict::proved;
    (real ? (alarm ? score.true_positives : score.false_negatives)
          : (alarm ? score.false_positives : score.true_negatives)) += 1;
  }
  return score;
}

}  // namespace finity
