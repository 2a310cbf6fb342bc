// The memory system's part in judging commands behind the RTL: the accelerator does not know where main memory ends.
//
// Every command that enters the reservation station is looked at: which bytes will it touch? One that leaves main memory
// is refused. Out of an unroller comes only a part of a command, and two macros can be under way at a time, with their
// parts side by side; so a macro is refused when all of it has come out, and every macro before it.
#pragma once
#include <array>
#include <cstdint>
#include <deque>

#include "command.h"
#include "config.h"
#include "memory.h"
#include "memory_use.h"

namespace baco {

class MemoryGuard {
 public:
  MemoryGuard(const Config& config, const Memory& memory);

  // A command the host handed over.
  void accept(const Command& command);
  // Which loops are under way in this cycle, before what entered in it: bits 0 and 1 the slots of LOOP_WS, 2 and 3
  // those of LOOP_CONV_WS.
  void loops(unsigned running);
  // A command that entered the reservation station; `loop`: which of those loops it is a part of, negative for none.
  void allocate(const Command& command, int loop);

  // Something is going to be refused: from here on the accelerator may touch bytes that are not there.
  bool suspicious() const { return suspicious_; }
  // The first command in program order that leaves main memory, when it is certain that it is the first.
  bool refused(Command& command) const;

 private:
  struct Loop {
    Command run;
    uint64_t number = 0;  // in the order of the runs
    bool running = false, faulted = false;
  };
  void settle();

  const Memory& memory_;
  MemoryUse use_;
  std::array<std::deque<Loop>, 2> waiting_;  // runs accepted, by kind, that no slot has taken yet
  std::array<Loop, 4> loops_;
  uint64_t runs_ = 0;
  bool suspicious_ = false, refused_ = false;
  Command command_;
};

}  // namespace baco
