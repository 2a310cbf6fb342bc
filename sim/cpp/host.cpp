#include "host.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace baco {
namespace {

constexpr int kMostRepeatedTraps = 100;  // of one cause at one place, without an mret between

const char* cause_name(uint64_t cause) {
  switch (cause) {
    case 0: return "misaligned instruction";
    case 1: return "instruction fetch outside memory";
    case 2: return "illegal instruction";
    case 3: return "breakpoint";
    case 4: return "misaligned load";
    case 5: return "load outside memory";
    case 6: return "misaligned atomic";
    case 7: return "store outside memory";
    case 11: return "environment call";
    default: return "exception";
  }
}

}  // namespace

const char* name(Stall reason) {
  static const char* const kNames[kStalls] = {"operand", "branch",  "instruction", "data", "divider",
                                              "csr",     "command", "response",    "fence"};
  return kNames[static_cast<int>(reason)];
}

void HostOptions::as_rocket() {
  cache_ways = 4;
  random_replacement = true;
  multiply_bits = 8;
  shared_write_port = wrapping_divider = branch_history = replays = true;
  // a branch is known two cycles after it was decoded, and an instruction is fetched in two
  branch_penalty = 3;
  // the line's last beat comes three cycles behind its first one; a miss is known three cycles after it was decoded
  replay_cycles = 6;
  // two cycles until four beats of the old line leave, one to forget it, three until the access is known to miss again, two
  // in which the core sees that it may
  writeback_cycles = 12;
  start_cycles = 24;
}

int Host::miss(uint64_t address) {
  return options_.line_cycles ? static_cast<int>(options_.line_cycles(counts_.cycles, address, false))
                              : options_.miss_penalty;
}

Host::Host(Memory& memory, Device& device, HostOptions options)
    : memory_(memory),
      device_(device),
      options_(std::move(options)),
      htif_(memory, options_.tohost, options_.fromhost, options_.console),
      bytes_(memory.at(memory.base(), memory.size(), "host")),
      base_(memory.base()),
      instruction_tags_(options_.cache_sets, options_.cache_ways, options_.cache_line_bytes),
      data_tags_(options_.cache_sets, options_.cache_ways, options_.cache_line_bytes, options_.random_replacement),
      line_mask_(~(options_.cache_line_bytes - 1)),
      slots_(kSlots) {
  for (const uint64_t pc : options_.watched) watched_[pc];
}

void Host::reset(uint64_t pc) {
  pc_ = pc;
  registers_.fill(0);
  ready_.fill(0);
  resume_ = options_.start_cycles;
  reason_ = Stall::kInstruction;
  data_ready_ = divider_ready_ = 0;
  writers_.fill(~uint64_t{0});
  late_register_ = riscv::kNowhere;
  branch_history_ = BranchHistory{};
  awaiting_response_ = false;
  instruction_tags_.clear();
  data_tags_.clear();
  instruction_line_ = reservation_ = ~uint64_t{0};
  slots_.assign(kSlots, Slot{});
  begun_ = false;
  returns_.fill(0);
  returned_ = 0;
  mstatus_ = mtvec_ = mepc_ = mcause_ = mtval_ = mscratch_ = mie_ = mcounteren_ = 0;
  cycle_offset_ = instruction_offset_ = 0;
  fflags_ = 0;
  frm_ = 0;
  first_trap_ = last_trap_ = Trap{};
  traps_since_return_ = repeated_traps_ = 0;
  counts_ = HostCounts{};
  executed_ = 0;
  htif_.reset();
}

void Host::cycle() { advance(1, false); }

uint64_t Host::run_alone(uint64_t limit) { return advance(limit, true); }

uint64_t Host::advance(uint64_t limit, bool alone) {
  const uint64_t start = counts_.cycles;
  const uint64_t end = limit > ~uint64_t{0} - start ? ~uint64_t{0} : start + limit;
  while (counts_.cycles < end && !htif_.exited()) {
    if (counts_.cycles < resume_) {
      const uint64_t skipped = std::min(resume_, end) - counts_.cycles;
      counts_.stalls[static_cast<int>(reason_)] += skipped;
      counts_.cycles += skipped;
      continue;
    }
    if (awaiting_response_) {
      if (alone) break;
      uint64_t data;
      if (device_.response(data)) {
        write(response_register_, data);
        awaiting_response_ = false;
      }
      ++counts_.stalls[static_cast<int>(Stall::kResponse)];
      ++counts_.cycles;
      continue;
    }
    if ((pc_ & line_mask_) != instruction_line_) {
      instruction_line_ = pc_ & line_mask_;
      if (!instruction_tags_.access(pc_)) {
        ++counts_.instruction_misses;
        resume_ = counts_.cycles;
        stall(miss(pc_) + options_.replay_cycles, Stall::kInstruction);
        continue;
      }
    }
    const Slot& slot = slots_[pc_ >> 1 & (kSlots - 1)];
    if (slot.pc != pc_ && !fetch()) {
      ++counts_.cycles;
      continue;
    }
    const riscv::Decoded& d = slot.decoded;
    if (alone && (d.op == riscv::Op::ACCELERATOR || d.op == riscv::Op::WATCHED)) break;
    if (late_register_ != riscv::kNowhere) find_slot();
    uint64_t ready = std::max({ready_[d.rs1], ready_[d.rs2], ready_[d.rs3]});
    if (d.rd == late_register_ && d.rd != riscv::kNowhere) ready = std::max(ready, ready_[d.rd]);
    if (ready > counts_.cycles) {
      resume_ = ready;
      reason_ = data_ready_ >= ready ? Stall::kData : Stall::kOperand;  // a load that missed, or any other
      continue;
    }
    resume_ = counts_.cycles + 1;
    next_ = pc_ + d.length;
    switch (execute(d)) {
      case Outcome::kRetired:
        recent_[executed_++ % kRecent] = pc_;
        if (d.rd < riscv::kFloat || d.op == riscv::Op::JAL) writers_[counts_.cycles % writers_.size()] = counts_.cycles;
        ++counts_.instructions;
        pc_ = next_;
        break;
      case Outcome::kTrapped:
        break;
      case Outcome::kRetry:
        ++counts_.stalls[static_cast<int>(reason_)];
        break;
    }
    ++counts_.cycles;
  }
  return counts_.cycles - start;
}

