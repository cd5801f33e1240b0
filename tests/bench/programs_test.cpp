// The programs of the GRIST benchmark as programs: each takes its first step in the reference, its repair changes
// nothing there, and what is written into a folder reads back as the same program.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/rng.h"
#include "bench/grist.h"
#include "bench/recipe.h"
#include "check/joint.h"
#include "exec/reference.h"
#include "program/draws.h"
#include "program/read_program.h"
#include "tensor/convert.h"

namespace finity {
namespace {

DigitData few_digits() {
  constexpr std::int64_t kImages = 8;
  Tensor images(DType::float32, {kImages, 28, 28});
  Rng rng(1);
  for (float& pixel : images.mutable_data<float>()) pixel = static_cast<float>(rng.uniform(0, 0.2));
  return {.images = images,
          .labels = Tensor::vector_of(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 9}),
          .images_source = "digits.images",
          .labels_source = "digits.labels"};
}

Tensor first_rows(const Tensor& data, const Dims& dims) {
  const auto bytes = data.bytes();
  Tensor rows(data.dtype(), dims);
  std::copy_n(bytes.begin(), rows.mutable_bytes().size(), rows.mutable_bytes().begin());
  return rows;
}

// What a program is fed with in its first step.
Inputs first_feed(const Program& program) {
  Inputs inputs;
  for (const ProgramInput& input : program.inputs) {
    const Dims dims = *program.types[input.id].dims();
    inputs[input.name] = input.draw ? Datum(drawn(*input.draw, DType::float32, dims, seed_for(0, input.name)))
                                    : Datum(first_rows(input.data, dims));
  }
  for (const ProgramWeight& weight : program.weights) inputs[weight.name] = Datum(initial_weight(program, weight, 0));
  return inputs;
}

struct Step {
  double loss = 0;
  bool finite_gradients = true;
};

Step first_step(const Program& program) {
  Training training = {.loss = "loss"};
  for (const ProgramWeight& weight : program.weights) training.by.push_back(weight.name);
  const JointGraph joint = with_backward_pass(*program.graph, program.types, training);
  EXPECT_TRUE(joint.stops.empty()) << joint.stops.front().reason;
  const std::vector<Datum> outputs = run_reference(joint.graph, first_feed(program));
  Step step;
  step.loss = element_as_double(*outputs.front().tensor(), 0);
  for (const Datum& output : outputs) {
    for (const double x : elements<double>(*output.tensor())) step.finite_gradients &= std::isfinite(x);
  }
  return step;
}

TEST(GristPrograms, FirstStepIsFiniteAndTheRepairChangesNothingInIt) {
  const DigitData digits = few_digits();
  std::set<std::string> seen;
  for (const GristBug& bug : grist_bugs()) {
    const Recipe recipe = bug.make({.small = true});
    if (!seen.insert(recipe.model).second) continue;
    SCOPED_TRACE(bug.id);
    const Step step = first_step(program_of(recipe, digits, bug.id));
    EXPECT_TRUE(std::isfinite(step.loss));
    EXPECT_TRUE(step.finite_gradients);
    const Step repaired = first_step(program_of(bug.make({.repaired = true, .small = true}), digits, bug.id));
    EXPECT_NEAR(repaired.loss, step.loss, 1e-2 * std::max(1.0, std::abs(step.loss)));
    EXPECT_TRUE(repaired.finite_gradients);
  }
  EXPECT_GE(seen.size(), 23U);
}

TEST(GristPrograms, WrittenProgramsReadBack) {
  namespace fs = std::filesystem;
  const DigitData digits = load_digits("");
  const fs::path folder = fs::path(testing::TempDir()) / "grist_programs";
  for (const char* id : {"4", "15", "31", "59"}) {
    SCOPED_TRACE(id);
    const Recipe recipe = find_grist_bug(id)->make({.small = true});
    write_folder(folder_of(recipe, digits), folder.string());
    const Program made = program_of(recipe, digits, id);
    const Program read = read_program((folder / kDescriptionFile).string());
    const std::string again = print_program(read, kModelFile, "npz:data.npz#").text;
    EXPECT_EQ(again, print_program(made, kModelFile, "npz:data.npz#").text);
    ASSERT_EQ(read.inputs.size(), made.inputs.size());
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      EXPECT_TRUE(identical(read.inputs[i].data, made.inputs[i].data)) << made.inputs[i].name;
    }
  }
  fs::remove_all(folder);
}

TEST(GristPrograms, DigitsThatAreNotThereAreNamed) { EXPECT_THROW(load_digits("/no/such/folder"), Error); }

}  // namespace
}  // namespace finity
