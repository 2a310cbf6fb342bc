#include "soc.h"

#include <algorithm>
#include <array>
#include <deque>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "rtl_unit.h"

namespace baco {

namespace {

constexpr int kResetCycles = 8;
constexpr unsigned kQuietCycles = 64;    // of the bus, before the host-target interface does anything
constexpr unsigned kMarkCycles = 256;    // that a mark waits for stores at most
constexpr unsigned kRecent = 64;
constexpr uint64_t kLine = 64;           // bytes of the core's data cache
constexpr unsigned kBursts = 8;          // of writes, whose address has been taken

#define BACO_OWN(TYPE, PREFIX, NAME) top->NAME,

}  // namespace

struct Soc::Model {
  Model(const Options& options, const Config& config, Memory& memory, CommandLog& log, SocHooks hooks)
      : beat_bytes(static_cast<unsigned>(config.dma_bits) / 8), memory(memory), dram(memory, options.rtl.dram, beat_bytes),
        top(new Vbaco_accelerator(&context)), unit({BACO_UNIT_PORTS(BACO_OWN, )}, config, memory, log),
        htif(memory, options.tohost, options.fromhost, std::move(hooks.console)), tohost(options.tohost),
        fromhost(options.fromhost), watched(hooks.watched.begin(), hooks.watched.end()), reached(std::move(hooks.reached)) {
    if (sizeof top->m_axi_rdata != beat_bytes)
      throw std::runtime_error("the SoC was built for another memory port than the configuration's " +
                               std::to_string(config.dma_bits) + " bits");
    // what is read ahead of a branch may be anywhere
    dram.tolerate();
    switching = &array;
    top->boot_address = options.entry;
    top->reset = 1;
    for (int i = 0; i < kResetCycles; ++i) clock();
    top->reset = 0;
    array = {};
    present();
  }
  ~Model() { top->final(); }

  void clock() {
    top->clock = 0;
    top->eval();
    top->clock = 1;
    top->eval();
  }

  // Inputs of a new cycle; they do not depend on outputs.
  void present() {
    top->m_axi_arready = dram.read_ready();
    const uint8_t* beat = dram.beat();
    top->m_axi_rvalid = beat != nullptr;
    if (beat) {
      set_bytes(top->m_axi_rdata, beat, beat_bytes);
      top->m_axi_rlast = read_beats.front() == 1;
    }
    top->m_axi_awready = bursts.size() < kBursts;
    top->m_axi_wready = !bursts.empty() && bursts.front().sent <= bursts.front().last && dram.write_ready();
    acknowledged += dram.take_ack();
    top->m_axi_bvalid = !answers.empty() && acknowledged >= answers.front();
    top->snoop_valid = !lines.empty();
    if (!lines.empty()) top->snoop_addr = lines.front();
  }

  void reads() {
    if (top->m_axi_arvalid && top->m_axi_arready) {
      const unsigned beats = top->m_axi_arlen + 1u;
      dram.read(top->m_axi_araddr, beats * beat_bytes);
      read_beats.push_back(beats);
      ++moves;
    }
    if (top->m_axi_rvalid && top->m_axi_rready) {
      dram.take_beat();
      if (--read_beats.front() == 0) read_beats.pop_front();
      ++moves;
    }
  }

  void writes() {
    if (top->m_axi_bvalid && top->m_axi_bready) {
      acknowledged -= answers.front();
      answers.pop_front();
      ++moves;
    }
    if (top->m_axi_wvalid && top->m_axi_wready) {
      Burst& burst = bursts.front();
      const uint64_t address = burst.address + uint64_t{burst.sent} * beat_bytes;
      dram.write(address, bytes_of(top->m_axi_wdata), static_cast<uint64_t>(top->m_axi_wstrb));
      if (tohost - address < beat_bytes && (static_cast<uint64_t>(top->m_axi_wstrb) >> (tohost - address) & 0xff)) requested();
      if (++burst.sent > burst.last) {
        if (!top->m_axi_wlast) throw std::runtime_error("a burst of the SoC is longer than it said");
        answers.push_back(burst.sent);
        bursts.pop_front();
      }
      ++moves;
    }
    if (top->m_axi_awvalid && top->m_axi_awready)
      bursts.push_back({static_cast<uint64_t>(top->m_axi_awaddr), top->m_axi_awlen, 0});
  }

  // The core has written to tohost.
  void requested() {
    request = memory.load<uint64_t>(tohost, "host");
    if (request & 1) htif.serve();
  }

  void serve() {
    if (!request || htif.exited()) return;
    const bool quiet = moves == moves_before && dram.idle() && bursts.empty() && answers.empty();
    moves_before = moves;
    quiet_cycles = quiet ? quiet_cycles + 1 : 0;
    if (quiet_cycles < kQuietCycles) return;
    htif.serve();
    for (const uint64_t address : {tohost, fromhost, request << 16 >> 16})
      if (address && memory.contains(address, 8)) lines.push_back(address & ~(kLine - 1));
    request = 0;
    quiet_cycles = 0;
  }

