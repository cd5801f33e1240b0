// Tensors whose data live in other files. Each file is mapped once and shared. A
// model may come from anywhere, so it may only name files below its own folder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/onnx/wire.h"

namespace finity::onnx {

struct ExternalRef {
  std::string location = {};
  std::int64_t offset = 0;
  std::optional<std::int64_t> length = {};
  std::string checksum = {};  // kept for writing; checking it would read every weight
};

// Reads the key-value pairs of TensorProto.external_data; throws Error on a bad number or no location.
ExternalRef read_external_ref(const std::vector<Bytes>& entries, const std::byte* file);

class ExternalFiles {
 public:
  // An empty directory: nothing can be opened, every file is missing.
  explicit ExternalFiles(std::string directory) : directory_(std::move(directory)) {}

  // Null when there is no such file. Throws Error for a location outside the directory, and for one
  // that is not a regular file.
  std::shared_ptr<const MappedFile> open(const std::string& location);

  // One note about all missing files and the number of tensors that asked for them.
  void report_missing(const std::string& where, std::vector<Note>& notes) const;

 private:
  struct Entry {
    std::shared_ptr<const MappedFile> file = {};
    int missed = 0;
  };

  std::string directory_;
  std::map<std::string, Entry> entries_;
};

}  // namespace finity::onnx
