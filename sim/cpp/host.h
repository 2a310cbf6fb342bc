// The host core: an RV64GC instruction-set simulator that drives an accelerator's RoCC port cycle by cycle.
//
// Instruction set: I, M, A, F, D, C, Zicsr, Zifencei in machine mode, as much of the privileged architecture as
// bare-metal start-up code touches (see host_csr.cpp). Misaligned loads and stores work; misaligned atomics trap.
// Custom-3 goes to the accelerator if mstatus.XS is not 0. `fence` waits until the accelerator is not busy.
//
// Timing: in order, one instruction a cycle at most, after Rocket. An instruction waits until its operands are ready:
//   * an integer operation's result is ready for the next instruction; loads, multiplications, divisions and
//     floating-point operations have the latencies of HostOptions. Divisions occupy their unit.
//   * a taken branch that jumps forwards, a branch backwards that is not taken, and an indirect jump that is no
//     return to one of the last six calls cost `branch_penalty` cycles more. All else is taken as predicted.
//   * instruction and data caches have tags only. A miss in the first stops the core for `miss_penalty` cycles. A
//     miss in the second delays the result, and the next load or store, that long. Evictions cost nothing, and
//     what the accelerator writes to memory does not invalidate lines. What another hart stores does (`invalidate`), so that
//     the next look at it misses; a store to a line that other harts have costs nothing more.
//   * a CSR access, a trap and mret empty the pipeline: `csr_cycles`.
// Not modelled: bank conflicts, TLBs, write buffers, interrupts (none ever becomes pending).
//
// `HostOptions::as_rocket` is closer to Rocket, from its sources (RocketCore, Frontend, BTB, DCache and Multiplier.scala):
//   * branches go as `BranchHistory` expects, jumps as above.
//   * multiplier and divider write registers over the port of all other instructions, which go first: what is ready waits
//     for a cycle in which none of them writes one.
//   * an access that misses is thrown away with all that follows, and comes again when its line is there: nothing overlaps.
//     A line that makes room and was written to goes first. Any of the ways makes room.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "branch_history.h"
#include "cache_tags.h"
#include "device.h"
#include "host_error.h"
#include "htif.h"
#include "memory.h"
#include "riscv.h"

namespace baco {

struct HostOptions {
  uint64_t tohost = 0, fromhost = 0;  // addresses of the HTIF words, 0 if the program has none
  Htif::Console console;              // receives what the program prints; may be empty
  // `reached` is called in the cycle in which the instruction at one of these addresses begins, before it does
  // anything; never within run_alone(), so that the device has come to the same cycle.
  std::vector<uint64_t> watched;
  std::function<void(uint64_t pc)> reached;

  // Cycles until a result can be used by another instruction.
  int load_latency = 2;        // of 4 and 8 bytes
  int small_load_latency = 3;  // of 1 and 2 bytes, into floating-point registers, and of atomics
  int multiply_latency = 4;
  bool shared_write_port = false;  // of the multiplier and divider with all other instructions
  int multiply_bits = 0;       // that the multiplier takes of the first operand in a cycle, one product at a time; 0: pipelined
  int divide_overhead = 3;     // plus one cycle a quotient bit that is not known to be 0
  bool wrapping_divider = false;  // Rocket's (Multiplier.scala) instead
  int float_latency = 3;       // binary32 add, multiply, multiply-add
  int double_latency = 4;      // the same in binary64
  int float_move_latency = 2;  // conversions, comparisons, moves
  int float_divide_latency = 20, double_divide_latency = 33;  // divisions and square roots

  // Cycles in addition to the one that an instruction takes.
  int branch_penalty = 2;
  bool branch_history = false;  // expect branches by what they did
  int csr_penalty = 4;
  int misaligned_penalty = 1;
  int miss_penalty = 60;
  bool replays = false;      // a miss in the data cache stops the core, as one in the instruction cache does
  int replay_cycles = 0;     // from a line's first beat until what missed comes again, less those until it is asked for
  int writeback_cycles = 0;  // before that, where a line goes from the data cache that was written to
  uint64_t start_cycles = 0;  // from reset to the first instruction's fetch

  // Cycles of a miss, where the memory behind the caches knows them: of a line that comes, or goes (`write`), at a cycle.
  std::function<uint64_t(uint64_t cycle, uint64_t address, bool write)> line_cycles;

  // As Rocket before the original Gemmini, whose cycles were measured: caches of 16 KiB before a shared second level, and
  // the multiplier of rocket-chip's configurations. `start_cycles` is such that the smallest program,
  // a product of 16 x 16 x 16, takes the 820 cycles that measured counts are set off to; nothing else is fitted.
  void as_rocket();

  uint64_t cache_sets = 64;  // of either cache: 64 sets x 8 ways x 64 bytes = 32 KiB. Powers of two
  int cache_ways = 8;
  bool random_replacement = false;  // in the data cache; else least recently used
  uint64_t cache_line_bytes = 64;

