// Branches, loops, lists and recurrent layers of scripts: the graph computes what LibTorch's interpreter computes,
// whichever way and however often it goes, and is proved like what is written out.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/check_graph.h"
#include "check/contract.h"
#include "torch/script_support.h"

namespace finity {

namespace {

struct Flow {
  const char* name;
  const char* body;                               // of forward(self, x), with weights w and b
  std::vector<std::vector<std::int64_t>> shapes;  // of x
  const char* op;                                 // that decides when the graph runs, or "" when nothing is left of it
  std::vector<double> offsets = {0, 3, -3};       // added to x
};

const std::vector<Flow> kFlows = {
    {"a branch on data", "if bool(x.sum() > 0):\n    y = x * 2\n  else:\n    y = x - 1\n  return y", {{2, 3}}, "If"},
    {"a branch without else", "y = x\n  if bool(x.max() > 1):\n    y = y / x.max()\n  return y", {{2, 3}}, "If"},
    {"two results",
     "if bool(x.sum() > 0):\n    a, b = x, x * x\n  else:\n    a, b = -x, x + 1\n  return a * b, b",
     {{2, 3}},
     "If"},
    {"a branch in a branch",
     "y = x\n  if bool(x.sum() > 0):\n    if bool(x.max() > 2):\n      y = x * 3\n    else:\n      y = x * 5\n  return "
     "y + x",
     {{2, 3}},
     "If"},
    {"early return", "if bool(x.sum() > 0):\n    return x * 2\n  y = torch.exp(x)\n  return y + 1", {{2, 3}}, "If"},
    {"early return of two",
     "if bool(x.sum() > 0):\n    return x * 2, x\n  y = torch.exp(x)\n  return y + 1, y",
     {{2, 3}},
     "If"},
    {"an assertion", "assert bool(x.abs().sum() > -1), \"never\"\n  return x + 1", {{2, 3}}, ""},
    {"a branch on the rank", "if x.dim() == 2:\n    y = x.t()\n  else:\n    y = x\n  return y", {{2, 3}, {4}}, ""},
    {"a branch on a size",
     "if x.size(0) > 2:\n    y = x[0:2]\n  else:\n    y = x * 2\n  return y",
     {{2, 3}, {4, 3}},
     ""},
    {"a list of parts",
     "ys = [x, x * 2]\n  if bool(x.sum() > 0):\n    ys[0] = x + 7\n  return torch.cat(ys, 0)",
     {{2, 3}},
     "If"},
    {"a list of two lengths",
     "zs = [x]\n  if bool(x.sum() > 0):\n    zs = [x * 2, x]\n  return torch.cat(zs, 0)",
     {{2, 3}},
     "If"},
    {"a list that a branch adds to",
     "zs = [x]\n  if bool(x.sum() > 0):\n    zs.append(x * 2)\n  return torch.stack(zs, 0), len(zs)",
     {{2, 3}},
     "If"},
    {"a loop of known length", "y = x\n  for i in range(4):\n    y = y * 0.5 + i\n  return y", {{2, 3}}, ""},
    {"a loop over time",
     "h = torch.zeros([2])\n  for t in range(x.size(0)):\n    h = torch.tanh(x[t] + h)\n  return h",
     {{3, 2}, {1, 2}},
     ""},
    {"a long loop", "y = x\n  for i in range(300):\n    y = torch.sin(y) + 0.01 * i\n  return y", {{2}}, ""},
    {"a loop that data ends",
     "y = x\n  while bool(y.abs().max() > 0.5):\n    y = y * 0.5\n  return y",
     {{2, 3}},
     "Loop"},
    {"rounds that are counted",
     "y = x\n  n = 0\n  while bool(y.abs().max() > 0.5):\n    y = y * 0.5\n    n += 1\n  return y + n",
     {{2, 3}},
     "Loop"},
    {"a break",
     "y = x\n  for i in range(100):\n    y = y * 0.7\n    if bool(y.abs().max() < 0.1):\n      break\n  return y",
     {{2, 3}},
     "Loop"},
    {"a number of rounds from data",
     "y = x\n  for i in range(int(x.abs().sum())):\n    y = y + i\n  return y",
     {{2, 3}},
     "Loop"},
    {"items of a loop",
     "ys = []\n  for i in range(50 * x.size(0)):\n    ys.append(x * i)\n  return torch.stack(ys, 0)",
     {{2}},
     "Loop"},
    {"items along the last axis",
     "ys = []\n  for i in range(35 * x.size(0)):\n    ys.append(x + i)\n  return torch.stack(ys, -1)",
     {{2, 3}},
     "Loop"},
    {"items that are joined",
     "ys = []\n  for i in range(35 * x.size(0)):\n    ys.append(x + i)\n  return torch.cat(ys, 1)",
     {{2, 3}},
     "Loop"},
    {"items that are read",
     "ys = [x]\n  for i in range(35 * x.size(0)):\n    ys.append(ys[-1] * 0.5 + i)\n  return ys[-1] + len(ys)",
     {{2}},
     "Loop"},
    {"items some rounds add",
     "ys = [x]\n  for i in range(35 * x.size(0)):\n    if bool((x * i).sum() > 9):\n      ys.append(x * i)\n  return "
     "torch.cat(ys, 0)",
     {{2}},
     "Loop"},
    {"state and items",
     "h = torch.zeros([3])\n  ys = []\n  for t in range(x.size(0)):\n    h = torch.tanh(x[t] + h)\n    ys.append(h)\n"
     "  return torch.stack(ys, 0), h",
     {{4, 3}, {80, 3}},
     "Loop"},
    {"a loop in a loop",
     "y = x\n  for i in range(int(x.abs().sum())):\n    for j in range(i):\n      y = y + j\n  return y",
     {{2, 3}},
     "Loop"},
    {"a branch in a loop",
     "y = x\n  for i in range(int(x.abs().sum())):\n    if bool(y.sum() > 10):\n      y = y * 0.5\n    else:\n      y "
     "= y + i\n"
     "  return y",
     {{2, 3}},
     "Loop"},
    {"growing state",
     "y = x\n  for i in range(int(x.abs().sum()) + 1):\n    y = torch.cat([y, x], 0)\n  return y",
     {{2, 3}},
     "Loop"},
    {"a list of layers",
     "hs = [x, x * 2]\n  for t in range(3):\n    for i in range(2):\n      hs[i] = hs[i] + t\n  return hs[0] - hs[1]",
     {{2, 3}},
     ""},
    {"a list of layers, long",
     "hs = [x, x * 2]\n  for t in range(int(x.abs().sum())):\n    hs[0] = hs[0] + t\n    hs[1] = hs[0] * 0.5\n  return "
     "hs[0] - hs[1]",
     {{2, 3}},
     "Loop"},
    {"a slice that is written",
     "y = x * 1\n  y[:, 1:3] = 7\n  y[0] = x[1] * 2\n  return y + 1",
     {{3, 4}},
     "ScatterElements"},
    {"slices that are added to",
     "y = x * 1\n  y[1].add_(x[0])\n  y[:, 0].mul_(3)\n  y.transpose(0, 1)[1].sub_(5)\n  return y",
     {{3, 4}},
     "ScatterElements"},
    {"a mask that is written", "y = x * 1\n  y[y < 0] = 0.\n  y[y > 1] = y.max()\n  return y.sqrt()", {{3, 4}}, ""},
    {"rows that a loop writes",
     "y = torch.zeros_like(x)\n  h = x[0] * 0\n  for t in range(x.size(0)):\n    h = torch.tanh(x[t] + h)\n    y[t] = "
     "h\n  return y",
     {{4, 3}, {70, 3}},
     "Loop"},
    {"a state in its rows",
     "y = x * 1\n  for t in range(1, x.size(0)):\n    y[t] = y[t] + 0.5 * y[t - 1]\n  return y",
     {{4, 3}, {70, 3}},
     "Loop"},
    {"a branch that writes",
     "y = x * 1\n  if bool(x.sum() > 0):\n    y[0] = 5\n  else:\n    y.add_(1)\n  return y * 2",
     {{3, 4}},
     "If"},
    {"the input that is written", "x[0] = 3\n  x.mul_(2)\n  return x + 1", {{3, 4}}, "ScatterElements"},
    {"another name before each change",
     "y = x * 1\n  z = y\n  for i in range(3):\n    w = z.t() + 1\n    y.add_(w.t())\n    z = y[:]\n  return z",
     {{3, 4}},
     ""},
    {"a dictionary", "d = {\"a\": x, \"b\": x * 2}\n  d[\"c\"] = d[\"a\"] + d[\"b\"]\n  return d[\"c\"]", {{2, 3}}, ""},
    {"a dictionary that loses an entry",
     "d = {\"a\": x, \"b\": x * 2}\n  c = d.pop(\"a\")\n  e = d.copy()\n  d[\"a\"] = x * 5\n  return d[\"a\"], "
     "d[\"b\"] + c, e[\"b\"]",
     {{2, 3}},
     ""},
    {"a wider operand in place", "y = x.abs() + 1\n  y += (x.double().abs() + 1) * 1e39\n  return y - y", {{2, 3}}, ""},
    {"None or a tensor",
     "m: Optional[Tensor] = None\n  y = x\n  if m is not None:\n    y = y * m\n  return y",
     {{2, 3}},
     ""},
    {"numbers",
     "n = x.size(0) * 3 // 2 - 7 % 4\n  s = 1.0 / float(x.size(1)) ** 0.5\n  return x * s + n",
     {{2, 3}},
     ""},
};

ImportedScript read_or_nothing(const torch::jit::Module& module, const Bindings& bindings) {
  if (!bindings.inputs.empty()) return import_script(saved(module), bindings);
  try {
    return import_script(saved(module));
  } catch (const Error&) {
    return {};
  }
}

// A number of the data decides: there the graph has to agree for both ways.
TEST(TorchScriptFlow, ComputesWhatLibTorchComputes) {
  for (const Flow& flow : kFlows) {
    const auto module = script_module("def forward(self, x):\n  " + std::string(flow.body) + "\n");
    for (const auto& shape : flow.shapes) {
      for (const bool sized : {true, false}) {
        SCOPED_TRACE(std::string(flow.name) + (sized ? ", sizes given" : ""));
        Bindings bindings;
        if (sized) bindings.inputs["x"] = shape;
        const ImportedScript read = read_or_nothing(module, bindings);
        // What needs the rank is unknown without it, and refused where it is written to.
        if (!sized && (read.graph.bodies().empty() || !unknown_nodes(read.graph).empty())) continue;
        EXPECT_EQ(unknown_nodes(read.graph), std::vector<std::string>{});
        for (std::size_t i = 0; i < flow.offsets.size(); ++i)
          expect_same(module, read, drawn(shape, -1, 1, i) + flow.offsets[i]);
      }
    }
  }
}

TEST(TorchScriptFlow, WhatIsKnownIsDecided) {
  for (const Flow& flow : kFlows) {
    SCOPED_TRACE(flow.name);
    const auto module = script_module("def forward(self, x):\n  " + std::string(flow.body) + "\n");
    Bindings bindings;
    bindings.inputs["x"] = flow.shapes.back();
    const ImportedScript read = import_script(saved(module), bindings);
    const std::string op = flow.op;
    if (op.empty()) EXPECT_EQ(count_nodes(read.graph, "If") + count_nodes(read.graph, "Loop"), 0);
    else EXPECT_GT(count_nodes(read.graph, op), 0);
  }
}

// With the state kept as it is, a training flag is false.
TEST(TorchScriptFlow, ModulesAreNotInTraining) {
  torch::jit::Module module("m");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define("def forward(self, x):\n  if self.training:\n    return torch.log(x)\n  return x + 1\n");
  const ImportedScript read = import_script(saved(module));
  EXPECT_EQ(count_nodes(read.graph, "Log"), 0);
  EXPECT_EQ(count_nodes(read.graph, "Add"), 1);
}

std::vector<std::string> open_findings(const std::string& body, const std::string& range) {
  Contract contract;
  add_range(contract, range);
  Bindings bindings;
  bindings.inputs["x"] = {4, 3};
  GraphCheckOptions options;
  options.bindings = bindings;
  Graph graph = import_script(saved(script_module("def forward(self, x):\n  " + body + "\n")), bindings).graph;
  const CheckedGraph checked = check_graph(std::move(graph), contract, options);
  std::vector<std::string> open;
  for (const Finding& finding : checked.analysis.findings) {
    if (finding.verdict != Verdict::proved) open.emplace_back(finding.rule);
  }
  return open;
}

TEST(TorchScriptFlow, IsCheckedInside) {
  const std::vector<std::string> none, log = {"FN102"};
  const std::string loop = "y = x\n  while bool(y.max() < 9):\n    y = y + 1\n    ";
  EXPECT_EQ(open_findings(loop + "z = torch.log(y - 1)\n    y = y + z\n  return y", "x:[0,1]").empty(), false);
  EXPECT_EQ(open_findings("if bool(x.sum() > 3):\n    y = torch.log(x + 1)\n  else:\n    y = x\n  return y", "x:[0,1]"),
            none);
  EXPECT_EQ(open_findings("if bool(x.sum() > 3):\n    y = torch.log(x)\n  else:\n    y = x\n  return y", "x:[0,1]"),
            log);
  const std::string recurrent =
      "h = torch.zeros([3])\n  for t in range(ROUNDS):\n    h = torch.tanh(x[0] + h)\n  return torch.log(h + SHIFT)";
  for (const char* rounds : {"4", "200"}) {
    std::string body = recurrent;
    body.replace(body.find("ROUNDS"), 6, rounds);
    std::string safe = body, open = body;
    safe.replace(safe.find("SHIFT"), 5, "1.5");
    open.replace(open.find("SHIFT"), 5, "0.5");
    EXPECT_EQ(open_findings(safe, "x:[-1,1]"), none) << rounds;
    EXPECT_EQ(open_findings(open, "x:[-1,1]"), log) << rounds;
  }
}

// What a branch or loop does that neither node can say is not known; what it changes for others is refused.
TEST(TorchScriptFlow, WhatCannotBeSaidStaysUnknown) {
  const auto read = [](const std::string& body) {
    return import_script(saved(script_module("def forward(self, x):\n  " + body + "\n")));
  };
  const ImportedScript kinds = read(
      "m: Optional[Tensor] = None\n  if bool(x.sum() > 0):\n    m = x\n  y = x\n  if m is not None:\n    y = y + m\n  "
      "return y");
  EXPECT_FALSE(unknown_nodes(kinds.graph).empty());
  // With no round nothing is raised, and the arm counts.
  const std::string raising =
      "n = int(x.min())\n  if bool(x.sum() > 0):\n    for i in range(n):\n      assert False, \"no\"\n    y = x + "
      "1\n  else:\n    y = x + 2\n  return y";
  EXPECT_EQ(count_nodes(read(raising).graph, "If"), 1);
  // Lists of sizes are no vectors, and nobody knows how many parts there are.
  for (const char* body : {"s = x.size() + x.t().size()\n  return torch.zeros(s)",
                           "y = x\n  if x.size() != x.abs().size():\n    y = x + 1\n  return y",
                           "ys = x.chunk(4)\n  return ys[0] + len(ys)", "n = x.to(4)\n  return n ** n",
                           "return torch.grid_sampler(x, x, 2, 1, False)"})
    EXPECT_FALSE(unknown_nodes(read(body).graph).empty()) << body;
  // One list under two names, of which a branch knows one.
  EXPECT_THROW(read("ys = [x]\n  zs = [x]\n  if bool(x.sum() > 0):\n    zs = ys\n  for i in range(int(x.sum())):\n    "
                    "ys.append(x)\n  return zs[-1]"),
               Error);
}

// ---- recurrent layers

struct Recurrent {
  const char* name;
  int gates;
  bool has_cell;
};

constexpr Recurrent kRecurrent[] = {
    {"lstm", 4, true}, {"gru", 3, false}, {"rnn_tanh", 1, false}, {"rnn_relu", 1, false}};
constexpr std::int64_t kTime = 5, kBatch = 2, kIn = 3, kHidden = 4;

struct Built {
  std::string forward;
  Weights weights;
};

// forward(x) calls torch.NAME with weights drawn for it.
Built built(const Recurrent& kind, std::int64_t layers, bool both_ways, bool batch_first, bool biases) {
  const std::int64_t ways = both_ways ? 2 : 1;
  Built result;
  std::string names;
  const auto add = [&](const std::string& name, at::IntArrayRef dims) {
    result.weights.emplace_back(name, drawn(dims, -0.8, 0.8, result.weights.size() + 11));
    names += (names.empty() ? "self." : ", self.") + name;
  };
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (std::int64_t way = 0; way < ways; ++way) {
      const std::string end = std::to_string(layer) + "_" + std::to_string(way);
      add("w_ih" + end, {kind.gates * kHidden, layer == 0 ? kIn : kHidden * ways});
      add("w_hh" + end, {kind.gates * kHidden, kHidden});
      if (!biases) continue;
      add("b_ih" + end, {kind.gates * kHidden});
      add("b_hh" + end, {kind.gates * kHidden});
    }
  }
  result.weights.emplace_back("h", drawn({layers * ways, kBatch, kHidden}, -1, 1, 5));
  result.weights.emplace_back("c", drawn({layers * ways, kBatch, kHidden}, -1, 1, 6));
  const auto flag = [](bool value) { return std::string(value ? "True" : "False"); };
  result.forward = "def forward(self, x):\n  return torch." + std::string(kind.name) + "(x, " +
                   (kind.has_cell ? "[self.h, self.c]" : "self.h") + ", [" + names + "], " + flag(biases) + ", " +
                   std::to_string(layers) + ", 0., False, " + flag(both_ways) + ", " + flag(batch_first) + ")\n";
  return result;
}

TEST(TorchScriptFlow, RecurrentLayers) {
  for (const Recurrent& kind : kRecurrent) {
    for (int way = 0; way < 16; ++way) {
      const std::int64_t layers = (way & 1) + 1;
      const bool both = (way & 2) != 0, first = (way & 4) != 0, biases = (way & 8) != 0;
      SCOPED_TRACE(std::string(kind.name) + " " + std::to_string(way));
      const Built layer = built(kind, layers, both, first, biases);
      const auto module = script_module(layer.forward, layer.weights);
      const ImportedScript read = import_script(saved(module));
      EXPECT_EQ(unknown_nodes(read.graph), std::vector<std::string>{});
      const std::vector<std::int64_t> dims = first ? std::vector{kBatch, kTime, kIn} : std::vector{kTime, kBatch, kIn};
      expect_same(module, read, drawn(dims, -1, 1, 3));
    }
  }
}

TEST(TorchScriptFlow, RecurrentCells) {
  for (const Recurrent& kind : kRecurrent) {
    SCOPED_TRACE(kind.name);
    const Built layer = built(kind, 1, false, false, true);
    const std::string state = kind.has_cell ? "[self.h[0], self.c[0]]" : "self.h[0]";
    const auto module = script_module("def forward(self, x):\n  return torch." + std::string(kind.name) + "_cell(x, " +
                                          state + ", self.w_ih0_0, self.w_hh0_0, self.b_ih0_0, self.b_hh0_0)\n",
                                      layer.weights);
    Bindings bindings;
    bindings.inputs["x"] = {kBatch, kIn};
    const ImportedScript read = import_script(saved(module), bindings);
    EXPECT_EQ(unknown_nodes(read.graph), std::vector<std::string>{});
    expect_same(module, read, drawn({kBatch, kIn}, -1, 1, 3));
  }
}

// Five weights for each direction: the state is projected, and there is no op for it.
TEST(TorchScriptFlow, ProjectedStatesStayUnknown) {
  Weights weights = {{"h", at::zeros({1, kBatch, 2})},
                     {"c", at::zeros({1, kBatch, kHidden})},
                     {"a", drawn({4 * kHidden, kIn}, -1, 1, 1)},
                     {"d", drawn({4 * kHidden, 2}, -1, 1, 2)},
                     {"e", drawn({2, kHidden}, -1, 1, 3)}};
  const auto module = script_module(
      "def forward(self, x):\n  y, h, c = torch.lstm(x, [self.h, self.c], [self.a, self.d, self.e], False, 1, 0., "
      "False, False, "
      "False)\n  return y\n",
      weights);
  EXPECT_EQ(unknown_nodes(import_script(saved(module)).graph), std::vector<std::string>{"aten::lstm"});
}

}  // namespace

}  // namespace finity
