#include "fuzz/finding.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "base/error.h"
#include "fuzz/backward.h"
#include "fuzz/distance.h"
#include "fuzz/known.h"
#include "fuzz/laws.h"
#include "fuzz/reduce.h"

namespace finity::fuzz {

namespace {

constexpr std::uint64_t kPlaces = 8;
constexpr int kNewProcesses = 3;
constexpr int kLooks = 8;

// A number that is wrong, no number at all, and one in place of NaN or an infinity are faults of different kinds.
std::string_view kind_of_value(const Complaint& c) {
  if (c.element < 0) return "";
  if (!c.expected.has_finite()) return " for no number";
  return c.symptom == Symptom::wrong_value && std::isinf(c.observed) ? " infinite" : "";
}

// What a library says when it refuses, without numbers and names that have them: two assertions are two faults.
std::string words_of(const Complaint& c) {
  if (c.symptom != Symptom::exception) return {};
  constexpr std::size_t kMost = 120;
  std::string words, token;
  const auto end_token = [&] {
    if (std::ranges::any_of(token, [](unsigned char letter) { return std::isdigit(letter) != 0; })) {
      token = "#";
      // Lists are as long as shapes have axes.
      const std::size_t last = words.find_last_not_of(", ");
      if (last != std::string::npos && words[last] == '#') words.resize(last);
    }
    words += token;
    token.clear();
  };
  for (const char letter : c.text.substr(0, c.text.find('\n'))) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_') {
      token += letter;
    } else {
      end_token();
      words += letter;
    }
  }
  end_token();
  return words.substr(0, kMost);
}

bool same_fault(const Complaint& a, const Complaint& b) {
  const bool as_written_a = a.level == Optimisation::none, as_written_b = b.level == Optimisation::none;
  if (a.symptom != b.symptom || kind_of_value(a) != kind_of_value(b) || a.derivative != b.derivative ||
      as_written_a != as_written_b || a.proven != b.proven)
    return false;
  const bool by_step = as_written_a && (a.symptom == Symptom::wrong_value || a.symptom == Symptom::wrong_form ||
                                        a.symptom == Symptom::nan_here);
  return !by_step || a.derivative || a.op == b.op;
}

// In one version of the library; others may have other words for it.
bool same_fault_and_words(const Complaint& a, const Complaint& b) {
  return same_fault(a, b) && words_of(a) == words_of(b);
}

const Complaint* find_same(const std::vector<Complaint>& complaints, const Complaint& wanted) {
  const auto found =
      std::ranges::find_if(complaints, [&](const Complaint& c) { return same_fault_and_words(c, wanted); });
  return found == complaints.end() ? nullptr : &*found;
}

std::string dtype_names(const Sample& sample) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : sample.inputs) names.insert(std::string(finity::name(tensor.dtype())));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

int weight(const Complaint& c) {
  if (c.symptom == Symptom::crash || c.symptom == Symptom::hang) return 4;
  if (c.symptom == Symptom::wrong_form) return 3;
  return c.proven ? 2 : 1;
}

}  // namespace

std::vector<Complaint> judge_any(Backend& backend, const Sample& sample, bool legal, Counts& counts) {
  if (legal) return judge(backend, sample, counts);
  std::vector<Complaint> complaints;
  const Answer answer = backend.run(sample, Optimisation::none, true);
  ++counts.runs;
  const bool crashed = answer.outcome == Answer::Outcome::crashed;
  if (crashed || answer.outcome == Answer::Outcome::late)
    complaints.push_back(
        {.symptom = crashed ? Symptom::crash : Symptom::hang, .op = op_chain(sample), .text = last_words(answer)});
  return complaints;
}

std::vector<Complaint> judge_again(Backend& backend, const Evidence& evidence, Counts& counts) {
  if (!evidence.law.empty()) return judge_law(backend, evidence.before, evidence.sample, evidence.law, counts);
  if (evidence.by_distance) return judge_by_distance(backend, evidence.sample, counts);
  if (evidence.derivative) return judge_derivatives(backend, evidence.sample, counts);
  return judge_any(backend, evidence.sample, evidence.legal, counts);
}

Evidence evidence_of(const Finding& finding) {
  return {.sample = finding.sample,
          .legal = finding.legal,
          .derivative = finding.complaint.derivative,
          .by_distance = finding.complaint.by_distance,
          .law = finding.law,
          .before = finding.before};
}

