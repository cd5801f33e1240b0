// TensorFlow files in all their forms: what is read, and what is refused with which words.
#include <filesystem>
#include <fstream>

#include "check/check_graph.h"
#include "formats/model_format.h"
#include "formats/tensorflow/json_proto.h"
#include "formats/tensorflow/schema.h"
#include "formats/tensorflow/source.h"
#include "formats/tensorflow/text_proto.h"
#include "formats/tensorflow_support.h"
#include "formats/wire.h"
#include "graph/initial_weight.h"

namespace finity::tensorflow_test {
namespace {

using tensorflow::SourceKind;
using Values = std::vector<double>;

SourceKind kind_of(const std::string& text) { return tensorflow::recognise(std::as_bytes(std::span(text))); }

const std::string kNegated = real("x", 3) + node("y", "Neg", {"x"}, {type("T", "FLOAT")}) + kVersions;

TEST(TensorflowSource, IsRecognisedByContent) {
  const std::string graph = tensorflow::binary_from_text(kNegated, tensorflow::kGraphDef);
  const std::string meta = "meta_info_def { tags: \"serve\" } graph_def { " + kNegated + " }";
  const std::string saved = "saved_model_schema_version: 1 meta_graphs { " + meta + " }";
  EXPECT_EQ(kind_of(kNegated), SourceKind::text_graph_def);
  EXPECT_EQ(kind_of("# a comment\r\n" + kNegated), SourceKind::text_graph_def);
  EXPECT_EQ(kind_of(meta), SourceKind::text_meta_graph);
  EXPECT_EQ(kind_of(saved), SourceKind::text_saved_model);
  EXPECT_EQ(kind_of(graph), SourceKind::graph_def);
  EXPECT_EQ(kind_of(tensorflow::binary_from_text(meta, tensorflow::kMetaGraphDef)), SourceKind::meta_graph);
  EXPECT_EQ(kind_of(tensorflow::binary_from_text(saved, tensorflow::kSavedModel)), SourceKind::saved_model);
  EXPECT_EQ(kind_of("graph g(x: float32[2]) { return x }"), SourceKind::none);
  EXPECT_EQ(kind_of("{ \"a\": 1 }"), SourceKind::none);
}

TEST(TensorflowSource, MeansTheSameInEveryForm) {
  const std::string meta = "graph_def { " + kNegated + " }";
  const std::string saved = "meta_graphs { " + meta + " }";
  for (const std::string& text : {kNegated, tensorflow::binary_from_text(kNegated, tensorflow::kGraphDef), meta,
                                  tensorflow::binary_from_text(meta, tensorflow::kMetaGraphDef), saved,
                                  tensorflow::binary_from_text(saved, tensorflow::kSavedModel)}) {
    EXPECT_EQ(value_of(read(text), "y"), (Values{-3}));
  }
}

TEST(TensorflowText, IsReadAsPeopleWriteIt) {
  const std::string graph =
      "# comment\r\nnode: < name: 'x' op: \"Co\" 'nst' experimental_debug_info { original_node_names: [\"a\", \"b\"] "
      "}\r\n"
      "  attr { key: \"dtype\" value { type: DT_FLOAT } }, newer_field: [1, 2] other { deep { er: -1.5e3 } };\r\n"
      "  attr { key: \"value\" value { tensor { dtype: 1 tensor_shape { dim { size: 4 } }\r\n"
      "    float_val: [16, -2.5f] float_val: inf float_val: nan } } } >\r\n"
      "node { name: \"y\" op: \"Neg\" input: \"x\" }" +
      kVersions;
  const Values y = value_of(read(graph), "y");
  ASSERT_EQ(y.size(), 4U);
  EXPECT_EQ(y[0], -16);
  EXPECT_EQ(y[1], 2.5);
  EXPECT_EQ(y[2], -INFINITY);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST(TensorflowText, KeepsBytes) {
  // 1.0f is 00 00 80 3f.
  const std::string graph =
      constant("x", "FLOAT", R"(tensor_content: "\000\000\200?\0\0\x80\077")", "dim { size: 2 }") +
      node("y", "Neg", {"x"}) + kVersions;
  EXPECT_EQ(value_of(read(graph), "y"), (Values{-1, -1}));
}

TEST(TensorflowText, NamesTheLineOfAFault) {
  EXPECT_EQ(read_error("node {\n name: \"a\"\n"), "g.pbtxt: line 3: a message that is not closed by '}'");
  EXPECT_EQ(read_error("node {\n name: \"a }\n"), "g.pbtxt: line 2: a text that is not closed");
  EXPECT_EQ(read_error("node {\n name 3 }"), "g.pbtxt: line 2: ':' was expected");
  EXPECT_EQ(read_error("versions { producer: many }"), "g.pbtxt: line 1: 'many' is not an integer");
  std::string deep = "node { attr ";
  for (int i = 0; i < 500; ++i) deep += "{ a ";
  EXPECT_EQ(read_error(deep), "g.pbtxt: line 1: messages nested more than 200 deep");
}

TEST(TensorflowGraph, ErrorsNameTheNode) {
  EXPECT_EQ(read_error(node("y", "Neg", {"x"})), "g.pbtxt: node 'y': input 'x' is not there");
  EXPECT_EQ(read_error(real("x", 1) + real("x", 2)), "g.pbtxt: node 'x': another node has the same name");
}

TEST(TensorflowGraph, SizesThatNobodyHasAreNotAllocated) {
  const std::string graph =
      constant("x", "FLOAT", "float_val: 1", "dim { size: 1152921504606846976 } dim { size: 64 }") +
      node("y", "Neg", {"x"}) + kVersions;
  const Graph g = read(graph);
  ASSERT_NE(node_named(g, "x"), nullptr);
  EXPECT_EQ(node_named(g, "x")->op, nullptr);
}

TEST(TensorflowGraph, TheLastValueIsRepeated) {
  const std::string graph = constant("x", "FLOAT", "float_val: 1 float_val: 2", "dim { size: 4 }") +
                            constant("h", "HALF", "half_val: 15360", "dim { size: 2 }") + node("y", "Neg", {"x"}) +
                            node("z", "Neg", {"h"}) + kVersions;
  EXPECT_EQ(value_of(read(graph), "y"), (Values{-1, -2, -2, -2}));
  EXPECT_EQ(value_of(read(graph), "z"), (Values{-1, -1}));
}

TEST(TensorflowGraph, UnknownOpsStayNamedWithTheirTypes) {
  const std::string ops =
      "meta_info_def { stripped_op_list { op { name: \"Mine\" input_arg { name: \"a\" type_attr: \"T\" } output_arg { "
      "name: \"b\" type_attr: \"T\" } output_arg { name: \"c\" type: DT_INT64 } } } }";
  const std::string graph = real("x", 3) + node("m", "Mine", {"x"}, {type("T", "FLOAT")}) + node("y", "Neg", {"m"}) +
                            node("z", "Neg", {"m:1"}) + kVersions;
  std::vector<Note> notes;
  const Graph g = read(ops + " graph_def { " + graph + " }", &notes);
  const Node* mine = node_named(g, "m");
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(mine->op, nullptr);
  ASSERT_EQ(mine->outputs.size(), 2U);
  EXPECT_EQ(g.value(mine->outputs[0]).type.dtype, DType::float32);
  EXPECT_EQ(g.value(mine->outputs[1]).type.dtype, DType::int64);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].where, "node 'm' (Mine)");
}

// ---- weights

std::string variable(const std::string& name, const std::string& initial) {
  return node(name, "VariableV2", {},
              {type("dtype", "FLOAT"), {"shape", "shape { dim { size: 2 } dim { size: 2 } }"}}) +
         node(name + "/Assign", "Assign", {name, initial}, {type("T", "FLOAT")}) + node(name + "/y", "Neg", {name});
}

InitialWeight::Support start_of(const Graph& graph, const std::string& name) {
  for (const Value& value : graph.values()) {
    if (value.name != name) continue;
    const auto* weight = dynamic_cast<const InitialWeight*>(value.constant.get());
    if (weight != nullptr) return weight->support();
  }
  ADD_FAILURE() << name << " is not a variable";
  return {};
}

TEST(TensorflowVariables, StartFromWhatTheirInitialisersCanGive) {
  const std::string shape = constant("shape", "INT32", "int_val: 2", "dim { size: 2 }");
  const std::string graph =
      shape + node("normal", "TruncatedNormal", {"shape"}, {type("dtype", "FLOAT")}) + real("stddev", 0.5) +
      node("scaled", "Mul", {"normal", "stddev"}) + real("mean", 1) + node("moved", "Add", {"scaled", "mean"}) +
      node("uniform", "RandomUniform", {"shape"}, {type("dtype", "FLOAT")}) + real("width", 0.25) +
      node("wide", "Mul", {"uniform", "width"}) + node("flipped", "Neg", {"wide"}) + real("zero", 0) +
      node("zeros", "Fill", {"shape", "zero"}) + node("strange", "Qr", {"normal"}) + variable("w", "moved") +
      variable("u", "flipped") + variable("b", "zeros") + variable("s", "strange") +
      variable("bn/moving_variance", "zeros") + variable("global_step", "zeros") + kVersions;
  const Graph g = read(graph);
  EXPECT_EQ(start_of(g, "w").lo, 0);
  EXPECT_EQ(start_of(g, "w").hi, 2);
  EXPECT_EQ(start_of(g, "u").lo, -0.25);
  EXPECT_EQ(start_of(g, "u").hi, 0);
  EXPECT_EQ(start_of(g, "b").lo, -1);
  EXPECT_EQ(start_of(g, "b").hi, 1);
  EXPECT_EQ(start_of(g, "s").hi, INFINITY);
  EXPECT_EQ(start_of(g, "bn/moving_variance").lo, 0);
  EXPECT_EQ(start_of(g, "bn/moving_variance").hi, INFINITY);
  EXPECT_EQ(start_of(g, "global_step").lo, 1);
}

// w in [0, 2]: 1/(w + 1) is safe, 1/(w - 1) need not be.
TEST(TensorflowVariables, DecideVerdictsWithTheirAssumptionsSaid) {
  const std::string graph =
      constant("shape", "INT32", "int_val: 2", "dim { size: 2 }") +
      node("uniform", "RandomUniform", {"shape"}, {type("dtype", "FLOAT")}) + real("two", 2) +
      node("start", "Mul", {"uniform", "two"}) +
      node("w", "VarHandleOp", {}, {type("dtype", "FLOAT"), {"shape", "shape { dim { size: 2 } dim { size: 2 } }"}}) +
      node("assign", "AssignVariableOp", {"w", "start"}, {type("dtype", "FLOAT")}) +
      node("read", "ReadVariableOp", {"w"}, {type("dtype", "FLOAT")}) + real("one", 1) +
      node("more", "AddV2", {"read", "one"}) + node("less", "Sub", {"read", "one"}) +
      node("good", "RealDiv", {"one", "more"}) + node("bad", "RealDiv", {"one", "less"}) + kVersions;
  const CheckedGraph checked = check_graph(read(graph), {});
  const auto verdict_of = [&](const std::string& name) {
    Verdict worst = Verdict::proved;
    for (const Finding& finding : checked.analysis.findings) {
      if (checked.graph.node(finding.node).name == name) worst = finding.verdict;
    }
    return worst;
  };
  EXPECT_EQ(verdict_of("good"), Verdict::proved);
  EXPECT_EQ(verdict_of("bad"), Verdict::possible);
  EXPECT_TRUE(std::ranges::any_of(checked.premises.assumptions, [](const std::string& text) {
    return text == "w [0, 2]: what its initialiser can draw (no trained numbers in the file)";
  }));
}

// ---- files with weights

class TensorflowFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_ / "variables");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string tfjs_model(const std::string& weights) {
  return R"({"format": "graph-model", "modelTopology": {"node": [
    {"name": "w", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}, "value": {"tensor": {"dtype": "DT_FLOAT",
      "tensorShape": {"dim": [{"size": "3"}]}}}}},
    {"name": "y", "op": "Neg", "input": ["w"], "attr": {"T": {"type": "DT_FLOAT"}}}],
    "library": {}, "versions": {"producer": 987}}, "weightsManifest": [{"paths": ["a.bin", "b.bin"], "weights": [)" +
         weights + "]}]}";
}

TEST_F(TensorflowFiles, ShardsOfTfjsModels) {
  const std::string all = floats({1, -2, 0.5});
  write("a.bin", all.substr(0, 5));
  write("b.bin", all.substr(5));
  const std::string path = write("model.json", tfjs_model(R"({"name": "w", "shape": [3], "dtype": "float32"})"));
  std::vector<Note> notes;
  EXPECT_EQ(value_of(read_model(path, notes), "y"), (Values{-1, 2, -0.5}));
}

TEST_F(TensorflowFiles, QuantisedWeightsOfTfjsModels) {
  write("a.bin", std::string("\x00\x02", 2));
  write("b.bin", std::string("\x04", 1));
  const std::string path = write(
      "model.json",
      tfjs_model(
          R"({"name": "w", "shape": [3], "dtype": "float32", "quantization": {"min": -1, "scale": 0.5, "dtype": "uint8"}})"));
  std::vector<Note> notes;
  EXPECT_EQ(value_of(read_model(path, notes), "y"), (Values{1, 0, -1}));
}

// The numbers of constants in functions stand in the weight files too, by the names of their nodes.
TEST_F(TensorflowFiles, WeightsOfFunctionsInTfjsModels) {
  write("a.bin", floats({1, -2, 0.5, 4}));
  const std::string path = write("model.json", R"({"format": "graph-model", "modelTopology": {"node": [
    {"name": "w", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}, "value": {"tensor": {"dtype": "DT_FLOAT",
      "tensorShape": {"dim": [{"size": "3"}]}}}}},
    {"name": "y", "op": "PartitionedCall", "input": ["w"], "attr": {"f": {"func": {"name": "scale"}}}}],
    "library": {"function": [{"signature": {"name": "scale", "inputArg": [{"name": "x", "type": "DT_FLOAT"}],
        "outputArg": [{"name": "z", "type": "DT_FLOAT"}]},
      "nodeDef": [
        {"name": "scale/factor", "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"},
          "value": {"tensor": {"dtype": "DT_FLOAT", "tensorShape": {}}}}},
        {"name": "scale/mul", "op": "Mul", "input": ["x", "scale/factor:output:0"], "attr": {"T": {"type": "DT_FLOAT"}}}],
      "ret": {"z": "scale/mul:z:0"}}]}, "versions": {"producer": 987}},
    "weightsManifest": [{"paths": ["a.bin"], "weights": [
      {"name": "w", "shape": [3], "dtype": "float32"}, {"name": "scale/factor", "shape": [], "dtype": "float32"}]}]})");
  std::vector<Note> notes;
  const Graph graph = read_model(path, notes);
  EXPECT_EQ(value_of(graph, graph.value(graph.main().outputs.at(0)).name), (Values{4, -8, 2}));
}

