// What each integer, memory, control and atomic instruction does.
#include <cstdint>
#include <type_traits>

#include "host.h"

namespace baco {
namespace {

using riscv::Op;
using i128 = __int128;
using u128 = unsigned __int128;

int64_t as_signed(uint64_t x) { return static_cast<int64_t>(x); }
uint64_t sign_extend32(uint64_t x) { return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(x))); }
uint64_t shift_right_signed(uint64_t x, uint64_t distance) { return static_cast<uint64_t>(as_signed(x) >> distance); }
bool is_link(uint64_t number) { return number == 1 || number == 5; }  // registers that calls and returns use

int bit_length(uint64_t x) { return x == 0 ? 0 : 64 - __builtin_clzll(x); }

}  // namespace

int Host::touch(uint64_t address, unsigned bytes, bool write) {
  bool hit = data_tags_.access(address, write);
  int extra = 0;
  if (address & (bytes - 1)) {
    extra = options_.misaligned_penalty;
    const uint64_t last = address + bytes - 1;
    if ((last & line_mask_) != (address & line_mask_)) hit = data_tags_.access(last, write) && hit;
  }
  if (!hit) {
    ++counts_.data_misses;
    extra += miss(address) + options_.replay_cycles;
    if (options_.replays) {
      if (data_tags_.victim() != CacheTags::kNone) {
        extra += options_.writeback_cycles;
        if (options_.line_cycles) options_.line_cycles(counts_.cycles, data_tags_.victim(), true);
      }
      stall(extra, Stall::kData);
      return extra;
    }
  }
  if (extra) data_ready_ = counts_.cycles + 1 + static_cast<uint64_t>(extra);
  return extra;
}

// True if an earlier access still occupies the data cache: try again when it is done.
bool Host::wait_for_data() {
  if (data_ready_ <= counts_.cycles) return false;
  resume_ = data_ready_;
  reason_ = Stall::kData;
  return true;
}

template <class T>
Host::Outcome Host::load(const riscv::Decoded& d, int latency, uint64_t box) {
  if (wait_for_data()) return Outcome::kRetry;
  const uint64_t address = registers_[d.rs1] + static_cast<uint64_t>(int64_t{d.imm});
  const uint8_t* at = reach<T>(address);
  if (at == nullptr) return trap(kLoadFault, address);
  T value;
  std::memcpy(&value, at, sizeof value);
  const int extra = touch(address, sizeof value, false);
  write(d.rd, static_cast<uint64_t>(static_cast<int64_t>(value)) | box, latency + extra);
  return Outcome::kRetired;
}

template <class T>
Host::Outcome Host::store(const riscv::Decoded& d) {
  if (wait_for_data()) return Outcome::kRetry;
  const uint64_t address = registers_[d.rs1] + static_cast<uint64_t>(int64_t{d.imm});
  uint8_t* at = reach<T>(address);
  if (at == nullptr) return trap(kStoreFault, address);
  const T value = static_cast<T>(registers_[d.rs2]);
  std::memcpy(at, &value, sizeof value);
  touch(address, sizeof value, true);
  if (options_.stored) options_.stored(address, sizeof value);
  if (htif_.watches(address)) htif_.serve();
  return Outcome::kRetired;
}

// Read-modify-write of a signed T; the register receives the old value.
template <class T, class Combine>
Host::Outcome Host::atomic(const riscv::Decoded& d, Combine combine) {
  if (wait_for_data()) return Outcome::kRetry;
  const uint64_t address = registers_[d.rs1];
  if (address % sizeof(T) != 0) return trap(kMisalignedStore, address);
  uint8_t* at = reach<T>(address);
  if (at == nullptr) return trap(kStoreFault, address);
  T old;
  std::memcpy(&old, at, sizeof old);
  const T value = combine(old, static_cast<T>(registers_[d.rs2]));
  std::memcpy(at, &value, sizeof value);
  const int extra = touch(address, sizeof value, true);
  write(d.rd, static_cast<uint64_t>(int64_t{old}), options_.small_load_latency + extra);
  if (options_.stored) options_.stored(address, sizeof value);
  if (htif_.watches(address)) htif_.serve();
  return Outcome::kRetired;
}

