// How a device judges a program: the first command in program order that it refuses, and why.
//
// A macro (LOOP_WS, LOOP_CONV_WS) is judged as one command, whatever it unrolls into. What memory contains after an
// error is not specified.
#pragma once
#include <cstdint>

#include "command.h"
#include "legality.h"

namespace baco {

struct RefusedCommand {
  Refusal why = Refusal::kNone;
  uint64_t cycle = 0;  // when it was noticed
  Command command;     // without the bits that no field lists
};

}  // namespace baco
