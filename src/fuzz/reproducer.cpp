#include "fuzz/reproducer.h"

#include <sstream>

#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

std::string expected_words(const Finding& finding) {
  const Complaint& c = finding.complaint;
  return "expected: element " + std::to_string(c.element) + (c.derivative ? " of the derivative by " : " of ") +
         c.tensor + (c.expected.is_point() ? " is " : " is in ") + to_string(c.expected);
}

std::string js_number(double value, DType dtype) {
  const bool big = dtype == DType::int64 || dtype == DType::uint64;
  if (big) return std::to_string(static_cast<std::int64_t>(value)) + "n";
  std::ostringstream out;
  out.precision(17);
  if (value != value) return "NaN";
  if (value > max_finite(DType::float64)) return "Infinity";
  if (value < lowest_finite(DType::float64)) return "-Infinity";
  out << value;
  return out.str();
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) result += "  " + line + "\n";
  return result;
}

std::string js_array(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::float32: return "Float32Array";
    case DType::float64: return "Float64Array";
    case DType::int32: return "Int32Array";
    case DType::uint32: return "Uint32Array";
    case DType::int64: return "BigInt64Array";
    case DType::uint64: return "BigUint64Array";
    case DType::int16: return "Int16Array";
    case DType::int8: return "Int8Array";
    case DType::boolean:
    case DType::uint8: return "Uint8Array";
    default: return "Uint16Array";  // float16, bfloat16 and uint16 by their bits
  }
}

std::string js_tensor(const Tensor& tensor) {
  std::ostringstream out;
  out << "new ort.Tensor('" << (tensor.dtype() == DType::boolean ? "bool" : name(tensor.dtype())) << "', "
      << js_array(tensor) << ".from([";
  const bool bits = tensor.dtype() == DType::float16 || tensor.dtype() == DType::bfloat16;
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    out << (i == 0 ? "" : ", ");
    if (bits) out << tensor.data<std::uint16_t>()[static_cast<std::size_t>(i)];
    else out << js_number(element_as_double(tensor, i), tensor.dtype());
  }
  out << "]), [";
  for (std::size_t i = 0; i < tensor.rank(); ++i) out << (i == 0 ? "" : ", ") << tensor.dim(i);
  out << "])";
  return out.str();
}

std::string for_onnxruntime(const Finding& finding) {
  const bool optimised = finding.complaint.level != Optimisation::none;
  std::ostringstream out;
  out << "// npm install onnxruntime-node@" << finding.backend.version << "; node reproduce.js\n"
      << "const ort = require('onnxruntime-node');\n"
      << "const path = require('path');\n"
      << "// Old versions read the options only when the model comes from a file.\n"
      << "const model = path.join(__dirname, 'model.onnx');\n\n"
      << "async function main() {\n"
      << "  const feeds = {\n";
  for (const auto& [name, tensor] : finding.sample.inputs)
    out << "    '" << name << "': " << js_tensor(tensor) << ",\n";
  out << "  };\n"
      << "  for (const level of ['disabled', '" << (optimised ? "all" : "basic") << "']) {\n"
      << "    try {\n"
      << "      const session = await ort.InferenceSession.create(model, {graphOptimizationLevel: level});\n"
      << "      const results = await session.run(feeds);\n"
      << "      for (const [name, tensor] of Object.entries(results))\n"
      << "        console.log(level, name, JSON.stringify(tensor.dims), Array.from(tensor.data).join(' '));\n"
      << "    } catch (error) {\n"
      << "      console.log(level, 'error:', error.message);\n"
      << "    }\n"
      << "  }\n";
  if (finding.complaint.element >= 0) out << "  console.log(\"" << expected_words(finding) << "\");\n";
  out << "}\n\nmain();\n";
  return out.str();
}

