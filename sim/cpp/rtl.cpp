#include "rtl.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "Vbaco_accelerator.h"
#include "crosses.h"
#include "rtl_unit.h"
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
thread_local std::string* broken_port = nullptr;
thread_local unsigned circumstances = 0;

// Cycles the model is still evaluated after the last sign of life. Busy excludes a lone PRELOAD on its way to the
// reservation station and counters settling behind it: this is longer than any such path.
constexpr unsigned kSettleCycles = 64;
constexpr int kResetCycles = 4;

// Of every accelerator, in the order of units.
std::vector<UnitPorts> ports_of(Vbaco_accelerator& top) {
#ifdef BACO_EACH_UNIT
#define BACO_PORTS_OF(N) {BACO_UNIT_PORTS(BACO_BOUND, unit##N##_)},
  return {BACO_EACH_UNIT(BACO_PORTS_OF)};
#else
  return {{BACO_UNIT_PORTS(BACO_BOUND, )}};
#endif
}

}  // namespace

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
  Model(const std::vector<Config>& configs, Memory& memory, const std::vector<CommandLog*>& logs, const RtlOptions& options)
      : beat_bytes(port_bytes(configs)), dram(memory, options.dram, beat_bytes),
        context(powered_up(options.power_up)), top(new Vbaco_accelerator(context.get())), trace_from(options.trace_from),
        trace_until(options.trace_until), coverage(options.coverage) {
    if (sizeof top->rd_resp_data < beat_bytes || sizeof top->rd_resp_data > (beat_bytes < 4 ? 4 : beat_bytes))
      throw std::runtime_error("the RTL was built for another memory port than the configuration's " +
                               std::to_string(8 * beat_bytes) + " bits");
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
    for (UnitSide& unit : units) {
      unit.events(cycle, dram);
      if (unit.offered && unit.port.cmd_ready) moved = true;
    }
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
      if (unit.refused.why == Refusal::kNone) unit.judge(cycle);
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
  unit.accept(m.cycle, command);
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
