// Control and status registers of a hart with machine mode only (privileged architecture 1.12).
//
// Beyond what such a hart must have, medeleg, mideleg, mcounteren and satp exist, because start-up code written for
// larger harts touches them: the delegation registers and satp read 0 whatever is written. There are no PMP entries
// (all read 0), no hardware performance events and no interrupts. Everything else traps as an illegal instruction.
#include "host.h"

namespace baco {
namespace {

enum Number : uint32_t {
  kFflags = 0x001, kFrm = 0x002, kFcsr = 0x003,
  kSatp = 0x180,
  kMstatus = 0x300, kMisa = 0x301, kMedeleg = 0x302, kMideleg = 0x303, kMieCsr = 0x304, kMtvec = 0x305,
  kMcounteren = 0x306, kMcountinhibit = 0x320, kMhpmevent3 = 0x323, kMhpmevent31 = 0x33f,
  kMscratch = 0x340, kMepc = 0x341, kMcause = 0x342, kMtval = 0x343, kMip = 0x344,
  kPmpcfg0 = 0x3a0, kPmpcfg14 = 0x3ae, kPmpaddr0 = 0x3b0, kPmpaddr63 = 0x3ef,
  kMcycle = 0xb00, kMinstret = 0xb02, kMhpmcounter3 = 0xb03, kMhpmcounter31 = 0xb1f,
  kCycle = 0xc00, kTime = 0xc01, kInstret = 0xc02, kHpmcounter3 = 0xc03, kHpmcounter31 = 0xc1f,
  kMvendorid = 0xf11, kMarchid = 0xf12, kMimpid = 0xf13, kMhartid = 0xf14, kMconfigptr = 0xf15
};

constexpr uint64_t extension(char letter) { return uint64_t{1} << (letter - 'A'); }
// RV64IMAFDC, and X for the accelerator's instructions
constexpr uint64_t kMisaValue = uint64_t{2} << 62 | extension('I') | extension('M') | extension('A') |
                                extension('F') | extension('D') | extension('C') | extension('X');
constexpr uint64_t kMachineInterrupts = 0x888;  // software, timer, external
constexpr uint64_t kStateDirty = uint64_t{1} << 63;

// Registers that exist and always read 0; writes to those that are writable do nothing.
bool reads_zero(uint32_t number) {
  switch (number) {
    case kSatp: case kMedeleg: case kMideleg: case kMcountinhibit: case kMip:
    case kMvendorid: case kMarchid: case kMimpid: case kMconfigptr:
      return true;
    default:
      break;
  }
  const auto between = [number](uint32_t low, uint32_t high) { return low <= number && number <= high; };
  if (between(kPmpcfg0, kPmpcfg14)) return number % 2 == 0;  // the odd ones are RV32's
  return between(kMhpmevent3, kMhpmevent31) || between(kPmpaddr0, kPmpaddr63) ||
         between(kMhpmcounter3, kMhpmcounter31) || between(kHpmcounter3, kHpmcounter31);
}

}  // namespace

bool Host::read_csr(uint32_t number, uint64_t& value) const {
  switch (number) {
    case kFflags: value = fflags_; return true;
    case kFrm: value = static_cast<uint64_t>(frm_); return true;
    case kFcsr: value = static_cast<uint64_t>(frm_) << 5 | fflags_; return true;
    case kMstatus:
      value = mstatus_ | kMpp | (mstatus_ & (kFs | kXs) ? kStateDirty : 0);
      return true;
    case kMisa: value = kMisaValue; return true;
    case kMieCsr: value = mie_; return true;
    case kMtvec: value = mtvec_; return true;
    case kMcounteren: value = mcounteren_; return true;
    case kMscratch: value = mscratch_; return true;
    case kMepc: value = mepc_; return true;
    case kMcause: value = mcause_; return true;
    case kMtval: value = mtval_; return true;
    case kMcycle:
    case kCycle: value = counts_.cycles + cycle_offset_; return true;
    case kMinstret:
    case kInstret: value = counts_.instructions + instruction_offset_; return true;
    case kTime: value = counts_.cycles / options_.cycles_per_time_tick; return true;
    case kMhartid: value = options_.hart_id; return true;
    default: value = 0; return reads_zero(number);
  }
}

bool Host::write_csr(uint32_t number, uint64_t value) {
  switch (number) {
    case kFflags: fflags_ = value & 31; return true;
    case kFrm: frm_ = static_cast<int>(value & 7); return true;
    case kFcsr:
      fflags_ = value & 31;
      frm_ = static_cast<int>(value >> 5 & 7);
      return true;
    case kMstatus:
      mstatus_ = (value & (kMie | kMpie)) | (value & kFs ? kFs : 0) | (value & kXs ? kXs : 0);
      return true;
    case kMisa: return true;  // the extensions are fixed
    case kMieCsr: mie_ = value & kMachineInterrupts; return true;
    case kMtvec: mtvec_ = value & ~uint64_t{2}; return true;
    case kMcounteren: mcounteren_ = value & 7; return true;
    case kMscratch: mscratch_ = value; return true;
    case kMepc: mepc_ = value & ~uint64_t{1}; return true;
    case kMcause: mcause_ = value; return true;
    case kMtval: mtval_ = value; return true;
    case kMcycle: cycle_offset_ = value - counts_.cycles; return true;
    case kMinstret:  // the writing instruction itself is not counted
      instruction_offset_ = value - counts_.instructions - 1;
      return true;
    default: return number >> 10 != 3 && reads_zero(number);  // numbers from 0xc00 are read-only
  }
}

Host::Outcome Host::access_csr(const riscv::Decoded& d) {
  using riscv::Op;
  const auto number = static_cast<uint32_t>(d.imm);
  if (number <= kFcsr && !(mstatus_ & kFs)) return illegal(d);
  uint64_t old;
  if (!read_csr(number, old)) return illegal(d);
  const bool immediate = d.op == Op::CSRRWI || d.op == Op::CSRRSI || d.op == Op::CSRRCI;
  const uint64_t operand = immediate ? d.extra : registers_[d.rs1];
  uint64_t value = operand;
  bool writes = true;
  if (d.op != Op::CSRRW && d.op != Op::CSRRWI) {
    writes = immediate ? d.extra != 0 : d.rs1 != 0;
    value = d.op == Op::CSRRS || d.op == Op::CSRRSI ? old | operand : old & ~operand;
  }
  if (writes && !write_csr(number, value)) return illegal(d);
  write(d.rd, old);
  stall(options_.csr_penalty, Stall::kCsr);
  return Outcome::kRetired;
}

}  // namespace baco