// TensorFlow.js: the worker wrote down its calls.
std::string for_tfjs(const Finding& finding) {
  const bool wasm = finding.backend.family == "tfjs-wasm";
  const std::string& version = finding.backend.version;
  std::ostringstream out;
  out << "// npm install @tensorflow/tfjs@" << version << (wasm ? " @tensorflow/tfjs-backend-wasm@" + version : "")
      << "; node reproduce.js\n"
      << "delete globalThis.fetch;  // the loader would ask a server for files that are there\n"
      << "const tf = require('@tensorflow/tfjs');\n";
  if (wasm) out << "require('@tensorflow/tfjs-backend-wasm');\n";
  out << "\nasync function main(name) {\n"
      << "  await tf.setBackend(name);\n"
      << "  if (tf.ready) await tf.ready();\n"
      << indented(finding.script)
      << "  const show = (what, tensor) => console.log(name, what, JSON.stringify(tensor.shape), "
      << "Array.from(tensor.dataSync()).join(' '));\n";
  if (finding.complaint.derivative)
    out << "  const first = (...all) => tf.sum(Object.values(model(...all)).find((y) => y.dtype === 'float32'));\n"
        << "  tf.grads(first)(inputs).forEach((slope, i) => show(`derivative by x${i}`, slope));\n";
  else out << "  for (const [what, tensor] of Object.entries(model(...inputs))) show(what, tensor);\n";
  out << "}\n\n" << (wasm ? "main('cpu').then(() => main('wasm'))" : "main('cpu')");
  if (finding.complaint.element >= 0) out << ".then(() => console.log(\"" << expected_words(finding) << "\"))";
  out << ";\n";
  return out.str();
}

std::string cpp_numbers(const Tensor& tensor) {
  std::ostringstream out;
  out.precision(17);
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const double x = element_as_double(tensor, i);
    out << (i == 0 ? "" : ", ");
    if (x != x) out << "NAN";
    else if (x > max_finite(DType::float64)) out << "INFINITY";
    else if (x < lowest_finite(DType::float64)) out << "-INFINITY";
    else out << x;
  }
  return out.str();
}

std::string cpp_dims(const Dims& dims) {
  std::string text;
  for (const std::int64_t size : dims) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

std::string expected_line(const Finding& finding) {
  if (finding.complaint.element < 0) return {};
  return "  std::cout << \"" + expected_words(finding) + "\\n\";\n";
}

// OpenCV: the model as its importer was given it.
std::string for_opencv(const Finding& finding) {
  const bool optimised = finding.complaint.level != Optimisation::none;
  std::ostringstream out;
  out << "// g++ -I/usr/include/opencv4 reproduce.cpp -o reproduce -lopencv_dnn -lopencv_core && ./reproduce\n"
      << "#include <cmath>\n#include <iostream>\n#include <opencv2/dnn.hpp>\n#include <vector>\n\n"
      << "cv::Mat tensor(std::vector<int> sizes, std::vector<float> values) {\n"
      << "  return cv::Mat(int(sizes.size()), sizes.data(), CV_32F, values.data()).clone();\n}\n\n"
      << "int main() {\n"
      << "  for (bool fusion : {false" << (optimised ? ", true" : "") << "}) {\n"
      << "    try {\n"
      << "      cv::dnn::Net net = cv::dnn::readNetFromONNX(\"" << (finding.script.empty() ? "model" : "opencv")
      << ".onnx\");\n"
      << "      net.enableFusion(fusion);\n";
  for (const auto& [name, tensor] : finding.sample.inputs) {
    Dims dims = tensor.dims();
    while (dims.size() < 2) dims.push_back(1);
    out << "      net.setInput(tensor({" << cpp_dims(dims) << "}, {" << cpp_numbers(tensor) << "}), \"" << name
        << "\");\n";
  }
  out << "      std::vector<cv::Mat> results;\n      net.forward(results, std::vector<cv::String>{";
  for (std::size_t i = 0; i < finding.sample.outputs.size(); ++i)
    out << (i == 0 ? "\"" : ", \"") << finding.sample.outputs[i] << "\"";
  out << "});\n"
      << "      for (const cv::Mat& y : results)\n"
      << "        std::cout << (fusion ? \"fused: \" : \"as written: \") << y.size << \": \" << y.reshape(1, 1) << "
         "\"\\n\";\n"
      << "    } catch (const cv::Exception& error) {\n"
      << "      std::cout << (fusion ? \"fused: \" : \"as written: \") << error.what() << \"\\n\";\n    }\n  }\n"
      << expected_line(finding) << "}\n";
  return out.str();
}

std::string torch_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return "kFloat";
    case DType::float64: return "kDouble";
    case DType::float16: return "kHalf";
    case DType::bfloat16: return "kBFloat16";
    case DType::boolean: return "kBool";
    case DType::uint8: return "kByte";
    case DType::int8: return "kChar";
    case DType::int16: return "kShort";
    case DType::int32: return "kInt";
    default: return "kLong";
  }
}