TEST_F(TensorflowFiles, MissingAndShortWeightsAreSaid) {
  const std::string path = write("model.json", tfjs_model(R"({"name": "w", "shape": [3], "dtype": "float32"})"));
  std::vector<Note> notes;
  const Graph graph = read_model(path, notes);
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes[0].text, "weight file 'a.bin' is missing");
  write("a.bin", "1234");
  write("b.bin", "");
  try {
    read_model(path, notes);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), path + ": weights 'w': the weight files end too early");
  }
}

// A table with one block of entries, as the index of a checkpoint is.
class Table {
 public:
  explicit Table(bool compressed = false) : compressed_(compressed) {}
  void add(const std::string& key, const std::string& value) {
    varint(block_, 0);
    varint(block_, key.size());
    varint(block_, value.size());
    block_ += key + value;
  }
  std::string bytes() const {
    std::string file = finished(block_);
    std::string handle;
    varint(handle, 0);
    varint(handle, file.size() - 5);
    std::string index;
    varint(index, 0);
    varint(index, 1);
    varint(index, handle.size());
    index += "z" + handle;
    std::string footer(2, '\0');
    varint(footer, file.size());
    const std::string block = finished(index);
    varint(footer, block.size() - 5);
    footer.resize(40, '\0');
    footer += "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
    return file + block + footer;
  }

