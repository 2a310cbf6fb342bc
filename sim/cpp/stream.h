// Command streams without a host core: replay for fuzzing and co-simulation.
//
// Text, one item a line; numbers are hexadecimal without 0x unless noted, `#` starts a comment:
//   cmd FUNCT RS1 RS2 [XD]    offer a command; with XD 1 a register is to receive its result, which is waited for;
//                         without it, as for 7e (COUNTER_OP) only
//   fence                 wait until the device is idle
//   write ADDRESS BYTES   store bytes (two digits each, lowest address first) in main memory
//   fill ADDRESS COUNT BYTE   store COUNT equal bytes
//   dump ADDRESS COUNT    print `dump ADDRESS BYTES`
// `write`, `fill` and `dump` act at once, as a host's accesses would: put a fence before them where it matters.
// Output, in stream order: `dump ...` and `response VALUE` lines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <istream>
#include <ostream>
#include <vector>

#include "device.h"
#include "memory.h"

namespace baco {

struct StreamItem {
  enum class Kind { kCommand, kFence, kWrite, kFill, kDump };
  Kind kind = Kind::kFence;
  size_t line = 0;  // of the text, from 1
  Command command;
  uint64_t address = 0, count = 0;
  std::vector<uint8_t> bytes;
};

// Throws std::runtime_error naming the line of anything malformed.
std::vector<StreamItem> read_stream(std::istream& text);

// Feeds a stream to a device as a host core would. The owner advances time: cycle() once a clock, then device.tick().
class StreamPlayer {
 public:
  StreamPlayer(std::vector<StreamItem> items, Device& device, Memory& memory, std::ostream& out)
      : items_(std::move(items)), device_(device), memory_(memory), out_(out) {}

  // At most one command is offered; fences and responses are waited for over many calls.
  void cycle();
  bool done() const { return next_ == items_.size() && !waiting_; }
  // Items consumed so far: for watchdogs.
  size_t position() const { return next_; }
  const StreamItem* current() const { return next_ < items_.size() ? &items_[next_] : nullptr; }

 private:
  std::vector<StreamItem> items_;
  Device& device_;
  Memory& memory_;
  std::ostream& out_;
  size_t next_ = 0;
  bool waiting_ = false;  // for a response
};

}  // namespace baco
