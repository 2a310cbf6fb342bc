#include "config.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

namespace baco {

namespace {

// Takes a line of a configuration; false for a name that there is not.
bool take(Config& c, const std::string& name, long long value) {
  const std::map<std::string, int*> numbers = {
      {"dim", &c.dim}, {"tile_rows", &c.tile_rows}, {"scratchpad_rows", &c.scratchpad_rows},
      {"scratchpad_banks", &c.scratchpad_banks}, {"accumulator_rows", &c.accumulator_rows},
      {"accumulator_banks", &c.accumulator_banks}, {"partial_sum_bits", &c.partial_sum_bits},
      {"dma_bits", &c.dma_bits}, {"dma_max_bytes", &c.dma_max_bytes}, {"dma_requests", &c.dma_requests},
      {"load_queue", &c.load_queue}, {"execute_queue", &c.execute_queue}, {"store_queue", &c.store_queue}, {"scale_lanes", &c.scale_lanes},
      {"load_entries", &c.load_entries}, {"execute_entries", &c.execute_entries},
      {"store_entries", &c.store_entries}, {"counters", &c.counters}, {"input_format", &c.input_format}};
  const std::map<std::string, bool*> flags = {
      {"ws", &c.ws}, {"os", &c.os}, {"loop_ws", &c.loop_ws}, {"loop_conv", &c.loop_conv},
      {"training_convs", &c.training_convs}, {"depthwise_convs", &c.depthwise_convs},
      {"first_layer", &c.first_layer}, {"max_pool", &c.max_pool}, {"activations", &c.activations},
      {"normalizations", &c.normalizations}, {"mvin_scale", &c.mvin_scale},
      {"mvin_scale_acc", &c.mvin_scale_acc}, {"accumulator_scale", &c.accumulator_scale},
      {"read_small_width", &c.read_small_width}, {"read_full_width", &c.read_full_width},
      {"preload_d", &c.preload_d}, {"write_to_scratchpad", &c.write_to_scratchpad},
      {"row_functions", &c.row_functions}, {"requantization", &c.requantization},
      {"packed_weights", &c.packed_weights}, {"block_weights", &c.block_weights}};
  if (auto n = numbers.find(name); n != numbers.end())
    *n->second = static_cast<int>(value);
  else if (auto f = flags.find(name); f != flags.end())
    *f->second = value != 0;
  else
    return false;
  return true;
}

}  // namespace

std::vector<Config> Config::read_units(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read the configuration " + path);
  std::vector<Config> units;
  std::string name;
  long long value;
  while (file >> name) {
    if (!(file >> value)) throw std::runtime_error(path + ": no value for " + name);
    if (units.empty() || name == "unit") units.emplace_back();
    if (name == "unit")
      units.back().accelerator = value != 0;
    else if (!take(units.back(), name, value))
      throw std::runtime_error(path + ": unknown name " + name);
  }
  if (units.empty()) units.emplace_back();
  return units;
}

Config Config::read(const std::string& path) {
  const std::vector<Config> units = read_units(path);
  if (units.size() != 1 || !units[0].accelerator) throw std::runtime_error(path + ": this is no single accelerator");
  return units[0];
}

unsigned port_bytes(const std::vector<Config>& units) {
  int bits = 8;
  for (const Config& unit : units)
    if (unit.accelerator) bits = std::max(bits, unit.dma_bits);
  return static_cast<unsigned>(bits) / 8;
}

}  // namespace baco
