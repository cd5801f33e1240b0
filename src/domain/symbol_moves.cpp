#include "domain/symbol_moves.h"

#include <algorithm>
#include <charconv>

namespace finity {

namespace {

// One step in parts. Unused fields stay empty.
struct Step {
  char kind = '?';
  std::int64_t axis = 0;              // S, G
  std::int64_t start = 0;             // S
  std::int64_t length = 0;            // S
  std::int64_t shift = 0;             // M
  std::vector<std::int64_t> entries;  // M
  std::string text;                   // G, R and unknown steps: as given

  bool selects() const { return kind == 'S' || kind == 'G'; }
};

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Step parse(std::string_view text) {
  Step step;
  step.kind = text.empty() ? '?' : text[0];
  step.text = text;
  const std::string_view rest = text.substr(std::min<std::size_t>(1, text.size()));
  const std::vector<std::string_view> fields = split(rest, ':');
  if (step.kind == 'S' && fields.size() == 3) {
    step.axis = number(fields[0]);
    step.start = number(fields[1]);
    step.length = number(fields[2]);
  } else if (step.kind == 'G' && !fields.empty()) {
    step.axis = number(fields[0]);
    step.text = rest.substr(std::min(rest.find(':') + 1, rest.size()));
  } else if (step.kind == 'M' && !fields.empty()) {
    step.shift = number(fields[0]);
    if (fields.size() > 1) {
      for (const std::string_view entry : split(fields[1], ',')) step.entries.push_back(number(entry));
    }
  } else if (step.kind != 'R') {
    step.kind = '?';
  }
  return step;
}

std::string to_text(const Step& step) {
  if (step.kind == 'S') return slice_step(static_cast<std::size_t>(step.axis), step.start, step.length);
  if (step.kind == 'G') return select_step(static_cast<std::size_t>(step.axis), step.text);
  if (step.kind != 'M') return step.text;
  std::string text = "M" + std::to_string(step.shift) + ":";
  for (std::size_t i = 0; i < step.entries.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(step.entries[i]);
  }
  return text;
}

// Result axis that source axis j (from 1) reads; 0: the source has size 1 there.
std::int64_t target(const Step& map, std::int64_t j) {
  const bool listed = j <= static_cast<std::int64_t>(map.entries.size());
  return listed ? map.entries[static_cast<std::size_t>(j - 1)] : std::max<std::int64_t>(0, j + map.shift);
}

// Source axes of size 1 may read anything, so they never keep a map from being shortened.
void shorten(Step& map) {
  while (!map.entries.empty()) {
    const std::int64_t j = static_cast<std::int64_t>(map.entries.size());
    if (map.entries.back() != 0 && map.entries.back() != j + map.shift) break;
    map.entries.pop_back();
  }
}

bool moves_nothing(const Step& map) { return map.entries.empty() && map.shift == 0; }

Step followed_by(const Step& first, const Step& second) {
  Step result;
  result.kind = 'M';
  result.shift = first.shift + second.shift;
  const auto first_size = static_cast<std::int64_t>(first.entries.size());
  const auto second_size = static_cast<std::int64_t>(second.entries.size());
  const std::int64_t listed = std::max({first_size, second_size - first.shift, -first.shift, -result.shift});
  for (std::int64_t j = 1; j <= listed; ++j) {
    const std::int64_t middle = target(first, j);
    result.entries.push_back(middle == 0 ? 0 : target(second, middle));
  }
  shorten(result);
  return result;
}

// Source axes that read the result axis `axis`.
std::vector<std::int64_t> readers(const Step& map, std::int64_t axis) {
  std::vector<std::int64_t> result;
  const auto listed = static_cast<std::int64_t>(map.entries.size());
  for (std::int64_t j = 1; j <= listed; ++j) {
    if (target(map, j) == axis) result.push_back(j);
  }
  if (axis - map.shift > listed) result.push_back(axis - map.shift);
  return result;
}

// Puts a selection among those before `end`, which are ordered by axis and start at `begin`.
void insert_selection(std::vector<Step>& steps, std::size_t begin, std::size_t end, const Step& step) {
  std::size_t at = begin;
  while (at < end && steps[at].axis <= step.axis) ++at;
  Step* last = at > begin && steps[at - 1].axis == step.axis ? &steps[at - 1] : nullptr;
  if (last != nullptr && last->kind == 'S' && step.kind == 'S') {
    // After a slice of length 1 the axis was repeated, if anything: every slice of it is the same.
    if (last->length == 1) return;
    last->start += step.start;
    last->length = step.length;
    return;
  }
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), step);
}

