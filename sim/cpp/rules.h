// What software must not do although the functional model can: the rest of "undefined or forbidden" (ISA
// specification, section 11) and the limits of our RTL. Co-simulation asks before it compares, so that neither a random
// stream nor one that a minimiser has shortened is blamed on the hardware.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "config.h"
#include "fields.h"

namespace baco {

// Rules over a whole stream; each member returns a sentence about what is broken, or nothing.
class Rules {
 public:
  // Main memory is `bytes` from `base` on; commands that leave it are others' business.
  Rules(const Config& config, uint64_t base, uint64_t bytes);

  // A command as software issues it:
  // * products are not mixed with residual additions without a fence (ISA 7);
  // * macros find the configuration that software owes them: dataflow, transposes, strides, loads, plain stores.
  std::string macro(const Command& command);
  // A command after unrolling, in program order:
  // * main memory is not read and written between two fences (ISA 9; two writes keep their order here);
  // * between a PRELOAD and its COMPUTE nothing touches what the PRELOAD names (the reservation station would wait for
  //   ever);
  // * a result does not overwrite operands that stream in while it is written: A, the bias (weight-stationary) or B
  //   (output-stationary);
  // * what the other dataflow left in the array is not accumulated on.
  std::string primitive(const Command& command);
  void fence();

 private:
  struct Span {
    uint64_t first, past;
    bool meets(const Span& other) const { return first < other.past && other.first < past; }
  };
  struct Rows {
    bool accumulator = false;
    Span span{0, 0};
    bool meets(const Rows& other) const {
      return accumulator == other.accumulator && span.first < span.past && other.span.first < other.span.past &&
             span.meets(other.span);
    }
  };
  struct Load {
    uint64_t stride = 0, block_stride = 0, repeats = 1;
    bool shrink = false;
  };
  struct Store {
    int mode = 0;  // 0 rows, 1 pooled, 2 one-dimensional
    uint64_t stride = 0, out_dim = 0, porows = 0, pocols = 0, orows = 0, ocols = 0;
  };

  Rows rows(uint32_t word, uint64_t count, uint64_t stride, uint64_t below = 0) const;
  Rows operand(uint64_t value, bool transposed, uint64_t stride) const;
  void config(const Command& command);
  std::string load(const Command& command);
  std::string store(const Command& command);
  std::string compute(const Command& command);
  std::string access(uint64_t address, uint64_t bytes, bool write);
  std::string between(const Rows& touched) const;
  std::string loop_ws(const Command& run);
  std::string loop_conv(const Command& run) const;

  const Config config_;
  const int row_bits_;
  std::array<Load, 3> loads_;
  Store store_;
  bool weight_stationary_, transpose_a_ = false, transpose_b_ = false;
  uint64_t stride_a_ = 1, stride_c_ = 1;
  bool pending_ = false;                   // a PRELOAD without its COMPUTE so far
  bool fresh_ = true;                      // nothing of this dataflow in the array
  Rows stationary_, result_;               // of that PRELOAD
  const uint64_t base_;
  std::vector<uint8_t> used_;              // by byte of main memory since the last fence: 1 read, 2 written
  uint64_t conv_stride_ = 1;               // of the convolution that is being configured
  int macro_mode_ = -1;                    // -1 none since the last fence, 0 product, 1 residual addition
};

}  // namespace baco
