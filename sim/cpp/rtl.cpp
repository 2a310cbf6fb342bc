#include "rtl.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "Vbaco_accelerator.h"
#include "crosses.h"
#include "guard.h"
#include "verilated.h"
#if VM_COVERAGE
#include "Vbaco_accelerator__Syms.h"
#include "verilated_cov.h"
#endif
#if defined(BACO_TRACE_VCD)
#include "verilated_vcd_c.h"
#elif defined(BACO_TRACE_FST)
#include "verilated_fst_c.h"
#endif

namespace baco {

namespace {

#if defined(BACO_TRACE_VCD)
using Waves = VerilatedVcdC;
constexpr const char* kTraceFormat = "vcd";
#elif defined(BACO_TRACE_FST)
using Waves = VerilatedFstC;
constexpr const char* kTraceFormat = "fst";
#else
constexpr const char* kTraceFormat = "";
#endif

// Of the model that is evaluated now: the Verilog calls functions that belong to none.
thread_local ArraySwitching* switching = nullptr;
thread_local std::string* broken_port = nullptr;
thread_local unsigned circumstances = 0;

// Cycles the model is still evaluated after the last sign of life. Busy excludes a lone PRELOAD on its way to the
// reservation station and counters settling behind it: this is longer than any such path.
constexpr unsigned kSettleCycles = 64;
constexpr int kResetCycles = 4;

// Verilated ports are little-endian words of 1 to 64 bytes, whatever their type.
template <class Port>
const uint8_t* bytes_of(const Port& port) {
  return reinterpret_cast<const uint8_t*>(&port);
}
template <class Port>
void set_bytes(Port& port, const uint8_t* from, unsigned bytes) {
  std::memcpy(reinterpret_cast<uint8_t*>(&port), from, bytes);
}

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

// Called by handshakes.v.
extern "C" void baco_handshake_broken(const char* port) {
  if (broken_port && broken_port->empty()) *broken_port = port;
}

// Called by crosses.v.
extern "C" void baco_crossed(int bits) { circumstances = static_cast<unsigned>(bits); }

std::unique_ptr<VerilatedContext> powered_up(uint32_t seed) {
  auto context = std::make_unique<VerilatedContext>();
  context->randReset(seed ? 2 : 0);
  if (seed) context->randSeed(static_cast<int>(seed & 0x7fffffffu));
  return context;
}

struct RtlDevice::Model {
  Model(const Config& config, Memory& memory, CommandLog& log, const RtlOptions& options)
      : log(log), beat_bytes(static_cast<unsigned>(config.dma_bits) / 8), dram(memory, options.dram, beat_bytes),
        guard(config, memory), context(powered_up(options.power_up)), top(new Vbaco_accelerator(context.get())), trace_from(options.trace_from),
        trace_until(options.trace_until), coverage(options.coverage) {
    if (sizeof top->rd_resp_data < beat_bytes || sizeof top->rd_resp_data > (beat_bytes < 4 ? 4 : beat_bytes))
      throw std::runtime_error("the RTL was built for another memory port than the configuration's " +
                               std::to_string(config.dma_bits) + " bits");
    open_trace(options.trace);
    switching = &statistics.array;
    if (coverage) continue_counts();
    reset();
    statistics.array = {};
    broken_port = &broken;
  }

  ~Model() {
    if (coverage) keep_counts();
    top->final();
  }

#if VM_COVERAGE
  void continue_counts() {
    std::copy(coverage->counts.begin(), coverage->counts.end(), std::begin(top->rootp->vlSymsp->__Vcoverage));
  }
  void keep_counts() {
    coverage->counts.assign(std::begin(top->rootp->vlSymsp->__Vcoverage), std::end(top->rootp->vlSymsp->__Vcoverage));
  }
#else
  void continue_counts() { throw std::runtime_error("this model was built without coverage"); }
  void keep_counts() {}
#endif

  void open_trace(const std::string& path) {
    if (path.empty()) return;
#if defined(BACO_TRACE_VCD) || defined(BACO_TRACE_FST)
    context->traceEverOn(true);
    waves.reset(new Waves);
    top->trace(waves.get(), 99);
    waves->open(path.c_str());
    if (!waves->isOpen()) throw std::runtime_error("cannot write the waveforms " + path);
#elif defined(BACO_TRACE_COUNTS)
    // the Verilog writes what it counted when it ends
    const std::string argument = "+switching=" + path;
    const char* arguments[] = {"", argument.c_str()};
    context->commandArgs(2, arguments);
#else
    throw std::runtime_error("this model was built without waveforms");
#endif
  }