const Complaint* worst(const std::vector<Complaint>& complaints) {
  const auto found = std::ranges::max_element(complaints, {}, weight);
  return found == complaints.end() ? nullptr : &*found;
}

std::string library_of(Backend& backend) {
  try {
    const Hello& hello = backend.worker().hello();
    return hello.engine + " " + hello.version;
  } catch (const Error&) {
    return {};
  }
}

// Calls are the same in WebAssembly and plain JavaScript, and the latter survives what ends the former.
std::string script_of(Backend& backend, const Sample& sample) {
  try {
    if (backend.spec().family != "tfjs-wasm") return backend.script(sample);
    return Backend({.family = "tfjs-cpu", .version = backend.spec().version}).script(sample);
  } catch (const Error&) {
    return {};
  }
}

// What a step gives need not be an output of the model. Of a finding it is, so that the model by itself shows the
// fault.
Sample showing(const Sample& sample, const Complaint& complaint) {
  if (complaint.level != Optimisation::none || complaint.derivative || complaint.tensor.empty()) return sample;
  Sample result = sample;
  result.outputs = {complaint.tensor};
  drop_unneeded(result);
  return result;
}

std::optional<Finding> make_finding(Backend& backend, const Sample& sample, bool legal, const Complaint& complaint) {
  Counts unused;
  const auto judged = [&](const Sample& candidate) -> std::vector<Complaint> {
    try {
      return judge_again(backend,
                         {.sample = candidate,
                          .legal = legal,
                          .derivative = complaint.derivative,
                          .by_distance = complaint.by_distance},
                         unused);
    } catch (const Error&) {
      return {};
    }
  };
  const StillShows still_shows = [&](const Sample& candidate) {
    return find_same(judged(candidate), complaint) != nullptr;
  };
  // Processes that die take long to start again.
  const bool hangs = complaint.symptom == Symptom::hang, dies = complaint.symptom == Symptom::crash || hangs;
  // What an earlier sample did to the process is not this one's fault.
  const auto shows_in_a_new_process = [&](const Sample& candidate) {
    for (int i = 0; i < kNewProcesses; ++i) {
      backend.restart();
      if (still_shows(candidate)) return true;
      if (dies) break;
    }
    return false;
  };
  if (!shows_in_a_new_process(sample)) return std::nullopt;
  Finding finding{.backend = backend.spec(), .library = library_of(backend), .complaint = complaint, .legal = legal};
  const Sample shown = showing(sample, complaint);
  finding.sample = reduce(still_shows(shown) ? shown : sample, still_shows,
                          {.candidates = hangs  ? 6
                                         : dies ? 60
                                                : 500});
  if (!shows_in_a_new_process(finding.sample)) finding.sample = sample;
  const std::vector<Complaint> last = judged(finding.sample);
  if (const Complaint* same = find_same(last, complaint)) finding.complaint = *same;
  finding.key = key_of(backend.spec(), finding.complaint, finding.sample);
  finding.script = script_of(backend, finding.sample);
  return finding;
}

std::optional<Finding> make_law_finding(Backend& backend, const Sample& before, const Sample& after,
                                        const std::string& law, const Complaint& complaint) {
  Finding finding{.backend = backend.spec(),
                  .library = library_of(backend),
                  .complaint = complaint,
                  .sample = after,
                  .law = law,
                  .before = before};
  const auto shows = [&](const Sample& first, const Sample& second) {
    Counts unused;
    try {
      const std::vector<Complaint> complaints = judge_law(backend, first, second, law, unused);
      const Complaint* same = find_same(complaints, complaint);
      if (same != nullptr) finding.complaint = *same;
      return same != nullptr;
    } catch (const Error&) {
      return false;
    }
  };
  // As everywhere: what an earlier sample did to the process is not this one's fault.
  const auto shows_in_a_new_process = [&] {
    for (int i = 0; i < kNewProcesses; ++i) {
      backend.restart();
      if (shows(finding.before, finding.sample)) return true;
    }
    return false;
  };
  if (!shows_in_a_new_process()) return std::nullopt;
  // The place that the law is applied to is drawn: some draws are tried.
  const StillShows still_shows = [&](const Sample& candidate) {
    for (std::uint64_t seed = 0; seed < kPlaces; ++seed) {
      Rng rng(seed);
      const std::optional<Sample> changed = apply_law(candidate, law, rng);
      if (!changed || !shows(candidate, *changed)) continue;
      finding.before = candidate;
      finding.sample = *changed;
      return true;
    }
    return false;
  };
  if (still_shows(before)) reduce(before, still_shows, {.candidates = 200});
  if (!shows_in_a_new_process()) {
    finding.before = before;
    finding.sample = after;
    if (!shows_in_a_new_process()) return std::nullopt;
  }
  finding.key = key_of(backend.spec(), finding.complaint, finding.sample);
  finding.script = script_of(backend, finding.sample);
  return finding;
}

