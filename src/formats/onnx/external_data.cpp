#include "formats/onnx/external_data.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace finity::onnx {

namespace fs = std::filesystem;

namespace {

std::int64_t parse_number(std::string_view key, std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw Error("external data: " + std::string(key) + " '" + std::string(text) + "' is not a byte count");
  }
  return value;
}

// The file's real path; empty when it does not exist. Throws Error when it lies outside the directory.
fs::path locate(const std::string& directory, const std::string& location) {
  const fs::path relative(location);
  const auto outside = [&](const char* why) {
    return Error("external data '" + location + "' " + why + ": only files below the model's folder are read");
  };
  if (location.find('\0') != std::string::npos) throw outside("is not a path");
  if (relative.is_absolute()) throw outside("is an absolute path");
  if (std::ranges::find(relative, fs::path("..")) != relative.end()) throw outside("leads upwards");
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  if (error) return {};
  fs::path target = fs::canonical(root / relative, error);
  if (error) return {};
  if (std::ranges::mismatch(root, target).in1 != root.end()) throw outside("is a link that leads outside");
  if (!fs::is_regular_file(target, error)) throw Error("external data '" + location + "' is not a regular file");
  return target;
}

}  // namespace

ExternalRef read_external_ref(const std::vector<Bytes>& entries, const std::byte* file) {
  ExternalRef ref;
  for (const Bytes entry : entries) {
    std::string_view key;
    std::string_view value;
    for (Cursor cursor(entry, file); cursor.next();) {
      if (cursor.field() == 1) key = cursor.text();
      if (cursor.field() == 2) value = cursor.text();
    }
    if (key == "location") ref.location = value;
    if (key == "offset") ref.offset = parse_number(key, value);
    if (key == "length") ref.length = parse_number(key, value);
    if (key == "checksum") ref.checksum = value;
  }
  if (ref.location.empty()) throw Error("external data without a location");
  return ref;
}

std::shared_ptr<const MappedFile> ExternalFiles::open(const std::string& location) {
  const auto [place, fresh] = entries_.try_emplace(location);
  Entry& entry = place->second;
  if (fresh && !directory_.empty()) {
    const fs::path path = locate(directory_, location);
    if (!path.empty()) entry.file = MappedFile::open(path.string());
  }
  if (!entry.file) ++entry.missed;
  return entry.file;
}

void ExternalFiles::report_missing(const std::string& where, std::vector<Note>& notes) const {
  int files = 0;
  int tensors = 0;
  std::string names;
  for (const auto& [location, entry] : entries_) {
    if (entry.missed == 0) continue;
    constexpr int kShown = 3;
    if (files < kShown) names += (files == 0 ? "'" : ", '") + location + "'";
    if (files == kShown) names += ", ...";
    ++files;
    tensors += entry.missed;
  }
  if (files == 0) return;
  notes.push_back(
      {where, (files == 1 ? "external data file " : std::to_string(files) + " external data files ") + names +
                  (files == 1 ? " is missing: " : " are missing: ") +
                  (tensors == 1 ? "1 tensor is unknown" : std::to_string(tensors) + " tensors are unknown")});
}

}  // namespace finity::onnx
