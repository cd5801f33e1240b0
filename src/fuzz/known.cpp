#include "fuzz/known.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "backends/backends.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

// Those that have the fault, as measured. Both empty: not noted.
struct Versions {
  std::string_view first = {}, mended = {};

  bool hold(const std::string& version) const {
    return version.empty() || ((first.empty() || !older(version, first)) && (mended.empty() || older(version, mended)));
  }
};

struct Known {
  std::string_view family;
  std::string_view text;
  bool (*is)(const Finding&);
  Versions versions = {};
  bool wide = false;  // `is` holds of other faults, too: enough for a minimal sample, not for a layer
};

bool has(const Finding& f, std::string_view op) {
  return std::ranges::any_of(f.sample.steps, [&](const Step& s) { return s.op == op; });
}
bool in_order(const Finding& f, std::initializer_list<std::string_view> ops) {
  auto at = f.sample.steps.begin();
  for (const std::string_view op : ops) {
    at = std::find_if(at, f.sample.steps.end(), [&](const Step& s) { return s.op == op; });
    if (at == f.sample.steps.end()) return false;
    ++at;
  }
  return true;
}
bool sets(const Finding& f, std::string_view op, std::string_view attr) {
  return std::ranges::any_of(f.sample.steps,
                             [&](const Step& s) { return s.op == op && s.attrs.find(attr) != nullptr; });
}
bool uses(const Finding& f, DType dtype) {
  const auto is = [&](const auto& entry) { return entry.second.dtype() == dtype; };
  return std::ranges::any_of(f.sample.inputs, is) || std::ranges::any_of(f.sample.constants, is);
}
bool optimised(const Finding& f) { return f.complaint.level != Optimisation::none; }
bool died(const Finding& f) { return f.complaint.symptom == Symptom::crash; }
bool refused(const Finding& f) { return f.complaint.symptom == Symptom::exception; }
bool value(const Finding& f) { return f.complaint.symptom == Symptom::wrong_value; }
bool holds_zero(const Finding& f) {
  const auto has_zero = [](const auto& entry) {
    return is_int(entry.second.dtype()) &&
           std::ranges::any_of(elements<double>(entry.second), [](double x) { return x == 0; });
  };
  return std::ranges::any_of(f.sample.inputs, has_zero) || std::ranges::any_of(f.sample.constants, has_zero);
}
bool wraps(const Finding& f) {
  return std::ranges::any_of(f.sample.steps, [](const Step& s) {
    const Attr* mode = s.attrs.find("mode");
    return s.op == "Pad" && mode != nullptr && std::get<std::string>(*mode) == "wrap";
  });
}
bool wrong(const Finding& f) { return !died(f) && !refused(f) && f.complaint.symptom != Symptom::hang; }

