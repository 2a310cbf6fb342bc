// Dispatch, configuration and errors of the functional model.
#include "functional.h"

#include <algorithm>
#include <cfenv>
#include <stdexcept>

namespace baco {

namespace {

// The host core may run with another rounding mode; the accelerator always rounds to nearest even.
class NearestEven {
 public:
  NearestEven() : saved_(std::fegetround()) {
    if (saved_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  }
  ~NearestEven() {
    if (saved_ != FE_TONEAREST) std::fesetround(saved_);
  }

 private:
  int saved_;
};

}  // namespace

FunctionalDevice::FunctionalDevice(const Config& config, Memory& memory)
    : config_(config),
      memory_(memory),
      dim_(config.dim),
      row_bits_(local_row_bits(config)),
      element_bytes_(static_cast<size_t>(config.element_bytes())),
      floats_(config.floats() ? config.input_format : 0),
      block_elements_(floats_),
      legality_(config) {
  if (dim_ < 2 || dim_ > 128) throw std::runtime_error("the functional model needs a dim of 2 to 128");
  if (row_bits_ > 25) throw std::runtime_error("a local address holds at most 2^25 rows");
  reset();
}

void FunctionalDevice::reset() {
  size_t square = static_cast<size_t>(dim_) * dim_;
  scratchpad_.assign(static_cast<size_t>(config_.scratchpad_rows) * dim_ * element_bytes_, 0);
  accumulator_.assign(static_cast<size_t>(config_.accumulator_rows) * dim_, 0);
  legality_ = Legality(config_);
  ex_ = {};
  ld_ = {};
  st_ = {};
  function_ = {};
  normaliser_ = {};
  table_ = {};
  output_ = {};
  powers_.assign(static_cast<size_t>(std::max({64, config_.dma_max_bytes, 4 * dim_})), 0);
  column_scales_.assign(static_cast<size_t>(dim_ + dim_ % 2), 0);
  for (auto* matrix : {&weights_, &next_weights_, &a_, &b_}) matrix->assign(square, 0);
  for (auto* matrix : {&sums_, &next_sums_, &result_}) matrix->assign(square, 0);
  weight_rows_ = weight_cols_ = next_weight_rows_ = next_weight_cols_ = 0;
  c_ = {};
  ws_ = {};
  ws_places_ = {};
  conv_ = {};
  ws_slot_ = conv_slot_ = ws_half_load_ = ws_half_compute_ = ws_half_store_ = conv_half_ = 0;
  counters_ = FunctionalCounters(static_cast<size_t>(std::max(0, config_.counters)));
  responses_.clear();
  macro_name_ = nullptr;
  refusal_ = Refusal::kNone;
  error_.clear();
  statistics_ = {};
}

bool FunctionalDevice::refuse(Refusal why, const std::string& detail) {
  refusal_ = why;
  if (macro_name_ != nullptr && macro_name_ != command_name_) error_ = std::string(macro_name_) + ": ";
  error_ += std::string(command_name_) + ": " + detail;
  return false;
}

bool FunctionalDevice::offer(const Command& command) {
  if (!failed()) run(command);
  if (failed() && command.xd) responses_.push_back(0);  // nobody is to wait for ever
  return true;
}

void FunctionalDevice::run(const Command& command) {
  NearestEven rounding;
  ++statistics_.received[command.funct & 127];
  command_name_ = name_of(command);
  if (command.funct != kLoopWs && command.funct != kLoopConv) {
    execute(command);
    return;
  }
  macro_name_ = command_name_;
  if (const Refusal why = legality_.check(command); why != Refusal::kNone)
    refuse(why, "breaks the rule that " + legality_.detail());
  else if (command.funct == kLoopWs)
    loop_ws(command.rs1, command.rs2);
  else
    loop_conv(command.rs1, command.rs2);
  macro_name_ = nullptr;
}

bool FunctionalDevice::response(uint64_t& data) {
  if (responses_.empty()) return false;
  data = responses_.front();
  responses_.pop_front();
  return true;
}

bool FunctionalDevice::issue(uint8_t funct, uint64_t rs1, uint64_t rs2) {
  Command command;
  command.funct = funct;
  command.rs1 = rs1;
  command.rs2 = rs2;
  return execute(command);
}

// One command that is no run of a macro. What a macro unrolls into comes here, too, and is checked like any other:
// the rules of macros promise that it is legal, and this model's memory safety is not to rest on a promise.
bool FunctionalDevice::execute(const Command& command) {
  const uint64_t rs1 = command.rs1, rs2 = command.rs2;
  const uint8_t funct = command.funct;
  command_name_ = name_of(command);
  if (const Refusal why = legality_.check(command); why != Refusal::kNone) return refuse(why, "breaks the rule that " + legality_.detail());
  if (funct >= kLoopWsBounds && funct <= kLoopWsStridesDC) {
    ws_.rs1[funct - kLoopWsBounds] = rs1;
    ws_.rs2[funct - kLoopWsBounds] = rs2;
    return true;
  }
  if (funct >= kLoopConvConfig1 && funct <= kLoopConvConfig6) {
    conv_.rs1[funct - kLoopConvConfig1] = rs1;
    conv_.rs2[funct - kLoopConvConfig1] = rs2;
    return true;
  }
  switch (funct) {
    case kFlush:               // no translation to flush
    case kClockGate:           // no clock
    case kLoopWsScratchpadC:   // accepted without effect (ISA 7)
      return true;
    case kLoopWsScratchpadAB:
      ws_places_[ws_slot_] = {true, static_cast<uint32_t>(rs1), static_cast<uint32_t>(rs2)};
      return true;
    case kCounter: {
      const uint64_t value = counters_.operate(rs1, statistics_.bytes_read, statistics_.bytes_written);
      if (command.xd) responses_.push_back(value);
      return true;
    }
    default:
      break;
  }
  ++statistics_.executed[funct & 127];
  counters_.work(command);
  if (observer) observer(command);
  switch (funct) {
    case kConfig:
      if ((rs1 & 3) == 0)
        config_execute(rs1, rs2);
      else if ((rs1 & 3) == 1)
        config_load(rs1, rs2);
      else if ((rs1 & 3) == 2)
        config_store(rs1, rs2);
      else
        config_norm(rs1, rs2);
      return true;
    case kMvin:
      return mvin(0, rs1, rs2);
    case kMvin2:
      return mvin(1, rs1, rs2);
    case kMvin3:
      return mvin(2, rs1, rs2);
    case kMvout:
      return mvout(rs1, rs2);
    case kMvoutScratchpad:
      mvout_scratchpad(rs1, rs2);
      return true;
    case kConfigFunction:
      config_function(rs1, rs2);
      return true;
    case kLoadTable:
      load_table(rs1);
      return true;
    case kConfigOutput:
      config_output(rs1);
      return true;
    case kSetScales:
      set_scales(rs1, rs2);
      return true;
    case kPreload:
      preload(rs1, rs2);
      return true;
    default:
      compute(funct == kComputePreloaded, rs1, rs2);
      return true;
  }
}

void FunctionalDevice::config_execute(uint64_t rs1, uint64_t rs2) {
  ex_.stride_a = static_cast<uint32_t>(bits(rs1, 31, 16));
  ex_.stride_c = static_cast<uint32_t>(bits(rs2, 63, 48));
  if (bit(rs1, 7)) return;  // set_only_strides
  ex_.weight_stationary = config_.ws && config_.os ? bit(rs1, 2) : config_.ws;
  ex_.relu = bits(rs1, 4, 3) == 1;
  ex_.transpose_a = bit(rs1, 8);
  ex_.transpose_b = bit(rs1, 9);
  ex_.shift = static_cast<int>(bits(rs2, 4, 0));
}

void FunctionalDevice::config_load(uint64_t rs1, uint64_t rs2) {
  LoadState& s = ld_[bits(rs1, 4, 3)];
  s.shrink = bit(rs1, 2);
  s.packed = config_.packed_weights && bit(rs1, 5);
  s.block_element = block_element(config_, rs1);
  s.pixel_repeats = config_.first_layer ? std::max(1, static_cast<int>(bits(rs1, 15, 8))) : 1;
  s.block_stride = static_cast<uint32_t>(bits(rs1, 31, 16));
  s.scale = static_cast<uint32_t>(bits(rs1, 63, 32));
  s.stride = rs2;
}

void FunctionalDevice::config_store(uint64_t rs1, uint64_t rs2) {
  st_.activation = static_cast<Activation>(bits(rs1, 3, 2));  // no softmax
  st_.stride = static_cast<uint32_t>(bits(rs2, 31, 0));
  uint32_t scale = static_cast<uint32_t>(bits(rs2, 63, 32));
  if (scale != 0xffffffffu) st_.scale = scale;
  int pool_stride = static_cast<int>(bits(rs1, 5, 4)), pool_size = static_cast<int>(bits(rs1, 7, 6));
  if (config_.max_pool && pool_stride != 0)
    st_.mode = StoreMode::kPooled;
  else
    st_.mode = pool_size != 0 ? StoreMode::kOneDimensional : StoreMode::kRows;
  if (st_.mode != StoreMode::kRows) {
    st_.pool_out_dim = static_cast<int>(bits(rs1, 31, 24));
    st_.orows = static_cast<int>(bits(rs1, 55, 48));
    st_.ocols = static_cast<int>(bits(rs1, 63, 56));
  }
  if (st_.mode == StoreMode::kPooled) {
    st_.pool_stride = pool_stride;
    st_.pool_size = pool_size;
    st_.upad = static_cast<int>(bits(rs1, 9, 8));
    st_.lpad = static_cast<int>(bits(rs1, 11, 10));
    st_.porows = static_cast<int>(bits(rs1, 39, 32));
    st_.pocols = static_cast<int>(bits(rs1, 47, 40));
  }
}

}  // namespace baco
