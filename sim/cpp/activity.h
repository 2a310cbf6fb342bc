// What the executed commands did: multiplications, words that moved, accesses of each memory. Energy is counted from it.
#pragma once
#include <array>
#include <cstdint>

#include "command.h"
#include "block_elements.h"
#include "config.h"
#include "fields.h"

namespace baco {

// Sums over all commands. An access of a local memory is one of a whole row, as its banks are built: it counts `dim`
// words (accumulator) or bytes (scratchpad), whatever part of the row the command uses.
struct ActivityCounts {
  uint64_t macs = 0;                     // rows of A * columns of A * columns of the result (or of B, where C is none)
  uint64_t array_macs = 0;               // elements of the array that were clocked: waves * dim * dim
  uint64_t stationary_words = 0;         // moved into the array's registers before a product
  uint64_t accumulator_read_words = 0;   // by stores, and by writes that accumulate
  uint64_t accumulator_write_words = 0;  // by products and loads
  uint64_t scratchpad_read_bytes = 0;    // operands of the array, stores
  uint64_t scratchpad_write_bytes = 0;   // loads, results, copies
  uint64_t dram_read_bytes = 0;          // that loads asked for; a row that is replicated is fetched once
  uint64_t dram_write_bytes = 0;         // that stores wrote
  // elements of whole local rows that left through a table, a softmax or a normalisation
  // ... through the normaliser: into statistics that multiply, or as its results
  uint64_t variance_elements = 0, exponential_elements = 0;
  uint64_t layer_norm_elements = 0, i_gelu_elements = 0, integer_softmax_elements = 0;
  uint64_t table_elements = 0, softmax_elements = 0, normalisation_elements = 0, product_elements = 0;
};

// Follows primitive commands in program order. Everything comes from their fields and the configuration before them
// (ISA specification, sections 4 to 6), and the number of waves from what our execute unit does with them
// (accel/rtl/baco_execute_decode.v), so that it is the same for every engine.
class Activity {
 public:
  explicit Activity(const Config& config);
  void allocate(const Command& command);
  const ActivityCounts& counts() const { return counts_; }

 private:
  struct Load {
    bool shrink = false, packed = false;
    BlockElement block_element = BlockElement::kNone;
    uint64_t stride = 0, block_stride = 0, repeats = 1;
  };
  struct Store {
    bool pooled = false, gathered = false;
    uint64_t pool_stride = 0, pool_size = 0, upad = 0, lpad = 0, porows = 0, pocols = 0, orows = 0, ocols = 0;
  };

  void configure(uint64_t rs1, uint64_t rs2);
  void load(const Load& state, uint64_t rs1, uint64_t rs2);
  void store(uint64_t rs2);
  // What a store's function does with the rows it reads; returns how often each is read.
  uint64_t apply_function(uint64_t rows);
  // Elements of an accumulator store that the normaliser works on.
  void normalise(const LocalAddress& from, uint64_t elements);
  void copy(uint64_t rs2);
  void compute(bool preloaded, uint64_t rs1, uint64_t rs2);
  // Reads of `rows` local rows by a store.
  void read_rows(const LocalAddress& from, uint64_t rows);
  // Elements of pooling windows that lie on the image: each is a read of one local row.
  uint64_t pooled_reads() const;
  bool real(const Operand& operand) const { return !operand.at.garbage && operand.rows > 0 && operand.cols > 0; }
  // Local rows that hold an operand.
  static uint64_t stored_rows(const Operand& operand, bool transposed) {
    return static_cast<uint64_t>(transposed ? operand.cols : operand.rows);
  }

  const Config config_;
  const uint64_t dim_, element_bytes_;
  const int row_bits_;
  std::array<Load, 3> loads_;
  Store store_;
  uint64_t activation_ = 0;  // of stores
  uint64_t function_ = 0;  // of stores (CONFIG_FUNCTION)
  bool product_ = false;
  bool weight_stationary_, transpose_a_ = false, transpose_b_ = false;
  bool zero_weights_ = false;  // weight-stationary: the weights in use are none, so that A is not read
  Operand stationary_, result_;
  ActivityCounts counts_;
};

}  // namespace baco