constexpr Known kKnown[] = {
    {"ort",
     "#16203: AveragePool divides windows that ceil_mode cuts off by the whole kernel",
     [](const Finding& f) { return value(f) && !optimised(f) && sets(f, "AveragePool", "ceil_mode"); },
     {"1.10.0", "1.29.0"}},
    {"ort",
     "#24681, #26708: AveragePool from operator set 19 on does not count pads at the end",
     [](const Finding& f) {
       return wrong(f) && !optimised(f) && f.sample.opset >= 19 && sets(f, "AveragePool", "count_include_pad");
     },
     {"1.21.0", "1.25.0"}},
    {"ort",
     "#22177: zeros of a Pad are left out of the mean of the AveragePool behind it",
     [](const Finding& f) {
       return wrong(f) && optimised(f) && in_order(f, {"Pad", "AveragePool"});
     },
     {"1.19.0", "1.25.0"},
     true},
    {"ort",
     "fusion of PR 18136: zeros of a Pad are taken for MaxPool's own padding",
     [](const Finding& f) {
       return wrong(f) && optimised(f) && in_order(f, {"Pad", "MaxPool"});
     },
     {"1.20.0", ""},
     true},
    {"ort",
     "#10936, #11836, #23116, #24158: Relu before Clip is merged for float32 only",
     [](const Finding& f) {
       return refused(f) && in_order(f, {"Relu", "Clip"});
     },
     {"1.10.0", ""}},
    {"ort",
     "#11994, #13418, #28089, PR 17953: a chain of casts is merged",
     [](const Finding& f) {
       return wrong(f) && in_order(f, {"Cast", "Cast"});
     },
     {"1.10.0", "1.26.0"},
     true},
    {"ort", "#11828: reflecting Pad with pads of both signs, or as long as the axis",
     [](const Finding& f) {
       return wrong(f) && !optimised(f) && has(f, "Pad") && f.key.find("Pad{mode") != std::string::npos && !wraps(f);
     }},
    {"ort",
     "#32417: a Transpose that changes nothing is merged into Gemm as if it did",
     [](const Finding& f) {
       return optimised(f) && in_order(f, {"Transpose", "Gemm"});
     },
     {"1.10.0", "1.30.0"},
     true},
    {"ort",
     "#12071: Gemm with a transposed third operand",
     [](const Finding& f) { return refused(f) && has(f, "Transpose") && has(f, "Gemm"); },
     {"1.10.0", "1.12.0"},
     true},
    {"ort",
     "#32421: x * sigmoid(a x) in double is merged into an op that has no kernel",
     [](const Finding& f) { return refused(f) && has(f, "Sigmoid") && has(f, "Mul") && !uses(f, DType::float32); },
     {"1.14.0", ""}},
    {"ort",
     "#30513, PR 31144: the pattern of a layer norm is merged whatever keepdims is",
     [](const Finding& f) { return optimised(f) && sets(f, "ReduceMean", "keepdims") && has(f, "Div"); },
     {"1.10.0", ""},
     true},
    {"ort", "#31980, #25855: the pattern of a layer norm is merged with a scale of another shape",
     [](const Finding& f) { return optimised(f) && refused(f) && has(f, "ReduceMean") && has(f, "Sqrt"); }},
    {"ort", "#26528: QLinearAveragePool has no dilations",
     [](const Finding& f) { return refused(f) && has(f, "DequantizeLinear") && sets(f, "AveragePool", "dilations"); }},
    {"ort", "#25001: a zero point of type int32 is handed to QuantizeLinear",
     [](const Finding& f) { return refused(f) && has(f, "DequantizeLinear"); }},
    {"ort", "PR 22969, PR 24537: float weights between codes are quantised",
     [](const Finding& f) {
       return value(f) && optimised(f) &&
              (in_order(f, {"DequantizeLinear", "Conv", "QuantizeLinear"}) ||
               in_order(f, {"DequantizeLinear", "Gemm", "QuantizeLinear"}));
     }},
    {"ort", "#27845, #28491: signed codes behind DequantizeLinear are quantised again as unsigned ones",
     [](const Finding& f) { return wrong(f) && optimised(f) && has(f, "DequantizeLinear"); }},
    {"ort",
     "#27455: Add before LayerNormalization with a scale that has unit axes",
     [](const Finding& f) {
       return refused(f) && in_order(f, {"Add", "LayerNormalization"});
     },
     {"1.13.0", "1.24.0"}},
    {"ort",
     "PR 23387: BatchNormalization of one axis",
     [](const Finding& f) { return !optimised(f) && has(f, "BatchNormalization"); },
     {"1.10.0", "1.21.0"},
     true},
    {"ort",
     "#15446, #16350, #16351: a window of ceil_mode that lies in the padding",
     [](const Finding& f) {
       return wrong(f) && !optimised(f) && (sets(f, "MaxPool", "ceil_mode") || sets(f, "AveragePool", "ceil_mode"));
     },
     {"1.10.0", "1.21.0"}},
    {"ort",
     "#11927: ConvTranspose crops on the wrong side for SAME_UPPER",
     [](const Finding& f) { return value(f) && sets(f, "ConvTranspose", "auto_pad"); },
     {"1.10.0", "1.13.0"},
     true},
    {"ort",
     "#14208: ConvTranspose with output_padding and dilation reads what it did not write",
     [](const Finding& f) { return wrong(f) && sets(f, "ConvTranspose", "output_padding"); },
     {"1.10.0", "1.29.0"},
     true},
    {"torch", "observed in LibTorch 1.13: a convolution without input channels has no output channels",
     [](const Finding& f) {
       const bool convolves = has(f, "Conv") || has(f, "ConvInteger");
       const bool empty = std::ranges::any_of(f.sample.inputs, [](const auto& entry) { return entry.second.empty(); });
       return convolves && (f.complaint.symptom == Symptom::wrong_form || (empty && f.complaint.derivative));
     }},
    {"torch-script", "pytorch #86527, #86556 are near: a clamp behind a convolution is rewritten to something else",
     [](const Finding& f) {
       return value(f) && optimised(f) && in_order(f, {"Conv", "Clip"});
     }},
    {"tfjs-cpu", "tfjs PR 7251: the derivative of Elu between 0 and 1",
     [](const Finding& f) { return f.complaint.derivative && has(f, "Elu"); }},
    {"torch-script", "pytorch #92563: a clamp behind a convolution is merged as if it had two float bounds",
     [](const Finding& f) {
       return refused(f) && (in_order(f, {"Conv", "Clip"}) || in_order(f, {"Conv", "HardSigmoid"}));
     }},
    {"ort", "PR 25280, PR 32475: Clip, Max, Min and Sign of int64 beyond 32 bits",
     [](const Finding& f) {
       const bool chooses = has(f, "Clip") || has(f, "Max") || has(f, "Min") || has(f, "Sign");
       return value(f) && !optimised(f) && chooses && uses(f, DType::int64);
     }},
    {"ort",
     "#26288: reductions with noop_with_empty_axes",
     [](const Finding& f) {
       return wrong(f) && std::ranges::any_of(f.sample.steps, [](const Step& s) {
                return s.op.starts_with("Reduce") && s.attrs.find("noop_with_empty_axes") != nullptr;
              });
     },
     {"1.14.0", "1.24.0"}},
    {"ort",
     "#16998, PR 27693: integer division by zero ends the process",
     [](const Finding& f) { return died(f) && (has(f, "Div") || has(f, "Mod")) && holds_zero(f); },
     {"1.10.0", "1.25.0"}},
    {"ort",
     "#10950: a factor before MatMul is merged although it has no axes",
     [](const Finding& f) { return refused(f) && has(f, "MatMul") && (has(f, "Mul") || has(f, "Div")); },
     {"1.10.0", "1.12.0"},
     true},
    {"tfjs-wasm", "tfjs #7458: slopes of PRelu are repeated along the last axis",
     [](const Finding& f) { return value(f) && has(f, "PRelu"); }},
    {"tfjs-wasm", "tfjs #2590: a cast to bool keeps the number",
     [](const Finding& f) { return value(f) && f.complaint.op == "Cast"; }},
    {"tfjs-wasm",
     "tfjs #6629: filters of 1 by N with a longer stride give zeros",
     [](const Finding& f) { return value(f) && f.complaint.op == "Conv" && sets(f, "Conv", "auto_pad"); },
     {"2.0.1", ""}},
    {"opencv", "opencv #22096, PR 22122: weights of Gemm are transposed where transB is left out",
     [](const Finding& f) { return value(f) && f.complaint.op == "Gemm" && !sets(f, "Gemm", "alpha"); }},
    {"ort",
     "no public report was found: (1 / d) * x becomes x / d for integers",
     [](const Finding& f) {
       return wrong(f) && optimised(f) && in_order(f, {"Div", "Mul"}) &&
              (uses(f, DType::int32) || uses(f, DType::int64));
     },
     {"1.10.0", ""}},
};

