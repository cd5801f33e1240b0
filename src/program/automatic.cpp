// Our own strategy. Sites that the check proved are left out. For the others: first the values of the start are moved
// together with the batch, for that needs no training at all. What stays out of reach is reached by training, on data
// that drives the weights the wrong way, in several manners that take turns, each for a while and then for longer.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "base/error.h"
#include "program/aim.h"
#include "program/attack.h"
#include "program/draws.h"
#include "program/driver.h"
#include "program/poison.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr int kFirstSteps = 16;

class Automatic {
 public:
  explicit Automatic(Driver& driver) : driver_(driver), trainer_(driver.trainer()), poison_(driver), choices_(driver) {}

  void run() {
    pick();
    if (attacks_.empty()) {
      train_plainly(driver_);
      return;
    }
    for (std::size_t i = 0; i < attacks_.size() && !driver_.is_finished(); ++i) from_the_start(i, 0);
    if (!driver_.is_finished()) poison_.look_at_ends();
    const bool trains = !phases_of(driver_.program()).empty() || has_updates();
    // Longer and longer, all sites and manners in turn.
    for (int round = 0; !driver_.is_finished(); ++round) {
      const int steps = kFirstSteps << std::min(round, 12);
      for (std::size_t i = 0; i < attacks_.size() && !driver_.is_finished(); ++i) {
        if (!driver_.is_open(*suspects_[i])) continue;
        // Sums that might overflow with weights of any size get less; every run counts for all sites anyway.
        if (suspects_[i]->general && round % 4 != 3) continue;
        if (round > 0 || !trains) from_the_start(i, round + 1);
        if (trains) train_in_turns(i, steps, round);
      }
    }
  }

 private:
  bool has_updates() const {
    const auto& weights = driver_.program().weights;
    return std::ranges::any_of(weights, [](const ProgramWeight& weight) { return !weight.update.empty(); });
  }

  void pick() {
    constexpr std::size_t kMost = 12;  // sites; the first are the ones that matter
    for (const Suspect& suspect : driver_.prepared().suspects) {
      if (attacks_.size() == kMost) break;
      try {
        attacks_.emplace_back(driver_, suspect);
        aims_.emplace_back(driver_, choices_, suspect);
        suspects_.push_back(&suspect);
      } catch (const Unsupported&) {
        continue;  // the engine cannot compute this loss
      }
    }
  }

  // The batch, draws and weights of the start together.
  void from_the_start(std::size_t i, int round) {
    constexpr int kPasses = 24;
    driver_.pursue(*suspects_[i]);
    trainer_.forget_starts();
    trainer_.release_draws();
    trainer_.restart();
    if (round > 0) trainer_.fresh_batch();
    const bool hit = attacks_[i].run(kPasses, true);
    if (round == 0) nearest_at_start_.push_back(attacks_[i].nearest());
    if (hit) return;
    // What fails only backward shows after a step.
    step_and_look(attacks_[i], 2);
  }

  bool step_and_look(Attack& attack, int steps) {
    for (int step = 0; step < steps && !driver_.is_over(); ++step) {
      driver_.count();
      if (!driver_.train() || attack.run(1, false)) return true;
    }
    return driver_.has_hit();
  }

  // How many steps a manner still needs if it goes on as it did, for progress grows like a power of the steps: one that
  // is slow at first may well be the one that arrives. Where nothing is known yet they are all alike.
  double steps_to_go(std::size_t i, Manner manner) const {
    const auto found = looks_.find({i, manner});
    if (found == looks_.end() || found->second.empty()) return 0;
    const std::vector<Seen>& looks = found->second;
    const Seen& last = looks.back();
    const auto is_early = [&](const Seen& seen) { return 2 * seen.steps <= last.steps; };
    const auto early = std::find_if(looks.rbegin(), looks.rend(), is_early);
    constexpr double kNever = 1e30;
    const double way = nearest_at_start_[i] - attacks_[i].target(), now = nearest_at_start_[i] - last.nearest;
    const double then = early == looks.rend() ? 0 : nearest_at_start_[i] - early->nearest;
    // Those that do not move come last.
    if (early == looks.rend() || !(now > 0) || !(way > now)) return kNever;
    const double before = std::max(then, 1e-3 * now);
    if (!(now > before)) return kNever;
    const double power = std::log(now / before) / std::log(last.steps / early->steps);
    return std::min(last.steps * (std::pow(way / now, 1 / power) - 1), 1e20);
  }

