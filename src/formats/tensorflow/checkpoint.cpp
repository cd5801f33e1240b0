#include "formats/tensorflow/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>

#include "base/mapped_file.h"
#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/snappy.h"
#include "formats/tensorflow/tensor_proto.h"

namespace finity::tensorflow {

using wire::Cursor;

namespace {

constexpr std::uint64_t kMagic = 0xdb4775248b80fb57;
constexpr std::size_t kFooter = 48;

// Numbers of a sorted table, each checked against the end.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  bool done() const { return at_ >= bytes_.size(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (done()) break;
      const auto byte = std::to_integer<std::uint64_t>(bytes_[at_++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw Error("a number that does not end");
  }
  Bytes take(std::uint64_t size) {
    if (size > bytes_.size() - at_) throw Error("is truncated or damaged");
    const Bytes result = bytes_.subspan(at_, static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    return result;
  }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

template <class T>
T plain(Bytes bytes, std::size_t at) {
  T value{};
  if (bytes.size() < sizeof value || at > bytes.size() - sizeof value) throw Error("is truncated or damaged");
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

using Entries = std::vector<std::pair<std::string, Bytes>>;

using Unpacked = std::deque<std::vector<std::byte>>;  // blocks that were compressed; entries point into them

// A block of entries whose keys share beginnings.
Entries read_block(Bytes file, std::uint64_t offset, std::uint64_t size, Unpacked& unpacked) {
  if (offset > file.size() || size >= file.size() - offset) throw Error("is truncated or damaged");
  Bytes block = file.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
  const std::byte compression = file[static_cast<std::size_t>(offset + size)];
  if (compression > std::byte{1}) throw Unsupported("is compressed in a way that is not known");
  if (compression == std::byte{1}) block = unpacked.emplace_back(unpack_snappy(block));
  if (block.size() < 4) throw Error("is truncated or damaged");
  const std::uint64_t restarts = plain<std::uint32_t>(block, block.size() - 4);
  if (restarts * 4 + 4 > block.size()) throw Error("is truncated or damaged");
  Reader reader(block.first(static_cast<std::size_t>(block.size() - 4 - restarts * 4)));
  Entries entries;
  std::string key;
  while (!reader.done()) {
    const std::uint64_t shared = reader.varint();
    const std::uint64_t fresh = reader.varint();
    const std::uint64_t length = reader.varint();
    if (shared > key.size()) throw Error("is truncated or damaged");
    key.resize(static_cast<std::size_t>(shared));
    key += wire::as_text(reader.take(fresh));
    entries.emplace_back(key, reader.take(length));
  }
  return entries;
}

std::pair<std::uint64_t, std::uint64_t> read_handle(Bytes bytes) {
  Reader reader(bytes);
  const std::uint64_t offset = reader.varint();
  return {offset, reader.varint()};
}

Entries read_table(Bytes file, Unpacked& unpacked) {
  if (file.size() < kFooter || plain<std::uint64_t>(file, file.size() - 8) != kMagic) {
    throw Error("is not the index of a checkpoint");
  }
  Reader footer(file.last(kFooter));
  footer.varint();  // the meta index, which is empty
  footer.varint();
  const std::uint64_t offset = footer.varint();
  const std::uint64_t size = footer.varint();
  Entries all;
  for (const auto& [key, handle] : read_block(file, offset, size, unpacked)) {
    const auto [start, length] = read_handle(handle);
    for (auto& entry : read_block(file, start, length, unpacked)) all.push_back(std::move(entry));
  }
  return all;
}

struct BundleEntry {
  DType dtype = DType::undefined;
  Dims dims = {};
  std::int64_t shard = 0;
  std::int64_t offset = 0;
  std::int64_t size = 0;
  bool sliced = false;
};

BundleEntry read_entry(Bytes message) {
  BundleEntry entry;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    switch (cursor.field()) {
      case 1: entry.dtype = dtype_from_tf(cursor.integer()); break;
      case 2: entry.dims = read_shape(cursor.bytes(), DType::float32).dims().value_or(Dims{-1}); break;
      case 3: entry.shard = cursor.integer(); break;
      case 4: entry.offset = cursor.integer(); break;
      case 5: entry.size = cursor.integer(); break;
      case 7: entry.sliced = true; break;
      default: break;
    }
  }
  return entry;
}

std::int64_t shard_count(const Entries& entries) {
  if (entries.empty() || !entries.front().first.empty()) throw Error("has no header");
  std::int64_t count = 1;
  const Bytes header = entries.front().second;
  for (Cursor cursor(header, header.data()); cursor.next();) {
    if (cursor.field() == 1) count = cursor.integer();
    if (cursor.field() == 2 && cursor.integer() != 0) throw Unsupported("is big-endian");
  }
  return count;
}

std::string shard_path(const std::string& prefix, std::int64_t shard, std::int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, ".data-%05d-of-%05d", static_cast<int>(shard), static_cast<int>(count));
  return prefix + text;
}

// Null with a note when it is not there.
std::shared_ptr<const MappedFile> open_shard(const std::string& path, std::vector<Note>& notes) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return MappedFile::open(path);
  notes.push_back({"variables", "'" + std::filesystem::path(path).filename().string() + "' is missing"});
  return nullptr;
}

}  // namespace

std::unordered_map<std::string, ConstantPtr> read_checkpoint(const std::string& prefix, std::vector<Note>& notes) {
  const std::string path = prefix + ".index";
  const auto index = MappedFile::open(path);
  std::unordered_map<std::string, ConstantPtr> result;
  std::map<std::int64_t, std::shared_ptr<const MappedFile>> shards;
  try {
    Unpacked unpacked;
    const Entries entries = read_table(index->bytes(), unpacked);
    const std::int64_t count = shard_count(entries);
    for (const auto& [key, message] : entries) {
      if (key.empty()) continue;
      const BundleEntry entry = read_entry(message);
      const bool numbers = is_float(entry.dtype) || is_int(entry.dtype) || entry.dtype == DType::boolean;
      if (!numbers || entry.sliced || entry.shard < 0 || entry.shard >= count) continue;
      const auto [place, is_new] = shards.try_emplace(entry.shard);
      if (is_new) place->second = open_shard(shard_path(prefix, entry.shard, count), notes);
      const std::shared_ptr<const MappedFile>& shard = place->second;
      if (!shard) continue;
      const Bytes bytes = shard->bytes();
      if (entry.offset < 0 || entry.size < 0 || entry.size > static_cast<std::int64_t>(bytes.size()) ||
          entry.offset > static_cast<std::int64_t>(bytes.size()) - entry.size) {
        throw Error("'" + key + "' lies outside of the data");
      }
      const Bytes own = bytes.subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.size));
      result[key] = std::make_shared<const PlainConstant>(entry.dtype, entry.dims, own, shard);
    }
  } catch (Error& error) {
    error.in(path);
    throw;
  }
  return result;
}

}  // namespace finity::tensorflow
