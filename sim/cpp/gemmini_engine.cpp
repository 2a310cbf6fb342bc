#include "gemmini_engine.h"

#include <deque>
#include <utility>
#include <vector>

#include "functional.h"
#include "gemmini_banks.h"
#include "gemmini_bus.h"
#include "gemmini_execute.h"
#include "gemmini_load.h"
#include "gemmini_station.h"
#include "gemmini_store.h"
#include "gemmini_unroller.h"

namespace baco {

namespace {

constexpr size_t kQueue = 2;  // of each queue between the core and the reservation station

// A command on its way, with the primitive commands that a macro stands for.
struct Arriving {
  Command command;
  std::vector<Command> primitives;
  Origin origin = Origin::kProgram;
  uint64_t ready = 0;
};

bool primitive(const Command& command) {
  switch (command.funct) {
    case kConfig:
    case kMvin:
    case kMvin2:
    case kMvin3:
    case kMvout:
    case kMvoutScratchpad:
    case kPreload:
    case kComputePreloaded:
    case kComputeAccumulated:
      return true;
    default:
      return false;
  }
}

GemminiBusOptions bus_options(const Config& config, GemminiBusOptions options) {
  options.beat_bytes = static_cast<unsigned>(config.dma_bits) / 8;
  return options;
}

class GemminiEngine final : public Engine {
 public:
  GemminiEngine(const Config& config, Memory& memory, CommandLog& log, const GemminiBusOptions& bus)
      : values_(config, memory),
        log_(log),
        bus_(bus_options(config, bus)),
        banks_(config),
        station_(config, log),
        load_(config, bus_, banks_, station_),
        store_(config, bus_, banks_, station_),
        execute_(config, banks_, station_),
        convolutions_(config, station_, Origin::kLoopConv),
        products_(config, station_, Origin::kLoopWs) {
    values_.observer = [this](const Command& command) { primitives_.push_back(command); };
  }

  bool offer(const Command& command) override {
    if (router_.size() >= kQueue) return false;
    if (!commanded_) first_command_ = cycle_;
    commanded_ = true;
    log_.accept(cycle_, command);
    primitives_.clear();
    values_.offer(command);
    if (refused_.why == Refusal::kNone && values_.refusal() != Refusal::kNone)
      refused_ = {values_.refusal(), cycle_, defined_bits(command)};
    router_.push_back({command, std::move(primitives_), Origin::kProgram, cycle_ + 1});
    ++progress_;
    return true;
  }
  // A counter's value is there when the command has come to the end of the queues.
  bool response(uint64_t& data) override { return responses_ > 0 && values_.response(data) && responses_--; }
  bool busy() const override {
    return !router_.empty() || !raw_.empty() || !before_products_.empty() || !unrolled_.empty() ||
           !before_convolutions_.empty() || convolutions_.busy() || products_.busy() ||
           !(station_.empty() || (station_.lone_preload() && execute_.lone_preload())) || store_.writing();
  }
  void tick() override {
    if (busy()) {
      ++busy_cycles_;
      last_work_ = cycle_;
    }
    ++evaluated_;
    values_.pass(1);
    banks_.tick();
    bus_.tick();
    load_.tick();
    execute_.tick();
    store_.tick();
    station_.tick(cycle_);
    issue();
    allocate();
    products();
    convolutions();
    move(raw_, before_convolutions_);
    move(router_, raw_);
    load_cycles_ += load_.busy();
    execute_cycles_ += execute_.busy();
    store_cycles_ += store_.busy();
    mesh_cycles_ += execute_.multiplying();
    products_cycles_ += products_.busy();
    convolutions_cycles_ += convolutions_.busy();
    ++cycle_;
  }
  std::string error() const override { return values_.error(); }

