// LOOP_WS of the functional model: one run becomes the primitive commands of ISA specification, section 7.
#include <algorithm>

#include "functional.h"

namespace baco {

// One run, decoded. Sizes in blocks of dim unless named otherwise; element (i, j) of C, (i, k) of A, (k, j) of B.
struct FunctionalDevice::LoopWs {
  int I, J, K, pad_i, pad_j, pad_k;
  uint64_t a, b, c, d;                  // byte addresses in main memory, 0 = none
  uint64_t a_stride, b_stride, c_stride, d_stride;  // elements
  bool accumulate, full_c, low_d, a_transpose, b_transpose, b_packed, resadd;
  uint64_t act;                         // 2 layer norm, 4 softmax: statistics come before the results
  bool skip_a, skip_b, skip_d, skip_compute, skip_store, to_scratchpad;
  uint32_t c_row;                       // destination of to_scratchpad
  // Scratchpad rows: the first of A and the one behind B, as the loads place them and as the products find them. The
  // first of an addition's operands is an accumulator row.
  uint32_t a_load, b_load_end, a_compute, b_compute_end;
  uint32_t d_row, compute_row, store_row;  // accumulator rows of C as each phase sees it
  int width, acc_width;                 // blocks of one load of elements / sums
  int bytes;                            // of an element
  int dim;

  int rows_of_i(int i) const { return dim - (i == I - 1 ? pad_i : 0); }
  int rows_of_k(int k) const { return dim - (k == K - 1 ? pad_k : 0); }
  int cols_of_j(int j, int n = 1) const { return n * dim - (j + n == J ? pad_j : 0); }
  int cols_of_k(int k, int n = 1) const { return n * dim - (k + n == K ? pad_k : 0); }
  int cols_of_i(int i, int n) const { return n * dim - (i + n == I ? pad_i : 0); }
  uint32_t block_a(int i, int k) const { return static_cast<uint32_t>((a_transpose ? k * I + i : i * K + k) * dim); }
  uint32_t block_b(int k, int j) const { return static_cast<uint32_t>((b_transpose ? j * K + k : k * J + j) * dim); }
  uint32_t block_c(int i, int j) const { return static_cast<uint32_t>((i * J + j) * dim); }