  void retire(uint64_t pc) {
    ++counts.instructions;
    recent[executed++ % kRecent] = pc;
    if (!watched.empty() && watched.count(pc)) marks.push_back({pc, cycle});
  }

  void tick() {
    top->clock = 0;
    top->eval();
    if (top->retire_valid & 1) retire(top->retire_pc0);
    if (top->retire_valid & 2) retire(top->retire_pc1);
    const unsigned happened = top->core_events;
    counts.instruction_misses += happened & 1;
    counts.data_misses += happened >> 1 & 1;
    counts.mispredictions += happened >> 2 & 1;
    counts.fence_cycles += happened >> 3 & 1;
    unit.events(cycle, dram);
    if (unit.port.cmd_valid && unit.port.cmd_ready) {
      ++counts.rocc_commands;
      Command command;
      command.funct = unit.port.cmd_funct;
      command.rd = unit.port.cmd_rd;
      command.xd = unit.port.cmd_xd;
      command.rs1 = unit.port.cmd_rs1;
      command.rs2 = unit.port.cmd_rs2;
      unit.accept(cycle, command);
    }
    reads();
    writes();
    while (!marks.empty() && (top->stores_done || cycle - marks.front().cycle >= kMarkCycles)) {
      reached(marks.front().pc);
      marks.pop_front();
    }
    const bool told = !lines.empty() && top->snoop_ready;
    switching = &array;
    top->clock = 1;
    top->eval();
    if (told) lines.pop_front();
    ++cycle;
    dram.tick();
    if (unit.refused.why == Refusal::kNone) unit.judge(cycle);
    serve();
    present();
  }

  struct Burst {
    uint64_t address;
    unsigned last, sent;  // beats less one, and beats that came
  };
  struct Reached {
    uint64_t pc, cycle;
  };

  unsigned beat_bytes;
  Memory& memory;
  Dram dram;
  VerilatedContext context;
  std::unique_ptr<Vbaco_accelerator> top;
  UnitSide unit;
  Htif htif;
  uint64_t tohost, fromhost;
  uint64_t request = 0;      // of the core, that has not been served
  unsigned quiet_cycles = 0;
  uint64_t moves = 0, moves_before = 0;
  std::deque<uint64_t> lines;  // that the core is to forget
  std::deque<unsigned> read_beats;
  std::deque<Burst> bursts;
  std::deque<unsigned> answers;  // beats of bursts whose answer is due
  unsigned acknowledged = 0;     // beats
  std::unordered_set<uint64_t> watched;
  std::function<void(uint64_t)> reached;
  std::deque<Reached> marks;
  uint64_t cycle = 0;
  ArraySwitching array;
  CoreCounts counts;
  std::array<uint64_t, kRecent> recent{};
  uint64_t executed = 0;
};

Soc::Soc(const Options& options, const Config& config, Memory& memory, CommandLog& log, SocHooks hooks)
    : model_(new Model(options, config, memory, log, std::move(hooks))) {}
Soc::~Soc() = default;

bool Soc::exited() const { return model_->htif.exited(); }
int Soc::exit_code() const { return model_->htif.exit_code(); }
CoreCounts Soc::core() const { return model_->counts; }
std::vector<uint64_t> Soc::recent() const {
  const Model& m = *model_;
  std::vector<uint64_t> pcs;
  for (uint64_t at = m.executed < kRecent ? 0 : m.executed - kRecent; at < m.executed; ++at) pcs.push_back(m.recent[at % kRecent]);
  return pcs;
}
bool Soc::busy() const { return model_->unit.port.busy; }
void Soc::tick() { model_->tick(); }
std::string Soc::error() const {
  const RefusedCommand& refused = model_->unit.refused;
  if (refused.why == Refusal::kNone) return {};
  return std::string(name_of(refused.command)) + ": " + reason(refused.why);
}
uint64_t Soc::cycle() const { return model_->cycle; }
uint64_t Soc::progress() const { return model_->counts.instructions + model_->moves + model_->unit.log.progress(); }
bool Soc::refused(RefusedCommand& refused) const {
  if (model_->unit.refused.why == Refusal::kNone) return false;
  refused = model_->unit.refused;
  return true;
}
void Soc::report(JsonWriter& json) const {
  RtlStatistics statistics = model_->unit.statistics;
  statistics.evaluated_cycles = model_->cycle;
  write_times(json, model_->cycle, statistics);
  write_dram(json, model_->dram);
  write_array(json, model_->array);
}

}  // namespace baco
