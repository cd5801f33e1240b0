// finity-torch: runs and derives models with LibTorch, for finity (exec/protocol.h).
#include "exec/serve.h"
#include "torch/engine.h"

int main() {
  return finity::serve([] { return finity::make_torch_engine(); });
}