  bool quiet() const override {
    return !busy() && bus_.idle() && execute_.idle() && !load_.busy() && !store_.busy();
  }
  void skip(uint64_t cycles) override {
    cycle_ += cycles;
    values_.pass(cycles);
    bus_.skip(cycles);
    load_.skip(cycles);
    store_.skip(cycles);
    execute_.skip(cycles);
    convolutions_.skip(cycles);
    products_.skip(cycles);
  }
  uint64_t cycle() const override { return cycle_; }
  uint64_t progress() const override { return progress_ + log_.progress(); }
  uint64_t line_cycles(uint64_t cycle, uint64_t address, bool write) override {
    return bus_.host_access(cycle, address, write);
  }
  bool refused(RefusedCommand& refused) const override {
    if (refused_.why == Refusal::kNone) return false;
    refused = refused_;
    return true;
  }
  void report(JsonWriter& json) const override {
    const GemminiBusStatistics& bus = bus_.statistics();
    const GemminiL2Statistics& l2 = bus_.l2();
    json.field("cycles", cycle_);
    json.field("dram_read_bytes", values_.statistics().bytes_read);
    json.field("dram_write_bytes", values_.statistics().bytes_written);
    json.key("accelerator");
    json.begin_object();
    json.field("busy_cycles", busy_cycles_);
    json.field("evaluated_cycles", evaluated_);
    json.field("first_command_cycle", first_command_);
    json.field("last_work_cycle", last_work_);
    json.field("load_busy_cycles", load_cycles_);
    json.field("execute_busy_cycles", execute_cycles_);
    json.field("store_busy_cycles", store_cycles_);
    json.field("mesh_cycles", mesh_cycles_);
    json.field("read_beats", bus.read_beats);
    json.field("write_beats", bus.write_beats);
    json.field("loop_ws_busy_cycles", products_cycles_);
    json.field("loop_conv_busy_cycles", convolutions_cycles_);
    json.end_object();
    json.key("memory");
    json.begin_object();
    json.field("read_requests", bus.read_requests);
    json.field("read_request_bytes", bus.read_request_bytes);
    json.field("write_beats", bus.write_beats);
    json.field("write_beat_bytes", bus.write_beat_bytes);
    json.field("channel_busy_cycles", l2.memory_busy_cycles);
    json.field("l2_hits", l2.hits);
    json.field("l2_misses", l2.misses);
    json.field("l2_writebacks", l2.writebacks);
    json.end_object();
  }
  void finish() override {}

 private:
  using Queue = std::deque<Arriving>;

  void move(Queue& from, Queue& to) {
    if (from.empty() || from.front().ready > cycle_ || to.size() >= kQueue) return;
    push(to, std::move(from.front()));
    from.pop_front();
  }
  void push(Queue& to, Arriving arriving) {
    arriving.ready = cycle_ + 1;
    to.push_back(std::move(arriving));
  }
  void issue() {
    if (station_.can_issue(0) && load_.ready()) load_.accept(station_.issue(cycle_, 0));
    if (station_.can_issue(1) && execute_.ready()) execute_.accept(station_.issue(cycle_, 1));
    if (station_.can_issue(2) && store_.ready()) store_.accept(station_.issue(cycle_, 2));
  }
  void allocate() {
    if (unrolled_.empty() || unrolled_.front().ready > cycle_) return;
    const Arriving& head = unrolled_.front();
    if (!primitive(head.command)) {
      responses_ += head.command.xd;
    } else {
      if (!station_.can_allocate(head.command)) return;
      station_.allocate(cycle_, head.command, head.origin);
    }
    unrolled_.pop_front();
  }
  // An unroller between two queues: macros and their configuration end there, all else passes when none is under way.
  void unroll(GemminiUnroller& unroller, Queue& from, Queue& to, Origin origin, uint8_t run, uint8_t first, uint8_t last) {
    const bool ready = to.size() < kQueue;
    const bool busy = unroller.busy();
    if (busy && ready)
      if (const Command* command = unroller.next()) {
        push(to, {*command, {}, origin, 0});
        unroller.sent();
      }
    if (!from.empty() && from.front().ready <= cycle_) {
      Arriving& head = from.front();
      const uint8_t funct = head.command.funct;
      if (funct == run || (funct >= first && funct <= last)) {
        if (unroller.can_configure()) {
          if (funct == run)
            unroller.run(head.command, head.primitives);
          else
            unroller.configure(head.command);
          from.pop_front();
        }
      } else if (!busy && ready) {
        push(to, std::move(head));
        from.pop_front();
      }
    }
    unroller.tick();
  }
  void products() {
    unroll(products_, before_products_, unrolled_, Origin::kLoopWs, kLoopWs, kLoopWsBounds, kLoopWsStridesDC);
  }
  void convolutions() {
    unroll(convolutions_, before_convolutions_, before_products_, Origin::kLoopConv, kLoopConv, kLoopConvConfig1,
           kLoopConvConfig6);
  }

  FunctionalDevice values_;
  CommandLog& log_;
  GemminiBus bus_;
  GemminiBanks banks_;
  GemminiStation station_;
  GemminiLoad load_;
  GemminiStore store_;
  GemminiExecute execute_;
  GemminiUnroller convolutions_, products_;
  Queue router_, raw_, before_convolutions_, before_products_, unrolled_;
  std::vector<Command> primitives_;
  RefusedCommand refused_;
  uint64_t cycle_ = 0, progress_ = 0, busy_cycles_ = 0, evaluated_ = 0, first_command_ = 0, last_work_ = 0;
  uint64_t load_cycles_ = 0, execute_cycles_ = 0, store_cycles_ = 0, mesh_cycles_ = 0;
  uint64_t products_cycles_ = 0, convolutions_cycles_ = 0;
  unsigned responses_ = 0;
  bool commanded_ = false;
};

}  // namespace

std::unique_ptr<Engine> make_gemmini_engine(const Config& config, Memory& memory, CommandLog& log,
                                            const GemminiBusOptions& bus) {
  return std::make_unique<GemminiEngine>(config, memory, log, bus);
}

}  // namespace baco
