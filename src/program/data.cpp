#include "program/data.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/npz/npz.h"
#include "program/digits.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// zlib reads plain files as they are.
std::string unpacked(const std::string& path) {
  MappedFile::open(path);  // for its messages
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(::gzopen(path.c_str(), "rb"), ::gzclose);
  if (file == nullptr) throw Error(path + ": cannot be opened");
  std::string bytes;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    const int count = ::gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (count < 0) throw Error(path + ": the compressed data is damaged");
    if (count == 0) break;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
    if (bytes.size() > static_cast<std::size_t>(Tensor::kMaxBytes)) throw Error(path + ": too large");
  }
  if (::gzdirect(file.get()) == 0 && !::gzeof(file.get())) throw Error(path + ": the compressed data is cut off");
  return bytes;
}

std::optional<DType> idx_dtype(unsigned code) {
  switch (code) {
    case 0x08: return DType::uint8;
    case 0x09: return DType::int8;
    case 0x0b: return DType::int16;
    case 0x0c: return DType::int32;
    case 0x0d: return DType::float32;
    case 0x0e: return DType::float64;
    default: return std::nullopt;
  }
}

std::vector<std::string_view> split(std::string_view line, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = line.find(separator);
    parts.push_back(line.substr(0, at));
    if (at == std::string_view::npos) return parts;
    line.remove_prefix(at + 1);
  }
}

std::optional<double> number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"' || text.back() == '\r')) text.remove_suffix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != '"' && c != '\r') result += c;
  }
  return result;
}

// Elements of files are stored with the highest byte first.
void turn_bytes(std::span<std::byte> bytes, std::size_t width) {
  for (std::size_t at = 0; width > 1 && at + width <= bytes.size(); at += width) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + width));
  }
}

class CsvReader {
 public:
  CsvReader(std::string path, const std::vector<std::string>& columns) : path_(std::move(path)), wanted_(columns) {}

  Tensor read() {
    const std::string text = unpacked(path_);
    std::size_t number_of_line = 0;
    for (std::string_view line : split(text, '\n')) {
      ++number_of_line;
      if (line.empty() || line == "\r") continue;
      const std::vector<std::string_view> cells = split(line, ',');
      if (!started_ && !begin(cells)) continue;
      add(cells, number_of_line);
    }
    if (rows_ == 0) throw Error(path_ + ": no rows");
    Dims dims = {rows_, static_cast<std::int64_t>(columns_.size())};
    if (columns_.size() == 1) dims.pop_back();
    return from_elements<double>(DType::float64, std::move(dims), numbers_);
  }

 private:
  // False: the line held the names of the columns.
  bool begin(const std::vector<std::string_view>& cells) {
    started_ = true;
    const bool names = std::ranges::none_of(cells, [](std::string_view cell) { return number(cell).has_value(); });
    std::vector<std::string> titles;
    for (const std::string_view cell : cells) titles.push_back(names ? plain(cell) : std::to_string(titles.size()));
    for (std::size_t i = 0; wanted_.empty() && i < titles.size(); ++i) columns_.push_back(i);
    for (const std::string& wanted : wanted_) {
      const auto found = std::ranges::find(titles, wanted);
      if (found == titles.end()) throw Error(path_ + ": there is no column '" + wanted + "'");
      columns_.push_back(static_cast<std::size_t>(found - titles.begin()));
    }
    return !names;
  }

  void add(const std::vector<std::string_view>& cells, std::size_t line) {
    ++rows_;
    for (const std::size_t column : columns_) {
      if (column >= cells.size()) throw Error(path_ + ":" + std::to_string(line) + ": too few columns");
      const std::optional<double> value = number(cells[column]);
      std::map<std::string, double>& classes = texts_[column];
      if (!value && rows_ > 1 && classes.empty()) {
        throw Error(path_ + ":" + std::to_string(line) + ": '" + plain(cells[column]) + "' is not a number");
      }
      if (value) numbers_.push_back(*value);
      else numbers_.push_back(classes.emplace(plain(cells[column]), static_cast<double>(classes.size())).first->second);
    }
  }

  std::string path_;
  const std::vector<std::string>& wanted_;
  std::vector<std::size_t> columns_;
  std::map<std::size_t, std::map<std::string, double>> texts_;  // by column: texts and their numbers
  std::vector<double> numbers_;
  std::int64_t rows_ = 0;
  bool started_ = false;
};

