#include "timed_engine.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include "dram.h"
#include "functional.h"
#include "timed_banks.h"
#include "timed_credits.h"
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

constexpr size_t kQueue = 2;            // commands before, between and behind the unrollers
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
    return commands_.valid() || middle_.valid() || door_.valid() || decoded_ || verdict_ || convolutions_.busy() ||
           products_.busy() || station_.busy() || load_.busy() || execute_.busy() || store_.busy();
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
  void report_shared(JsonWriter& json) const override { json.field("cycles", cycle_); }
  void finish() override {}

 private:
  // The commands' way from the core to the reservation station, which at most one takes in a cycle: last first, so that all
  // see what was there as the cycle began.
  void front() {
    const bool waits = verdict_ && !(station_.settled(*verdict_) && station_.space(TimedStation::class_of(*verdict_)));
    if (verdict_ && !waits) {
      station_.allocate(cycle_, *verdict_);
      conv_credits_.arrived(*verdict_);
      products_credits_.arrived(*verdict_);
      verdict_.reset();
    }
    const bool room = !waits || !decoded_;
    if (!waits) verdict_ = std::exchange(decoded_, std::nullopt);
    const bool gone = decode(room);
    const bool passed = unroll_products(config_.loop_ws ? door_.room() : gone);
    unroll_convolutions(config_.loop_conv ? middle_.room() : passed);
    door_.tick();
    middle_.tick();
    conv_credits_.tick(station_);
    products_credits_.tick(station_);
  }
  // What the unroller of products takes and the next stage; without an unroller what lies before.
  const Command* middle() const {
    if (config_.loop_conv) return middle_.valid() ? &middle_.front() : nullptr;
    return commands_.valid() ? &commands_.front() : nullptr;
  }
  const Command* door() const {
    if (config_.loop_ws) return door_.valid() ? &door_.front() : nullptr;
    return middle();
  }
  bool decode(bool room) {
    const Command* const command = door();
    if (!command) return false;
    if (TimedStation::enters(*command)) {
      if (!room) return false;
      decoded_ = *command;
    } else {
      responses_ += command->xd;
    }
    if (config_.loop_ws) door_.pop();
    return true;
  }
  // Whether what lies before leaves.
  bool unroll_products(bool room) {
    bool passed = room;
    if (config_.loop_ws) {
      const bool busy = products_.busy();
      const Command* const passing = middle();
      const bool to_ws = passing && TimedLoopWs::takes(*passing);
      const bool takes = to_ws && products_.ready(cycle_, *passing);
      Command taken;
      if (takes) taken = *passing;
      const Command* const own = busy ? products_.offered(products_credits_) : nullptr;
      const Command* const leaves = busy ? own : to_ws ? nullptr : passing;
      const bool gone = leaves && room;
      if (gone) {
        products_credits_.sent(*leaves);
        if (busy) conv_credits_.sent(*leaves);
        door_.push(*leaves);
      }
      passed = to_ws ? takes : !busy && gone;
      products_.tick(busy && gone);
      if (takes) products_.take(cycle_, taken);
    }
    if (config_.loop_conv && passed) middle_.pop();
    return passed;
  }
  void unroll_convolutions(bool room) {
    bool passed = room;
    if (config_.loop_conv) {
      const bool busy = convolutions_.busy();
      const Command* const raw = commands_.valid() ? &commands_.front() : nullptr;
      const bool to_conv = raw && TimedLoopConv::takes(*raw);
      const bool takes = to_conv && convolutions_.ready();
      Command taken;
      if (takes) taken = *raw;
      const Command* const own = busy ? convolutions_.offered(conv_credits_) : nullptr;
      const Command* const leaves = busy ? own : to_conv ? nullptr : raw;
      const bool gone = leaves && room;
      if (gone) {
        conv_credits_.sent(*leaves);
        middle_.push(*leaves);
      }
      passed = to_conv ? takes : !busy && gone;
      convolutions_.tick(cycle_, busy && gone);
      if (takes) convolutions_.take(cycle_, taken);
    }
    if (passed) commands_.pop();
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
  TimedQueue<Command> commands_{kQueue}, middle_{kQueue}, door_{kQueue};  // before, between and behind the unrollers
  std::optional<Command> decoded_, verdict_;                              // steps of baco_operands.v
  TimedCredits conv_credits_, products_credits_;
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
