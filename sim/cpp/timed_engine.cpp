#include "timed_engine.h"

#include <stdexcept>

#include "dram.h"
#include "functional.h"
#include "timed_banks.h"
#include "timed_execute.h"
#include "timed_load.h"
#include "timed_loop_conv.h"
#include "timed_loop_ws.h"
#include "timed_memory.h"
#include "timed_queue.h"
#include "timed_station.h"
#include "timed_store.h"

namespace baco {

namespace {

constexpr size_t kQueue = 2;            // commands before the unrollers
constexpr unsigned kSettleCycles = 64;  // as with the Verilog: longer than anything that `busy` does not cover

class TimedEngine final : public Engine {
 public:
  TimedEngine(const Config& config, Memory& memory, CommandLog& log, const RtlOptions& options)
      : config_(config),
        values_(config, memory),
        log_(log),
        dram_(memory, options.dram, static_cast<unsigned>(config.dma_bits) / 8),
        memory_(dram_),
        banks_(config),
        station_(config, log),
        load_(config, memory_, banks_, station_),
        execute_(config, banks_, station_),
        store_(config, memory_, banks_, station_),
        convolutions_(config),
        products_(config) {}

  bool offer(const Command& command) override {
    quiet_ = 0;
    if (!commands_.room()) return false;
    if (!commanded_) first_command_ = cycle_;
    commanded_ = true;
    log_.accept(cycle_, command);
    values_.offer(command);
    if (refused_.why == Refusal::kNone && values_.refusal() != Refusal::kNone)
      refused_ = {values_.refusal(), cycle_, defined_bits(command)};
    commands_.push(command);
    return true;
  }
  // A counter's value is there when the command has come through the unrollers.
  bool response(uint64_t& data) override { return responses_ > 0 && values_.response(data) && responses_--; }
  bool busy() const override {
    return commands_.valid() || convolutions_.busy() || products_.busy() || station_.busy() || load_.busy() ||
           execute_.busy() || store_.busy();
  }
  void tick() override {
    values_.pass(1);
    ++evaluated_;
    if (busy()) {
      ++busy_cycles_;
      last_work_ = cycle_;
    }
    load_cycles_ += load_.busy();
    execute_cycles_ += execute_.busy();
    store_cycles_ += store_.busy();
    products_cycles_ += products_.busy();
    convolutions_cycles_ += convolutions_.busy();
    const std::array<bool, 3> issues{station_.offers(kLoads) && load_.ready(), station_.offers(kExecution) && execute_.ready(),
                                     station_.offers(kStores) && store_.ready()};
    if (issues[kLoads]) load_.accept(station_.offered(kLoads));
    if (issues[kExecution]) execute_.accept(station_.offered(kExecution));
    if (issues[kStores]) store_.accept(station_.offered(kStores));
    for (unsigned kind = 0; kind < 3; ++kind)
      if (issues[kind]) station_.issue(cycle_, kind);
    execute_.write(cycle_);
    load_.tick(cycle_);
    execute_.tick(cycle_);
    store_.tick(cycle_);
    front();
    station_.tick();
    commands_.tick();
    banks_.tick();
    mesh_cycles_ += execute_.multiplying();
    read_beats_ += load_.took_beat();
    write_beats_ += store_.sent_beat();
    ++cycle_;
    dram_.tick();
    memory_.present();
    quiet_ = busy() || responses_ || !dram_.idle() ? 0 : quiet_ + 1;
  }
  std::string error() const override { return values_.error(); }

  bool quiet() const override { return quiet_ > kSettleCycles; }
  void skip(uint64_t cycles) override {
    cycle_ += cycles;
    values_.pass(cycles);
    dram_.skip(cycles);
  }
  uint64_t cycle() const override { return cycle_; }
  uint64_t progress() const override { return log_.progress() + read_beats_ + write_beats_; }
  bool refused(RefusedCommand& refused) const override {
    if (refused_.why == Refusal::kNone) return false;
    refused = refused_;
    return true;
  }
  void report(JsonWriter& json) const override {
    write_times(json, cycle_, {evaluated_, busy_cycles_, first_command_, last_work_,
                               {load_cycles_, execute_cycles_, store_cycles_, mesh_cycles_, read_beats_, write_beats_,
                                products_cycles_, convolutions_cycles_}});
    write_dram(json, dram_);
  }
  void finish() override {}

 private:
  // The commands' way from the core to the reservation station, which at most one takes in a cycle.
  void front() {
    const bool any = commands_.valid();
    const Command* const raw = any ? &commands_.front() : nullptr;
    const bool to_conv = any && config_.loop_conv && TimedLoopConv::takes(*raw);
    const bool conv_busy = convolutions_.busy(), ws_busy = products_.busy();
    const bool conv_takes = to_conv && convolutions_.ready();
    const Command* const unrolled = conv_busy ? convolutions_.offered(station_) : nullptr;
    const Command* const passing = conv_busy ? unrolled : any && !to_conv ? raw : nullptr;
    const bool to_ws = passing && config_.loop_ws && TimedLoopWs::takes(*passing);
    const bool ws_takes = to_ws && products_.ready(cycle_, *passing);
    const Command* const unrolled_too = ws_busy ? products_.offered(station_) : nullptr;
    const Command* const door = ws_busy ? unrolled_too : passing && !to_ws ? passing : nullptr;
    bool gone = false;
    Command command;
    if (door) {
      command = *door;
      const bool primitive = command.funct != kFlush && command.funct != kClockGate && command.funct != kCounter;
      if (primitive) {
        const bool settled = station_.settled(command);
        gone = settled && station_.space(TimedStation::class_of(command));
      } else {
        gone = true;
      }
      if (gone && primitive)
        station_.allocate(cycle_, command);
      else if (gone)
        responses_ += command.xd;
    }
    Command taken, configured;
    if (ws_takes) taken = *passing;
    if (conv_takes) configured = *raw;
    const bool passed = passing && (to_ws ? ws_takes : !ws_busy && gone);
    products_.tick(ws_busy && gone);
    if (ws_takes) products_.take(cycle_, taken);
    convolutions_.tick(cycle_, conv_busy && passed);
    if (conv_takes) convolutions_.take(cycle_, configured);
    if (conv_takes || (!conv_busy && passed)) commands_.pop();
  }

  const Config config_;
  FunctionalDevice values_;
  CommandLog& log_;
  Dram dram_;
  TimedMemory memory_;
  TimedBanks banks_;
  TimedStation station_;
  TimedLoad load_;
  TimedExecute execute_;
  TimedStore store_;
  TimedLoopConv convolutions_;
  TimedLoopWs products_;
  TimedQueue<Command> commands_{kQueue};
  RefusedCommand refused_;
  uint64_t cycle_ = 0, busy_cycles_ = 0, evaluated_ = 0, first_command_ = 0, last_work_ = 0;
  uint64_t load_cycles_ = 0, execute_cycles_ = 0, store_cycles_ = 0, mesh_cycles_ = 0;
  uint64_t products_cycles_ = 0, convolutions_cycles_ = 0, read_beats_ = 0, write_beats_ = 0;
  unsigned responses_ = 0, quiet_ = 0;
  bool commanded_ = false;
};

}  // namespace

std::unique_ptr<Engine> make_timed_engine(const Config& config, Memory& memory, CommandLog& log, const RtlOptions& options) {
  if (config.row_functions || config.normalizations)
    throw std::runtime_error("the timed model has neither functions of rows nor a normaliser");
  return std::make_unique<TimedEngine>(config, memory, log, options);
}

}  // namespace baco
