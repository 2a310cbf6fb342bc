// The functional model: what every command does to memory and local memories, bit for bit and without timing.
//
// Commands execute at once and atomically in program order, after legality.h has found them legal: nothing here checks
// them again but for main memory. The model shares nothing with the RTL, so that each checks the other.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "block_elements.h"
#include "config.h"
#include "device.h"
#include "fields.h"
#include "float_elements.h"
#include "functional_counters.h"
#include "legality.h"
#include "memory.h"
#include "normaliser.h"

namespace baco {

struct FunctionalStatistics {
  std::array<uint64_t, 128> received{};  // commands offered, by function code
  std::array<uint64_t, 128> executed{};  // after unrolling: what the load, execute and store units would see
  uint64_t macs = 0;                     // useful multiply-accumulates: padding to dim does not count
  uint64_t bytes_read = 0;               // of main memory, without alignment overhead
  uint64_t bytes_written = 0;
};

class FunctionalDevice : public Device {
 public:
  FunctionalDevice(const Config& config, Memory& memory);

  bool offer(const Command& command) override;
  bool response(uint64_t& data) override;
  bool busy() const override { return false; }
  void tick() override { pass(1); }
  // Time matters to performance counters only.
  void pass(uint64_t cycles) { counters_.pass(cycles); }
  // The first refused command by name, and what does not hold; everything after it is ignored.
  std::string error() const override { return error_; }

  Refusal refusal() const { return refusal_; }
  // Power-on state, local memories zeroed. The observer stays.
  void reset();

  std::vector<uint8_t>& scratchpad() { return scratchpad_; }     // [row][dim] elements
  std::vector<int32_t>& accumulator() { return accumulator_; }  // [row][dim]
  const FunctionalStatistics& statistics() const { return statistics_; }
  // Called for every command after unrolling, before it executes (command logs, comparisons of unrollers).
  std::function<void(const Command&)> observer;

 private:
  struct ExecuteState {
    bool weight_stationary = false, relu = false;
    bool transpose_a = false, transpose_b = false;
    uint32_t stride_a = 1, stride_c = 1;
    int shift = 0;
  };
  struct LoadState {
    bool shrink = false, packed = false;
    BlockElement block_element = BlockElement::kNone;
    int pixel_repeats = 1;
    uint32_t block_stride = 0, scale = 0x3f800000u;
    uint64_t stride = 0;
  };
  enum class StoreMode { kRows, kPooled, kOneDimensional };
  struct StoreState {
    Activation activation = Activation::kNone;
    StoreMode mode = StoreMode::kRows;
    int pool_stride = 0, pool_size = 0, upad = 0, lpad = 0;
    int pool_out_dim = 0, porows = 0, pocols = 0, orows = 0, ocols = 0;
    uint32_t stride = 0, scale = 0x3f800000u;
  };
  // What stores do with int8 rows, once scaled (CONFIG_FUNCTION).
  struct FunctionState {
    int function = 0, shift = 7;  // 1 table, 2 softmax, 3 normalisation
    bool centre = false, causal = false, product = false;
    uint32_t valid = 0, parameter = 0;
    uint64_t epsilon = 0;
    int apart = 0;  // softmax: rows from one block of a row to the next, 0 for dim
  };
  // How stores requantise accumulator elements (CONFIG_OUTPUT, SET_SCALES).
  struct OutputState {
    bool by_column = false;
    int zero = 0, low = -128, high = 127;
  };
  // What configuration commands gave the next run of a loop unroller (ISA 7, 8), and where a slot of LOOP_WS has its
  // operands when software places them.
  struct LoopWsRegisters {
    std::array<uint64_t, 5> rs1{}, rs2{};  // functs 9..13
  };
  struct LoopWsPlaces {
    bool given = false;  // LOOP_WS_CONFIG_SPAD_AB seen
    uint32_t a_start = 0, b_end = 0;
  };
  struct LoopConvRegisters {
    std::array<uint64_t, 6> rs1{}, rs2{};  // functs 16..21
  };
  struct LoopWs;    // one run, decoded
  struct LoopConv;  // one run, decoded

  // Sets the sticky error and returns false. `detail` follows the name of the command.
  bool refuse(Refusal why, const std::string& detail);
  bool failed() const { return refusal_ != Refusal::kNone; }

  void run(const Command& command);
  bool execute(const Command& command);
  // A primitive command out of an unroller.
  bool issue(uint8_t funct, uint64_t rs1, uint64_t rs2);

