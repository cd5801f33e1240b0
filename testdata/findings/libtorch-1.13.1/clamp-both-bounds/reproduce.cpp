// g++ -std=gnu++17 -DNDEBUG reproduce.cpp -o reproduce -isystem /usr/include/torch/csrc/api/include -ltorch -ltorch_cpu
// -lc10 && ./reproduce
#include <torch/script.h>

#include <cmath>
#include <iostream>

int main() {
  const std::vector<torch::jit::IValue> inputs = {
      torch::tensor(std::vector<double>{0, 0}).reshape({1, 1, 1, 2}).to(torch::kFloat),  // x0
  };
  torch::jit::Module module = torch::jit::load("model.pt");
  torch::NoGradGuard forward_only;
  std::cout << "as written: " << module.forward(inputs) << "\n";
  try {
    torch::jit::Module rewritten = torch::jit::optimize_for_inference(module);
    std::cout << "rewritten: " << rewritten.forward(inputs) << "\n";
  } catch (const std::exception& error) {
    std::cout << "rewritten: " << error.what() << "\n";
  }
  std::cout << "expected: element 1 of y20 in 0\n";
}
