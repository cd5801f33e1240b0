// What is done with bytes that claim to be a model or a data file. Shared by the
// libFuzzer programs and by the bounded mutation run. A target returns whether the
// bytes were accepted; anything but success or finity::Error is a bug.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace finity {

struct FuzzTarget {
  std::string_view name;
  bool (*run)(std::span<const std::byte> bytes);
};

bool fuzz_onnx(std::span<const std::byte> bytes);
bool fuzz_tensor(std::span<const std::byte> bytes);
bool fuzz_npz(std::span<const std::byte> bytes);
bool fuzz_text(std::span<const std::byte> bytes);
bool fuzz_settings(std::span<const std::byte> bytes);
bool fuzz_tensorflow(std::span<const std::byte> bytes);
// A model through the whole program, pipeline.h; not one of the readers.
bool fuzz_model(std::span<const std::byte> bytes);

inline constexpr FuzzTarget kFuzzTargets[] = {{"onnx", fuzz_onnx},         {"tensor", fuzz_tensor},
                                              {"npz", fuzz_npz},           {"text", fuzz_text},
                                              {"settings", fuzz_settings}, {"tensorflow", fuzz_tensorflow}};

}  // namespace finity
