#include "formats/npz/npz.h"

#include <zlib.h>

#include <cstring>
#include <optional>

#include "base/error.h"

namespace finity {

namespace {

constexpr std::uint32_t kEndOfDirectory = 0x06054b50;
constexpr std::uint32_t kEndOfDirectory64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kLocalHeader = 0x04034b50;

// Little-endian numbers at an offset, checked against the end of the file.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> range(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset) throw Error("the archive is cut off");
    return bytes_.subspan(offset, length);
  }
  std::uint64_t number(std::uint64_t offset, std::size_t width) const {
    std::uint64_t value = 0;
    std::memcpy(&value, range(offset, width).data(), width);
    return value;
  }
  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

struct Member {
  std::string name;
  std::uint64_t method = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t header = 0;  // offset of the local header
  std::uint32_t crc = 0;
};

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t entries = 0;
};

Directory find_directory(const Bytes& file) {
  // The end record is 22 bytes plus a comment of at most 65535.
  const std::uint64_t lowest = file.size() > 65557 ? file.size() - 65557 : 0;
  for (std::uint64_t at = file.size() >= 22 ? file.size() - 22 : 0; file.size() >= 22; --at) {
    if (file.number(at, 4) == kEndOfDirectory) {
      if (at >= 20 && file.number(at - 20, 4) == kLocator64) {
        const std::uint64_t end64 = file.number(at - 12, 8);
        if (file.number(end64, 4) == kEndOfDirectory64) return {file.number(end64 + 48, 8), file.number(end64 + 32, 8)};
      }
      return {file.number(at + 16, 4), file.number(at + 10, 2)};
    }
    if (at == lowest) break;
  }
  throw Error("is not a zip archive");
}

// Sizes above 4 GB are in the "zip64" extra field, in this order, only those that overflowed.
void apply_zip64(const Bytes& file, std::uint64_t extra, std::uint64_t length, Member& member) {
  const std::uint64_t end = extra + length;
  while (extra + 4 <= end) {
    const std::uint64_t size = file.number(extra + 2, 2);
    if (file.number(extra, 2) == 1) {
      std::uint64_t at = extra + 4;
      for (std::uint64_t* field : {&member.size, &member.packed, &member.header}) {
        if (*field != 0xffffffff || at + 8 > end) continue;
        *field = file.number(at, 8);
        at += 8;
      }
    }
    extra += 4 + size;
  }
}

std::vector<Member> list_members(const Bytes& file) {
  const Directory directory = find_directory(file);
  std::vector<Member> members;
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (file.number(at, 4) != kDirectoryEntry) throw Error("the archive's directory is damaged");
    const std::uint64_t name_length = file.number(at + 28, 2);
    const std::uint64_t extra_length = file.number(at + 30, 2);
    const auto name = file.range(at + 46, name_length);
    Member member;
    member.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    member.method = file.number(at + 10, 2);
    member.crc = static_cast<std::uint32_t>(file.number(at + 16, 4));
    member.packed = file.number(at + 20, 4);
    member.size = file.number(at + 24, 4);
    member.header = file.number(at + 42, 4);
    apply_zip64(file, at + 46 + name_length, extra_length, member);
    members.push_back(std::move(member));
    at += 46 + name_length + extra_length + file.number(at + 32, 2);
  }
  return members;
}

std::vector<std::byte> inflate_member(std::span<const std::byte> packed, std::uint64_t size) {
  // Deflate cannot shrink by more than about 1032 to 1: a larger claim is a lie, not a reason to allocate.
  if (size / 1040 > packed.size()) throw Error("claims an impossible size");
  if (packed.size() > 0xffffffff || size > 0xffffffff) throw Unsupported("compressed members above 4 GB");
  std::vector<std::byte> result(size);
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error("cannot start decompression");
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.total_out == size;
  inflateEnd(&stream);
  if (!whole) throw Error("compressed data is damaged");
  return result;
}

Tensor read_member(const Bytes& file, const Member& member) {
  if (file.number(member.header, 4) != kLocalHeader) throw Error("local header is damaged");
  const std::uint64_t start =
      member.header + 30 + file.number(member.header + 26, 2) + file.number(member.header + 28, 2);
  const std::span<const std::byte> packed = file.range(start, member.packed);
  if (member.method == 0) return read_npy(packed);
  if (member.method != 8) throw Unsupported("compression method " + std::to_string(member.method));
  return read_npy(inflate_member(packed, member.size));
}

void put(std::string& out, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// The fields that the local header and the directory entry share. Date 1980-01-01, so that output is reproducible.
void put_common(std::string& out, const Member& member) {
  put(out, 20, 2);
  put(out, 0x800, 2);  // names are UTF-8
  put(out, 0, 2);
  put(out, 0, 2);
  put(out, 0x21, 2);
  put(out, member.crc, 4);
  put(out, member.size, 4);
  put(out, member.size, 4);
  put(out, member.name.size(), 2);
  put(out, 0, 2);
}

}  // namespace

bool looks_like_npz(std::span<const std::byte> head) {
  return head.size() >= 4 && head[0] == std::byte{'P'} && head[1] == std::byte{'K'};
}

NamedTensors read_npz(std::span<const std::byte> bytes) {
  const Bytes file(bytes);
  NamedTensors result;
  for (const Member& member : list_members(file)) {
    std::string name = member.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    try {
      result.emplace_back(name, read_member(file, member));
    } catch (Error& error) {
      error.in("member '" + member.name + "'");
      throw;
    }
  }
  return result;
}

std::string write_npz(const NamedTensors& tensors) {
  std::string out;
  std::string directory;
  for (const auto& [name, tensor] : tensors) {
    const std::string content = write_npy(tensor);
    Member member{.name = name + ".npy", .size = content.size(), .header = out.size()};
    if (content.size() > 0xfffffffe || out.size() > 0xfffffffe) throw Unsupported(".npz files above 4 GB");
    member.crc = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    put(out, kLocalHeader, 4);
    put_common(out, member);
    out += member.name + content;
    put(directory, kDirectoryEntry, 4);
    put(directory, 20, 2);
    put_common(directory, member);
    put(directory, 0, 8);  // comment, disk, internal attributes, half of the external ones
    put(directory, 0, 2);
    put(directory, member.header, 4);
    directory += member.name;
  }
  const std::size_t start = out.size();
  out += directory;
  put(out, kEndOfDirectory, 4);
  put(out, 0, 4);
  put(out, tensors.size(), 2);
  put(out, tensors.size(), 2);
  put(out, directory.size(), 4);
  put(out, start, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace finity
