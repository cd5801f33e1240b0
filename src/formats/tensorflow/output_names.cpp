#include "formats/tensorflow/output_names.h"

#include <algorithm>
#include <iterator>

#include "formats/tensorflow/attr_value.h"

namespace finity::tensorflow {

namespace {

struct Names {
  std::string_view op;
  std::string_view outputs;  // in order, one result each
};

// Ops with several named results. Files of functions come without the op list that graphs have.
constexpr Names kNames[] = {
    {"Switch", "output_false output_true"},
    {"RefSwitch", "output_false output_true"},
    {"Merge", "output value_index"},
    {"RefMerge", "output value_index"},
    {"FusedBatchNorm", "y batch_mean batch_variance reserve_space_1 reserve_space_2"},
    {"FusedBatchNormV2", "y batch_mean batch_variance reserve_space_1 reserve_space_2"},
    {"FusedBatchNormV3", "y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3"},
    {"FusedBatchNormGrad", "x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4"},
    {"FusedBatchNormGradV2", "x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4"},
    {"FusedBatchNormGradV3", "x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5"},
    {"TopK", "values indices"},
    {"TopKV2", "values indices"},
    {"Unique", "y idx"},
    {"UniqueV2", "y idx"},
    {"UniqueWithCounts", "y idx count"},
    {"UniqueWithCountsV2", "y idx count"},
    {"ListDiff", "out idx"},
    {"SoftmaxCrossEntropyWithLogits", "loss backprop"},
    {"SparseSoftmaxCrossEntropyWithLogits", "loss backprop"},
    {"BroadcastGradientArgs", "r0 r1"},
    {"TensorArrayV2", "handle flow"},
    {"TensorArrayV3", "handle flow"},
    {"TensorArrayGradV3", "grad_handle flow_out"},
    {"TensorArrayConcatV3", "value lengths"},
    {"TensorListPopBack", "output_handle tensor"},
    {"TensorListConcat", "tensor lengths"},
    {"TensorListConcatV2", "tensor lengths"},
    {"MaxPoolWithArgmax", "output argmax"},
    {"Svd", "s u v"},
    {"SelfAdjointEigV2", "e v"},
    {"Qr", "q r"},
    {"LogMatrixDeterminant", "sign log_abs_determinant"},
    {"LogUniformCandidateSampler", "sampled_candidates true_expected_count sampled_expected_count"},
    {"SparseReshape", "output_indices output_shape"},
    {"SparseFillEmptyRows", "output_indices output_values empty_row_indicator reverse_index_map"},
    {"SparseFillEmptyRowsGrad", "d_values d_default_value"},
    {"NonMaxSuppressionV4", "selected_indices valid_outputs"},
    {"NonMaxSuppressionV5", "selected_indices selected_scores valid_outputs"},
    {"CombinedNonMaxSuppression", "nmsed_boxes nmsed_scores nmsed_classes valid_detections"},
    {"CTCLoss", "loss gradient"},
    {"CTCGreedyDecoder", "decoded_indices decoded_values decoded_shape log_probability"},
    {"CTCBeamSearchDecoder", "decoded_indices decoded_values decoded_shape log_probability"},
    {"DenseToDenseSetOperation", "result_indices result_values result_shape"},
    {"SparseCross", "output_indices output_values output_shape"},
    {"StatelessRandomGetKeyCounter", "key counter"},
    {"StatelessRandomGetKeyCounterAlg", "key counter alg"},
    {"LSTMBlockCell", "i cs f o ci co h"},
    {"BlockLSTM", "i cs f o ci co h"},
    {"BlockLSTMV2", "i cs f o ci co h"},
    {"GRUBlockCell", "r u c h"},
    {"CudnnRNN", "output output_h output_c reserve_space"},
    {"CudnnRNNV2", "output output_h output_c reserve_space host_reserved"},
    {"CudnnRNNV3", "output output_h output_c reserve_space host_reserved"},
    {"CudnnRNNBackprop", "input_backprop input_h_backprop input_c_backprop params_backprop"},
    {"CudnnRNNBackpropV2", "input_backprop input_h_backprop input_c_backprop params_backprop"},
    {"CudnnRNNBackpropV3", "input_backprop input_h_backprop input_c_backprop params_backprop"},
    {"LSTMBlockCellGrad", "cs_prev_grad dicfo wci_grad wcf_grad wco_grad"},
    {"ReaderReadV2", "key value"},
    {"ReaderRead", "key value"},
    {"SampleDistortedBoundingBox", "begin size bboxes"},
    {"SampleDistortedBoundingBoxV2", "begin size bboxes"},
    {"StringSplit", "indices values shape"},
    {"StringSplitV2", "indices values shape"},
    {"RaggedRange", "rt_nested_splits rt_dense_values"},
    {"GenerateBoundingBoxProposals", "rois roi_probabilities"},
};

const NamedBytes* attr_of(const NodeDef& node, std::string_view name) {
  const auto found = std::ranges::find(node.attrs, name, &NamedBytes::first);
  return found == node.attrs.end() ? nullptr : &*found;
}

std::vector<std::int64_t> integers_of(const NodeDef& node, std::string_view name) {
  const NamedBytes* attr = name.empty() ? nullptr : attr_of(node, name);
  return attr == nullptr ? std::vector<std::int64_t>() : read_attr_value(attr->second).integers;
}

// One dtype per result of an argument.
std::vector<DType> dtypes_of(const NodeDef& node, const ArgDef& arg) {
  std::vector<DType> result;
  if (!arg.type_list_attr.empty()) {
    for (const std::int64_t code : integers_of(node, arg.type_list_attr)) result.push_back(dtype_from_tf(code));
    return result;
  }
  DType dtype = dtype_from_tf(arg.type);
  const std::vector<std::int64_t> type = integers_of(node, arg.type_attr);
  if (!type.empty()) dtype = dtype_from_tf(type.front());
  const std::vector<std::int64_t> number = integers_of(node, arg.number_attr);
  const std::int64_t count = arg.number_attr.empty() ? 1 : number.empty() ? 0 : number.front();
  result.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, 10'000)), dtype);
  return result;
}

const OpSignature* signature_of(const GraphDef& graph, std::string_view op) {
  if (const auto function = graph.functions.find(op); function != graph.functions.end()) {
    return &function->second.signature;
  }
  const auto found = graph.ops.find(op);
  return found == graph.ops.end() ? nullptr : &found->second;
}

int position(std::string_view words, std::string_view word) {
  int at = 0;
  while (!words.empty()) {
    const std::size_t space = words.find(' ');
    if (words.substr(0, space) == word) return at;
    if (space == std::string_view::npos) break;
    words.remove_prefix(space + 1);
    ++at;
  }
  return 0;
}

}  // namespace

int first_output(const GraphDef& graph, const NodeDef& node, std::string_view name) {
  if (const OpSignature* signature = signature_of(graph, node.op)) {
    int at = 0;
    for (const ArgDef& arg : signature->outputs) {
      if (arg.name == name) return at;
      at += static_cast<int>(dtypes_of(node, arg).size());
    }
  }
  const auto* found = std::ranges::find(kNames, node.op, &Names::op);
  if (found == std::end(kNames)) return 0;
  // Of a search for several texts, one result each.
  const std::vector<std::int64_t> paths = integers_of(node, node.op == "CTCBeamSearchDecoder" ? "top_paths" : "");
  const std::int64_t each = paths.empty() ? 1 : std::clamp<std::int64_t>(paths.front(), 1, 1000);
  return position(found->outputs, name) * static_cast<int>(each);
}

std::vector<DType> output_dtypes(const GraphDef& graph, const NodeDef& node) {
  std::vector<DType> result;
  const OpSignature* signature = signature_of(graph, node.op);
  if (signature == nullptr) return result;
  for (const ArgDef& arg : signature->outputs) {
    const std::vector<DType> own = dtypes_of(node, arg);
    result.insert(result.end(), own.begin(), own.end());
  }
  return result;
}

}  // namespace finity::tensorflow