 private:
  static void varint(std::string& out, std::size_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
  }
  // One restart point, then the trailer: is it compressed, a checksum.
  std::string finished(const std::string& block) const {
    if (compressed_) return packed(block) + std::string("\1\0\0\0\0", 5);
    return block + std::string("\0\0\0\0\1\0\0\0", 8) + std::string(5, '\0');
  }
  // By Snappy: the block and a zero as they are, three copies of the byte before, 1 and 0 as they are, two copies.
  static std::string packed(const std::string& block) {
    std::string out;
    varint(out, block.size() + 8);
    const std::size_t last = block.size();  // of block and zero, counted from 0
    out += "\xf4" + std::string{static_cast<char>(last & 0xff), static_cast<char>(last >> 8)};
    return out + block + std::string("\0\x0a\1\0\x04\1\0\x06\1\0", 10);
  }
  std::string block_;
  bool compressed_ = false;
};

// A graph whose variable w is what a checkpoint has under "layer/kernel".
std::string restored_model() {
  const std::string names = constant("names", "STRING", "string_val: \"layer/kernel\"", "dim { size: 1 }");
  const std::string graph =
      names + node("w", "VariableV2", {}, {type("dtype", "FLOAT"), {"shape", "shape { dim { size: 2 } }"}}) +
      node("restore", "RestoreV2", {"file", "names", "slices"}, {{"dtypes", "list { type: DT_FLOAT }"}}) +
      constant("file", "STRING", "string_val: \"f\"") +
      constant("slices", "STRING", "string_val: \"\"", "dim { size: 1 }") + node("assign", "Assign", {"w", "restore"}) +
      node("y", "Neg", {"w"}) + kVersions;
  return tensorflow::binary_from_text("saved_model_schema_version: 1 meta_graphs { graph_def { " + graph + " } }",
                                      tensorflow::kSavedModel);
}

