// What a value of a script is while it is read: a tensor, a number, a list, a constant of any kind.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "base/ids.h"

namespace finity {

struct ScriptObject;

// A tensor of the graph, a sequence of the graph, or a number that is computed (`id`); a list, tuple or dictionary of
// such (`items`); else a constant. A list that may change is an object.
struct ScriptItem {
  ValueId id = {};
  c10::IValue constant = {};
  bool is_list = false;
  std::vector<ScriptItem> items = {};
  std::vector<c10::IValue> keys = {};  // of a dictionary
  bool is_number = false;              // a number of the script: it follows the element type of tensors
  bool is_unset = false;               // nothing reads it
  bool is_collecting = false;          // a list of which a loop's round knows only what it appends
  bool is_stacked = false;             // a list whose items are along the first axis of a tensor
  std::shared_ptr<ScriptObject> object = {};
  int leaf = -1;  // the place of a value that a branch or loop is going to give

  bool is_none() const {
    return !id.valid() && !is_list && !object && constant.isNone() && !is_unset && !is_collecting;
  }
  bool is_constant() const { return !id.valid() && !is_list && !object && !is_unset && !is_collecting; }
};

// A list is one thing for all who know it.
struct ScriptObject {
  ScriptItem content = {};
  int depth = 0;        // of the branches and loops it was made in
  bool shared = false;  // there is a copy that would have to change with it
};

}  // namespace finity
