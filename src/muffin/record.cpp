#include "muffin/record.h"

#include <cmath>

#include "base/error.h"

namespace finity::muffin {

namespace {

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS run(name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS model(id INTEGER PRIMARY KEY, data TEXT, structure TEXT, layers INTEGER, steps INTEGER,
                                 loss TEXT, optimiser TEXT, chain TEXT);
CREATE TABLE IF NOT EXISTS execution(model INTEGER, backend TEXT, ended TEXT, message TEXT, backward TEXT);
CREATE TABLE IF NOT EXISTS distance(model INTEGER, a TEXT, b TEXT, output REAL, loss REAL, loss_gradient REAL,
                                    weight_gradients REAL, weights REAL);
CREATE TABLE IF NOT EXISTS localisation(model INTEGER, a TEXT, b TEXT, layer INTEGER, kind TEXT, output REAL,
                                        before REAL, gradient REAL, after REAL, blamed TEXT, inbound TEXT);
CREATE TABLE IF NOT EXISTS inconsistency(model INTEGER, phase TEXT, layer INTEGER, kind TEXT, a TEXT, b TEXT,
                                         distance REAL);
CREATE TABLE IF NOT EXISTS vote(model INTEGER, phase TEXT, kind TEXT, backend TEXT);
CREATE TABLE IF NOT EXISTS nan_layer(model INTEGER, backend TEXT, kind TEXT);
CREATE TABLE IF NOT EXISTS crash(model INTEGER, backend TEXT, stage TEXT, message TEXT);
CREATE TABLE IF NOT EXISTS looked(model INTEGER, stage TEXT, layer INTEGER, kind TEXT, backend TEXT, proof TEXT);
CREATE TABLE IF NOT EXISTS refound(model INTEGER, stage TEXT, layer INTEGER, kind TEXT, backend TEXT, fault TEXT,
                                   sure INTEGER);
CREATE TABLE IF NOT EXISTS coverage(kind TEXT, cell TEXT, hits INTEGER, first INTEGER, PRIMARY KEY(kind, cell));
CREATE TABLE IF NOT EXISTS heard(model INTEGER PRIMARY KEY, distance REAL);
CREATE TABLE IF NOT EXISTS timing(model INTEGER, backend TEXT, ms REAL);
)";

Cell whole(std::int64_t value) { return value; }
// NaN is nothing.
Cell real(double value) { return std::isnan(value) ? Cell() : Cell(value); }

std::string ended(Trace::End end) {
  constexpr const char* kNames[] = {"done", "refused", "crashed", "unsupported"};
  return kNames[static_cast<std::size_t>(end)];
}

std::string chain(const Model& model) {
  std::string text;
  for (const Layer& layer : model.layers) text += (text.empty() ? "" : " -> ") + layer.spec.kind;
  return text;
}

}  // namespace

Record::Record(const std::string& path, const std::string& configuration, bool resume) : database_(open_sqlite(path)) {
  database_->run(kTables);
  const std::vector<Row> before = database_->query("SELECT value FROM run WHERE name = 'configuration'");
  if (before.empty()) database_->run("INSERT INTO run VALUES('configuration', ?)", {configuration});
  else if (!resume) throw Error(path + ": holds a run already; go on with --resume, or choose another --workdir");
  else if (as_text(before[0][0]) != configuration)
    throw Error(path + ": holds another run (" + as_text(before[0][0]) + ")");
  models_ = as_int(database_->query("SELECT COALESCE(MAX(id) + 1, 0) FROM model")[0][0]);
}

void Record::add_model(const Model& model, const std::vector<Trace>& traces) {
  database_->run(
      "INSERT INTO model VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
      {whole(models_), model.data, model.structure, whole(static_cast<std::int64_t>(model.layers.size())),
       whole(static_cast<std::int64_t>(model.sample.steps.size())), model.loss, model.optimiser, chain(model)});
  for (const Trace& trace : traces) {
    database_->run("INSERT INTO execution VALUES(?, ?, ?, ?, ?)",
                   {whole(models_), trace.backend, ended(trace.end), trace.message, trace.backward});
  }
}

void Record::add_coverage(const Model& model) {
  std::vector<CoverCell> cells = {{"loss", model.loss}, {"optimiser", model.optimiser}};
  for (const Layer& layer : model.layers) {
    std::vector<Dims> operands;
    std::vector<std::string> makers;
    for (const int from : layer.from) {
      operands.push_back(from < 0 ? model.sample.inputs.at("x").dims()
                                  : model.layers[static_cast<std::size_t>(from)].dims);
      makers.push_back(from < 0 ? "" : model.layers[static_cast<std::size_t>(from)].spec.kind);
    }
    for (CoverCell& cell : cells_of(layer.spec, operands, makers)) cells.push_back(std::move(cell));
  }
  for (const CoverCell& cell : cells) {
    database_->run("INSERT INTO coverage VALUES(?, ?, 1, ?) ON CONFLICT(kind, cell) DO UPDATE SET hits = hits + 1",
                   {std::string(cell.kind), cell.cell, whole(models_)});
  }
}

void Record::add_pairs(const Model& model, const std::vector<Trace>& traces, const Verdict& verdict) {
  for (const PairDistance& pair : verdict.pairs) {
    const std::string &a = traces[pair.a].backend, &b = traces[pair.b].backend;
    database_->run("INSERT INTO distance VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                   {whole(models_), a, b, real(pair.output), real(pair.loss), real(pair.loss_gradient),
                    real(pair.weight_gradients), real(pair.weights)});
    for (const LayerDistance& layer : pair.layers) {
      const Layer& at = model.layers[static_cast<std::size_t>(layer.layer)];
      std::string inbound;
      for (const int from : at.from) inbound += (inbound.empty() ? "" : " ") + std::to_string(from);
      database_->run(
          "INSERT INTO localisation VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          {whole(models_), a, b, whole(layer.layer), at.spec.kind, real(layer.output), real(layer.before),
           real(layer.gradient), real(layer.after),
           layer.blamed < 0 ? std::string() : model.layers[static_cast<std::size_t>(layer.blamed)].spec.kind, inbound});
    }
  }
}

