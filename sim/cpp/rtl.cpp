#include "rtl.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

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

// Of every accelerator, in the order of units.
std::vector<UnitPorts> ports_of(Vbaco_accelerator& top) {
#ifdef BACO_EACH_UNIT
#define BACO_PORTS_OF(N) {BACO_UNIT_PORTS(BACO_BOUND, unit##N##_)},
  return {BACO_EACH_UNIT(BACO_PORTS_OF)};
#else
  return {{BACO_UNIT_PORTS(BACO_BOUND, )}};
#endif
}

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

// What the model of one accelerator, or of several on one memory port, is seen by from a unit.
struct UnitSide {
  UnitSide(const UnitPorts& ports, const Config& config, const Memory& memory, CommandLog& log)
      : port(ports), log(log), guard(config, memory) {}

  UnitPorts port;
  CommandLog& log;
  MemoryGuard guard;
  bool offered = false, commanded = false;
  RefusedCommand refused;
  RtlStatistics statistics;
};

struct RtlDevice::Model {
  Model(const std::vector<Config>& configs, Memory& memory, const std::vector<CommandLog*>& logs, const RtlOptions& options)
      : beat_bytes(static_cast<unsigned>(configs.at(0).dma_bits) / 8), dram(memory, options.dram, beat_bytes),
        context(powered_up(options.power_up)), top(new Vbaco_accelerator(context.get())), trace_from(options.trace_from),
        trace_until(options.trace_until), coverage(options.coverage) {
    if (sizeof top->rd_resp_data < beat_bytes || sizeof top->rd_resp_data > (beat_bytes < 4 ? 4 : beat_bytes))
      throw std::runtime_error("the RTL was built for another memory port than the configuration's " +
                               std::to_string(configs[0].dma_bits) + " bits");
    const std::vector<UnitPorts> ports = ports_of(*top);
    if (ports.size() != configs.size())
      throw std::runtime_error("the RTL was built for " + std::to_string(ports.size()) + " accelerators, not " +
                               std::to_string(configs.size()));
    units.reserve(ports.size());
    for (size_t n = 0; n < ports.size(); ++n) units.emplace_back(ports[n], configs[n], memory, *logs[n]);
    open_trace(options.trace);
    switching = &array;
    if (coverage) continue_counts();
    reset();
    array = {};
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
    for (UnitSide& unit : units) {
      unit.port.cmd_valid = 0;
      unit.port.resp_ready = 0;
    }
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

  void events(UnitSide& unit) {
    const uint64_t now = cycle;
    const UnitPorts& port = unit.port;
    CommandLog& log = unit.log;
    unit.guard.loops(port.event_loops);
    if (port.event_alloc) {
      Command command;
      command.funct = port.event_alloc_funct;
      command.rs1 = port.event_alloc_rs1;
      command.rs2 = port.event_alloc_rs2;
      log.allocate(now, static_cast<Unit>(port.event_alloc_class & 3), port.event_alloc_id, command);
      unit.guard.allocate(command, port.event_alloc_loop & 4 ? port.event_alloc_loop & 3 : -1);
      if (unit.guard.suspicious()) dram.tolerate();
    }
    if (port.event_ld_issue) log.issue(now, Unit::load, port.event_ld_issue_id);
    if (port.event_ex_issue) log.issue(now, Unit::execute, port.event_ex_issue_id);
    if (port.event_st_issue) log.issue(now, Unit::store, port.event_st_issue_id);
    if (port.event_ld_done) log.done(now, Unit::load, port.event_ld_done_id);
    if (port.event_ex_done & 1) log.done(now, Unit::execute, port.event_ex_done_id0);
    if (port.event_ex_done & 2) log.done(now, Unit::execute, port.event_ex_done_id1);
    if (port.event_ex_done & 4) log.done(now, Unit::execute, port.event_ex_done_id2);
    if (port.event_st_done) log.done(now, Unit::store, port.event_st_done_id);
    unsigned kinds = port.event_units;
    for (unsigned kind = 0; kinds; ++kind, kinds >>= 1) unit.statistics.unit_cycles[kind] += kinds & 1;
    if (port.busy) {
      ++unit.statistics.busy_cycles;
      unit.statistics.last_work_cycle = cycle;
    }
    if (unit.offered && port.cmd_ready) moved = true;
  }

  // Something refused in the cycle that has passed: by the memory system, or by the accelerator.
  void judge(UnitSide& unit) {
    Command command;
    if (unit.guard.refused(command)) {
      unit.refused.why = Refusal::kMainMemory;
    } else if (unit.port.error_valid) {
      unit.refused.why = static_cast<Refusal>(unit.port.error_code);
      command.funct = unit.port.error_funct;
      command.rs1 = unit.port.error_rs1;
      command.rs2 = unit.port.error_rs2;
    } else {
      return;
    }
    unit.refused.cycle = cycle;
    unit.refused.command = defined_bits(command);
  }

  bool asleep() const { return quiet > kSettleCycles; }

  void skip(uint64_t cycles) {
    cycle += cycles;
    dram.skip(cycles);
  }

  // One cycle of all units.
  void tick() {
    if (asleep() && !touched) return skip(1);
    settle();
    dump(2 * cycle);
    for (UnitSide& unit : units) events(unit);
    ++evaluated_cycles;
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
    switching = &array;
    broken_port = &broken;
    top->clock = 1;
    top->eval();
    if (coverage) cross();
    dump(2 * cycle + 1);
    ++cycle;
    dram.tick();
    bool busy = moved || !dram.idle();
    for (UnitSide& unit : units) {
      if (unit.refused.why == Refusal::kNone) judge(unit);
      busy |= unit.port.busy || unit.port.resp_valid;
      unit.offered = false;
      unit.port.cmd_valid = 0;
      unit.port.resp_ready = 0;
    }
    quiet = busy ? 0 : quiet + 1;
    moved = touched = settled = false;
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
    coverage->crosses.cycle(units[0].log, now);
  }

  unsigned beat_bytes;
  Dram dram;
  std::unique_ptr<VerilatedContext> context;
  std::unique_ptr<Vbaco_accelerator> top;
  std::vector<UnitSide> units;
#if defined(BACO_TRACE_VCD) || defined(BACO_TRACE_FST)
  std::unique_ptr<Waves> waves;
#endif
  uint64_t trace_from, trace_until;
  uint64_t cycle = 0, progress = 0, evaluated_cycles = 0;
  unsigned quiet = 0;
  bool settled = false, touched = false, moved = false;  // touched: something is offered to, or taken from, a unit
  std::string broken;
  ArraySwitching array;
  RtlCoverage* coverage;
};

bool RtlDevice::built() { return true; }
const char* RtlDevice::trace_format() { return kTraceFormat; }

RtlDevice::RtlDevice(const Config& config, Memory& memory, CommandLog& log, const RtlOptions& options)
    : model_(new Model({config}, memory, {&log}, options)), unit_(0) {}

RtlDevice::RtlDevice(std::shared_ptr<Model> model, size_t unit) : model_(std::move(model)), unit_(unit) {}

std::vector<std::unique_ptr<RtlDevice>> RtlDevice::of_system(const std::vector<Config>& configs, Memory& memory,
                                                             const std::vector<CommandLog*>& logs, const RtlOptions& options) {
  const auto model = std::make_shared<Model>(configs, memory, logs, options);
  std::vector<std::unique_ptr<RtlDevice>> devices;
  for (size_t unit = 0; unit < configs.size(); ++unit) devices.emplace_back(new RtlDevice(model, unit));
  return devices;
}

RtlDevice::~RtlDevice() = default;

bool RtlDevice::offer(const Command& command) {
  Model& m = *model_;
  UnitSide& unit = m.units[unit_];
  const UnitPorts& port = unit.port;
  port.cmd_valid = 1;
  port.cmd_funct = command.funct;
  port.cmd_rd = command.rd;
  port.cmd_xd = command.xd;
  port.cmd_rs1 = command.rs1;
  port.cmd_rs2 = command.rs2;
  unit.offered = m.touched = true;
  m.settled = false;
  m.quiet = 0;
  m.settle();
  if (!port.cmd_ready) return false;
  if (!unit.commanded) unit.statistics.first_command_cycle = m.cycle;
  unit.commanded = true;
  unit.log.accept(m.cycle, command);
  unit.guard.accept(command);
  return true;
}

bool RtlDevice::response(uint64_t& data) {
  Model& m = *model_;
  UnitSide& unit = m.units[unit_];
  m.settle();
  if (!unit.port.resp_valid) return false;
  data = unit.port.resp_data;
  unit.port.resp_ready = 1;
  m.touched = true;
  m.settled = false;
  return true;
}

bool RtlDevice::busy() const { return model_->units[unit_].port.busy; }

// The clock is that of the last unit, which all others have come to before.
void RtlDevice::tick() {
  if (unit_ + 1 == model_->units.size()) model_->tick();
}

std::string RtlDevice::error() const {
  const RefusedCommand& refused = model_->units[unit_].refused;
  if (refused.why == Refusal::kNone) return {};
  return std::string(name_of(refused.command)) + ": " + reason(refused.why);
}

bool RtlDevice::rejected(RefusedCommand& refused) const {
  const RefusedCommand& own = model_->units[unit_].refused;
  if (own.why == Refusal::kNone) return false;
  refused = own;
  return true;
}

const std::string& RtlDevice::broken() const { return model_->broken; }

uint64_t RtlDevice::cycle() const { return model_->cycle; }
bool RtlDevice::quiet() const { return model_->asleep(); }
void RtlDevice::skip(uint64_t cycles) {
  if (unit_ + 1 == model_->units.size()) model_->skip(cycles);
}
uint64_t RtlDevice::progress() const { return model_->progress + model_->units[unit_].log.progress(); }
RtlStatistics RtlDevice::statistics() const {
  RtlStatistics statistics = model_->units[unit_].statistics;
  statistics.evaluated_cycles = model_->evaluated_cycles;
  return statistics;
}
const ArraySwitching& RtlDevice::array() const { return model_->array; }
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