  uint64_t cycles_per_time_tick = 1;  // of the `time` CSR; at least 1
  uint64_t hart_id = 0;
  bool accelerator = true;  // else its instructions are illegal
  // Where other harts work on the same memory: called with all that the core stores. An instruction that jumps to itself is
  // then no mistake, since the others go on.
  std::function<void(uint64_t address, unsigned bytes)> stored;
};

// Where the cycles went: every cycle either retires an instruction, takes a trap or is counted as one stall.
enum class Stall : uint8_t {
  kOperand,      // waiting for a register
  kBranch,       // mispredicted
  kInstruction,  // instruction cache miss
  kData,         // data cache miss, misaligned access
  kDivider,      // divider busy
  kCsr,          // pipeline emptied
  kCommand,      // the accelerator did not accept a command
  kResponse,     // waiting for the accelerator's answer
  kFence,        // fence waiting for the accelerator
};
constexpr int kStalls = 9;
const char* name(Stall reason);

struct HostCounts {
  uint64_t cycles = 0;
  uint64_t instructions = 0;  // retired
  uint64_t rocc_commands = 0;
  uint64_t traps = 0;
  uint64_t instruction_misses = 0, data_misses = 0;
  std::array<uint64_t, kStalls> stalls{};  // cycles by reason
};

class Host {
 public:
  Host(Memory& memory, Device& device, HostOptions options);

  // All registers 0, caches and counters empty, execution starts at `pc`.
  void reset(uint64_t pc);

  // One clock cycle: executes at most one instruction or passes a stall. Nothing happens after exit. The device's
  // tick() is the caller's. Throws HostError if the program cannot go on.
  void cycle();

  // Many cycles at once while the device is idle: advances until `limit` cycles have passed, the program exits, or an
  // accelerator command or a watched instruction is next (which need cycle()). Returns the cycles passed, 0 if such
  // an instruction is next.
  uint64_t run_alone(uint64_t limit);

  // Another hart has stored there: the data cache loses the line, a reservation ends.
  void invalidate(uint64_t address, unsigned bytes) {
    const uint64_t last = address + bytes - 1;
    data_tags_.drop(address);
    if ((last & line_mask_) != (address & line_mask_)) data_tags_.drop(last);
    if (reservation_ >= (address & ~uint64_t{7}) && reservation_ <= last) reservation_ = ~uint64_t{0};
  }
  // Cycles in which it is certain that the core does nothing.
  uint64_t resting() const { return resume_ > counts_.cycles ? resume_ - counts_.cycles : 0; }

  bool exited() const { return htif_.exited(); }
  int exit_code() const { return htif_.exit_code(); }
  const HostCounts& counts() const { return counts_; }

  uint64_t pc() const { return pc_; }
  uint64_t x(int number) const { return registers_[number]; }
  uint64_t f(int number) const { return registers_[riscv::kFloat + number]; }
  void set_x(int number, uint64_t value) {
    if (number != 0) registers_[number] = value;
  }
  void set_f(int number, uint64_t value) { registers_[riscv::kFloat + number] = value; }
  // A CSR by number; false if there is none. For tests and reports.
  bool read_csr(uint32_t number, uint64_t& value) const;
  bool write_csr(uint32_t number, uint64_t value);
  // The last executed program counters, oldest first, at most 64.
  std::vector<uint64_t> recent() const;

 private:
  enum class Outcome { kRetired, kTrapped, kRetry };  // kRetry: nothing happened, try again in the next cycle

  struct Slot {
    uint64_t pc = ~uint64_t{0};
    riscv::Decoded decoded;
  };
  static constexpr uint64_t kSlots = 1 << 14;
  static constexpr int kRecent = 64;
  static constexpr int kReturns = 6;

  struct Trap {
    uint64_t pc = 1, cause = 0, value = 0;  // no instruction is at an odd address
  };
  enum Cause : uint64_t {
    kFetchFault = 1, kIllegalInstruction = 2, kBreakpoint = 3, kMisalignedLoad = 4, kLoadFault = 5,
    kMisalignedStore = 6, kStoreFault = 7, kMachineCall = 11
  };
  // Fields of mstatus. FS and XS are either off or dirty, as in Rocket.
  static constexpr uint64_t kMie = 1 << 3, kMpie = 1 << 7, kMpp = 3 << 11, kFs = 3 << 13, kXs = 3 << 15;

  uint64_t advance(uint64_t limit, bool alone);
  bool fetch();
  Outcome execute(const riscv::Decoded& d);
  Outcome execute_float(const riscv::Decoded& d);
  Outcome command(const riscv::Decoded& d);
  Outcome watched();