// Filters of single channels with one row or one column.
bool row_filter(const Finding& f) {
  return std::ranges::any_of(f.sample.steps, [&](const Step& s) {
    if (s.op != "Conv" || s.attrs.find("group") == nullptr) return false;
    const Tensor* filter = given(f.sample, s.inputs[1]);
    return filter != nullptr && filter->dims().size() == 4 && filter->dims()[1] == 1 &&
           (filter->dims()[2] == 1) != (filter->dims()[3] == 1);
  });
}
bool holds_nan(const Finding& f) {
  return std::ranges::any_of(f.sample.inputs, [](const auto& entry) {
    return is_float(entry.second.dtype()) &&
           std::ranges::any_of(elements<double>(entry.second), [](double x) { return std::isnan(x); });
  });
}

// Faults that were measured but are left to campaigns to find as if they were new: most have no public report.
constexpr Known kMeasured[] = {
    {"ort",
     "#10491: Softplus far to the left",
     [](const Finding& f) { return value(f) && has(f, "Softplus"); },
     {"1.10.0", "1.11.0"},
     true},
    {"ort",
     "no public report was found: Max loses a NaN on the right",
     [](const Finding& f) { return value(f) && has(f, "Max") && holds_nan(f); },
     {"1.10.0", "1.20.0"}},
    {"ort",
     "no public report was found: Softplus in recurrent cells overflows",
     [](const Finding& f) {
       return wrong(f) && std::ranges::any_of(f.sample.steps, [](const Step& s) {
                const Attr* names = s.attrs.find("activations");
                return names != nullptr &&
                       std::ranges::count(std::get<std::vector<std::string>>(*names), "Softplus") > 0;
              });
     },
     {"1.12.1", ""}},
    {"tfjs-cpu",
     "no public report was found: filters of one row, margins are exchanged",
     [](const Finding& f) { return value(f) && row_filter(f); },
     {"1.0.0", "3.11.0"}},
    {"tfjs-cpu",
     "no public report was found: NaN is not among the candidates of a window",
     [](const Finding& f) { return value(f) && has(f, "MaxPool") && holds_nan(f); },
     {"1.0.0", ""}},
};

}  // namespace

std::vector<KnownFault> known_faults(const Finding& finding) {
  std::vector<KnownFault> faults;
  const auto look = [&](const auto& table) {
    for (const Known& known : table) {
      const std::string& version = finding.backend.version;
      if (known.family == finding.backend.family && known.versions.hold(version) && known.is(finding))
        faults.push_back({std::string(known.text), !known.wide && (version.empty() || !known.versions.first.empty())});
    }
  };
  look(kKnown);
  look(kMeasured);
  return faults;
}

std::string known_fault(const Finding& finding) {
  for (const Known& known : kKnown) {
    if (known.family == finding.backend.family && known.is(finding)) return std::string(known.text);
  }
  return {};
}

}  // namespace finity::fuzz
