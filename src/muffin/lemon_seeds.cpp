// Small models with the structure of LEMON's seeds: the same kinds of blocks, fewer of them, fewer channels.
#include "base/error.h"
#include "muffin/lemon.h"
#include "muffin/losses.h"

namespace finity::muffin {

namespace {

class Maker {
 public:
  Maker(std::string_view data, std::int64_t batch, Rng& rng)
      : rng_(rng), assembly_(Weights::scaled, data_set(data), draw_samples(data_set(data), batch, rng)) {}

  int add(LayerSpec spec, std::vector<int> from = {}) {
    if (from.empty()) from = {at};
    spec.seed = rng_.bits();
    const std::optional<int> made = assembly_.add(spec, from);
    if (!made) throw Error("a seed cannot be built: " + to_string(spec));
    return at = *made;
  }
  int conv(std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1, const char* act = "relu",
           const char* kind = "conv2D") {
    LayerSpec spec{.kind = kind};
    spec.set("data_format", "channels_last");
    spec.set("padding", "same");
    spec.set("kernel", kernel);
    spec.set("strides", stride);
    spec.set("dilation", 1);
    spec.set("filters", filters);
    spec.set("depth_multiplier", 1);
    spec.set("use_bias", 1);
    spec.set("activation", act);
    return add(spec);
  }
  int pool(const char* kind = "max_pooling2D", std::int64_t size = 2, std::int64_t stride = 2) {
    LayerSpec spec{.kind = kind};
    spec.set("data_format", "channels_last");
    spec.set("pool_size", size);
    spec.set("strides", stride);
    spec.set("padding", "same");
    return add(spec);
  }
  int norm() {
    LayerSpec spec{.kind = "batch_normalization"};
    spec.set("axis", -1);
    spec.set("epsilon", 1e-3);
    spec.set("momentum", 0.99);
    spec.set("center", 1);
    spec.set("scale", 1);
    return add(spec);
  }
  int relu() { return add({.kind = "ReLU"}); }
  int dense(std::int64_t units) {
    LayerSpec spec{.kind = "dense"};
    spec.set("units", units);
    spec.set("use_bias", 1);
    return add(spec);
  }
  int flatten() {
    LayerSpec spec{.kind = "flatten"};
    spec.set("data_format", "channels_last");
    return add(spec);
  }
  int concatenate(const std::vector<int>& from) {
    LayerSpec spec{.kind = "concatenate"};
    spec.set("axis", 3);
    return add(spec, from);
  }
  int lstm(std::int64_t units, bool sequences) {
    LayerSpec spec{.kind = "LSTM"};
    spec.set("units", units);
    spec.set("activation", "tanh");
    spec.set("recurrent_activation", "sigmoid");
    spec.set("use_bias", 1);
    spec.set("return_sequences", std::int64_t{sequences});
    return add(spec);
  }
  void softmax() {
    LayerSpec spec{.kind = "softmax"};
    spec.set("axis", -1);
    add(spec);
  }
  Model finish(const char* loss) { return std::move(assembly_).finish(loss, "sgd", true, rng_); }

  int at = -1;