  void config_execute(uint64_t rs1, uint64_t rs2);
  void config_load(uint64_t rs1, uint64_t rs2);
  void config_store(uint64_t rs1, uint64_t rs2);
  void config_norm(uint64_t rs1, uint64_t rs2) { normaliser_.configure(rs1, rs2, st_.activation); }
  void config_function(uint64_t rs1, uint64_t rs2);
  void load_table(uint64_t rs1);
  void config_output(uint64_t rs1);
  void set_scales(uint64_t rs1, uint64_t rs2);
  // The function of stores, in place, of the row `index` of a store, whose first block is the local row `local`.
  void apply_function(int8_t* row, int cols, int index, uint32_t local) const;
  void softmax_row(int8_t* row, int cols, int index) const;
  void normalise_row(int8_t* row, int cols) const;
  void multiply_row(int8_t* row, int cols, uint32_t local) const;

  bool mvin(int state, uint64_t rs1, uint64_t rs2);
  // A row of powers, one for each column.
  bool load_powers(uint64_t address, size_t cols);
  // A row of elements of blocks as bfloat16.
  std::vector<uint8_t> decoded(BlockElement element, const uint8_t* source, size_t cols) const;
  void load_scratchpad_row(const LoadState& state, const uint8_t* source, uint32_t row, int cols, int repeats,
                           bool scaled);
  void load_accumulator_row(const LoadState& state, const uint8_t* source, uint32_t row, int cols, bool accumulate,
                            bool scaled);
  bool mvout(uint64_t rs1, uint64_t rs2);
  bool mvout_pooled(uint64_t address, const LocalAddress& from, int cols);
  void mvout_scratchpad(uint64_t rs1, uint64_t rs2);
  // Normaliser command of an accumulator row of a store, into the statistics.
  void take_statistics(NormCommand command, uint32_t row, int cols);
  // cols elements of a local row, of element_bytes_ each, as a store sends them: copied, or activated, scaled and limited.
  void narrow_row(bool from_accumulator, uint32_t row, int column, int cols, int8_t* out) const;
  // The same of one element in memory: its code, and code put there.
  unsigned code_at(const void* elements, size_t index) const;
  void put_code(void* elements, size_t index, unsigned code) const;
  uint8_t* main_memory(uint64_t address, uint64_t bytes, bool write);

  void preload(uint64_t rs1, uint64_t rs2);
  void compute(bool preloaded, uint64_t rs1, uint64_t rs2);
  void read_matrix(const Operand& operand, uint32_t stride, bool transposed, int16_t* out) const;
  void write_result(const int32_t* result);
  // The products of a weight-stationary COMPUTE in floating point, added up in the order of the array's rows.
  void multiply_floats();

  bool loop_ws(uint64_t rs1, uint64_t rs2);
  bool loop_ws_load(const LoopWs& loop);
  bool loop_ws_compute(const LoopWs& loop);
  bool loop_ws_store(const LoopWs& loop);
  // Rows of one block row of C, normalised in pairs: one statistics slot each.
  bool loop_ws_normalise(const LoopWs& loop, int i);
  bool loop_conv(uint64_t rs1, uint64_t rs2);
  bool loop_conv_bias(const LoopConv& loop);
  bool loop_conv_weights(const LoopConv& loop);
  bool loop_conv_input(const LoopConv& loop);
  bool loop_conv_compute(const LoopConv& loop);
  bool loop_conv_store(const LoopConv& loop);

  const Config config_;
  Memory& memory_;
  const int dim_, row_bits_;
  const size_t element_bytes_;
  const FloatElements floats_;  // where elements are no integers
  const BlockElements block_elements_;
  Legality legality_;

  std::vector<uint8_t> scratchpad_;
  std::vector<int32_t> accumulator_;
  ExecuteState ex_;
  std::array<LoadState, 3> ld_;
  StoreState st_;
  FunctionState function_;
  OutputState output_;
  std::vector<uint8_t> powers_;  // of blocks of weights, by column of a load
  std::vector<uint32_t> column_scales_;  // float32 bits of every column
  Normaliser normaliser_;
  std::array<uint16_t, 256> table_{};

  // The array: weights in use and shadow, output-stationary sums and shadow; [row][dim], zero beyond the operand.
  std::vector<int16_t> weights_, next_weights_, a_, b_;
  std::vector<int32_t> sums_, next_sums_, result_;
  int weight_rows_ = 0, weight_cols_ = 0, next_weight_rows_ = 0, next_weight_cols_ = 0;
  Operand c_;  // of the PRELOAD that waits for its COMPUTE

  LoopWsRegisters ws_;
  std::array<LoopWsPlaces, 2> ws_places_;
  LoopConvRegisters conv_;
  int ws_slot_ = 0, conv_slot_ = 0;
  int ws_half_load_ = 0, ws_half_compute_ = 0, ws_half_store_ = 0, conv_half_ = 0;

  FunctionalCounters counters_{0};
  std::deque<uint64_t> responses_;

  const char* command_name_ = "";  // what is executing, for messages
  const char* macro_name_ = nullptr;
  Refusal refusal_ = Refusal::kNone;
  std::string error_;
  FunctionalStatistics statistics_;
};

}  // namespace baco
