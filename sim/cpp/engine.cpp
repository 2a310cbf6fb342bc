#include "engine.h"

#include <stdexcept>
#include <utility>

#include "functional.h"
#include "gemmini_engine.h"
#include "rtl.h"
#include "timed_engine.h"

namespace baco {

namespace {

// Which unit executes a primitive command (ISA specification, section 2).
Unit unit_of(const Command& command) {
  switch (command.funct) {
    case 0:
      return (command.rs1 & 3) == 0 ? Unit::execute : (command.rs1 & 3) == 1 ? Unit::load : Unit::store;
    case 1:
    case 2:
    case 14:
      return Unit::load;
    case 3:
    case 23:
    case 26:
    case 27:
    case 28:
    case 29:
      return Unit::store;
    case 4:
    case 5:
    case 6:
      return Unit::execute;
    default:
      return Unit::front;
  }
}

class FunctionalEngine final : public Engine {
 public:
  FunctionalEngine(const Config& config, Memory& memory, CommandLog& log) : device_(config, memory), log_(log) {
    device_.observer = [this](const Command& command) {
      const Unit unit = unit_of(command);
      if (unit == Unit::front) return;
      log_.allocate(cycle_, unit, 0, command);
      log_.issue(cycle_, unit, 0);
      log_.done(cycle_, unit, 0);
    };
  }

  bool offer(const Command& command) override {
    log_.accept(cycle_, command);
    const bool accepted = device_.offer(command);
    if (refused_.why == Refusal::kNone && device_.refusal() != Refusal::kNone)
      refused_ = {device_.refusal(), cycle_, defined_bits(command)};
    return accepted;
  }
  bool response(uint64_t& data) override { return device_.response(data); }
  bool busy() const override { return device_.busy(); }
  void tick() override {
    device_.tick();
    ++cycle_;
  }
  std::string error() const override { return device_.error(); }

  bool quiet() const override { return true; }
  void skip(uint64_t cycles) override {
    device_.pass(cycles);
    cycle_ += cycles;
  }
  uint64_t cycle() const override { return cycle_; }
  uint64_t progress() const override { return log_.progress(); }
  bool refused(RefusedCommand& refused) const override {
    if (refused_.why == Refusal::kNone) return false;
    refused = refused_;
    return true;
  }
  void report(JsonWriter& json) const override {
    json.field("dram_read_bytes", device_.statistics().bytes_read);
    json.field("dram_write_bytes", device_.statistics().bytes_written);
  }
  void finish() override {}

 private:
  FunctionalDevice device_;
  CommandLog& log_;
  RefusedCommand refused_;
  uint64_t cycle_ = 0;
};

// A core without an accelerator.
class NoEngine final : public Engine {
 public:
  bool offer(const Command&) override { return false; }
  bool response(uint64_t&) override { return false; }
  bool busy() const override { return false; }
  void tick() override { ++cycle_; }
  std::string error() const override { return {}; }
  bool quiet() const override { return true; }
  void skip(uint64_t cycles) override { cycle_ += cycles; }
  uint64_t cycle() const override { return cycle_; }
  uint64_t progress() const override { return 0; }
  bool refused(RefusedCommand&) const override { return false; }
  void report(JsonWriter&) const override {}
  void finish() override {}

 private:
  uint64_t cycle_ = 0;
};

class RtlEngine final : public Engine {
 public:
  // `shared`: a unit of a system, whose memory is not its own.
  RtlEngine(std::unique_ptr<RtlDevice> device, bool shared) : device_(std::move(device)), shared_(shared) {}

  bool offer(const Command& command) override { return device_->offer(command); }
  bool response(uint64_t& data) override { return device_->response(data); }
  bool busy() const override { return device_->busy(); }
  void tick() override { device_->tick(); }
  std::string error() const override { return device_->error(); }

  bool quiet() const override { return device_->quiet(); }
  void skip(uint64_t cycles) override { device_->skip(cycles); }
  uint64_t cycle() const override { return device_->cycle(); }
  uint64_t progress() const override { return device_->progress(); }
  bool refused(RefusedCommand& refused) const override { return device_->rejected(refused); }
  void report(JsonWriter& json) const override {
    write_times(json, device_->cycle(), device_->statistics());
    if (!shared_) report_memory(json);
  }
  void report_shared(JsonWriter& json) const override {
    json.field("cycles", device_->cycle());
    report_memory(json);
  }
  void finish() override { device_->finish(); }