Tensor npz_member(const std::string& path, const std::string& key) {
  const auto file = MappedFile::open(path);
  try {
    NamedTensors members = read_npz(file->bytes());
    if (key.empty() && members.size() == 1) return members.front().second;
    for (auto& [name, tensor] : members) {
      if (name == key) return std::move(tensor);
    }
  } catch (Error& error) {
    error.in(path);
    throw;
  }
  throw Error(path + ": there is no array '" + key + "'");
}

LoadedData with_limits(Tensor tensor) {
  LoadedData data = {.tensor = std::move(tensor)};
  if (data.tensor.dtype() == DType::uint8) {
    data.hi = 255;
    return data;
  }
  const std::vector<double> numbers = elements<double>(data.tensor);
  if (numbers.empty()) throw Error("no data");
  const auto [lo, hi] = std::ranges::minmax(numbers);
  data.lo = lo;
  data.hi = hi;
  return data;
}

}  // namespace

Tensor read_idx(const std::string& path) {
  std::string bytes = unpacked(path);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(bytes[i])); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0 || !idx_dtype(byte(2)) || bytes.size() < 4 + 4 * byte(3)) {
    throw Error(path + ": not an idx file");
  }
  Dims dims;
  for (std::size_t axis = 0; axis < byte(3); ++axis) {
    const std::size_t at = 4 + 4 * axis;
    dims.push_back(static_cast<std::int64_t>(byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3)));
  }
  const DType dtype = *idx_dtype(byte(2));
  const std::size_t head = 4 + 4 * dims.size(), width = static_cast<std::size_t>(info(dtype).memory_bytes);
  if (bytes.size() - head != static_cast<std::size_t>(element_count(dims)) * width) {
    throw Error(path + ": its header says " + to_string(dims) + ", which is not what it holds");
  }
  Tensor result(dtype, std::move(dims));
  const std::span<std::byte> target = result.mutable_bytes();
  std::memcpy(target.data(), bytes.data() + head, target.size());
  turn_bytes(target, width);
  return result;
}

Tensor read_csv(const std::string& path, const std::vector<std::string>& columns) {
  return CsvReader(path, columns).read();
}

LoadedData load_data(const std::string& source, const std::string& folder) {
  if (source == "digits.images") return {.tensor = digit_images(), .lo = 0, .hi = 1};
  if (source == "digits.labels") return {.tensor = digit_labels(), .lo = 0, .hi = 9};
  const std::size_t colon = source.find(':');
  const std::string kind = source.substr(0, colon);
  if (colon == std::string::npos || (kind != "idx" && kind != "npz" && kind != "csv")) {
    throw Error("'" + source +
                "' is none of idx:FILE, npz:FILE#key, csv:FILE#column,column, digits.images, digits.labels");
  }
  const std::size_t hash = kind == "idx" ? std::string::npos : source.rfind('#');
  const std::string key = hash == std::string::npos ? "" : source.substr(hash + 1);
  const std::string file = source.substr(colon + 1, hash == std::string::npos ? hash : hash - colon - 1);
  const std::string path = (std::filesystem::path(folder) / file).string();
  if (kind == "idx") return with_limits(read_idx(path));
  if (kind == "npz") return with_limits(npz_member(path, key));
  std::vector<std::string> columns;
  for (const std::string_view column : split(key, ',')) {
    if (!column.empty()) columns.emplace_back(column);
  }
  return with_limits(read_csv(path, columns));
}

Tensor one_hot(const Tensor& labels, std::int64_t classes) {
  if (classes < 1) throw Error("one_hot must be at least 1");
  const std::vector<double> numbers = elements<double>(labels);
  std::vector<float> rows(numbers.size() * static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double label = numbers[i];
    if (!(label >= 0 && label < static_cast<double>(classes)) || label != std::floor(label)) {
      throw Error("one_hot: " + std::to_string(label) + " is no class below " + std::to_string(classes));
    }
    rows[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(label)] = 1;
  }
  Dims dims = {static_cast<std::int64_t>(numbers.size()), classes};
  return Tensor::of<float>(DType::float32, std::move(dims), rows);
}

Tensor rescaled(const Tensor& data, double from_lo, double from_hi, double to_lo, double to_hi) {
  if (!(from_lo < from_hi)) throw Error("scale: all numbers of the data are the same");
  std::vector<double> numbers = elements<double>(data);
  // In float32 as programs do it, so that 255 becomes just the end.
  for (double& x : numbers) x = (x - from_lo) / (from_hi - from_lo) * (to_hi - to_lo) + to_lo;
  return from_elements<double>(data.dtype() == DType::float64 ? DType::float64 : DType::float32, data.dims(), numbers);
}

}  // namespace finity