template <class T>
Host::Outcome Host::load_reserved(const riscv::Decoded& d) {
  const uint64_t address = registers_[d.rs1];
  if (address % sizeof(T) != 0) return trap(kMisalignedLoad, address);
  const Outcome outcome = load<T>(d, options_.small_load_latency);
  if (outcome == Outcome::kRetired) reservation_ = address & ~uint64_t{7};
  return outcome;
}

template <class T>
Host::Outcome Host::store_conditional(const riscv::Decoded& d) {
  if (wait_for_data()) return Outcome::kRetry;
  const uint64_t address = registers_[d.rs1];
  if (address % sizeof(T) != 0) return trap(kMisalignedStore, address);
  if (reach<T>(address) == nullptr) return trap(kStoreFault, address);
  const bool reserved = reservation_ == (address & ~uint64_t{7});
  reservation_ = ~uint64_t{0};
  if (reserved) {
    const Outcome outcome = store<T>(d);
    if (outcome != Outcome::kRetired) return outcome;
  }
  write(d.rd, reserved ? 0 : 1, options_.small_load_latency);
  return Outcome::kRetired;
}

// T is the unsigned operand type; results of 32 bits are sign extended. Division by zero gives all ones and the
// dividend as remainder; the one signed overflow gives the dividend and remainder 0.
template <class T>
Host::Outcome Host::divide(const riscv::Decoded& d, bool is_signed, bool remainder) {
  using S = std::make_signed_t<T>;
  if (divider_ready_ > counts_.cycles) {
    resume_ = divider_ready_;
    reason_ = Stall::kDivider;
    return Outcome::kRetry;
  }
  const T a = static_cast<T>(registers_[d.rs1]), b = static_cast<T>(registers_[d.rs2]);
  const bool negative_a = is_signed && static_cast<S>(a) < 0, negative_b = is_signed && static_cast<S>(b) < 0;
  const T magnitude_a = negative_a ? T(0) - a : a, magnitude_b = negative_b ? T(0) - b : b;
  T result;
  if (b == 0) {
    result = remainder ? a : ~T(0);
  } else if (remainder) {
    result = magnitude_a % magnitude_b;
    if (negative_a) result = T(0) - result;
  } else {
    result = magnitude_a / magnitude_b;
    if (negative_a != negative_b) result = T(0) - result;
  }
  const int quotient_bits = bit_length(magnitude_a) - bit_length(magnitude_b) + 1;
  int latency = options_.divide_overhead + (quotient_bits > 1 ? quotient_bits : 1);
  if (options_.wrapping_divider) {
    // Zero has the bit length of one here. Steps are left out by a difference of six bits: where the divisor is longer than
    // the dividend, nearly all 64 are taken
    const int skipped = 63 - ((std::max(bit_length(magnitude_a), 1) - std::max(bit_length(magnitude_b), 1)) & 63);
    const int steps = b != 0 && skipped > 0 ? 66 - skipped : 65;
    const bool negates = b == 0 && !remainder ? false : remainder ? negative_a : negative_a != negative_b;
    latency = 2 + (negative_a || negative_b) + steps + negates;
  }
  write_late(d.rd, static_cast<uint64_t>(int64_t{static_cast<S>(result)}), latency);
  return Outcome::kRetired;
}

// Rocket's multiplier (Multiplier.scala): so many bits of the first operand a cycle, no more once the rest is zero, then
// a cycle each to begin and to write.
bool Host::multiply(const riscv::Decoded& d, bool high, bool half, int& latency) {
  latency = options_.multiply_latency;
  if (options_.multiply_bits == 0) return true;
  if (divider_ready_ > counts_.cycles) {
    resume_ = divider_ready_;
    reason_ = Stall::kDivider;
    return false;
  }
  const int all = (half ? 32 : 64) / options_.multiply_bits;
  const uint64_t first = half ? registers_[d.rs1] & 0xffffffffu : registers_[d.rs1];
  const int needed = (bit_length(first) + options_.multiply_bits - 1) / options_.multiply_bits;
  // the first step of 64 bits does not look at the rest
  latency = 2 + (high ? all : std::min(all, (half ? needed : std::max(needed, 1)) + 1));
  return true;
}

