// Models made for measuring.
#pragma once

#include <cstdint>
#include <string>

namespace finity {

// A chain of small elementwise nodes with a parameter each, as an exporter would name them.
std::string chain_model(std::int64_t nodes);
// One MatMul whose weights take about this many bytes.
std::string heavy_model(std::int64_t weight_bytes);

// The layers of BERT-base and ResNet-50 with weights of full size, drawn at random.
std::string bert_model(std::int64_t layers = 12, std::int64_t width = 768);
std::string resnet_model();

}  // namespace finity
