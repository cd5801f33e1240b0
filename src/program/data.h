// Where training data comes from: files of digits (idx, packed or not), .npz archives, columns of .csv files.
#pragma once

#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

// What a program description calls a source: "idx:FILE", "npz:FILE#key", "csv:FILE#column,column", "digits.images",
// "digits.labels".
struct LoadedData {
  Tensor tensor = {};
  double lo = 0, hi = 0;  // what the source's numbers may be: 0 and 255 for bytes, else the smallest and largest
};

// `folder` is what relative paths start from. Throws Error naming file and reason.
LoadedData load_data(const std::string& source, const std::string& folder);

// The format of MNIST: uint8 elements and the like, any rank; .gz is unpacked.
Tensor read_idx(const std::string& path);
// Float64 [rows, columns], or [rows] for a single one. Columns by name when the first line holds names, else by number
// from 0; none: all. A column of texts becomes the index of each text in order of first appearance.
Tensor read_csv(const std::string& path, const std::vector<std::string>& columns);

// Integer classes to rows with a single 1. Throws Error naming the first class that is not below `classes`.
Tensor one_hot(const Tensor& labels, std::int64_t classes);
// Linearly from [from_lo, from_hi] to [to_lo, to_hi]; float32, or float64 as it was.
Tensor rescaled(const Tensor& data, double from_lo, double from_hi, double to_lo, double to_hi);

}  // namespace finity