 private:
  Rng& rng_;
  Assembly assembly_;
};

void head(Maker& m, std::int64_t wide = 12) {
  m.flatten();
  m.dense(wide);
  m.relu();
  m.dense(10);
  m.softmax();
}

void vgg(Maker& m, int in_late_blocks) {
  for (int block = 0; block < 4; ++block) {
    for (int i = 0; i < (block < 2 ? 2 : in_late_blocks); ++i) m.conv(4, 3);
    m.pool();
  }
  head(m);
}

void alex_net(Maker& m) {
  m.conv(6, 5, 2);
  m.pool("max_pooling2D", 3, 2);
  m.conv(8, 5);
  m.pool("max_pooling2D", 3, 2);
  for (int i = 0; i < 3; ++i) m.conv(6, 3);
  head(m);
}

void res_net(Maker& m) {
  m.conv(4, 3, 2);
  for (int block = 0; block < 3; ++block) {
    const int before = m.at;
    m.conv(2, 1, 1, "linear");
    m.norm();
    m.relu();
    m.conv(2, 3, 1, "linear");
    m.norm();
    m.relu();
    m.conv(4, 1, 1, "linear");
    const int after = m.norm();
    m.add({.kind = "add"}, {before, after});
    m.relu();
  }
  LayerSpec global{.kind = "global_average_pooling2D"};
  global.set("data_format", "channels_last");
  m.add(global);
  m.dense(10);
  m.softmax();
}

void mobile_net(Maker& m) {
  m.conv(4, 3, 2);
  for (int block = 0; block < 3; ++block) {
    m.conv(4, 3, block == 1 ? 2 : 1, "linear", "depthwise_conv2D");
    m.norm();
    m.relu();
    m.conv(4 + 2 * block, 1, 1, "linear");
    m.norm();
    m.relu();
  }
  head(m);
}

void inception(Maker& m) {
  m.conv(4, 3, 2);
  for (int block = 0; block < 2; ++block) {
    const int before = m.at;
    const int narrow = m.conv(2, 1);
    m.at = before;
    m.conv(2, 1);
    const int middle = m.conv(3, 3);
    m.at = before;
    m.pool("average_pooling2D", 3, 1);
    const int pooled = m.conv(2, 1);
    m.concatenate({narrow, middle, pooled});
  }
  m.pool();
  head(m);
}

void dense_net(Maker& m) {
  m.conv(3, 3, 2);
  for (int i = 0; i < 3; ++i) {
    const int before = m.at;
    m.norm();
    m.relu();
    const int made = m.conv(2, 3, 1, "linear");
    m.concatenate({before, made});
  }
  m.pool("average_pooling2D", 2, 2);
  head(m);
}

void xception(Maker& m) {
  m.conv(4, 3, 2);
  for (int block = 0; block < 2; ++block) {
    const int before = m.at;
    m.relu();
    m.conv(4, 3, 1, "linear", "separable_conv2D");
    m.norm();
    m.relu();
    const int made = m.conv(4, 3, 1, "linear", "separable_conv2D");
    m.add({.kind = "add"}, {before, made});
  }
  head(m);
}

}  // namespace

std::vector<std::string_view> lemon_seeds() {
  return {"alexnet", "lenet5", "resnet50", "mobilenetv1", "inceptionv3", "densenet121",
          "vgg16",   "vgg19",  "xception", "lstm1",       "lstm2"};
}

Model lemon_seed(std::string_view name, std::int64_t batch, Rng& rng) {
  const bool sequence = name.starts_with("lstm");
  Maker m(name == "lstm1"    ? "sine-wave"
          : name == "lstm2"  ? "price"
          : name == "lenet5" ? "mnist"
                             : "cifar-10",
          batch, rng);
  if (sequence) {
    if (name == "lstm2") m.lstm(4, true);
    m.lstm(5, false);
    m.dense(1);
  } else if (name == "lenet5") {
    m.conv(6, 5, 1, "tanh");
    m.pool("average_pooling2D");
    m.conv(8, 5, 1, "tanh");
    m.pool("average_pooling2D");
    head(m, 16);
  } else if (name == "alexnet") alex_net(m);
  else if (name == "resnet50") res_net(m);
  else if (name == "mobilenetv1") mobile_net(m);
  else if (name == "inceptionv3") inception(m);
  else if (name == "densenet121") dense_net(m);
  else if (name == "vgg16") vgg(m, 3);
  else if (name == "vgg19") vgg(m, 4);
  else if (name == "xception") xception(m);
  else throw Error("there is no seed model '" + std::string(name) + "'");
  Model model = m.finish(sequence ? "mean_squared_error" : "categorical_crossentropy");
  model.structure = name;
  model.sample.origin = "lemon " + std::string(name);
  return model;
}

}  // namespace finity::muffin