  void dump(uint64_t half_cycle) {
#if defined(BACO_TRACE_VCD) || defined(BACO_TRACE_FST)
    if (waves && cycle >= trace_from && cycle < trace_until) waves->dump(half_cycle);
#else
    (void)half_cycle;
#endif
  }

  void reset() {
    top->cmd_valid = 0;
    top->resp_ready = 0;
    top->rd_resp_valid = 0;
    top->wr_ack_valid = 0;
    top->rd_req_ready = 0;
    top->wr_req_ready = 0;
    top->reset = 1;
    for (int i = 0; i < kResetCycles; ++i) {
      top->clock = 0;
      top->eval();
      top->clock = 1;
      top->eval();
    }
    top->reset = 0;
    present_memory();
  }

  // The memory's inputs of a new cycle; they do not depend on the accelerator's outputs.
  void present_memory() {
    top->rd_req_ready = dram.read_ready();
    top->wr_req_ready = dram.write_ready();
    const uint8_t* beat = dram.beat();
    top->rd_resp_valid = beat != nullptr;
    if (beat) set_bytes(top->rd_resp_data, beat, beat_bytes);
    top->wr_ack_valid = dram.take_ack();
    moved |= top->wr_ack_valid;
  }

  // Combinational outputs for the inputs as they are now.
  void settle() {
    if (settled) return;
    top->clock = 0;
    top->eval();
    settled = true;
  }

  void events() {
    const uint64_t now = cycle;
    guard.loops(top->event_loops);
    if (top->event_alloc) {
      Command command;
      command.funct = top->event_alloc_funct;
      command.rs1 = top->event_alloc_rs1;
      command.rs2 = top->event_alloc_rs2;
      log.allocate(now, static_cast<Unit>(top->event_alloc_class & 3), top->event_alloc_id, command);
      guard.allocate(command, top->event_alloc_loop & 4 ? top->event_alloc_loop & 3 : -1);
      if (guard.suspicious()) dram.tolerate();
    }
    if (top->event_ld_issue) log.issue(now, Unit::load, top->event_ld_issue_id);
    if (top->event_ex_issue) log.issue(now, Unit::execute, top->event_ex_issue_id);
    if (top->event_st_issue) log.issue(now, Unit::store, top->event_st_issue_id);
    if (top->event_ld_done) log.done(now, Unit::load, top->event_ld_done_id);
    if (top->event_ex_done & 1) log.done(now, Unit::execute, top->event_ex_done_id0);
    if (top->event_ex_done & 2) log.done(now, Unit::execute, top->event_ex_done_id1);
    if (top->event_ex_done & 4) log.done(now, Unit::execute, top->event_ex_done_id2);
    if (top->event_st_done) log.done(now, Unit::store, top->event_st_done_id);
    unsigned units = top->event_units;
    for (unsigned unit = 0; units; ++unit, units >>= 1) statistics.unit_cycles[unit] += units & 1;
  }

  // Something refused in the cycle that has passed: by the memory system, or by the accelerator.
  void judge() {
    Command command;
    if (guard.refused(command)) {
      refused.why = Refusal::kMainMemory;
    } else if (top->error_valid) {
      refused.why = static_cast<Refusal>(top->error_code);
      command.funct = top->error_funct;
      command.rs1 = top->error_rs1;
      command.rs2 = top->error_rs2;
    } else {
      return;
    }
    refused.cycle = cycle;
    refused.command = defined_bits(command);
  }

  bool asleep() const { return quiet > kSettleCycles; }

  void skip(uint64_t cycles) {
    cycle += cycles;
    dram.skip(cycles);
  }

  void tick() {
    if (asleep() && !offered && !responding) return skip(1);
    settle();
    dump(2 * cycle);
    events();
    if (top->busy) {
      ++statistics.busy_cycles;
      statistics.last_work_cycle = cycle;
    }
    ++statistics.evaluated_cycles;
    if (offered && top->cmd_ready) moved = true;
    if (top->rd_req_valid && top->rd_req_ready) {
      dram.read(top->rd_req_addr, 1u << top->rd_req_size);
      moved = true;
    }
    if (top->wr_req_valid && top->wr_req_ready) {
      dram.write(top->wr_req_addr, bytes_of(top->wr_req_data), static_cast<uint64_t>(top->wr_req_mask));
      moved = true;
    }
    if (top->rd_resp_valid && top->rd_resp_ready) {
      dram.take_beat();
      moved = true;
    }
    progress += moved;
    switching = &statistics.array;
    broken_port = &broken;
    top->clock = 1;
    top->eval();
    if (coverage) cross();
    dump(2 * cycle + 1);
    ++cycle;
    dram.tick();
    if (refused.why == Refusal::kNone) judge();
    quiet = moved || top->busy || top->resp_valid || !dram.idle() ? 0 : quiet + 1;
    moved = false;
    offered = responding = settled = false;
    top->cmd_valid = 0;
    top->resp_ready = 0;
    present_memory();
  }

