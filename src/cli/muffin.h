// finity fuzz --oracle muffin: a baseline's models judged as Muffin does.
#pragma once

#include <functional>
#include <string>

#include "fuzz/campaign.h"

namespace finity {

struct MuffinOptions {
  std::string mode = "own";      // whose models
  std::string oracle = "proof";  // whose rules
  std::string data = {};         // a data set
};

// Throws Error when mode, oracle and data do not go together; true when the run is Muffin's.
bool wants_muffin(const MuffinOptions& options);
// Makes the campaign's samples the mode's models, when it is not our own.
void use_mode(const MuffinOptions& muffin, fuzz::CampaignOptions& campaign);
int run_muffin(const MuffinOptions& muffin, const fuzz::CampaignOptions& campaign, const std::function<bool()>& stop);

}  // namespace finity
