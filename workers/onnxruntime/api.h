// The part of ONNX Runtime's C interface that the worker needs, without its headers: the library hands out a table
// of functions to which every version only appends, so a slot number means the same function in all of them
// (looked at: 1.10 to 1.30).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace finity::ort {

// Handles of the library.
struct Status;
struct Env;
struct Session;
struct SessionOptions;
struct RunOptions;
struct Value;
struct MemoryInfo;
struct Allocator;
struct TensorInfo;

template <int kSlot, class Signature>
struct Function {};

inline constexpr Function<1, int(const Status*)> get_error_code;
inline constexpr Function<2, const char*(const Status*)> get_error_message;
inline constexpr Function<3, Status*(int log_level, const char* name, Env**)> create_env;
inline constexpr Function<8, Status*(const Env*, const void*, std::size_t, const SessionOptions*, Session**)>
    create_session;
inline constexpr Function<9, Status*(Session*, const RunOptions*, const char* const*, const Value* const*, std::size_t,
                                     const char* const*, std::size_t, Value**)>
    run;
inline constexpr Function<10, Status*(SessionOptions**)> create_session_options;
inline constexpr Function<22, Status*(SessionOptions*, int)> set_log_severity;
inline constexpr Function<23, Status*(SessionOptions*, int)> set_optimisation;
inline constexpr Function<24, Status*(SessionOptions*, int)> set_threads_within_op;
inline constexpr Function<25, Status*(SessionOptions*, int)> set_threads_between_ops;
inline constexpr Function<48, Status*(Allocator*, const std::int64_t*, std::size_t, int dtype, Value**)> create_tensor;
inline constexpr Function<49, Status*(const MemoryInfo*, void*, std::size_t, const std::int64_t*, std::size_t,
                                      int dtype, Value**)>
    create_tensor_of;
inline constexpr Function<51, Status*(Value*, void**)> tensor_data;
inline constexpr Function<52, Status*(Value*, const char* const*, std::size_t)> fill_strings;
inline constexpr Function<53, Status*(const Value*, std::size_t*)> strings_length;
inline constexpr Function<54, Status*(const Value*, void*, std::size_t, std::size_t*, std::size_t)> strings_content;
inline constexpr Function<60, Status*(const TensorInfo*, int*)> element_type;
inline constexpr Function<61, Status*(const TensorInfo*, std::size_t*)> rank;
inline constexpr Function<62, Status*(const TensorInfo*, std::int64_t*, std::size_t)> dimensions;
inline constexpr Function<65, Status*(const Value*, TensorInfo**)> tensor_info;
inline constexpr Function<67, Status*(const Value*, int*)> value_type;
inline constexpr Function<69, Status*(int allocator, int memory, MemoryInfo**)> create_cpu_memory_info;
inline constexpr Function<78, Status*(Allocator**)> default_allocator;
inline constexpr Function<80, Status*(const Value*, int, Allocator*, Value**)> get_item;
inline constexpr Function<81, Status*(const Value*, std::size_t*)> item_count;
inline constexpr Function<82, Status*(const Value* const*, std::size_t, int kind, Value**)> create_collection;
inline constexpr Function<93, void(Status*)> release_status;
inline constexpr Function<95, void(Session*)> release_session;
inline constexpr Function<96, void(Value*)> release_value;
inline constexpr Function<99, void(TensorInfo*)> release_tensor_info;
inline constexpr Function<100, void(SessionOptions*)> release_session_options;

// Kinds of values.
inline constexpr int kTensor = 1, kSequence = 2, kOptional = 6;

class Api {
 public:
  // Loads the library. Throws Error when it is not one.
  explicit Api(const std::string& path);

  const std::string& version() const { return version_; }

  template <int kSlot, class R, class... Parameters, class... Arguments>
  R call(Function<kSlot, R(Parameters...)> /*function*/, Arguments... arguments) const {
    return reinterpret_cast<R (*)(Parameters...)>(table_[kSlot])(arguments...);
  }
  // For functions that report failures: throws Error, or Unsupported when the library says that it lacks something.
  template <int kSlot, class... Parameters, class... Arguments>
  void must(Function<kSlot, Status*(Parameters...)> function, Arguments... arguments) const {
    if (Status* status = call(function, arguments...)) fail(status);
  }
  // Frees a handle when it goes out of scope.
  template <class T, int kSlot>
  auto owned(T* handle, Function<kSlot, void(T*)> release) const {
    const auto free = [this, release](T* pointer) {
      if (pointer != nullptr) call(release, pointer);
    };
    return std::unique_ptr<T, decltype(free)>(handle, free);
  }

 private:
  [[noreturn]] void fail(Status* status) const;

  std::string version_;
  void* const* table_ = nullptr;
};

}  // namespace finity::ort