// Decodes the instruction at pc into its slot; false if fetching it trapped.
bool Host::fetch() {
  if (!memory_.contains(pc_, 2)) {
    resume_ = counts_.cycles + 1;
    trap(kFetchFault, pc_);
    return false;
  }
  const auto low = memory_.load<uint16_t>(pc_, "host");
  riscv::Decoded decoded;
  if (riscv::is_long(low)) {
    if (!memory_.contains(pc_ + 2, 2)) {
      resume_ = counts_.cycles + 1;
      trap(kFetchFault, pc_ + 2);
      return false;
    }
    const uint32_t high = memory_.load<uint16_t>(pc_ + 2, "host");
    decoded = riscv::decode(high << 16 | low);
  } else {
    decoded = riscv::decode(riscv::expand(low));
    decoded.length = 2;
    decoded.word = low;
  }
  if (const auto watched = watched_.find(pc_); watched != watched_.end()) {
    watched->second = decoded;
    decoded.op = riscv::Op::WATCHED;  // so that all other instructions need no test
  }
  slots_[pc_ >> 1 & (kSlots - 1)] = Slot{pc_, decoded};
  return true;
}

Host::Outcome Host::watched() {
  if (!begun_) options_.reached(pc_);
  const Outcome outcome = execute(watched_.at(pc_));
  begun_ = outcome == Outcome::kRetry;
  return outcome;
}

Host::Outcome Host::trap(uint64_t cause, uint64_t value) {
  const Trap now{pc_, cause, value};
  if (mtvec_ == 0) stop("and no trap handler is installed (mtvec is 0)", now);
  repeated_traps_ = now.pc == last_trap_.pc && cause == last_trap_.cause ? repeated_traps_ + 1 : 0;
  if (traps_since_return_++ == 0) first_trap_ = now;
  if (repeated_traps_ >= kMostRepeatedTraps) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "again and again, and the trap handler never returns; the first trap was: %s at pc 0x%llx (value 0x%llx)",
                  cause_name(first_trap_.cause), static_cast<unsigned long long>(first_trap_.pc),
                  static_cast<unsigned long long>(first_trap_.value));
    stop(text, now);
  }
  last_trap_ = now;
  recent_[executed_++ % kRecent] = pc_;
  ++counts_.traps;
  mepc_ = pc_;
  mcause_ = cause;
  mtval_ = value;
  set_interrupt_stack(mstatus_ & kMie ? kMpie : 0);
  pc_ = mtvec_ & ~uint64_t{3};  // only interrupts are vectored
  stall(options_.csr_penalty, Stall::kCsr);
  return Outcome::kTrapped;
}

Host::Outcome Host::return_from_trap() {
  set_interrupt_stack((mstatus_ & kMpie ? kMie : 0) | kMpie);
  next_ = mepc_;
  traps_since_return_ = repeated_traps_ = 0;
  last_trap_ = Trap{};
  stall(options_.csr_penalty, Stall::kCsr);
  return Outcome::kRetired;
}

Host::Outcome Host::illegal(const riscv::Decoded& d) { return trap(kIllegalInstruction, d.word); }

void Host::stop(const char* why, const Trap& trap) const {
  char text[320];
  std::snprintf(text, sizeof text, "%s at pc 0x%llx (value 0x%llx), %s", cause_name(trap.cause),
                static_cast<unsigned long long>(trap.pc), static_cast<unsigned long long>(trap.value), why);
  throw HostError(text);
}

void Host::spin() const {
  char text[160];
  std::snprintf(text, sizeof text,
                "the program loops on the spot at pc 0x%llx for ever: it jumps to itself, and there are no interrupts",
                static_cast<unsigned long long>(pc_));
  throw HostError(text);
}

std::vector<uint64_t> Host::recent() const {
  const uint64_t count = std::min<uint64_t>(executed_, kRecent);
  std::vector<uint64_t> pcs;
  for (uint64_t i = executed_ - count; i < executed_; ++i) pcs.push_back(recent_[i % kRecent]);
  return pcs;
}

}  // namespace baco
