// Dispatch, configuration and errors of the functional model.
#include "functional.h"

#include <algorithm>
#include <cfenv>
#include <cstdarg>
#include <cstdio>
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

const char* name_of(const Command& command) {
  static const char* const configs[] = {"CONFIG_EX", "CONFIG_LD", "CONFIG_ST", "CONFIG_NORM"};
  static const char* const names[] = {nullptr,
                                      "MVIN2",
                                      "MVIN",
                                      "MVOUT",
                                      "COMPUTE_PRELOADED",
                                      "COMPUTE_ACCUMULATED",
                                      "PRELOAD",
                                      "FLUSH",
                                      "LOOP_WS",
                                      "LOOP_WS_CONFIG_BOUNDS",
                                      "LOOP_WS_CONFIG_ADDRS_AB",
                                      "LOOP_WS_CONFIG_ADDRS_DC",
                                      "LOOP_WS_CONFIG_STRIDES_AB",
                                      "LOOP_WS_CONFIG_STRIDES_DC",
                                      "MVIN3",
                                      "LOOP_CONV_WS",
                                      "LOOP_CONV_WS_CONFIG_1",
                                      "LOOP_CONV_WS_CONFIG_2",
                                      "LOOP_CONV_WS_CONFIG_3",
                                      "LOOP_CONV_WS_CONFIG_4",
                                      "LOOP_CONV_WS_CONFIG_5",
                                      "LOOP_CONV_WS_CONFIG_6",
                                      "CLKGATE_EN",
                                      "MVOUT_SPAD",
                                      "LOOP_WS_CONFIG_SPAD_AB",
                                      "LOOP_WS_CONFIG_SPAD_C"};
  if (command.funct == kConfig) return configs[command.rs1 & 3];
  if (command.funct < sizeof names / sizeof names[0]) return names[command.funct];
  return command.funct == kCounter ? "COUNTER_OP" : "unknown command";
}

bool is_loop_ws(uint8_t funct) {
  return (funct >= kLoopWs && funct <= kLoopWsStridesDC) || funct == kLoopWsScratchpadAB || funct == kLoopWsScratchpadC;
}

bool is_loop_conv(uint8_t funct) { return funct >= kLoopConv && funct <= kLoopConvConfig6; }

}  // namespace

FunctionalDevice::FunctionalDevice(const Config& config, Memory& memory)
    : config_(config),
      memory_(memory),
      dim_(config.dim),
      row_bits_(local_row_bits(config)),
      row_bytes_limit_(static_cast<uint32_t>(std::max({64, config.dma_max_bytes, 4 * config.dim}))) {
  if (dim_ < 2 || dim_ > 128) throw std::runtime_error("the functional model needs a dim of 2 to 128");
  if (row_bits_ > 25) throw std::runtime_error("a local address holds at most 2^25 rows");
  reset();
}

void FunctionalDevice::reset() {
  size_t square = static_cast<size_t>(dim_) * dim_;
  scratchpad_.assign(static_cast<size_t>(config_.scratchpad_rows) * dim_, 0);
  accumulator_.assign(static_cast<size_t>(config_.accumulator_rows) * dim_, 0);
  ex_ = {};
  ex_.weight_stationary = !config_.os;
  ld_ = {};
  st_ = {};
  for (auto* matrix : {&weights_, &next_weights_, &a_, &b_}) matrix->assign(square, 0);
  for (auto* matrix : {&sums_, &next_sums_, &result_}) matrix->assign(square, 0);
  weight_rows_ = weight_cols_ = next_weight_rows_ = next_weight_cols_ = 0;
  preloaded_ = false;
  no_sums_ = true;
  c_ = {};
  ws_slots_ = {};
  conv_slots_ = {};
  ws_slot_ = conv_slot_ = ws_half_load_ = ws_half_compute_ = ws_half_store_ = conv_half_ = 0;
  counters_ = FunctionalCounters(static_cast<size_t>(std::max(0, config_.counters)));
  responses_.clear();
  macro_name_ = nullptr;
  rejection_ = Rejection::kNone;
  error_.clear();
  notes_.clear();
  statistics_ = {};
}

bool FunctionalDevice::fail(Rejection why, const char* text, ...) {
  if (failed()) return false;
  rejection_ = why;
  char detail[300];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(detail, sizeof detail, text, arguments);
  va_end(arguments);
  if (macro_name_ != nullptr && macro_name_ != command_name_) error_ = std::string(macro_name_) + ": ";
  error_ += std::string(command_name_) + ": " + detail;
  return false;
}