 private:
  void report_memory(JsonWriter& json) const {
    write_dram(json, device_->dram());
    write_array(json, device_->array());
  }
  std::unique_ptr<RtlDevice> device_;
  bool shared_;
};

}  // namespace

void write_times(JsonWriter& json, uint64_t cycle, const RtlStatistics& statistics) {
  json.field("cycles", cycle);
  json.key("accelerator");
  json.begin_object();
  json.field("busy_cycles", statistics.busy_cycles);
  json.field("evaluated_cycles", statistics.evaluated_cycles);
  json.field("first_command_cycle", statistics.first_command_cycle);
  json.field("last_work_cycle", statistics.last_work_cycle);
  // by bit of event_units
  const char* const units[] = {"load_busy_cycles",   "execute_busy_cycles", "store_busy_cycles",  "mesh_cycles",
                               "read_beats",         "write_beats",         "loop_ws_busy_cycles", "loop_conv_busy_cycles"};
  for (size_t i = 0; i < statistics.unit_cycles.size(); ++i) json.field(units[i], statistics.unit_cycles[i]);
  json.end_object();
}

void write_dram(JsonWriter& json, const Dram& memory) {
  const DramStatistics& dram = memory.statistics();
  json.field("dram_read_bytes", dram.dram_read_bytes);
  json.field("dram_write_bytes", dram.dram_write_bytes);
  json.key("memory");
  json.begin_object();
  json.field("read_requests", dram.read_requests);
  json.field("read_request_bytes", dram.read_request_bytes);
  json.field("read_latency_sum_cycles", dram.read_latency_sum);
  json.field("write_beats", dram.write_beats);
  json.field("write_beat_bytes", dram.write_beat_bytes);
  json.field("channel_busy_cycles", dram.channel_busy_cycles);
  json.field("l2_hits", dram.l2_hits);
  json.field("l2_misses", dram.l2_misses);
  json.field("l2_writebacks", dram.l2_writebacks);
  json.field("l2_dirty_bytes", dram.l2_dirty_bytes);
  json.field("reads_in_flight", static_cast<uint64_t>(memory.reads_in_flight()));
  json.field("writes_in_flight", static_cast<uint64_t>(memory.writes_in_flight()));
  json.end_object();
}

void write_array(JsonWriter& json, const ArraySwitching& array) {
  json.key("array");
  json.begin_object();
  json.field("cycles", array.cycles);
  json.field("output_stationary_cycles", array.output_stationary_cycles);
  json.field("a_bits", array.a_bits);
  json.field("weight_bits", array.weight_bits);
  json.field("multiplier_bits", array.multiplier_bits);
  json.field("d_bits", array.d_bits);
  json.field("product_bits", array.product_bits);
  json.field("sum_bits", array.sum_bits);
  json.end_object();
}

std::unique_ptr<Engine> make_engine(const Options& options, const Config& config, Memory& memory, CommandLog& log) {
  if (options.timing == "gemmini" && options.engine == "rtl")
    return make_gemmini_engine(config, memory, log, options.gemmini);
  if (options.engine == "timed") return make_timed_engine(config, memory, log, options.rtl);
  if (options.engine == "functional") return std::make_unique<FunctionalEngine>(config, memory, log);
  return std::make_unique<RtlEngine>(std::make_unique<RtlDevice>(config, memory, log, options.rtl), false);
}

std::vector<std::unique_ptr<Engine>> make_engines(const Options& options, const std::vector<Config>& units, Memory& memory,
                                                  const std::vector<CommandLog*>& logs) {
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::unique_ptr<RtlDevice>> devices;
  if (units.size() > 1 && options.engine == "rtl") {
    std::vector<Config> configs;
    std::vector<CommandLog*> own;
    for (size_t unit = 0; unit < units.size(); ++unit)
      if (units[unit].accelerator) configs.push_back(units[unit]), own.push_back(logs[unit]);
    devices = RtlDevice::of_system(configs, memory, own, options.rtl);
  }
  Options shared = options;
  if (units.size() > 1) {
    shared.rtl.dram.channel = std::make_shared<double>(0);
    shared.rtl.dram.least_bytes = port_bytes(units);
  }
  auto next = devices.begin();
  for (size_t unit = 0; unit < units.size(); ++unit) {
    if (!units[unit].accelerator)
      engines.push_back(std::make_unique<NoEngine>());
    else if (!devices.empty())
      engines.push_back(std::make_unique<RtlEngine>(std::move(*next++), true));
    else
      engines.push_back(make_engine(shared, units[unit], memory, *logs[unit]));
  }
  return engines;
}

}  // namespace baco