  Outcome trap(uint64_t cause, uint64_t value);
  Outcome illegal(const riscv::Decoded& d);
  Outcome return_from_trap();
  void set_interrupt_stack(uint64_t bits) { mstatus_ = (mstatus_ & ~(kMie | kMpie)) | bits; }
  [[noreturn]] void spin() const;  // at a jump to itself
  [[noreturn]] void stop(const char* why, const Trap& trap) const;

  // Results
  void write(uint8_t rd, uint64_t value, int latency = 1) {
    registers_[rd] = value;
    ready_[rd] = counts_.cycles + static_cast<uint64_t>(latency);
  }
  void stall(int cycles, Stall reason) {
    resume_ += static_cast<uint64_t>(cycles);
    reason_ = reason;
  }
  Outcome branch(const riscv::Decoded& d, bool taken);
  Outcome jump_register(const riscv::Decoded& d);
  void push_return(uint64_t address) { returns_[returned_++ % kReturns] = address; }

  // Memory
  template <class T>
  uint8_t* reach(uint64_t address) {  // null if outside memory
    return memory_.contains(address, sizeof(T)) ? bytes_ + (address - base_) : nullptr;
  }
  int miss(uint64_t address);  // cycles that a line takes to come
  int touch(uint64_t address, unsigned bytes, bool write);  // data cache; the extra latency of the access
  bool wait_for_data();
  template <class T>
  Outcome load(const riscv::Decoded& d, int latency, uint64_t box = 0);
  template <class T>
  Outcome store(const riscv::Decoded& d);
  template <class T, class Combine>
  Outcome atomic(const riscv::Decoded& d, Combine combine);
  template <class T>
  Outcome load_reserved(const riscv::Decoded& d);
  template <class T>
  Outcome store_conditional(const riscv::Decoded& d);
  template <class T>
  Outcome divide(const riscv::Decoded& d, bool is_signed, bool remainder);
  // A result of the multiplier or divider, which is busy until it is written.
  void write_late(uint8_t rd, uint64_t value, int latency);
  void find_slot();  // for it at the write port, as far as instructions are known
  // When a product is there; false if the multiplier is not free yet.
  bool multiply(const riscv::Decoded& d, bool high, bool half, int& latency);

  Outcome access_csr(const riscv::Decoded& d);

  // Floating point. Binary32 values sit in registers below 32 ones.
  static constexpr uint64_t kBox = 0xffffffff00000000u;
  int rounding(const riscv::Decoded& d) const { return d.funct3 == 7 ? frm_ : d.funct3; }
  template <class F>
  typename F::Bits operand(uint8_t number) const;
  template <class F>
  Outcome write_float(const riscv::Decoded& d, typename F::Bits value, int latency);
  template <class F>
  Outcome arithmetic(const riscv::Decoded& d, riscv::Op binary32_form);

  Memory& memory_;
  Device& device_;
  HostOptions options_;
  Htif htif_;
  uint8_t* bytes_;
  uint64_t base_;

  uint64_t pc_ = 0, next_ = 0;  // of the instruction in hand, and of the one after it
  std::array<uint64_t, riscv::kRegisters> registers_{};
  std::array<uint64_t, riscv::kRegisters> ready_{};  // cycle from which each can be read
  uint64_t resume_ = 0;                              // cycle in which the core goes on
  Stall reason_ = Stall::kOperand;                   // why not before
  uint64_t data_ready_ = 0, divider_ready_ = 0;
  // Rocket's shared write port: the cycle of each of the last eight instructions that write a register, at that cycle's
  // remainder, and the register that waits for the multiplier or divider, kNowhere without.
  std::array<uint64_t, 8> writers_;
  uint8_t late_register_ = riscv::kNowhere;
  bool awaiting_response_ = false;
  uint8_t response_register_ = 0;

  CacheTags instruction_tags_, data_tags_;
  BranchHistory branch_history_;
  uint64_t line_mask_, instruction_line_ = ~uint64_t{0};
  std::vector<Slot> slots_;
  std::unordered_map<uint64_t, riscv::Decoded> watched_;  // what really is at each address, once it was fetched
  bool begun_ = false;                                    // the watched instruction at pc_ was told of, and retries
  std::array<uint64_t, kReturns> returns_{};
  unsigned returned_ = 0;

  uint64_t reservation_ = ~uint64_t{0};
  uint64_t mstatus_ = 0, mtvec_ = 0, mepc_ = 0, mcause_ = 0, mtval_ = 0, mscratch_ = 0, mie_ = 0, mcounteren_ = 0;
  uint64_t cycle_offset_ = 0, instruction_offset_ = 0;
  uint32_t fflags_ = 0;
  int frm_ = 0;

  Trap first_trap_, last_trap_;  // since the last mret
  int traps_since_return_ = 0, repeated_traps_ = 0;

  HostCounts counts_;
  std::array<uint64_t, kRecent> recent_{};
  uint64_t executed_ = 0;
};

}  // namespace baco
