#include "muffin/tables.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "muffin/layers.h"
#include "store/database.h"

namespace finity::muffin {

namespace {

namespace fs = std::filesystem;

struct OpenRun {
  const RunName& name;
  std::unique_ptr<Database> database;

  std::int64_t count(const std::string& what) const {
    return as_int(database->query("SELECT COUNT(*) FROM " + what)[0][0]);
  }
  std::vector<std::string> column(const std::string& sql) const {
    std::vector<std::string> values;
    for (const Row& row : database->query(sql)) values.push_back(as_text(row[0]));
    return values;
  }
};

// Once per data set and layer type, as the paper counts.
constexpr const char* kDistinct =
    "(SELECT DISTINCT data, kind FROM inconsistency JOIN model ON model.id = model WHERE ";

std::string text(std::int64_t number) { return std::to_string(number); }

std::string fixed(double number, int digits) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, number);
  return buffer;
}

Table pairs_table(const std::vector<OpenRun>& runs) {
  Table table{.title = "Inconsistencies per stage and pair of libraries",
              .columns = {"environment", "mode", "pair", "models", "FC", "LC", "BC", "step"}};
  for (const OpenRun& run : runs) {
    for (const Row& pair : run.database->query("SELECT DISTINCT a, b FROM distance ORDER BY a, b")) {
      const std::string a = as_text(pair[0]), b = as_text(pair[1]), where = "a = '" + a + "' AND b = '" + b + "'";
      std::vector<std::string> row = {run.name.environment, run.name.mode, a + " - " + b,
                                      text(run.count("distance WHERE " + where))};
      for (const char* phase : {"FC", "LC", "BC", "step"})
        row.push_back(text(run.count(kDistinct + where + " AND phase = '" + phase + "')")));
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

Table failures_table(const std::vector<OpenRun>& runs) {
  Table table{.title = "NaN and crashes where another library runs normally",
              .columns = {"environment", "mode", "library", "ran", "not supported", "NaN layers", "generation crashes",
                          "execution crashes"}};
  for (const OpenRun& run : runs) {
    for (const std::string& backend : run.column("SELECT DISTINCT backend FROM execution ORDER BY backend")) {
      const std::string here = "backend = '" + backend + "'";
      table.rows.push_back(
          {run.name.environment, run.name.mode, backend, text(run.count("execution WHERE ended = 'done' AND " + here)),
           text(run.count("execution WHERE ended = 'unsupported' AND " + here)),
           text(run.count("(SELECT DISTINCT kind FROM nan_layer WHERE " + here + ")")),
           text(run.count("(SELECT DISTINCT message FROM crash WHERE stage = 'generation' AND " + here + ")")),
           text(run.count("(SELECT DISTINCT message FROM crash WHERE stage = 'execution' AND " + here + ")"))});
    }
  }
  return table;
}

Table coverage_table(const std::vector<OpenRun>& runs) {
  Table table{.title = "Coverage and time",
              .columns = {"environment", "mode", "models", "layer types of 59", "losses of 13", "optimisers of 7",
                          "input forms", "parameter values", "pairs of values", "edges", "seconds per 50 models"}};
  for (const OpenRun& run : runs) {
    const std::int64_t models = run.count("model");
    const std::string all = run.column("SELECT CAST(COALESCE(SUM(ms), 0) / 1000 AS TEXT) FROM timing")[0];
    std::vector<std::string> row = {run.name.environment, run.name.mode, text(models)};
    for (const char* kind : {"layer", "loss", "optimiser", "form", "value", "pair", "edge"})
      row.push_back(text(run.count("coverage WHERE kind = '" + std::string(kind) + "'")));
    row.push_back(fixed(50 * std::stod(all) / static_cast<double>(std::max<std::int64_t>(models, 1)), 1));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Voted layers per library and phase; those that no other mode finds in the same environment are named.
Table votes_table(const std::vector<OpenRun>& runs) {
  Table table{.title = "Distinct layers voted to be a library's fault",
              .columns = {"environment", "mode", "library", "stage", "layers", "only this mode finds"}};
  std::map<std::string, std::map<std::string, std::set<std::string>>> finders;
  const auto key = [](const OpenRun& run, const Row& row) {
    return run.name.environment + "|" + as_text(row[0]) + "|" + as_text(row[1]);
  };
  const char* sql = "SELECT DISTINCT backend, phase, kind FROM vote ORDER BY backend, phase, kind";
  for (const OpenRun& run : runs) {
    for (const Row& row : run.database->query(sql)) finders[key(run, row)][as_text(row[2])].insert(run.name.mode);
  }
  for (const OpenRun& run : runs) {
    std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::string>> sums;
    for (const Row& row : run.database->query(sql)) {
      auto& [count, alone] = sums[{as_text(row[0]), as_text(row[1])}];
      ++count;
      if (finders[key(run, row)][as_text(row[2])].size() == 1) alone += (alone.empty() ? "" : " ") + as_text(row[2]);
    }
    for (const auto& [where, sum] : sums)
      table.rows.push_back(
          {run.name.environment, run.name.mode, where.first, where.second, text(sum.first), sum.second});
  }
  return table;
}

Table threshold_table(const std::vector<OpenRun>& runs) {
  constexpr const char* kThresholds[] = {"0.05", "0.1", "0.15", "0.2", "0.25", "0.3"};
  Table table{.title = "Inconsistencies (FC and BC) over the threshold t", .columns = {"environment", "mode"}};
  for (const char* t : kThresholds) table.columns.push_back(std::string("t = ") + t);
  for (const OpenRun& run : runs) {
    std::vector<std::string> row = {run.name.environment, run.name.mode};
    for (const char* t : kThresholds) {
      const std::string joined = " FROM localisation l JOIN model m ON m.id = l.model ";
      const std::string forward =
          "(SELECT DISTINCT data, kind, a, b" + joined + "WHERE l.output > " + t + " AND l.before < 1e-5)";
      const std::string backward =
          "(SELECT DISTINCT data, blamed, l.a, l.b" + joined +
          "JOIN distance d ON d.model = l.model AND d.a = l.a AND d.b = l.b WHERE d.loss < 1e-5 "
          "AND blamed <> '' AND l.gradient > " +
          t + " AND l.after < 1e-5)";
      row.push_back(text(run.count(forward) + run.count(backward)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Flags once per data set, stage, layer type and library. A fault that is sure is not counted again as one that may be.
Table refound_table(const std::vector<OpenRun>& runs) {
  Table table{.title = "Known faults found again, and what bounds prove of the flags",
              .columns = {"environment", "mode", "library", "flags", "proven wrong", "proven right", "open",
                          "known faults", "which", "may be"}};
  const std::string distinct = "SELECT DISTINCT data, stage, kind, backend FROM looked JOIN model ON model.id = model ";
  for (const OpenRun& run : runs) {
    for (const std::string& backend : run.column("SELECT DISTINCT backend FROM execution ORDER BY backend")) {
      const std::string here = "WHERE backend = '" + backend + "'";
      std::vector<std::string> row = {run.name.environment, run.name.mode, backend,
                                      text(run.count("(" + distinct + here + ")"))};
      for (const char* proof : {"wrong", "right", "open"})
        row.push_back(text(run.count("(" + distinct + here + " AND proof = '" + proof + "')")));
      const auto sure = run.column("SELECT DISTINCT fault FROM refound " + here + " AND sure = 1 ORDER BY fault");
      std::string which, others;
      for (const std::string& fault : sure) which += (which.empty() ? "" : "; ") + fault;
      for (const std::string& fault :
           run.column("SELECT DISTINCT fault FROM refound " + here + " AND sure = 0 ORDER BY fault")) {
        if (std::ranges::find(sure, fault) == sure.end()) others += (others.empty() ? "" : "; ") + fault;
      }
      row.insert(row.end(), {text(static_cast<std::int64_t>(sure.size())), which, others});
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

std::string as_text_table(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = table.columns[i].size();
    for (const auto& row : table.rows) width = std::max(width, row[i].size());
    widths.push_back(width);
  }
  std::string out = table.title + "\n";
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string one;
    for (std::size_t i = 0; i < cells.size(); ++i)
      one += "  " + cells[i] + std::string(widths[i] - cells[i].size(), ' ');
    one.erase(one.find_last_not_of(' ') + 1);
    out += one + "\n";
  };
  line(table.columns);
  for (const auto& row : table.rows) line(row);
  return out + "\n";
}

std::string as_markdown(const Table& table) {
  std::string out = "**" + table.title + "**\n\n";
  const auto line = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out += "| " + cell + " ";
    out += "|\n";
  };
  line(table.columns);
  for (std::size_t i = 0; i < table.columns.size(); ++i) out += "|---";
  out += "|\n";
  for (const auto& row : table.rows) line(row);
  return out + "\n";
}

std::string as_csv(const Table& table) {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    out += "\"" + table.title + "\"";
    for (const std::string& cell : cells) out += ",\"" + cell + "\"";
    out += "\n";
  };
  line(table.columns);
  for (const auto& row : table.rows) line(row);
  return out;
}

nlohmann::json as_json(const Table& table) {
  nlohmann::json json = {{"title", table.title}, {"rows", nlohmann::json::array()}};
  for (const auto& row : table.rows) {
    nlohmann::json one = nlohmann::json::object();
    for (std::size_t i = 0; i < row.size(); ++i) one[table.columns[i]] = row[i];
    json["rows"].push_back(one);
  }
  return json;
}

}  // namespace

std::vector<Table> tables_of(const std::vector<RunName>& names) {
  std::vector<OpenRun> runs;
  for (const RunName& name : names) {
    const fs::path path = fs::path(name.folder) / "muffin.sqlite";
    if (!fs::exists(path)) throw Error(name.folder + ": holds no run (there is no muffin.sqlite)");
    runs.push_back({name, open_sqlite(path.string())});
  }
  return {pairs_table(runs), failures_table(runs),  coverage_table(runs),
          votes_table(runs), threshold_table(runs), refound_table(runs)};
}

std::string in_format(const std::vector<Table>& tables, std::string_view format) {
  std::string out;
  nlohmann::json all = nlohmann::json::array();
  for (const Table& table : tables) {
    if (format == "text") out += as_text_table(table);
    else if (format == "markdown") out += as_markdown(table);
    else if (format == "csv") out += as_csv(table);
    else if (format == "json") all.push_back(as_json(table));
    else throw Error("there is no format '" + std::string(format) + "': text, csv, markdown or json");
  }
  return format == "json" ? all.dump(2) + "\n" : out;
}

}  // namespace finity::muffin
