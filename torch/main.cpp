// finity-torch [--no-onednn]: runs and derives models with LibTorch, for finity (exec/protocol.h).
#include <cstdio>
#include <string_view>

#include "exec/serve.h"
#include "exec/whereabouts.h"
#include "torch/engine.h"

int main(int argc, char** argv) {
  const bool own = argc == 2 && std::string_view(argv[1]) == "--no-onednn";
  if (argc > 2 || (argc == 2 && !own)) {
    std::fputs("usage: finity-torch [--no-onednn]\n", stderr);
    return 2;
  }
  finity::tell_whereabouts();
  using finity::TorchKernels;
  return finity::serve([&] { return finity::make_torch_engine(own ? TorchKernels::own : TorchKernels::usual); });
}