  // Address of the element at block (row, col) of a matrix; offsets wrap at 32 bits as in the hardware.
  uint64_t element(uint64_t base, uint64_t stride, int row, int col, int bytes) const {
    uint64_t elements = (static_cast<uint64_t>(row) * stride + static_cast<uint64_t>(col)) * static_cast<uint64_t>(dim);
    return base + static_cast<uint32_t>(elements * static_cast<uint64_t>(bytes));
  }
  // Of B, of which two elements may be a byte.
  uint64_t element_b(int row, int col) const {
    return b + ((element(b, b_stride, row, col, bytes) - b) >> (b_packed ? 1 : 0));
  }
};

bool FunctionalDevice::loop_ws(uint64_t rs1, uint64_t rs2) {
  const LoopWsPlaces& places = ws_places_[ws_slot_];
  LoopWs loop{};
  loop.dim = dim_;
  loop.I = static_cast<int>(bits(ws_.rs2[0], 15, 0));
  loop.J = static_cast<int>(bits(ws_.rs2[0], 31, 16));
  loop.pad_i = static_cast<int>(bits(ws_.rs1[0], 15, 0));
  loop.pad_j = static_cast<int>(bits(ws_.rs1[0], 31, 16));
  loop.resadd = bit(rs2, 2);
  loop.K = loop.resadd ? 0 : static_cast<int>(bits(ws_.rs2[0], 47, 32));
  loop.pad_k = loop.resadd ? 0 : static_cast<int>(bits(ws_.rs1[0], 47, 32));
  loop.a = ws_.rs1[1];
  loop.b = ws_.rs2[1];
  loop.d = ws_.rs1[2];
  loop.c = ws_.rs2[2];
  loop.a_stride = ws_.rs1[3];
  loop.b_stride = ws_.rs2[3];
  loop.d_stride = ws_.rs1[4];
  loop.c_stride = ws_.rs2[4];
  loop.accumulate = bit(rs1, 0);
  loop.full_c = bit(rs1, 1);
  loop.low_d = bit(rs1, 2);
  loop.act = bits(rs1, 10, 8);
  loop.a_transpose = bit(rs2, 0);
  loop.b_transpose = bit(rs2, 1);
  loop.b_packed = config_.packed_weights && bit(rs2, 10);
  loop.skip_a = bit(rs2, 3) || loop.a == 0;
  loop.skip_b = bit(rs2, 4) || loop.b == 0;
  loop.skip_d = bit(rs2, 5);
  loop.skip_compute = bit(rs2, 6) || loop.resadd;
  loop.skip_store = bit(rs2, 7);
  loop.to_scratchpad = bit(rs2, 9);
  loop.c_row = static_cast<uint32_t>(bits(rs2, 63, 32));
  loop.bytes = config_.element_bytes();
  loop.width = std::max(1, config_.dma_max_bytes / (dim_ * loop.bytes));
  loop.acc_width = std::max(1, config_.dma_max_bytes / (4 * dim_));

  // Scratchpad: each operand in its half, A from the bottom and B up to the top. What spad_only multiplies lies in the
  // slot's own places, whatever the ids say.
  uint32_t half = static_cast<uint32_t>(config_.scratchpad_rows) / 2, slot = static_cast<uint32_t>(ws_slot_);
  uint32_t a_id = static_cast<uint32_t>(bits(rs1, 19, 18)), b_id = static_cast<uint32_t>(bits(rs1, 17, 16));
  uint32_t a_own = places.given ? places.a_start : slot * half;
  uint32_t b_own = places.given ? places.b_end : (slot + 1) * half;
  loop.a_load = a_id == 0 ? a_own : (a_id - 1) * half;
  loop.b_load_end = b_id == 0 ? b_own : b_id * half;
  loop.a_compute = loop.to_scratchpad ? a_own : loop.a_load;
  loop.b_compute_end = loop.to_scratchpad ? b_own : loop.b_load_end;

  // Accumulator: every phase toggles its own copy of the half when it starts (ISA 7).
  uint32_t acc_half = static_cast<uint32_t>(config_.accumulator_rows) / 2;
  bool advance = loop.to_scratchpad ? bit(rs2, 8) : loop.c != 0;
  loop.d_row = static_cast<uint32_t>(ws_half_load_) * acc_half;
  loop.compute_row = static_cast<uint32_t>(ws_half_compute_) * acc_half;
  loop.store_row = static_cast<uint32_t>(ws_half_store_) * acc_half;
  if (!loop.skip_d && loop.c != 0) ws_half_load_ ^= 1;
  if (advance && !bit(rs2, 6)) ws_half_compute_ ^= 1;
  if (advance && !loop.skip_store) ws_half_store_ ^= 1;
  if (loop.resadd) {
    loop.store_row = slot * acc_half;  // resadd works in the slot's half
    loop.a_load = loop.store_row;
  }
  ws_slot_ ^= 1;
  return loop_ws_load(loop) && loop_ws_compute(loop) && loop_ws_store(loop);
}

bool FunctionalDevice::loop_ws_load(const LoopWs& loop) {
  const int I = loop.I, J = loop.J, K = loop.K;
  if (loop.resadd) {
    // A overwrites and B adds, both in the accumulator.
    for (int operand = 0; operand < 2; ++operand) {
      if (operand == 0 ? loop.skip_a : loop.skip_b) continue;
      uint32_t flags = kFlagAccumulator | (operand == 0 ? 0 : kFlagAccumulate);
      for (int j = 0; j < J; j += loop.width) {
        int n = std::min(loop.width, J - j);
        for (int i = 0; i < I; ++i)
          if (!issue(operand == 0 ? kMvin : kMvin2,
                     operand == 0 ? loop.element(loop.a, loop.a_stride, i, j, loop.bytes) : loop.element_b(i, j),
                     encode_operand(flags | (loop.a_load + loop.block_c(i, j)), loop.rows_of_i(i), loop.cols_of_j(j, n))))
            return false;
      }
    }
    return true;
  }
  if (!loop.skip_d && loop.d != 0) {
    int width = loop.low_d ? loop.width : loop.acc_width;
    for (int j = 0; j < J; j += width) {
      int n = std::min(width, J - j);
      for (int i = 0; i < I; ++i)
        if (!issue(kMvin3, loop.element(loop.d, loop.d_stride, i, j, loop.low_d ? loop.bytes : 4),
                   encode_operand(kFlagAccumulator | (loop.d_row + loop.block_c(i, j)), loop.rows_of_i(i),
                                  loop.cols_of_j(j, n))))
          return false;
    }
  }
  if (!loop.skip_a) {
    int k_step = loop.a_transpose ? 1 : loop.width, i_step = loop.a_transpose ? loop.width : 1;
    for (int k = 0; k < K; k += k_step) {
      for (int i = 0; i < I; i += i_step) {
        int n = loop.a_transpose ? std::min(i_step, I - i) : std::min(k_step, K - k);
        int rows = loop.a_transpose ? loop.rows_of_k(k) : loop.rows_of_i(i);
        int cols = loop.a_transpose ? loop.cols_of_i(i, n) : loop.cols_of_k(k, n);
        uint64_t address = loop.a_transpose ? loop.element(loop.a, loop.a_stride, k, i, loop.bytes)
                                            : loop.element(loop.a, loop.a_stride, i, k, loop.bytes);
        if (!issue(kMvin, address, encode_operand(loop.a_load + loop.block_a(i, k), rows, cols))) return false;
      }
    }
  }
  if (!loop.skip_b) {
    uint32_t start = loop.b_load_end - static_cast<uint32_t>(K * J * loop.dim);
    int k_step = loop.b_transpose ? loop.width : 1, j_step = loop.b_transpose ? 1 : loop.width;
    for (int k = 0; k < K; k += k_step) {
      for (int j = 0; j < J; j += j_step) {
        int n = loop.b_transpose ? std::min(k_step, K - k) : std::min(j_step, J - j);
        int rows = loop.b_transpose ? loop.cols_of_j(j) : loop.rows_of_k(k);
        int cols = loop.b_transpose ? loop.cols_of_k(k, n) : loop.cols_of_j(j, n);
        uint64_t address = loop.b_transpose ? loop.element_b(j, k) : loop.element_b(k, j);
        if (!issue(kMvin2, address, encode_operand(start + loop.block_b(k, j), rows, cols))) return false;
      }
    }
  }
  return true;
}

bool FunctionalDevice::loop_ws_compute(const LoopWs& loop) {
  if (loop.skip_compute) return true;
  uint32_t b_start = loop.b_compute_end - static_cast<uint32_t>(loop.K * loop.J * loop.dim);
  uint64_t none = encode_operand(kGarbageAddress, loop.dim, loop.dim);
  for (int k = 0; k < loop.K; ++k) {
    uint32_t flags = kFlagAccumulator | (loop.accumulate || k > 0 ? kFlagAccumulate : 0);
    for (int j = 0; j < loop.J; ++j) {
      for (int i = 0; i < loop.I; ++i) {
        uint64_t weights = encode_operand(b_start + loop.block_b(k, j), loop.rows_of_k(k), loop.cols_of_j(j));
        uint64_t target = encode_operand(flags | (loop.compute_row + loop.block_c(i, j)), loop.rows_of_i(i),
                                         loop.cols_of_j(j));
        uint64_t inputs = encode_operand(loop.a_compute + loop.block_a(i, k), loop.rows_of_i(i), loop.cols_of_k(k));
        if (!issue(kPreload, i == 0 ? weights : none, target)) return false;
        if (!issue(i == 0 ? kComputePreloaded : kComputeAccumulated, inputs, none)) return false;
      }
    }
  }
  return true;
}

bool FunctionalDevice::loop_ws_store(const LoopWs& loop) {
  if (loop.skip_store || (loop.c == 0 && !loop.to_scratchpad)) return true;
  if (loop.act == 2 || loop.act == 4) {
    for (int i = 0; i < loop.I; ++i)
      if (!loop_ws_normalise(loop, i)) return false;
    return true;
  }
  uint32_t flags = kFlagAccumulator | (loop.full_c ? kFlagReadFull : 0);
  int width = loop.full_c || loop.to_scratchpad ? 1 : loop.width;
  for (int j = 0; j < loop.J; j += width) {
    int n = std::min(width, loop.J - j);
    for (int i = 0; i < loop.I; ++i) {
      uint64_t source = encode_operand(flags | (loop.store_row + loop.block_c(i, j)), loop.rows_of_i(i),
                                       loop.cols_of_j(j, n));
      bool done;
      if (loop.to_scratchpad)
        done = issue(kMvoutScratchpad, uint64_t{loop.c_row + loop.block_c(i, j)} | uint64_t{1} << 32, source);
      else
        done = issue(kMvout, loop.element(loop.c, loop.c_stride, i, j, loop.full_c ? 4 : loop.bytes), source);
      if (!done) return false;
    }
  }
  return true;
}

bool FunctionalDevice::loop_ws_normalise(const LoopWs& loop, int i) {
  const bool softmax = loop.act == 4;
  // of a row's last piece; those before it take the form that goes on
  const NormCommand commands[] = {softmax ? NormCommand::kMax : NormCommand::kMean,
                                  softmax ? NormCommand::kInverseSumExp : NormCommand::kInverseDeviation,
                                  NormCommand::kReset};
  const NormCommand pieces[] = {softmax ? NormCommand::kMax : NormCommand::kSum,
                                softmax ? NormCommand::kSumExp : NormCommand::kVariance, NormCommand::kReset};
  for (int first = 0; first < loop.rows_of_i(i); first += 2)
    for (int pass = 0; pass < 3; ++pass)
      for (int slot = 0; slot < std::min(2, loop.rows_of_i(i) - first); ++slot) {
        if (!issue(kConfig, 3 | static_cast<uint64_t>(slot) << 8 | uint64_t{1} << 17, 0)) return false;
        const int row = first + slot;
        for (int j = 0; j < loop.J; j += loop.width) {
          const int n = std::min(loop.width, loop.J - j);
          const NormCommand command = j + n == loop.J ? commands[pass] : pieces[pass];
          const uint32_t local = kFlagAccumulator | static_cast<uint32_t>(command) << 26 |
                                 (loop.store_row + loop.block_c(i, j) + static_cast<uint32_t>(row));
          const uint64_t offset = loop.element(0, loop.c_stride, i, j, 1) + static_cast<uint64_t>(row) * loop.c_stride;
          if (!issue(kMvout, loop.c + static_cast<uint32_t>(offset), encode_operand(local, 1, loop.cols_of_j(j, n))))
            return false;
        }
      }
  return true;
}

}  // namespace baco
