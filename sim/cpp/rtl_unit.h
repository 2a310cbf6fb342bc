// A Verilated accelerator as the harness sees it from one unit: its ports, and what their events say. For the one file of a
// program that holds the Verilated model.
#pragma once
#include <cstdint>
#include <cstring>

#include "Vbaco_accelerator.h"
#include "dram.h"
#include "guard.h"
#include "log.h"
#include "rtl.h"
#include "verdict.h"
#include "verilated.h"

namespace baco {
namespace {

// Of the model that is evaluated now: the Verilog calls functions that belong to none.
thread_local ArraySwitching* switching = nullptr;

// Ports of an accelerator but those of memory. In the Verilog of a system, those of unit N begin with unitN_, and the build
// defines BACO_EACH_UNIT(M) as M(N) for each that has an accelerator.
#define BACO_UNIT_PORTS(P, PREFIX)                                                                                     \
  P(CData, PREFIX, cmd_valid) P(CData, PREFIX, cmd_ready) P(CData, PREFIX, cmd_funct) P(CData, PREFIX, cmd_rd)         \
  P(CData, PREFIX, cmd_xd) P(QData, PREFIX, cmd_rs1) P(QData, PREFIX, cmd_rs2)                                         \
  P(CData, PREFIX, resp_valid) P(CData, PREFIX, resp_ready) P(QData, PREFIX, resp_data) P(CData, PREFIX, busy)         \
  P(CData, PREFIX, error_valid) P(CData, PREFIX, error_code) P(CData, PREFIX, error_funct)                             \
  P(QData, PREFIX, error_rs1) P(QData, PREFIX, error_rs2)                                                              \
  P(CData, PREFIX, event_alloc) P(CData, PREFIX, event_alloc_class) P(CData, PREFIX, event_alloc_id)                   \
  P(CData, PREFIX, event_alloc_funct) P(QData, PREFIX, event_alloc_rs1) P(QData, PREFIX, event_alloc_rs2)              \
  P(CData, PREFIX, event_alloc_loop)                                                                                   \
  P(CData, PREFIX, event_ld_issue) P(CData, PREFIX, event_ld_issue_id)                                                 \
  P(CData, PREFIX, event_ld_done) P(CData, PREFIX, event_ld_done_id)                                                   \
  P(CData, PREFIX, event_ex_issue) P(CData, PREFIX, event_ex_issue_id) P(CData, PREFIX, event_ex_done)                 \
  P(CData, PREFIX, event_ex_done_id0) P(CData, PREFIX, event_ex_done_id1) P(CData, PREFIX, event_ex_done_id2)          \
  P(CData, PREFIX, event_st_issue) P(CData, PREFIX, event_st_issue_id)                                                 \
  P(CData, PREFIX, event_st_done) P(CData, PREFIX, event_st_done_id)                                                   \
  P(CData, PREFIX, event_loops) P(CData, PREFIX, event_units)
#define BACO_DECLARED(TYPE, PREFIX, NAME) TYPE& NAME;
#define BACO_BOUND(TYPE, PREFIX, NAME) top.PREFIX##NAME,
struct UnitPorts {
  BACO_UNIT_PORTS(BACO_DECLARED, )
};

// Verilated ports are little-endian words of 1 to 64 bytes, whatever their type.
template <class Port>
const uint8_t* bytes_of(const Port& port) {
  return reinterpret_cast<const uint8_t*>(&port);
}
template <class Port>
void set_bytes(Port& port, const uint8_t* from, unsigned bytes) {
  std::memcpy(reinterpret_cast<uint8_t*>(&port), from, bytes);
}

// What the model of one accelerator, or of several on one memory port, is seen by from a unit.
struct UnitSide {
  UnitSide(const UnitPorts& ports, const Config& config, const Memory& memory, CommandLog& log)
      : port(ports), log(log), guard(config, memory) {}

  // The port has taken a command in this cycle.
  void accept(uint64_t cycle, const Command& command) {
    if (!commanded) statistics.first_command_cycle = cycle;
    commanded = true;
    log.accept(cycle, command);
    guard.accept(command);
  }

  // What the outputs of a cycle say.
  void events(uint64_t cycle, Dram& dram) {
    guard.loops(port.event_loops);
    if (port.event_alloc) {
      Command command;
      command.funct = port.event_alloc_funct;
      command.rs1 = port.event_alloc_rs1;
      command.rs2 = port.event_alloc_rs2;
      log.allocate(cycle, static_cast<Unit>(port.event_alloc_class & 3), port.event_alloc_id, command);
      guard.allocate(command, port.event_alloc_loop & 4 ? port.event_alloc_loop & 3 : -1);
      if (guard.suspicious()) dram.tolerate();
    }
    if (port.event_ld_issue) log.issue(cycle, Unit::load, port.event_ld_issue_id);
    if (port.event_ex_issue) log.issue(cycle, Unit::execute, port.event_ex_issue_id);
    if (port.event_st_issue) log.issue(cycle, Unit::store, port.event_st_issue_id);
    if (port.event_ld_done) log.done(cycle, Unit::load, port.event_ld_done_id);
    if (port.event_ex_done & 1) log.done(cycle, Unit::execute, port.event_ex_done_id0);
    if (port.event_ex_done & 2) log.done(cycle, Unit::execute, port.event_ex_done_id1);
    if (port.event_ex_done & 4) log.done(cycle, Unit::execute, port.event_ex_done_id2);
    if (port.event_st_done) log.done(cycle, Unit::store, port.event_st_done_id);
    unsigned kinds = port.event_units;
    for (unsigned kind = 0; kinds; ++kind, kinds >>= 1) statistics.unit_cycles[kind] += kinds & 1;
    if (port.busy) {
      ++statistics.busy_cycles;
      statistics.last_work_cycle = cycle;
    }
  }

  // Something refused in the cycle that has passed: by the memory system, or by the accelerator.
  void judge(uint64_t cycle) {
    Command command;
    if (guard.refused(command)) {
      refused.why = Refusal::kMainMemory;
    } else if (port.error_valid) {
      refused.why = static_cast<Refusal>(port.error_code);
      command.funct = port.error_funct;
      command.rs1 = port.error_rs1;
      command.rs2 = port.error_rs2;
    } else {
      return;
    }
    refused.cycle = cycle;
    refused.command = defined_bits(command);
  }

  UnitPorts port;
  CommandLog& log;
  MemoryGuard guard;
  bool offered = false, commanded = false;
  RefusedCommand refused;
  RtlStatistics statistics;
};

}  // namespace

// Called by array_switching.v.
extern "C" void baco_array_switched(int os, int a, int b, int d, int products, int sums) {
  ArraySwitching& counts = *switching;
  ++counts.cycles;
  counts.a_bits += static_cast<unsigned>(a);
  counts.output_stationary_cycles += os != 0;
  (os ? counts.multiplier_bits : counts.weight_bits) += static_cast<unsigned>(b);
  counts.d_bits += static_cast<unsigned>(d);
  counts.product_bits += static_cast<unsigned>(products);
  counts.sum_bits += static_cast<unsigned>(sums);
}

}  // namespace baco
