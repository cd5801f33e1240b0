// Constants, what only hands a value on, what comes from outside of the graph, and what no number depends on.
#include <algorithm>

#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/lowering.h"
#include "formats/tensorflow/tensor_proto.h"

namespace finity::tensorflow {

namespace {

// Elements beyond which one that is repeated is not written out.
constexpr std::int64_t kFew = 1024;

// Elements of which all from some place on are equal, without as much memory as all of them need.
ValueId mostly_repeated(TfCall& call, const Dims& dims, Tensor given) {
  Tensor last(given.dtype(), {1});
  const std::span<const std::byte> bytes = given.bytes();
  std::ranges::copy(bytes.last(last.bytes().size()), last.mutable_bytes().begin());
  const ConstantPtr repeated = make_constant(std::move(last));
  const std::int64_t there = given.size();
  if (there == 1) return call.add("ConstantOfShape", {call.ints(dims)}, {{"value", repeated}});
  const ValueId rest = call.add("ConstantOfShape", {call.ints({element_count(dims) - there})}, {{"value", repeated}});
  const ValueId all = call.add("Concat", {call.constant(std::move(given)), rest}, {{"axis", std::int64_t{0}}});
  return call.reshape(all, dims);
}

void lower_const(TfCall& call) {
  ConstantPtr constant = call.importer().weights(call.name());
  if (!constant) {
    const std::optional<Bytes> message = call.tensor_message("value");
    const TensorFields fields = message ? read_tensor_fields(*message) : TensorFields{};
    if (message && element_count(fields.dims) > kFew) {
      if (std::optional<Tensor> given = few_elements(fields)) {
        return call.give(mostly_repeated(call, fields.dims, *std::move(given)));
      }
    }
  }
  if (!constant) constant = call.tensor("value");
  if (!constant) throw Error("a Const without a value");
  if (constant->dtype() == DType::string) return;  // file names and the like
  call.give(call.importer().writer().constant(std::move(constant), call.importer().writer().node_name()));
}

void hand_on(TfCall& call) { call.give(0, call.value(0)); }

void hand_all_on(TfCall& call) {
  for (std::size_t i = 0; i < call.input_count(); ++i) call.give(i, call.value(i));
}

// The type of a result with what the file says of its shape.
Type type_of(const TfCall& call, std::size_t output, DType dtype) {
  Type type = call.declared(output);
  type.kind = Type::Kind::tensor;
  type.dtype = dtype;
  return type;
}

void give_outside(TfCall& call, std::size_t output, const Type& type) {
  if (type.dtype == DType::undefined || type.dtype == DType::string) return;
  call.give(output, call.outside(output, type));
}

void lower_placeholder(TfCall& call) {
  const DType dtype = call.dtype("dtype");
  Type type = call.shape("shape", dtype);
  // Before version 24 a scalar shape stood for one that is not known.
  if (type.ranked && type.shape.empty() && call.importer().graph().producer < 24) type = type_of(call, 0, dtype);
  if (!type.ranked) type = type_of(call, 0, dtype);
  give_outside(call, 0, type);
}

// One result per type of an attribute, with the shapes of another.
void outside_list(TfCall& call, std::string_view types, std::string_view shapes) {
  const std::vector<DType> dtypes = call.dtypes(types);
  const std::vector<Type> known = call.shapes(shapes);
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    Type type = type_of(call, i, dtypes[i]);
    if (!type.ranked && i < known.size()) type = known[i];
    type.kind = Type::Kind::tensor;
    type.dtype = dtypes[i];
    give_outside(call, i, type);
  }
}
void lower_get_next(TfCall& call) { outside_list(call, "output_types", "output_shapes"); }
void lower_python(TfCall& call) { outside_list(call, "Tout", ""); }
void lower_restore(TfCall& call) { outside_list(call, "dtypes", ""); }
void lower_unstage(TfCall& call) { outside_list(call, "dtypes", ""); }
void lower_csv(TfCall& call) { outside_list(call, "OUT_TYPE", ""); }

template <OpName Attr>
void outside_of(TfCall& call) {
  give_outside(call, 0, type_of(call, 0, call.dtype(Attr.letters)));
}
template <DType Dtype, int Rank>
void outside_as(TfCall& call) {
  Type type = type_of(call, 0, Dtype);
  if (!type.ranked && Rank >= 0) type = Type::tensor(Dtype, Shape(static_cast<std::size_t>(Rank)));
  give_outside(call, 0, type);
}

// Sparse features come as indices, values and shapes, then dense ones.
void lower_parse_example(TfCall& call) {
  const std::vector<DType> sparse = call.dtypes("sparse_types");
  const std::vector<DType> dense = call.dtypes("Tdense");
  const std::vector<Type> shapes = call.shapes("dense_shapes");
  const std::size_t n = sparse.size();
  for (std::size_t i = 0; i < n; ++i) {
    give_outside(call, i, Type::tensor(DType::int64, Shape(2)));
    give_outside(call, n + i, Type::tensor(sparse[i], Shape(1)));
    give_outside(call, 2 * n + i, Type::tensor(DType::int64, Shape(1)));
  }
  const bool single = call.op() == "ParseSingleExample";
  for (std::size_t i = 0; i < dense.size(); ++i) {
    Type type = type_of(call, 3 * n + i, dense[i]);
    if (!type.ranked && i < shapes.size() && shapes[i].ranked) {
      type = shapes[i];
      type.dtype = dense[i];
      if (!single) type.shape.insert(type.shape.begin(), Dim{});
    }
    give_outside(call, 3 * n + i, type);
  }
}

// One range per component; a batch of them has an axis more.
void lower_dequeue(TfCall& call) {
  const std::vector<DType> dtypes = call.dtypes("component_types");
  const int handle = call.value(0).handle;
  const std::vector<Type>* components =
      handle < 0 ? nullptr : &call.importer().states()[static_cast<std::size_t>(handle)].components;
  const bool many =
      call.op().find("Many") != std::string_view::npos || call.op().find("UpTo") != std::string_view::npos;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    Type type = type_of(call, i, dtypes[i]);
    if (!type.ranked && components != nullptr && i < components->size() && (*components)[i].ranked) {
      type = (*components)[i];
      type.kind = Type::Kind::tensor;
      type.dtype = dtypes[i];
      if (many) {
        Dim batch;
        if (call.has_tensor(1)) {
          if (const auto size = call.known_ints(call.in(1));
              size && size->size() == 1 && call.op().find("Many") != std::string_view::npos) {
            batch = Dim::of(size->front());
          }
        }
        type.shape.insert(type.shape.begin(), batch);
      }
    }
    give_outside(call, i, type);
  }
}

