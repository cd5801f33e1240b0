// finity-torch [--no-onednn | --script]: runs and derives models with LibTorch, for finity (exec/protocol.h).
#include <cstdio>
#include <string_view>

#include "exec/serve.h"
#include "exec/whereabouts.h"
#include "torch/engine.h"

int main(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  const bool own = option == "--no-onednn", script = option == "--script";
  if (argc > 2 || (argc == 2 && !own && !script)) {
    std::fputs("usage: finity-torch [--no-onednn | --script]\n", stderr);
    return 2;
  }
  finity::tell_whereabouts();
  using finity::TorchKernels;
  return finity::serve(
      [&] { return finity::make_torch_engine(own ? TorchKernels::own : TorchKernels::usual, script); });
}