  // All manners at first; then mostly the one that will be there first.
  void train_in_turns(std::size_t i, int steps, int round) {
    constexpr int kTrials = 1, kAgain = 4, kMore = 4;
    std::vector<Manner> manners;
    std::ranges::copy_if(kManners, std::back_inserter(manners), [&](Manner manner) { return poison_.can(manner); });
    const bool choose = round >= kTrials && round % kAgain != kAgain - 1;
    const bool aims = std::erase(manners, Manner::aimed) > 0 && round > 0;
    std::ranges::stable_sort(manners, {}, [&](Manner manner) { return steps_to_go(i, manner); });
    if (choose && manners.size() > 2) manners.resize(2);
    // Slow, so it is not among the first, takes nobody's turn, and has its own share of the time.
    if (aims && left_to_aim() > 0) manners.push_back(Manner::aimed);
    for (const Manner manner : manners) {
      const bool leads = choose && manner == manners.front();
      if (!driver_.is_over()) episode(i, manner, leads ? kMore * steps : steps, round);
      go_on(i, manner, steps, round);
      // Who came far and stands still begins again, in the same manner and with other weights.
      constexpr int kStarts = 3;
      for (int start = 0; start < kStarts && !driver_.is_over() && stands_still(i, manner); ++start) {
        marks_.erase({i, manner});
        ++starts_[{i, manner}];
        episode(i, manner, steps, round);
        go_on(i, manner, steps, round);
      }
    }
  }

  // Who is nearly there goes on at once.
  void go_on(std::size_t i, Manner manner, int steps, int round) {
    const auto is_next = [&] { return is_nearly_there(i, manner, steps) && !stands_still(i, manner); };
    for (int more = 0; more < 2 && !driver_.is_over() && is_next(); ++more) episode(i, manner, 2 * steps, round);
  }

  // More than half of the way, and nothing left to learn.
  bool stands_still(std::size_t i, Manner manner) {
    const auto looks = looks_.find({i, manner});
    if (!marks_.contains({i, manner}) || looks == looks_.end() || looks->second.empty()) return false;
    const double middle = (nearest_at_start_[i] + attacks_[i].target()) / 2;
    return looks->second.back().nearest < middle && poison_.is_learned();
  }

  bool is_nearly_there(std::size_t i, Manner manner, int steps) const {
    return marks_.contains({i, manner}) && looks_.contains({i, manner}) && steps_to_go(i, manner) < 2 * steps;
  }

  // A manner that adds up goes on where it stopped; the others start anew, differently.
  void begin(std::size_t i, Manner manner, int round) {
    const auto kept = marks_.find({i, manner});
    trainer_.release_draws();
    trainer_.fresh_batch();
    if (kept != marks_.end()) {
      trainer_.go_back(kept->second);
    } else {
      looks_.erase({i, manner});
      trainer_.forget_starts();
      draw_starts(i, manner);
      trainer_.restart();
      // Some go on from where the attack on the start came to.
      constexpr int kPasses = 6;
      if (round % 2 == 1) attacks_[i].run(kPasses, true);
    }
    poison_.begin(manner, static_cast<std::uint64_t>(round));
    if (manner == Manner::aimed) aims_[i].begin(static_cast<std::uint64_t>(round));
  }

  // The weights as another run of the program would draw them, from the second start on.
  void draw_starts(std::size_t i, Manner manner) {
    const auto count = starts_.find({i, manner});
    if (count == starts_.end()) return;
    const Program& program = driver_.program();
    const std::uint64_t seed = seed_for(driver_.options().seed, "start", count->second);
    for (std::size_t k = 0; k < program.weights.size(); ++k) {
      if (program.weights[k].init) trainer_.set_start(k, initial_weight(program, program.weights[k], seed));
    }
  }