void lower_queue(TfCall& call) {
  State queue{.kind = State::Kind::other, .name = std::string(call.name())};
  queue.components = call.shapes("shapes");
  call.give(0, TfValue{.id = {}, .handle = call.importer().add_state(std::move(queue))});
}

constexpr Lowering kBasic[] = {
    {"Const", lower_const},
    {"HostConst", lower_const},
    {"Identity", hand_on},
    {"RefIdentity", hand_on},
    {"Snapshot", hand_on},
    {"StopGradient", hand_on},
    {"PreventGradient", hand_on},
    {"CheckNumerics", hand_on},
    {"CheckNumericsV2", hand_on},
    {"DebugGradientIdentity", hand_on},
    {"DebugIdentityV2", hand_on},
    {"EnsureShape", hand_on},
    {"Print", hand_on},

    {"IdentityN", hand_all_on},

    {"Placeholder", lower_placeholder},
    {"PlaceholderV2", lower_placeholder},
    {"PlaceholderWithDefault", lower_placeholder},
    {"_Arg", outside_of<"T">},
    {"IteratorGetNext", lower_get_next},
    {"IteratorGetNextSync", lower_get_next},
    {"MultiDeviceIteratorGetNextFromShard", lower_get_next},
    {"FunctionBufferingResourceGetNext", lower_get_next},
    {"OptionalGetValue", lower_get_next},
    {"DatasetToSingleElement", lower_get_next},
    {"ReduceDataset", lower_get_next},
    {"PyFunc", lower_python},
    {"PyFuncStateless", lower_python},
    {"EagerPyFunc", lower_python},
    {"RestoreV2", lower_restore},
    {"RestoreSlice", outside_of<"dt">},
    {"Restore", outside_of<"dt">},
    {"Unstage", lower_unstage},
    {"DecodeCSV", lower_csv},
    {"DecodeRaw", outside_of<"out_type">},
    {"DecodePaddedRaw", outside_of<"out_type">},
    {"DecodeJpeg", outside_as<DType::uint8, 3>},
    {"DecodeAndCropJpeg", outside_as<DType::uint8, 3>},
    {"DecodePng", outside_as<DType::uint8, 3>},
    {"DecodeBmp", outside_as<DType::uint8, 3>},
    {"DecodeGif", outside_as<DType::uint8, 4>},
    {"DecodeImage", outside_of<"dtype">},
    {"DecodeWav", outside_as<DType::float32, 2>},
    {"ParseTensor", outside_of<"out_type">},
    {"ParseSingleExample", lower_parse_example},
    {"ParseExample", lower_parse_example},
    {"ParseExampleV2", lower_parse_example},
    {"StringToNumber", outside_of<"out_type">},
    {"StringToHashBucketFast", outside_as<DType::int64, -1>},
    {"StringToHashBucketStrong", outside_as<DType::int64, -1>},
    {"StringToHashBucket", outside_as<DType::int64, -1>},
    {"StringLength", outside_as<DType::int32, -1>},
    {"StaticRegexFullMatch", outside_as<DType::boolean, -1>},
    {"RegexFullMatch", outside_as<DType::boolean, -1>},
    {"LookupTableFind", outside_of<"Tout">},
    {"LookupTableFindV2", outside_of<"Tout">},
    {"LookupTableSizeV2", outside_as<DType::int64, 0>},
    {"QueueSize", outside_as<DType::int32, 0>},
    {"QueueSizeV2", outside_as<DType::int32, 0>},
    {"QueueDequeue", lower_dequeue},
    {"QueueDequeueV2", lower_dequeue},
    {"QueueDequeueMany", lower_dequeue},
    {"QueueDequeueManyV2", lower_dequeue},
    {"QueueDequeueUpTo", lower_dequeue},
    {"QueueDequeueUpToV2", lower_dequeue},
    {"FIFOQueue", lower_queue},
    {"FIFOQueueV2", lower_queue},
    {"PaddingFIFOQueue", lower_queue},
    {"PaddingFIFOQueueV2", lower_queue},
    {"RandomShuffleQueue", lower_queue},
    {"RandomShuffleQueueV2", lower_queue},
    {"PriorityQueueV2", lower_queue},
};