void FunctionalDevice::note(const std::string& text) {
  std::string line = std::string(command_name_) + ": " + text;
  if (notes_.size() < 20 && std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(line);
}

bool FunctionalDevice::offer(const Command& command) {
  uint64_t value = 0;
  if (!failed()) {
    NearestEven rounding;
    ++statistics_.received[command.funct & 127];
    command_name_ = name_of(command);
    if (command.funct == kCounter)
      value = counters_.operate(command.rs1, statistics_.bytes_read, statistics_.bytes_written);
    else if (command.funct == kLoopWs || command.funct == kLoopConv) {
      macro_name_ = command_name_;
      if (command.funct == kLoopWs ? !config_.loop_ws : !config_.loop_conv)
        fail(Rejection::kFeatureNotBuilt, "this accelerator has no such unroller");
      else if (command.funct == kLoopWs)
        loop_ws(command.rs1, command.rs2);
      else
        loop_conv(command.rs1, command.rs2);
      macro_name_ = nullptr;
    } else {
      execute(command);
    }
  }
  if (command.xd) responses_.push_back(value);
  return true;
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

bool FunctionalDevice::execute(const Command& command) {
  uint64_t rs1 = command.rs1, rs2 = command.rs2;
  uint8_t funct = command.funct;
  command_name_ = name_of(command);
  if ((is_loop_ws(funct) && !config_.loop_ws) || (is_loop_conv(funct) && !config_.loop_conv))
    return fail(Rejection::kFeatureNotBuilt, "this accelerator has no such unroller");
  if (funct >= kLoopWsBounds && funct <= kLoopWsStridesDC) {
    ws_slots_[ws_slot_].rs1[funct - kLoopWsBounds] = rs1;
    ws_slots_[ws_slot_].rs2[funct - kLoopWsBounds] = rs2;
    ws_slots_[ws_slot_].written |= 1u << (funct - kLoopWsBounds);
    return true;
  }
  if (funct >= kLoopConvConfig1 && funct <= kLoopConvConfig6) {
    conv_slots_[conv_slot_].rs1[funct - kLoopConvConfig1] = rs1;
    conv_slots_[conv_slot_].rs2[funct - kLoopConvConfig1] = rs2;
    conv_slots_[conv_slot_].written |= 1u << (funct - kLoopConvConfig1);
    return true;
  }
  switch (funct) {
    case kFlush:               // no translation to flush
    case kClockGate:           // no clock
    case kLoopWsScratchpadC:   // accepted without effect (ISA 7)
      return true;
    case kLoopWsScratchpadAB:
      ws_slots_[ws_slot_].placed = true;
      ws_slots_[ws_slot_].a_start = static_cast<uint32_t>(rs1);
      ws_slots_[ws_slot_].b_end = static_cast<uint32_t>(rs2);
      return true;
    default:
      break;
  }
  ++statistics_.executed[funct & 127];
  counters_.work(command);
  if (observer) observer(command);
  switch (funct) {
    case kConfig:
      switch (rs1 & 3) {
        case 0:
          return config_execute(rs1, rs2);
        case 1:
          return config_load(rs1, rs2);
        case 2:
          return config_store(rs1, rs2);
        default:
          return fail(Rejection::kFeatureNotBuilt, "this accelerator has no normalisation unit");
      }
    case kMvin:
      return mvin(0, rs1, rs2);
    case kMvin2:
      return mvin(1, rs1, rs2);
    case kMvin3:
      return mvin(2, rs1, rs2);
    case kMvout:
      return mvout(rs1, rs2);
    case kMvoutScratchpad:
      return mvout_scratchpad(rs1, rs2);
    case kPreload:
      return preload(rs1, rs2);
    case kComputePreloaded:
      return compute(true, rs1, rs2);
    case kComputeAccumulated:
      return compute(false, rs1, rs2);
    default:
      return fail(Rejection::kUnknownCommand, "function code %d is not defined", funct);
  }
}

bool FunctionalDevice::config_execute(uint64_t rs1, uint64_t rs2) {
  if (preloaded_) return fail(Rejection::kUnpaired, "it stands between a PRELOAD and its COMPUTE");
  ex_.stride_a = static_cast<uint32_t>(bits(rs1, 31, 16));
  ex_.stride_c = static_cast<uint32_t>(bits(rs2, 63, 48));
  if (bit(rs1, 7)) return true;  // set_only_strides
  ex_.configured = true;
  no_sums_ |= ex_.weight_stationary;
  ex_.weight_stationary = config_.ws && config_.os ? bit(rs1, 2) : config_.ws;
  ex_.relu = bits(rs1, 4, 3) == 1;
  ex_.transpose_a = bit(rs1, 8);
  ex_.transpose_b = bit(rs1, 9);
  ex_.shift = static_cast<int>(bits(rs2, 4, 0));
  if (ex_.weight_stationary ? ex_.transpose_a && ex_.transpose_b : ex_.transpose_b && !ex_.transpose_a)
    return fail(Rejection::kIllegalTransposes, "a_transpose = %d with b_transpose = %d is impossible in the %s dataflow",
                ex_.transpose_a, ex_.transpose_b, ex_.weight_stationary ? "weight-stationary" : "output-stationary");
  return true;
}

bool FunctionalDevice::config_load(uint64_t rs1, uint64_t rs2) {
  uint64_t id = bits(rs1, 4, 3);
  if (id == 3) return fail(Rejection::kIllegalFlags, "state id = 3, but there are only 0, 1 and 2");
  LoadState& s = ld_[id];
  s.configured = true;
  s.shrink = bit(rs1, 2);
  s.pixel_repeats = config_.first_layer ? std::max(1, static_cast<int>(bits(rs1, 15, 8))) : 1;
  s.block_stride = static_cast<uint32_t>(bits(rs1, 31, 16));
  s.scale = static_cast<uint32_t>(bits(rs1, 63, 32));
  s.stride = rs2;
  return true;
}

bool FunctionalDevice::config_store(uint64_t rs1, uint64_t rs2) {
  uint64_t activation = bits(rs1, 3, 2);
  if (activation > 1)
    return fail(Rejection::kFeatureNotBuilt, "activation = %d needs the normalisation unit, which is not built",
                static_cast<int>(activation));
  st_.configured = true;
  st_.relu = activation == 1;
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
  return true;
}

}  // namespace baco