// Two floats from the second on, in the last of so many data files.
std::string checkpoint_index(std::int64_t files, bool compressed) {
  wire::WireWriter header, entry;
  header.integer(1, files);
  entry.integer(1, 1);  // float
  entry.message(2, [&] { entry.message(2, [&] { entry.integer(1, 2); }); });
  entry.integer(3, files - 1);
  entry.integer(4, 4);
  entry.integer(5, 8);
  Table table(compressed);
  table.add("", header.take());
  table.add("layer/kernel", entry.take());
  return table.bytes();
}

TEST_F(TensorflowFiles, CheckpointsOfSavedModels) {
  const std::string path = write("saved_model.pb", restored_model());
  write("variables/variables.data-00000-of-00001", floats({9, 3, -4}));
  write("variables/variables.data-00001-of-00002", floats({9, 5, -6}));
  std::vector<Note> notes;
  for (const bool compressed : {false, true}) {
    write("variables/variables.index", checkpoint_index(1, compressed));
    EXPECT_EQ(value_of(read_model(path, notes), "y"), (Values{-3, 4})) << compressed;
    write("variables/variables.index", checkpoint_index(2, compressed));
    EXPECT_EQ(value_of(read_model(path, notes), "y"), (Values{-5, 6})) << compressed;
  }
  EXPECT_TRUE(notes.empty());
}

TEST_F(TensorflowFiles, AMissingDataFileOfACheckpointIsSaid) {
  const std::string path = write("saved_model.pb", restored_model());
  write("variables/variables.index", checkpoint_index(1, false));
  std::vector<Note> notes;
  const Graph graph = read_model(path, notes);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0].text, "'variables.data-00000-of-00001' is missing");
  EXPECT_EQ(notes[1].text, "1 have no numbers in the checkpoint; their initialisers count");
  EXPECT_EQ(node_named(graph, "y")->inputs.size(), 1U);
}

// Whatever is cut off or changed: an error of one line, or numbers.
TEST_F(TensorflowFiles, DamagedIndexesAreRefused) {
  const std::string path = write("saved_model.pb", restored_model());
  write("variables/variables.data-00000-of-00001", floats({9, 3, -4}));
  const std::string whole = checkpoint_index(1, true);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char change : {'\x01', '\x7f', '\x80'}) {
      std::string index = whole;
      index[at] = static_cast<char>(index[at] ^ change);
      write("variables/variables.index", index);
      try {
        std::vector<Note> notes;
        read_model(path, notes);
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      }
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()));
}

}  // namespace
}  // namespace finity::tensorflow_test