// Files, summaries, checks, readers, data sets, texts: numbers that depend on them come from outside.
constexpr std::string_view kBookkeeping[] = {
    "NoOp",
    "ControlTrigger",
    "Assert",
    "Abort",
    "PrintV2",
    "LogMessage",
    "Save",
    "SaveV2",
    "SaveSlices",
    "MergeV2Checkpoints",
    "ShardedFilename",
    "ShardedFilespec",
    "MergeSummary",
    "ScalarSummary",
    "HistogramSummary",
    "ImageSummary",
    "AudioSummary",
    "AudioSummaryV2",
    "TensorSummary",
    "TensorSummaryV2",
    "WriteScalarSummary",
    "WriteHistogramSummary",
    "WriteImageSummary",
    "WriteSummary",
    "WriteGraphSummary",
    "SummaryWriter",
    "CreateSummaryFileWriter",
    "FlushSummaryWriter",
    "CloseSummaryWriter",
    "AsString",
    "StringJoin",
    "StringSplit",
    "StringSplitV2",
    "StringFormat",
    "StringStrip",
    "StringLower",
    "StringUpper",
    "Substr",
    "ReduceJoin",
    "ReduceJoinV2",
    "RegexReplace",
    "StaticRegexReplace",
    "EncodePng",
    "EncodeJpeg",
    "EncodeBase64",
    "DecodeBase64",
    "ReadFile",
    "WriteFile",
    "MatchingFiles",
    "SerializeTensor",
    "QueueClose",
    "QueueCloseV2",
    "QueueEnqueue",
    "QueueEnqueueV2",
    "QueueEnqueueMany",
    "QueueEnqueueManyV2",
    "QueueIsClosedV2",
    "TFRecordReader",
    "TFRecordReaderV2",
    "TextLineReader",
    "TextLineReaderV2",
    "WholeFileReader",
    "WholeFileReaderV2",
    "FixedLengthRecordReader",
    "FixedLengthRecordReaderV2",
    "IdentityReader",
    "IdentityReaderV2",
    "LMDBReader",
    "ReaderRead",
    "ReaderReadV2",
    "ReaderReadUpTo",
    "ReaderReadUpToV2",
    "ReaderNumRecordsProducedV2",
    "Stage",
    "HashTable",
    "HashTableV2",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableDenseHashTableV2",
    "InitializeTable",
    "InitializeTableV2",
    "InitializeTableFromTextFile",
    "InitializeTableFromTextFileV2",
    "LookupTableImport",
    "LookupTableImportV2",
    "LookupTableInsert",
    "LookupTableInsertV2",
    "LookupTableExportV2",
    "Iterator",
    "IteratorV2",
    "OneShotIterator",
    "MakeIterator",
    "IteratorToStringHandle",
    "IteratorGetDevice",
    "IteratorFromStringHandle",
    "IteratorFromStringHandleV2",
    "AnonymousIterator",
    "AnonymousIteratorV2",
    "AnonymousIteratorV3",
    "DeleteIterator",
    "MultiDeviceIterator",
    "MultiDeviceIteratorInit",
    "MultiDeviceIteratorToStringHandle",
    "MultiDeviceIteratorFromStringHandle",
    "FunctionBufferingResource",
    "FunctionBufferingResourceReset",
    "OptionalFromValue",
    "OptionalNone",
    "OptionalHasValue",
    "TensorDataset",
    "TensorSliceDataset",
    "SparseTensorSliceDataset",
    "RangeDataset",
    "RandomDataset",
    "ZipDataset",
    "ConcatenateDataset",
    "RepeatDataset",
    "TakeDataset",
    "SkipDataset",
    "ShuffleDataset",
    "ShuffleDatasetV2",
    "ShuffleDatasetV3",
    "ShuffleAndRepeatDataset",
    "ShuffleAndRepeatDatasetV2",
    "BatchDataset",
    "BatchDatasetV2",
    "PaddedBatchDataset",
    "PaddedBatchDatasetV2",
    "MapDataset",
    "ParallelMapDataset",
    "ParallelMapDatasetV2",
    "MapAndBatchDataset",
    "MapAndBatchDatasetV2",
    "ExperimentalMapAndBatchDataset",
    "FlatMapDataset",
    "InterleaveDataset",
    "ParallelInterleaveDataset",
    "ParallelInterleaveDatasetV2",
    "ParallelInterleaveDatasetV3",
    "ParallelInterleaveDatasetV4",
    "ExperimentalParallelInterleaveDataset",
    "FilterDataset",
    "CacheDataset",
    "CacheDatasetV2",
    "PrefetchDataset",
    "TextLineDataset",
    "TFRecordDataset",
    "TFRecordDatasetV2",
    "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2",
    "GeneratorDataset",
    "OptimizeDataset",
    "OptimizeDatasetV2",
    "ModelDataset",
    "OptionsDataset",
    "ShardDataset",
    "WindowDataset",
    "UnbatchDataset",
    "ExperimentalCSVDataset",
    "CSVDataset",
    "ExperimentalUnbatchDataset",
    "GroupByWindowDataset",
    "ScanDataset",
    "TakeWhileDataset",
    "EnumerateDataset",
    "AssertCardinalityDataset",
    "AutoShardDataset",
    "RebatchDataset",
    "MaxIntraOpParallelismDataset",
    "PrivateThreadPoolDataset",
    "ExperimentalPrivateThreadPoolDataset",
    "ThreadPoolDataset",
    "DirectedInterleaveDataset",
    "MapDefun",
    "DestroyResourceOp",
    "DestroyTemporaryVariable",
    "ConfigureDistributedTPU",
    "ShutdownDistributedTPU",
    "SetAssetDirectory",
    "DisableCopyOnRead",
    "_Retval",
    "_Send",
    "_HostSend",
    "Send",
    "FakeParam",
    "Barrier",
    "BarrierClose",
    "TakeManySparseFromTensorsMap",
    "StackClose",
    "StackCloseV2",
    "TensorArrayClose",
    "TensorArrayCloseV2",
    "TensorArrayCloseV3",
    "GetSessionHandle",
    "GetSessionHandleV2",
    "DeleteSessionTensor",
    "MutexV2",
    "MutexLock",
    "ConsumeMutexLock",
    "ResourceAccumulatorSetGlobalStep",
    "AccumulatorSetGlobalStep",
    "ConditionalAccumulator",
    "AccumulatorApplyGradient",
    "SparseConditionalAccumulator",
};

}  // namespace

std::span<const Lowering> basic_lowerings() { return kBasic; }

std::span<const Lowering> bookkeeping_lowerings() {
  static const std::vector<Lowering> kAll = [] {
    std::vector<Lowering> all;
    for (const std::string_view op : kBookkeeping) all.push_back({.op = op, .lower = bookkeeping});
    return all;
  }();
  return kAll;
}

}  // namespace finity::tensorflow