void append_selection(std::vector<Step>& steps, const Step& step) {
  std::size_t end = steps.size();
  const bool mapped = end > 0 && steps[end - 1].kind == 'M';
  const Step map = mapped ? steps[end - 1] : Step{};
  if (mapped) --end;
  std::size_t begin = end;
  while (begin > 0 && steps[begin - 1].selects()) --begin;
  if (!mapped) return insert_selection(steps, begin, end, step);
  for (const std::int64_t axis : readers(map, step.axis)) {
    Step inner = step;
    inner.axis = axis;
    insert_selection(steps, begin, end, inner);
    end = steps.size() - 1;
  }
}

void append_reshape(std::vector<Step>& steps, const Step& step) {
  if (!steps.empty() && steps.back().kind == 'R') {
    const std::vector<std::string_view> before = split(std::string_view(steps.back().text).substr(1), '>');
    const std::vector<std::string_view> now = split(std::string_view(step.text).substr(1), '>');
    if (before.size() == 2 && now.size() == 2 && before[1] == now[0]) {
      const bool back = before[0] == now[1];
      const std::string text = "R" + std::string(before[0]) + ">" + std::string(now[1]);
      steps.pop_back();
      if (!back) steps.push_back(parse(text));
      return;
    }
  }
  steps.push_back(step);
}

// Leading axes of size 1 are the same as none.
std::string sizes_text(const Dims& sizes) {
  std::size_t first = 0;
  while (first + 1 < sizes.size() && sizes[first] == 1) ++first;
  std::string text;
  for (std::size_t i = first; i < sizes.size(); ++i) text += (i == first ? "" : ",") + std::to_string(sizes[i]);
  return text.empty() ? "1" : text;
}

}  // namespace

std::string slice_step(std::size_t axis, std::int64_t start, std::int64_t length) {
  return "S" + std::to_string(axis) + ":" + std::to_string(start) + ":" + std::to_string(length);
}

std::string select_step(std::size_t axis, const std::string& text) { return "G" + std::to_string(axis) + ":" + text; }

std::string axes_step(const std::vector<std::int64_t>& target, std::size_t result_rank) {
  Step map;
  map.kind = 'M';
  std::int64_t furthest = 0;
  for (std::size_t j = 1; j <= target.size(); ++j) {
    const std::int64_t position = target[target.size() - j];
    map.entries.push_back(position < 0 ? 0 : static_cast<std::int64_t>(result_rank) - position);
    furthest = std::max(furthest, map.entries.back());
    // Beyond the source's rank nothing is read; this choice gives the shortest list.
    if (position >= 0) map.shift = furthest - static_cast<std::int64_t>(j);
  }
  shorten(map);
  return moves_nothing(map) ? "" : to_text(map);
}

std::string reshape_step(const Dims& from, const Dims& to) {
  const std::string source = sizes_text(from);
  const std::string result = sizes_text(to);
  return source == result ? "" : "R" + source + ">" + result;
}

namespace {

std::string compose(std::string_view chain, std::string_view step_text) {
  std::vector<Step> steps;
  for (const std::string_view part : split(chain, '|')) steps.push_back(parse(part));
  const Step step = parse(step_text);
  if (step.selects()) {
    append_selection(steps, step);
  } else if (step.kind == 'R') {
    append_reshape(steps, step);
  } else if (step.kind == 'M' && !steps.empty() && steps.back().kind == 'M') {
    steps.back() = followed_by(steps.back(), step);
    if (moves_nothing(steps.back())) steps.pop_back();
  } else {
    steps.push_back(step);
  }
  std::string result;
  for (const Step& one : steps) result += (result.empty() ? "" : "|") + to_text(one);
  return result;
}

}  // namespace

std::string composed(std::string_view chain, std::string_view step) {
  if (step.empty()) return std::string(chain);
  // The cells of a tensor move together: mostly it is the same question again.
  struct Answer {
    std::string chain = {}, step = {}, result = {};
  };
  thread_local Answer last;
  if (last.step != step || last.chain != chain)
    last = {.chain = std::string(chain), .step = std::string(step), .result = compose(chain, step)};
  return last.result;
}

}  // namespace finity
