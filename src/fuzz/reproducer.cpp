#include "fuzz/reproducer.h"

#include <sstream>

#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

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

}  // namespace

std::string reproducer(const Finding& finding) {
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
  if (finding.complaint.element >= 0)
    out << "  console.log(\"expected: element " << finding.complaint.element << " of " << finding.complaint.tensor
        << " in " << to_string(finding.complaint.expected) << "\");\n";
  out << "}\n\nmain();\n";
  return out.str();
}

}  // namespace finity::fuzz
