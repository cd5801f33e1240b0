// Training data that drives weights the wrong way, inside the legal ranges: samples and labels that exist, and inputs
// that are legal, but chosen so that steps add up instead of cancelling.
#pragma once

#include <cstdint>
#include <vector>

#include "program/attack.h"

namespace finity {

enum class Manner : std::uint8_t {
  extreme,   // one extreme sample for the whole batch, with the label it fits least
  parts,     // a faint sample, or one of which only a small part is not near zero, always with the same label: it is
             // never learned well, so errors stay large, and at a bright and whole sample all that is learned adds up
  boundary,  // a sample just beyond the border between two classes, with the label of the loser: errors stay large
             // while weights grow
  attacked,  // what the attack made of the batch, as the published method trains
  ordinary,  // the data as it is
  held,      // the same few samples of the data, again and again, also faint ones: what one batch asks for is not taken
             // back by the next, and weights that fit faint samples are large for bright ones
  mixed,  // one sample of one brightness for the whole batch, with the labels of the data: no label can be learned, and
          // where steps are large, scores are thrown to and fro
  aimed   // of several batches the one after whose step the op is nearest to failing (aim.h)
};
inline constexpr Manner kManners[] = {Manner::parts,    Manner::extreme, Manner::boundary, Manner::attacked,
                                      Manner::ordinary, Manner::held,    Manner::mixed,    Manner::aimed};

class Poison {
 public:
  explicit Poison(Driver& driver);

  bool can(Manner manner) const;
  void begin(Manner manner, std::uint64_t round);
  // Makes the batch for the next step.
  void feed(Attack& attack);
  void feed_batch();  // of manners that need no attack
  // Looks at the program with everything that may be changed at an end of its range, all of it and one by one: what
  // chooses among values (a mask, a comparison) has no slope that would lead there.
  void look_at_ends();
  // What is fed was learned since the start, so that training on it moves nothing any more.
  bool is_learned();
  // Every sample becomes this one, each with another label: whatever the label must be, it is there.
  void spread(std::size_t sample);

 private:
  void feed_extreme();
  void feed_parts();
  void feed_mixed();
  void feed_held();
  void set_draws(bool high);
  void fill(std::size_t input, bool high);
  void feed_boundary();
  void fill_candidates();
  void fill_row(std::span<double> row, const LegalRange& range, std::size_t kind);
  void repeat_sample(std::size_t sample);
  std::vector<double> label_losses(std::size_t sample, const std::vector<double>& slopes) const;
  void find_labels();
  std::vector<std::vector<std::byte>> extreme_labels() const;
  void fix_label();
  double loss_now();

  Driver& driver_;
  Trainer& trainer_;
  const Program& program_;
  Rng rng_;
  Manner manner_ = Manner::ordinary;
  std::uint64_t round_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t parts_ = 1;  // how many there are
  double brightness_ = 1;    // of what is not near zero
  std::size_t loss_pass_ = 0;
  double first_loss_ = -1;           // of the first part, before it was trained on
  std::uint64_t fed_parts_ = 0;      // so many were trained on, in all rounds
  std::vector<std::size_t> inputs_;  // with samples, that may be changed
  std::vector<std::size_t> draws_;   // of every step, that may be changed
  std::size_t label_ = 0;            // the input that holds labels
  bool has_label_ = false;           // as floats, so that the loss can be derived by it
  std::size_t label_pass_ = 0;
  std::vector<std::vector<std::byte>> labels_;  // distinct rows of it
  std::vector<std::vector<double>> label_numbers_;
  std::size_t fixed_at_ = 0;  // the input that says what a sample is, and a legal row of it
  std::vector<std::byte> fixed_label_ = {};
};

}  // namespace finity
