// A model format: how to recognise it and how to read it. Formats are listed in
// formats/all.cpp; the content decides, never the file name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

struct ModelFormat {
  std::string_view name = {};
  bool (*recognises)(std::span<const std::byte> file) = nullptr;
  Graph (*read)(const std::string& path, std::vector<Note>& notes) = nullptr;
  // Instead of it, where what is read depends on sizes of inputs.
  Graph (*read_sized)(const std::string& path, std::vector<Note>& notes, const Bindings& bindings) = nullptr;
};

std::span<const ModelFormat> model_formats();

// Reads a model of any known format; some formats decide by sizes of inputs. Throws Error starting with the path.
Graph read_model(const std::string& path, std::vector<Note>& notes, const Bindings& bindings = {});

}  // namespace finity