void Host::write_late(uint8_t rd, uint64_t value, int latency) {
  write(rd, value, latency);
  divider_ready_ = counts_.cycles + static_cast<uint64_t>(latency);
  if (options_.shared_write_port) late_register_ = rd;
}

// An instruction writes its register three cycles after it was decoded.
void Host::find_slot() {
  constexpr uint64_t kDepth = 3;
  while (divider_ready_ < counts_.cycles + kDepth &&
         writers_[(divider_ready_ - kDepth) % writers_.size()] == divider_ready_ - kDepth)
    ++divider_ready_;
  ready_[late_register_] = divider_ready_;
  if (divider_ready_ <= counts_.cycles) late_register_ = riscv::kNowhere;
}

Host::Outcome Host::branch(const riscv::Decoded& d, bool taken) {
  if (taken) next_ = pc_ + static_cast<uint64_t>(int64_t{d.imm});
  const bool expected = options_.branch_history ? branch_history_.expected(pc_, d.length, taken) : taken == (d.imm < 0);
  if (expected) return Outcome::kRetired;
  stall(options_.branch_penalty, Stall::kBranch);
  // an instruction in two words of memory is fetched in two cycles
  if (options_.branch_history && next_ % 4 == 2 && memory_.contains(next_, 2) &&
      riscv::is_long(memory_.load<uint16_t>(next_, "host")))
    stall(1, Stall::kBranch);
  return Outcome::kRetired;
}

Host::Outcome Host::jump_register(const riscv::Decoded& d) {
  const uint64_t link = next_;
  next_ = (registers_[d.rs1] + static_cast<uint64_t>(int64_t{d.imm})) & ~uint64_t{1};
  bool predicted = false;
  if (is_link(d.rs1) && !is_link(d.rd)) {
    if (returned_ > 0) --returned_;
    predicted = returns_[returned_ % kReturns] == next_;
  }
  if (!predicted) stall(options_.branch_penalty, Stall::kBranch);
  if (is_link(d.rd)) push_return(link);
  write(d.rd, link);
  return Outcome::kRetired;
}

Host::Outcome Host::command(const riscv::Decoded& d) {
  if (!(mstatus_ & kXs) || !options_.accelerator) return illegal(d);
  Command command;
  command.funct = d.extra;
  command.rd = d.rd == riscv::kNowhere ? 0 : d.rd;
  command.xd = (d.funct3 & 4) != 0;
  command.rs1 = registers_[d.rs1];
  command.rs2 = registers_[d.rs2];
  if (!device_.offer(command)) {
    reason_ = Stall::kCommand;
    return Outcome::kRetry;
  }
  ++counts_.rocc_commands;
  awaiting_response_ = command.xd;
  response_register_ = d.rd;
  return Outcome::kRetired;
}