  // Trains for so many steps in one manner, with attacks in between, first often, then seldom.
  void episode(std::size_t i, Manner manner, int steps, int round) {
    Attack& attack = attacks_[i];
    driver_.pursue(*suspects_[i]);
    begin(i, manner, round);
    if (driver_.is_over()) return;
    if (manner == Manner::aimed) {
      const double before = driver_.seconds();
      aimed_episode(i, std::max(1, steps / Aim::kCost));
      aimed_seconds_ += driver_.seconds() - before;
      return;
    }
    int until_attack = 1, wait = 1 << std::min(round, 6);
    for (int step = 0; step < steps && !driver_.is_over(); ++step) {
      poison_.feed(attack);
      if (driver_.has_hit()) return;
      driver_.count();
      if (!driver_.train()) return;
      if (--until_attack > 0) continue;
      if (look_closely(attack)) return;
      looks_[{i, manner}].push_back({static_cast<double>(trainer_.steps()), attack.nearest()});
      wait = std::min(2 * wait, 64);
      until_attack = wait;
    }
    if (manner != Manner::extreme && manner != Manner::attacked) marks_[{i, manner}] = trainer_.mark();
  }

  // Each of its steps takes many, so it has a share of the time.
  double left_to_aim() const {
    constexpr double kShare = 0.2, kLeast = 0.3;
    return std::max(kLeast, kShare * driver_.seconds()) - aimed_seconds_;
  }

  // The same with steps that are chosen by where they lead, which says at once when one has arrived.
  void aimed_episode(std::size_t i, int steps) {
    Attack& attack = attacks_[i];
    Aim& aim = aims_[i];
    constexpr int kHold = 4;
    const double until = driver_.seconds() + left_to_aim();
    std::optional<Trainer::Batch> probe;
    for (int step = 0; step < steps && !driver_.is_over() && driver_.seconds() < until; ++step) {
      if (step % kHold == 0) {
        if (look_closely(attack, &probe)) return;
        looks_[{i, Manner::aimed}].push_back(
            {static_cast<double>(Aim::kCost) * static_cast<double>(trainer_.steps()), attack.nearest()});
      }
      aim.feed(*probe);
      if (driver_.is_over()) return;
      driver_.count();
      if (!driver_.train()) return;
      aim.trained();
      if (!aim.has_met()) continue;
      trainer_.set_batch(*probe);
      if (attack.run(1, false)) return;
    }
    if (!driver_.is_over() && !look_closely(attack)) marks_[{i, Manner::aimed}] = trainer_.mark();
  }

  // Attacks with the weights as they are now. Where it should fail by now, a step shows whether it does backward.
  bool look_closely(Attack& attack, std::optional<Trainer::Batch>* arrived = nullptr) {
    constexpr int kPasses = 6;
    Trainer::Batch before = trainer_.batch();
    trainer_.fresh_batch();
    attack.recall();
    if (attack.run(kPasses, false)) return true;
    if (arrived != nullptr) *arrived = trainer_.batch();
    if (attack.is_there()) {
      poison_.spread(attack.best_sample());
      if (step_and_look(attack, 1)) return true;
    }
    trainer_.set_batch(std::move(before));
    return false;
  }

  Driver& driver_;
  Trainer& trainer_;
  Poison poison_;
  Poison choices_;  // of those that aim
  double aimed_seconds_ = 0;
  std::vector<Attack> attacks_;
  std::vector<Aim> aims_;
  std::vector<const Suspect*> suspects_;
  std::map<std::pair<std::size_t, Manner>, Trainer::Mark> marks_;
  std::map<std::pair<std::size_t, Manner>, std::uint64_t> starts_;  // how often it began with other weights
  struct Seen {
    double steps = 0, nearest = 0;
  };
  std::map<std::pair<std::size_t, Manner>, std::vector<Seen>> looks_;  // how near each manner came, and when
  std::vector<double> nearest_at_start_;
};

}  // namespace

void search_automatically(Driver& driver) { Automatic(driver).run(); }

}  // namespace finity