void add_versions(Finding& finding, std::vector<Backend>& versions) {
  for (Backend& backend : versions) {
    Counts counts;
    Stand stand = Stand::good;
    // What a library reads without having written it differs from run to run.
    const bool may_hide =
        finding.complaint.symptom == Symptom::unstable || backend.spec().text() == finding.backend.text();
    try {
      std::vector<Complaint> complaints;
      for (int i = 0; i < (may_hide ? kLooks : 1) && complaints.empty() && counts.refused == 0; ++i)
        complaints = judge_again(backend, evidence_of(finding), counts);
      const bool died = std::ranges::any_of(complaints, [](const Complaint& c) { return c.symptom == Symptom::crash; });
      if (died) stand = Stand::died;
      else if (std::ranges::any_of(complaints, [&](const Complaint& c) { return same_fault(c, finding.complaint); }))
        stand = Stand::bad;
      else if (!complaints.empty()) stand = Stand::other;
      else if (counts.refused > 0) stand = Stand::refused;
    } catch (const Error&) {
      stand = Stand::refused;
    }
    finding.versions.emplace_back(backend.spec(), stand);
  }
  finding.known = known_fault(finding);
}

Kind kind_of(const BackendSpec& backend, const Complaint& complaint, const Sample& sample) {
  Kind kind;
  kind.coarse = backend.text() + " " + std::string(name(complaint.symptom)) + std::string(kind_of_value(complaint)) +
                (complaint.proven ? " " : " small ") + complaint.op +
                (complaint.level == Optimisation::none ? "" : " optimised");
  if (complaint.symptom == Symptom::exception) kind.coarse += ": " + words_of(complaint);
  kind.fine = kind.coarse;
  for (const Step& step : sample.steps) {
    if (std::ranges::find(step.outputs, complaint.tensor) == step.outputs.end()) continue;
    std::set<std::string> attrs;
    for (const auto& [name, value] : step.attrs) attrs.insert(name);
    for (const std::string& attr : attrs) kind.fine += " " + attr;
  }
  return kind;
}

std::string key_of(const BackendSpec& backend, const Complaint& complaint, const Sample& sample) {
  const bool law = complaint.symptom == Symptom::broken_law, refused = complaint.symptom == Symptom::exception;
  const std::string more = law ? " (" + complaint.op + ")" : refused ? " (" + words_of(complaint) + ")" : "";
  const std::string_view value = kind_of_value(complaint);
  std::string key = backend.family + " " + std::string(name(complaint.symptom)) + more +
                    (value.empty() ? "" : " (" + std::string(value.substr(1)) + ")") +
                    (complaint.proven ? "" : " (small)") +
                    (complaint.derivative                    ? " derivative: "
                     : complaint.level == Optimisation::none ? ": "
                                                             : " optimised: ");
  std::string chain;
  for (const Step& step : sample.steps) {
    chain += (chain.empty() ? "" : " + ") + step.op;
    std::set<std::string> attrs;
    for (const auto& [name, value] : step.attrs) attrs.insert(name);
    std::string list;
    for (const std::string& attr : attrs) list += (list.empty() ? "" : ",") + attr;
    if (!list.empty()) chain += "{" + list + "}";
  }
  return key + chain + " (" + dtype_names(sample) + ")";
}

std::string strip_text(const std::vector<std::pair<BackendSpec, Stand>>& versions) {
  constexpr std::string_view kNames[] = {"good", "bad", "refused", "died", "bad otherwise"};
  std::string text;
  for (std::size_t i = 0; i < versions.size();) {
    std::size_t last = i;
    while (last + 1 < versions.size() && versions[last + 1].second == versions[i].second) ++last;
    text += text.empty() ? "" : ", ";
    text += versions[i].first.version.empty() ? versions[i].first.family : versions[i].first.version;
    if (last > i) text += "-" + versions[last].first.version;
    text += " " + std::string(kNames[static_cast<std::size_t>(versions[i].second)]);
    i = last + 1;
  }
  return text;
}

}  // namespace finity::fuzz
