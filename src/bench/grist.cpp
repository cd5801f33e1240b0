#include "bench/grist.h"

#include <algorithm>

#include "base/error.h"

namespace finity {

namespace {

std::vector<GristBug> in_table_order() {
  GristBugs made;
  for (GristBugs (*family)() :
       {grist_regressions, grist_toys, grist_convolutional, grist_perceptrons, grist_hand_made_softmax,
        grist_autoencoders, grist_boltzmann_machines, grist_scaled_network, grist_transformer, grist_value_iteration,
        grist_disc_segmentation, grist_adversarial}) {
    std::ranges::move(family(), std::back_inserter(made));
  }
  const std::span<const PublishedRow> table = published_table();
  const auto place = [&](const GristBug& bug) { return std::ranges::find(table, bug.id, &PublishedRow::id); };
  std::ranges::sort(made, {}, place);
  return made;
}

}  // namespace

const std::vector<GristBug>& grist_bugs() {
  static const std::vector<GristBug> bugs = in_table_order();
  return bugs;
}

const GristBug* find_grist_bug(std::string_view id) {
  const auto found = std::ranges::find(grist_bugs(), id, &GristBug::id);
  return found == grist_bugs().end() ? nullptr : &*found;
}

}  // namespace finity