Host::Outcome Host::execute(const riscv::Decoded& d) {
  const uint64_t a = registers_[d.rs1], b = registers_[d.rs2];
  const auto imm = static_cast<uint64_t>(int64_t{d.imm});
  const auto set = [&](uint64_t value) {
    write(d.rd, value);
    return Outcome::kRetired;
  };
  const auto product = [&](uint64_t value, bool high = false, bool half = false) {
    int latency;
    if (!multiply(d, high, half, latency)) return Outcome::kRetry;
    if (options_.multiply_bits)
      write_late(d.rd, value, latency);
    else
      write(d.rd, value, latency);
    return Outcome::kRetired;
  };
  const auto swap = [](auto, auto operand) { return operand; };
  const auto plus = [](auto old, auto operand) {
    return static_cast<decltype(old)>(static_cast<uint64_t>(old) + static_cast<uint64_t>(operand));
  };
  const auto exclusive = [](auto old, auto operand) { return old ^ operand; };
  const auto both = [](auto old, auto operand) { return old & operand; };
  const auto either = [](auto old, auto operand) { return old | operand; };
  const auto least = [](auto old, auto operand) { return old < operand ? old : operand; };
  const auto greatest = [](auto old, auto operand) { return old > operand ? old : operand; };
  const auto least_unsigned = [](auto old, auto operand) {
    using U = std::make_unsigned_t<decltype(old)>;
    return static_cast<U>(old) < static_cast<U>(operand) ? old : operand;
  };
  const auto greatest_unsigned = [](auto old, auto operand) {
    using U = std::make_unsigned_t<decltype(old)>;
    return static_cast<U>(old) > static_cast<U>(operand) ? old : operand;
  };

  switch (d.op) {
    case Op::ILLEGAL: return illegal(d);

    case Op::LUI: return set(imm);
    case Op::AUIPC: return set(pc_ + imm);
    case Op::JAL:
      if (imm == 0 && !options_.stored) spin();
      write(d.rd, next_);
      if (is_link(d.rd)) push_return(next_);
      next_ = pc_ + imm;
      return Outcome::kRetired;
    case Op::JALR: return jump_register(d);
    case Op::BEQ: return branch(d, a == b);
    case Op::BNE: return branch(d, a != b);
    case Op::BLT: return branch(d, as_signed(a) < as_signed(b));
    case Op::BGE: return branch(d, as_signed(a) >= as_signed(b));
    case Op::BLTU: return branch(d, a < b);
    case Op::BGEU: return branch(d, a >= b);

    case Op::LB: return load<int8_t>(d, options_.small_load_latency);
    case Op::LH: return load<int16_t>(d, options_.small_load_latency);
    case Op::LW: return load<int32_t>(d, options_.load_latency);
    case Op::LD: return load<int64_t>(d, options_.load_latency);
    case Op::LBU: return load<uint8_t>(d, options_.small_load_latency);
    case Op::LHU: return load<uint16_t>(d, options_.small_load_latency);
    case Op::LWU: return load<uint32_t>(d, options_.load_latency);
    case Op::SB: return store<uint8_t>(d);
    case Op::SH: return store<uint16_t>(d);
    case Op::SW: return store<uint32_t>(d);
    case Op::SD: return store<uint64_t>(d);

    case Op::ADDI: return set(a + imm);
    case Op::SLTI: return set(as_signed(a) < as_signed(imm));
    case Op::SLTIU: return set(a < imm);
    case Op::XORI: return set(a ^ imm);
    case Op::ORI: return set(a | imm);
    case Op::ANDI: return set(a & imm);
    case Op::SLLI: return set(a << imm);
    case Op::SRLI: return set(a >> imm);
    case Op::SRAI: return set(shift_right_signed(a, imm));
    case Op::ADD: return set(a + b);
    case Op::SUB: return set(a - b);
    case Op::SLL: return set(a << (b & 63));
    case Op::SLT: return set(as_signed(a) < as_signed(b));
    case Op::SLTU: return set(a < b);
    case Op::XOR: return set(a ^ b);
    case Op::SRL: return set(a >> (b & 63));
    case Op::SRA: return set(shift_right_signed(a, b & 63));
    case Op::OR: return set(a | b);
    case Op::AND: return set(a & b);
    case Op::ADDIW: return set(sign_extend32(a + imm));
    case Op::SLLIW: return set(sign_extend32(a << imm));
    case Op::SRLIW: return set(sign_extend32((a & 0xffffffffu) >> imm));
    case Op::SRAIW: return set(shift_right_signed(sign_extend32(a), imm));
    case Op::ADDW: return set(sign_extend32(a + b));
    case Op::SUBW: return set(sign_extend32(a - b));
    case Op::SLLW: return set(sign_extend32(a << (b & 31)));
    case Op::SRLW: return set(sign_extend32((a & 0xffffffffu) >> (b & 31)));
    case Op::SRAW: return set(shift_right_signed(sign_extend32(a), b & 31));

    case Op::MUL: return product(a * b);
    case Op::MULH: return product(static_cast<uint64_t>(static_cast<i128>(as_signed(a)) * as_signed(b) >> 64), true);
    case Op::MULHSU:
      return product(static_cast<uint64_t>(static_cast<i128>(as_signed(a)) * static_cast<i128>(b) >> 64), true);
    case Op::MULHU: return product(static_cast<uint64_t>(static_cast<u128>(a) * b >> 64), true);
    case Op::MULW: return product(sign_extend32(a * b), false, true);
    case Op::DIV: return divide<uint64_t>(d, true, false);
    case Op::DIVU: return divide<uint64_t>(d, false, false);
    case Op::REM: return divide<uint64_t>(d, true, true);
    case Op::REMU: return divide<uint64_t>(d, false, true);
    case Op::DIVW: return divide<uint32_t>(d, true, false);
    case Op::DIVUW: return divide<uint32_t>(d, false, false);
    case Op::REMW: return divide<uint32_t>(d, true, true);
    case Op::REMUW: return divide<uint32_t>(d, false, true);

    case Op::LR_W: return load_reserved<int32_t>(d);
    case Op::SC_W: return store_conditional<uint32_t>(d);
    case Op::AMOSWAP_W: return atomic<int32_t>(d, swap);
    case Op::AMOADD_W: return atomic<int32_t>(d, plus);
    case Op::AMOXOR_W: return atomic<int32_t>(d, exclusive);
    case Op::AMOAND_W: return atomic<int32_t>(d, both);
    case Op::AMOOR_W: return atomic<int32_t>(d, either);
    case Op::AMOMIN_W: return atomic<int32_t>(d, least);
    case Op::AMOMAX_W: return atomic<int32_t>(d, greatest);
    case Op::AMOMINU_W: return atomic<int32_t>(d, least_unsigned);
    case Op::AMOMAXU_W: return atomic<int32_t>(d, greatest_unsigned);
    case Op::LR_D: return load_reserved<int64_t>(d);
    case Op::SC_D: return store_conditional<uint64_t>(d);
    case Op::AMOSWAP_D: return atomic<int64_t>(d, swap);
    case Op::AMOADD_D: return atomic<int64_t>(d, plus);
    case Op::AMOXOR_D: return atomic<int64_t>(d, exclusive);
    case Op::AMOAND_D: return atomic<int64_t>(d, both);
    case Op::AMOOR_D: return atomic<int64_t>(d, either);
    case Op::AMOMIN_D: return atomic<int64_t>(d, least);
    case Op::AMOMAX_D: return atomic<int64_t>(d, greatest);
    case Op::AMOMINU_D: return atomic<int64_t>(d, least_unsigned);
    case Op::AMOMAXU_D: return atomic<int64_t>(d, greatest_unsigned);

    case Op::FLW:
      if (!(mstatus_ & kFs)) return illegal(d);
      return load<uint32_t>(d, options_.small_load_latency, kBox);
    case Op::FLD:
      if (!(mstatus_ & kFs)) return illegal(d);
      return load<uint64_t>(d, options_.small_load_latency);
    case Op::FSW:
      if (!(mstatus_ & kFs)) return illegal(d);
      return store<uint32_t>(d);
    case Op::FSD:
      if (!(mstatus_ & kFs)) return illegal(d);
      return store<uint64_t>(d);

    case Op::CSRRW:
    case Op::CSRRS:
    case Op::CSRRC:
    case Op::CSRRWI:
    case Op::CSRRSI:
    case Op::CSRRCI: return access_csr(d);

    case Op::ECALL: return trap(kMachineCall, 0);
    case Op::EBREAK: return trap(kBreakpoint, pc_);
    case Op::MRET: return return_from_trap();
    case Op::WFI:          // may return at once, and no interrupt would ever end it
    case Op::SFENCE_VMA:   // nothing is translated
      return Outcome::kRetired;
    case Op::FENCE:
      if (!device_.busy()) return Outcome::kRetired;
      reason_ = Stall::kFence;
      return Outcome::kRetry;
    case Op::FENCE_I:
      slots_.assign(kSlots, Slot{});
      instruction_tags_.clear();
      instruction_line_ = ~uint64_t{0};
      stall(options_.csr_penalty, Stall::kCsr);
      return Outcome::kRetired;
    case Op::ACCELERATOR: return command(d);
    case Op::WATCHED: return watched();

    default: return execute_float(d);
  }
}

}  // namespace baco
