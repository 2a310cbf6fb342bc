#include "crosses.h"

#include "fields.h"
#include "legality.h"

namespace baco {

void Crosses::cycle(const CommandLog& log, const Circumstances& now) {
  std::array<bool, 4> seen{};  // load, COMPUTE, store, PRELOAD
  for (const InFlight& one : log.in_flight()) {
    const auto unit = static_cast<size_t>(one.unit);
    const bool configures = one.command.funct == kConfig || one.command.funct == kConfigFunction;
    bool& counted = seen[one.command.funct == kPreload ? 3 : unit];
    if (!one.has_issued || counted || configures) continue;
    counted = true;
    count(name_of(one.command), now, now.conflicts[unit]);
  }
  const bool any = now.conflicts[0] || now.conflicts[1] || now.conflicts[2];
  if (now.loop_ws) count("LOOP_WS", now, any);
  if (now.loop_conv) count("LOOP_CONV_WS", now, any);
}

void Crosses::count(const char* command, const Circumstances& now, bool conflict) {
  std::string key = command;
  key += now.output_stationary ? " OS" : " WS";
  key += conflict ? " 1" : " 0";
  key += now.stalled ? " 1" : " 0";
  ++counts_[key];
}

void Crosses::write(std::ostream& out) const {
  for (const auto& [key, cycles] : counts_) out << "C 'cross " << key << "' " << cycles << '\n';
}

}  // namespace baco
