// Entries of the reservation station that an unroller may still send for, as baco_credits.v: those that neither a command in the
// station nor one on its way there has.
#pragma once
#include <array>

#include "command.h"
#include "fields.h"
#include "timed_station.h"

namespace baco {

class TimedCredits {
 public:
  // As the cycle began.
  bool space(unsigned kind) const { return space_[kind]; }
  void sent(const Command& command) { count(command, 1); }
  void arrived(const Command& command) { count(command, -1); }
  // The cycle ends.
  void tick(const TimedStation& station) {
    for (unsigned kind = 0; kind < 3; ++kind) space_[kind] = station.unused(kind) > under_way_[kind];
  }

 private:
  void count(const Command& command, int by) {
    if (TimedStation::enters(command)) under_way_[TimedStation::class_of(command)] += by;
  }

  std::array<bool, 3> space_{true, true, true};
  std::array<int, 3> under_way_{};
};

}  // namespace baco
