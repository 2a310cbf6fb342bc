// The accelerator configuration at run time, read from the lines "name value" that sim/ writes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace baco {

struct Config {
  bool accelerator = true;             // there is one: else a core alone, and all below means nothing
  int dim = 16;
  int tile_rows = 1;
  bool ws = true, os = true;           // dataflows built
  int scratchpad_rows = 16384;         // rows of dim elements
  int scratchpad_banks = 4;
  int accumulator_rows = 1024;         // rows of dim int32 elements
  int accumulator_banks = 2;
  int partial_sum_bits = 32;
  int input_format = 0;                // of elements: 0 int8; 1 fp8-e4m3, 2 fp8-e5m2, 3 bf16, all with float32 sums; 4 int16
  int dma_bits = 128;
  int dma_max_bytes = 64;
  int dma_requests = 16;
  int load_queue = 8, execute_queue = 8, store_queue = 2, scale_lanes = 128;
  int load_entries = 8, execute_entries = 16, store_entries = 4;
  int counters = 8;
  bool loop_ws = true, loop_conv = true, training_convs = true, depthwise_convs = true, first_layer = true;
  bool max_pool = true, activations = true, normalizations = false, mvin_scale = true, mvin_scale_acc = false;
  bool accumulator_scale = true, read_small_width = true, read_full_width = true, preload_d = true;
  bool write_to_scratchpad = true, row_functions = false, requantization = false, packed_weights = false;
  bool block_weights = false;

  int element_bytes() const { return input_format >= 3 ? 2 : 1; }  // in the scratchpad
  bool floats() const { return input_format >= 1 && input_format <= 3; }

  // Throws std::runtime_error for an unreadable file, an unknown name or a bad value, and for units of a system.
  static Config read(const std::string& path);
  // Of a system: the configurations of its units, each behind a line `unit ACCELERATOR`, 1 for one that has one, else 0. A
  // file without such lines is that of a single unit.
  static std::vector<Config> read_units(const std::string& path);
};

// Of the memory port of units: that of the widest.
unsigned port_bytes(const std::vector<Config>& units);

}  // namespace baco