  // The bits of crosses.v, for the commands as events() left them.
  void cross() {
    Circumstances now;
    now.output_stationary = circumstances & 1;
    for (unsigned unit = 0; unit < 3; ++unit) now.conflicts[unit] = circumstances >> (1 + unit) & 1;
    now.stalled = circumstances & 16;
    now.loop_ws = circumstances & 32;
    now.loop_conv = circumstances & 64;
    coverage->crosses.cycle(log, now);
  }

  CommandLog& log;
  unsigned beat_bytes;
  Dram dram;
  MemoryGuard guard;
  std::unique_ptr<VerilatedContext> context;
  std::unique_ptr<Vbaco_accelerator> top;
#if defined(BACO_TRACE_VCD) || defined(BACO_TRACE_FST)
  std::unique_ptr<Waves> waves;
#endif
  uint64_t trace_from, trace_until;
  uint64_t cycle = 0, progress = 0;
  unsigned quiet = 0;
  bool settled = false, offered = false, responding = false, moved = false, commanded = false;
  RefusedCommand refused;
  std::string broken;
  RtlStatistics statistics;
  RtlCoverage* coverage;
};

bool RtlDevice::built() { return true; }
const char* RtlDevice::trace_format() { return kTraceFormat; }

RtlDevice::RtlDevice(const Config& config, Memory& memory, CommandLog& log, const RtlOptions& options)
    : model_(new Model(config, memory, log, options)) {}

RtlDevice::~RtlDevice() = default;

bool RtlDevice::offer(const Command& command) {
  Model& m = *model_;
  auto& top = *m.top;
  top.cmd_valid = 1;
  top.cmd_funct = command.funct;
  top.cmd_rd = command.rd;
  top.cmd_xd = command.xd;
  top.cmd_rs1 = command.rs1;
  top.cmd_rs2 = command.rs2;
  m.offered = true;
  m.settled = false;
  m.quiet = 0;
  m.settle();
  if (!top.cmd_ready) return false;
  if (!m.commanded) m.statistics.first_command_cycle = m.cycle;
  m.commanded = true;
  m.log.accept(m.cycle, command);
  m.guard.accept(command);
  return true;
}

bool RtlDevice::response(uint64_t& data) {
  Model& m = *model_;
  m.settle();
  if (!m.top->resp_valid) return false;
  data = m.top->resp_data;
  m.top->resp_ready = 1;
  m.responding = true;
  m.settled = false;
  return true;
}

bool RtlDevice::busy() const { return model_->top->busy; }

void RtlDevice::tick() { model_->tick(); }

std::string RtlDevice::error() const {
  const RefusedCommand& refused = model_->refused;
  if (refused.why == Refusal::kNone) return {};
  return std::string(name_of(refused.command)) + ": " + reason(refused.why);
}

bool RtlDevice::rejected(RefusedCommand& refused) const {
  if (model_->refused.why == Refusal::kNone) return false;
  refused = model_->refused;
  return true;
}

const std::string& RtlDevice::broken() const { return model_->broken; }

uint64_t RtlDevice::cycle() const { return model_->cycle; }
bool RtlDevice::quiet() const { return model_->asleep(); }
void RtlDevice::skip(uint64_t cycles) { model_->skip(cycles); }
uint64_t RtlDevice::progress() const { return model_->progress + model_->log.progress(); }
const RtlStatistics& RtlDevice::statistics() const { return model_->statistics; }
const Dram& RtlDevice::dram() const { return model_->dram; }

void RtlDevice::write_coverage(const std::string& path) const {
#if VM_COVERAGE
  model_->context->coveragep()->write(path);
  std::ofstream file(path, std::ios::app);
  model_->coverage->crosses.write(file);
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
#else
  throw std::runtime_error("cannot write " + path + ": this model was built without coverage");
#endif
}

void RtlDevice::finish() {
#if defined(BACO_TRACE_VCD) || defined(BACO_TRACE_FST)
  if (model_->waves) model_->waves->close();
#endif
}

}  // namespace baco