// LibTorch: the calls as a file of TorchScript.
std::string for_torch(const Finding& finding) {
  std::ostringstream out;
  out << "// g++ -std=gnu++17 -DNDEBUG reproduce.cpp -o reproduce -isystem /usr/include/torch/csrc/api/include -ltorch "
         "-ltorch_cpu -lc10 && ./reproduce\n"
      << "#include <cmath>\n#include <iostream>\n#include <torch/script.h>\n\n"
      << "int main() {\n  const std::vector<torch::jit::IValue> inputs = {\n";
  for (const auto& [name, tensor] : finding.sample.inputs)
    out << "      torch::tensor(std::vector<double>{" << cpp_numbers(tensor) << "}).reshape({"
        << cpp_dims(tensor.dims()) << "}).to(torch::" << torch_type(tensor.dtype()) << "),  // " << name << "\n";
  out << "  };\n"
      << "  torch::jit::Module module = torch::jit::load(\"model.pt\");\n"
      << "  torch::NoGradGuard forward_only;\n"
      << "  std::cout << \"as written: \" << module.forward(inputs) << \"\\n\";\n";
  if (finding.backend.family == "torch-script")
    out << "  try {\n    torch::jit::Module rewritten = torch::jit::optimize_for_inference(module);\n"
        << "    std::cout << \"rewritten: \" << rewritten.forward(inputs) << \"\\n\";\n"
        << "  } catch (const std::exception& error) {\n    std::cout << \"rewritten: \" << error.what() << \"\\n\";\n  "
           "}\n";
  out << expected_line(finding) << "}\n";
  return out.str();
}

bool is_tfjs(const Finding& finding) { return finding.backend.family.starts_with("tfjs"); }
bool is_torch(const Finding& finding) {
  return finding.backend.family.starts_with("torch") && !finding.complaint.derivative;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> reproducers(const Finding& finding) {
  const std::string& family = finding.backend.family;
  if (family == "ort") return {{"reproduce.js", for_onnxruntime(finding)}};
  if (family == "opencv") {
    std::vector<std::pair<std::string, std::string>> files = {{"reproduce.cpp", for_opencv(finding)}};
    if (!finding.script.empty()) files.emplace_back("opencv.onnx", finding.script);
    return files;
  }
  if (finding.script.empty()) return {};
  if (is_tfjs(finding)) return {{"reproduce.js", for_tfjs(finding)}};
  if (is_torch(finding)) return {{"reproduce.cpp", for_torch(finding)}, {"model.pt", finding.script}};
  return {};
}

std::string reproducer_use(const Finding& finding) {
  if (finding.backend.family == "ort") return "node reproduce.js        # with onnxruntime-node";
  if (finding.backend.family == "opencv") return "reproduce.cpp            # its first line says how";
  if (finding.script.empty()) return {};
  if (is_tfjs(finding)) return "node reproduce.js        # with @tensorflow/tfjs";
  return is_torch(finding) ? "reproduce.cpp            # its first line says how" : "";
}

}  // namespace finity::fuzz