double Record::heard(std::int64_t model) {
  const std::vector<Row> rows = database_->query("SELECT distance FROM heard WHERE model = ?", {whole(model)});
  const double* distance = rows.empty() ? nullptr : std::get_if<double>(rows.front().data());
  return distance == nullptr ? 0 : *distance;
}

void Record::add_looks(const std::vector<Trace>& traces, const std::vector<Look>& looks) {
  for (const Look& look : looks) {
    const std::string& backend = traces[look.trace].backend;
    database_->run("INSERT INTO looked VALUES(?, ?, ?, ?, ?, ?)",
                   {whole(models_), look.stage, whole(look.layer), look.kind, backend, std::string(name(look.proof))});
    for (const Look::Fault& fault : look.faults)
      database_->run(
          "INSERT INTO refound VALUES(?, ?, ?, ?, ?, ?, ?)",
          {whole(models_), look.stage, whole(look.layer), look.kind, backend, fault.text, whole(fault.sure ? 1 : 0)});
  }
}

void Record::add(const Model& model, const std::vector<Trace>& traces, const Verdict& verdict, double distance,
                 const std::vector<double>& milliseconds) {
  database_->begin();
  add_model(model, traces);
  add_coverage(model);
  add_pairs(model, traces, verdict);
  const Cell id = whole(models_);
  database_->run("INSERT INTO heard VALUES(?, ?)", {id, distance});
  for (const Inconsistency& one : verdict.inconsistencies)
    database_->run("INSERT INTO inconsistency VALUES(?, ?, ?, ?, ?, ?, ?)",
                   {id, std::string(name(one.phase)), whole(one.layer), one.kind, traces[one.a].backend,
                    traces[one.b].backend, real(one.distance)});
  for (const Vote& vote : verdict.votes)
    database_->run("INSERT INTO vote VALUES(?, ?, ?, ?)",
                   {id, std::string(name(vote.phase)), vote.kind, traces[vote.trace].backend});
  for (const NanLayer& nan : verdict.nans)
    database_->run("INSERT INTO nan_layer VALUES(?, ?, ?)", {id, traces[nan.trace].backend, nan.kind});
  for (const Crash& crash : verdict.crashes)
    database_->run("INSERT INTO crash VALUES(?, ?, ?, ?)",
                   {id, traces[crash.trace].backend, std::string(crash.while_running ? "execution" : "generation"),
                    crash.message});
  add_looks(traces, look_into(model, traces, verdict));
  for (std::size_t i = 0; i < traces.size(); ++i)
    database_->run("INSERT INTO timing VALUES(?, ?, ?)", {id, traces[i].backend, milliseconds[i]});
  database_->commit();
  ++models_;
}

std::int64_t Record::count(const std::string& table) {
  return as_int(database_->query("SELECT COUNT(*) FROM " + table)[0][0]);
}

std::int64_t Record::inconsistencies() {
  return count("(SELECT DISTINCT data, phase, kind, a, b FROM inconsistency JOIN model ON model.id = model)");
}

std::int64_t Record::layer_types() { return count("coverage WHERE kind = 'layer'"); }

}  // namespace finity::muffin
