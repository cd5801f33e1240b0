// TensorFlow mostly has channels last, the op table has them second. What lowerings of convolutions, pools and norms
// share: which axis is the channel's, moving it, and windows as attributes of the table's ops.
#pragma once

#include <string>
#include <vector>

#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

struct Layout {
  bool last = true;         // where the channel axis is
  std::size_t spatial = 2;  // how many axes there are besides batch and channel

  std::size_t channel() const { return last ? spatial + 1 : 1; }
  std::size_t first_spatial() const { return last ? 1 : 2; }
  // Orders of axes for Transpose: from the file's layout to channels second, and back.
  std::vector<std::int64_t> to_second() const;
  std::vector<std::int64_t> from_second() const;
};

// From data_format ("NHWC", "NCHW", "NDHWC", ...); channels are last when it does not say.
Layout layout_of(const TfCall& call, std::size_t spatial);
ValueId channels_second(Emit& emit, const Layout& layout, ValueId x);
ValueId channels_back(Emit& emit, const Layout& layout, ValueId x);
// The sizes of a tensor in the file's layout, as those with channels second.
ValueId sizes_second(Emit& emit, const Layout& layout, ValueId sizes);
// A number per channel, ready to be broadcast against x in the file's layout.
ValueId per_channel(Emit& emit, const Layout& layout, ValueId numbers);

// strides, dilations, padding and explicit_paddings.
struct WindowAttrs {
  std::vector<std::int64_t> strides = {};
  std::vector<std::int64_t> dilations = {};
  std::vector<std::int64_t> pads = {};  // of EXPLICIT: all begins, then all ends
  std::string auto_pad = "NOTSET";
};
WindowAttrs window_of(const TfCall& call, const Layout& layout);
// Spatial entries of a list with one entry per axis; throws Unsupported when batch or channel have another than 1.
std::vector<std::int64_t> spatial_entries(const Layout& layout, const std::vector<std::int64_t>& list,
                                          std::string_view what);

// A convolution, with both in the file's layout; one filter per channel and multiplier when `depthwise`.
ValueId convolved(TfCall& call, ValueId x, ValueId filter, std::size_t spatial, bool depthwise);

}  // namespace finity::tensorflow
