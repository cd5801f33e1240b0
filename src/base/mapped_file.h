// A file mapped read-only into memory. Weights are views into it until someone
// needs them, so opening a model costs no more than its graph.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace finity {

class MappedFile {
 public:
  // Throws Error naming the path: missing, a directory, unreadable.
  static std::shared_ptr<const MappedFile> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes);

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace finity
