// LOOP_WS of the functional model: one run becomes the primitive commands of ISA specification, section 7.
#include <algorithm>

#include "functional.h"

namespace baco {

// One run, decoded. Sizes in blocks of dim unless named otherwise; element (i, j) of C, (i, k) of A, (k, j) of B.
struct FunctionalDevice::LoopWs {
  int I, J, K, pad_i, pad_j, pad_k;
  uint64_t a, b, c, d;                  // byte addresses in main memory, 0 = none
  uint64_t a_stride, b_stride, c_stride, d_stride;  // elements
  bool accumulate, full_c, low_d, a_transpose, b_transpose, resadd;
  bool skip_a, skip_b, skip_d, skip_compute, skip_store, to_scratchpad;
  uint32_t c_row;                       // destination of to_scratchpad
  uint32_t a_load, b_load_end;          // scratchpad rows as the loads place them
  uint32_t a_compute, b_compute_end;    // and as the computation finds them
  uint32_t d_row, compute_row, store_row;  // accumulator rows of C as each phase sees it
  int width, acc_width;                 // blocks of one int8 / int32 load
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
};

bool FunctionalDevice::check_placement(const char* a_name, const Rows& a, int a_half, const char* b_name,
                                       const Rows& b, int b_half) {
  int64_t half = config_.scratchpad_rows / 2;
  if (a_half >= 0 && a.count > half)
    return fail(Rejection::kBadSize, "%s takes %lld rows, half of the scratchpad has %lld", a_name,
                static_cast<long long>(a.count), static_cast<long long>(half));
  if (b_half >= 0 && b.count > half)
    return fail(Rejection::kBadSize, "%s takes %lld rows, half of the scratchpad has %lld", b_name,
                static_cast<long long>(b.count), static_cast<long long>(half));
  if (a.count > 0 && b.count > 0 && a.start < b.start + b.count && b.start < a.start + a.count)
    return fail(Rejection::kBadSize, "%s takes %lld rows and %s %lld, together more than half of the scratchpad's %lld",
                a_name, static_cast<long long>(a.count), b_name, static_cast<long long>(b.count),
                static_cast<long long>(2 * half));
  return true;
}

bool FunctionalDevice::loop_ws(uint64_t rs1, uint64_t rs2) {
  LoopWsSlot& slot = ws_slots_[ws_slot_];
  if (slot.written != 0x1fu) note("some of its configuration is that of the run before last, which had the same slot");
  slot.written = 0;
  LoopWs loop{};
  loop.dim = dim_;
  loop.I = static_cast<int>(bits(slot.rs2[0], 15, 0));
  loop.J = static_cast<int>(bits(slot.rs2[0], 31, 16));
  loop.pad_i = static_cast<int>(bits(slot.rs1[0], 15, 0));
  loop.pad_j = static_cast<int>(bits(slot.rs1[0], 31, 16));
  loop.resadd = bit(rs2, 2);
  loop.K = loop.resadd ? 0 : static_cast<int>(bits(slot.rs2[0], 47, 32));
  loop.pad_k = loop.resadd ? 0 : static_cast<int>(bits(slot.rs1[0], 47, 32));
  loop.a = slot.rs1[1];
  loop.b = slot.rs2[1];
  loop.d = slot.rs1[2];
  loop.c = slot.rs2[2];
  loop.a_stride = slot.rs1[3];
  loop.b_stride = slot.rs2[3];
  loop.d_stride = slot.rs1[4];
  loop.c_stride = slot.rs2[4];
  loop.accumulate = bit(rs1, 0);
  loop.full_c = bit(rs1, 1);
  loop.low_d = bit(rs1, 2);
  loop.a_transpose = bit(rs2, 0);
  loop.b_transpose = bit(rs2, 1);
  loop.skip_a = bit(rs2, 3) || loop.a == 0;
  loop.skip_b = bit(rs2, 4) || loop.b == 0;
  loop.skip_d = bit(rs2, 5);
  loop.skip_compute = bit(rs2, 6) || loop.resadd;
  loop.skip_store = bit(rs2, 7);
  loop.to_scratchpad = bit(rs2, 9);
  loop.c_row = static_cast<uint32_t>(bits(rs2, 63, 32));
  loop.width = std::max(1, config_.dma_max_bytes / dim_);
  loop.acc_width = std::max(1, config_.dma_max_bytes / (4 * dim_));

  uint64_t act = bits(rs1, 10, 8);
  if (act == 2 || act == 4)
    return fail(Rejection::kFeatureNotBuilt, "act = %d needs the normalisation unit, which is not built",
                static_cast<int>(act));
  if (loop.I == 0 || loop.J == 0) return fail(Rejection::kBadSize, "I = %d and J = %d blocks", loop.I, loop.J);
  bool uses_a = !loop.skip_a || !loop.skip_compute, uses_b = !loop.skip_b || !loop.skip_compute;
  if (!loop.resadd && loop.K == 0 && (uses_a || uses_b)) return fail(Rejection::kBadSize, "K = 0 blocks");
  if (loop.pad_i >= dim_ || loop.pad_j >= dim_ || loop.pad_k >= dim_)
    return fail(Rejection::kBadSize, "pads of %d, %d, %d elements must be below DIM = %d", loop.pad_i, loop.pad_j,
                loop.pad_k, dim_);
  if (loop.resadd && loop.d != 0 && !loop.skip_d)
    return fail(Rejection::kIllegalFlags, "is_resadd with a D address");
  if (loop.resadd && (loop.a_transpose || loop.b_transpose))
    return fail(Rejection::kIllegalFlags, "is_resadd with a transpose");

  // Scratchpad: each operand in its half, A from the bottom and B up to the top.
  uint32_t half = static_cast<uint32_t>(config_.scratchpad_rows) / 2;
  int a_id = static_cast<int>(bits(rs1, 19, 18)), b_id = static_cast<int>(bits(rs1, 17, 16));
  if (a_id == 3 || b_id == 3) return fail(Rejection::kIllegalFlags, "a_spad_id = %d, b_spad_id = %d", a_id, b_id);
  uint32_t a_own = slot.placed ? slot.a_start : static_cast<uint32_t>(ws_slot_) * half;
  uint32_t b_own = slot.placed ? slot.b_end : static_cast<uint32_t>(ws_slot_ + 1) * half;
  loop.a_load = a_id == 0 ? a_own : static_cast<uint32_t>(a_id - 1) * half;
  loop.b_load_end = b_id == 0 ? b_own : static_cast<uint32_t>(b_id) * half;
  loop.a_compute = loop.to_scratchpad ? a_own : loop.a_load;
  loop.b_compute_end = loop.to_scratchpad ? b_own : loop.b_load_end;
  if (!loop.resadd) {
    int64_t a_rows = uses_a ? int64_t{loop.I} * loop.K * dim_ : 0;
    int64_t b_rows = uses_b ? int64_t{loop.K} * loop.J * dim_ : 0;
    int a_half = slot.placed ? -1 : 0, b_half = slot.placed ? -1 : 0;
    if (b_rows > loop.b_load_end)
      return fail(Rejection::kBadSize, "B takes %lld rows, but must end at row %u", static_cast<long long>(b_rows),
                  loop.b_load_end);
    if (!check_placement("A", {loop.a_load, a_rows}, a_half, "B", {loop.b_load_end - b_rows, b_rows}, b_half))
      return false;
  }

  // Accumulator: every phase toggles its own copy of the half when it starts (ISA 7).
  uint32_t acc_half = static_cast<uint32_t>(config_.accumulator_rows) / 2;
  if (int64_t{loop.I} * loop.J * dim_ > acc_half)
    return fail(Rejection::kBadSize, "C takes %lld rows, half of the accumulator has %u",
                static_cast<long long>(int64_t{loop.I} * loop.J * dim_), acc_half);
  bool advance = loop.to_scratchpad ? bit(rs2, 8) : loop.c != 0;
  loop.d_row = static_cast<uint32_t>(ws_half_load_) * acc_half;
  loop.compute_row = static_cast<uint32_t>(ws_half_compute_) * acc_half;
  loop.store_row = static_cast<uint32_t>(ws_half_store_) * acc_half;
  if (!loop.skip_d && loop.c != 0) ws_half_load_ ^= 1;
  if (advance && (!loop.skip_compute || (loop.resadd && !bit(rs2, 6)))) ws_half_compute_ ^= 1;
  if (advance && !loop.skip_store) ws_half_store_ ^= 1;
  if (loop.resadd) {
    loop.store_row = static_cast<uint32_t>(ws_slot_) * acc_half;  // resadd works in the slot's half
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
      uint64_t base = operand == 0 ? loop.a : loop.b, stride = operand == 0 ? loop.a_stride : loop.b_stride;
      uint32_t flags = kFlagAccumulator | (operand == 0 ? 0 : kFlagAccumulate);
      for (int j = 0; j < J; j += loop.width) {
        int n = std::min(loop.width, J - j);
        for (int i = 0; i < I; ++i)
          if (!issue(operand == 0 ? kMvin : kMvin2, loop.element(base, stride, i, j, 1),
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
        if (!issue(kMvin3, loop.element(loop.d, loop.d_stride, i, j, loop.low_d ? 1 : 4),
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
        uint64_t address = loop.a_transpose ? loop.element(loop.a, loop.a_stride, k, i, 1)
                                            : loop.element(loop.a, loop.a_stride, i, k, 1);
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
        uint64_t address = loop.b_transpose ? loop.element(loop.b, loop.b_stride, j, k, 1)
                                            : loop.element(loop.b, loop.b_stride, k, j, 1);
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
        done = issue(kMvout, loop.element(loop.c, loop.c_stride, i, j, loop.full_c ? 4 : 1), source);
      if (!done) return false;
    }
  }
  return true;
}

}  // namespace baco
