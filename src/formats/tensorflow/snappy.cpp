#include "formats/tensorflow/snappy.h"

#include <cstdint>

#include "base/error.h"

namespace finity::tensorflow {

namespace {

constexpr const char* kDamaged = "is truncated or damaged";

class Unpacker {
 public:
  explicit Unpacker(Bytes block) : block_(block) {}

  std::vector<std::byte> unpack() {
    const std::uint64_t size = length();
    // Three bytes make at most 64: who promises more is damaged, and nothing is set aside for it.
    if (size / 64 > block_.size()) throw Error(kDamaged);
    result_.reserve(static_cast<std::size_t>(size));
    while (at_ < block_.size()) {
      const std::uint64_t tag = number(1);
      if (tag % 4 == 0) literal(tag / 4);
      else copy(tag);
      if (result_.size() > size) throw Error(kDamaged);
    }
    if (result_.size() != size) throw Error(kDamaged);
    return std::move(result_);
  }

 private:
  // Little-endian, of so many bytes.
  std::uint64_t number(std::size_t bytes) {
    if (bytes > block_.size() - at_) throw Error(kDamaged);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(block_[at_++]) << (8 * i);
    return value;
  }
  std::uint64_t length() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      const std::uint64_t byte = number(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw Error(kDamaged);
  }

  // Up to 60 bytes; above, what the tag says is how many bytes the length has.
  void literal(std::uint64_t code) {
    const std::uint64_t size = (code < 60 ? code : number(static_cast<std::size_t>(code - 59))) + 1;
    if (size > block_.size() - at_) throw Error(kDamaged);
    const Bytes bytes = block_.subspan(at_, static_cast<std::size_t>(size));
    result_.insert(result_.end(), bytes.begin(), bytes.end());
    at_ += bytes.size();
  }

  // A copy may reach into what it writes itself, which is how runs are written.
  void copy(std::uint64_t tag) {
    const bool is_short = tag % 4 == 1;
    const std::uint64_t size = is_short ? 4 + tag / 4 % 8 : 1 + tag / 4;
    const std::uint64_t back = is_short ? (tag / 32) * 256 + number(1) : number(tag % 4 == 2 ? 2 : 4);
    if (back == 0 || back > result_.size()) throw Error(kDamaged);
    for (std::uint64_t i = 0; i < size; ++i)
      result_.push_back(result_[result_.size() - static_cast<std::size_t>(back)]);
  }

  Bytes block_;
  std::size_t at_ = 0;
  std::vector<std::byte> result_ = {};
};

}  // namespace

std::vector<std::byte> unpack_snappy(Bytes block) { return Unpacker(block).unpack(); }

}  // namespace finity::tensorflow
