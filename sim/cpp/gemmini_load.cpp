#include "gemmini_load.h"

#include <algorithm>

namespace baco {

namespace {
constexpr size_t kRowQueue = 5;           // spad_read_delay + 1
constexpr uint64_t kPlacingCycles = 4;    // from the beat that completes a row to its write
constexpr size_t kPieceQueue = 6;
constexpr uint32_t kOne = 0x3f800000u;
constexpr unsigned kScaledPerCycle = 4;   // elements that the multipliers of mvin take in a cycle
}  // namespace

GemminiLoad::GemminiLoad(const Config& config, GemminiBus& bus, GemminiBanks& banks, GemminiStation& station)
    : dim_(static_cast<unsigned>(config.dim)),
      beat_bytes_(static_cast<unsigned>(config.dma_bits) / 8),
      max_bytes_(static_cast<unsigned>(config.dma_max_bytes)),
      queue_size_(static_cast<size_t>(config.load_queue)),
      bus_(bus),
      banks_(banks),
      station_(station),
      commands_(static_cast<size_t>(config.dma_requests / config.dim + 1)),
      reads_(static_cast<size_t>(config.dma_requests)) {
  for (unsigned i = 0; i < reads_.size(); ++i) free_reads_.push_back(i);
}

void GemminiLoad::tick() {
  place();
  write_zeros();
  receive();
  request();
  control();
  ++now_;
}

void GemminiLoad::returned(unsigned command, uint64_t bytes) {
  Tracked& tracked = commands_[command];
  tracked.bytes_left -= std::min(tracked.bytes_left, bytes);
  if (tracked.bytes_left) return;
  tracked.valid = false;
  --active_;
  station_.complete(0, tracked.entry);
}

void GemminiLoad::control() {
  if (queue_.empty() || queue_.front().ready > now_) return;
  const Command& command = queue_.front().command.command;
  if (command.funct == kConfig) {
    State& state = states_[std::min<uint64_t>(2, bits(command.rs1, 4, 3))];
    state.stride = command.rs2;
    state.scale = static_cast<uint32_t>(bits(command.rs1, 63, 32));
    state.shrink = bit(command.rs1, 2);
    state.block_stride = static_cast<uint32_t>(bits(command.rs1, 31, 16));
    state.repeats = std::max(1u, static_cast<unsigned>(bits(command.rs1, 15, 8)));
    queue_.pop_front();
    return;
  }
  const State& state = states_[command.funct == kMvin2 ? 1 : command.funct == kMvin3 ? 2 : 0];
  const LocalAddress to = banks_.local(command.rs2);
  const unsigned cols = static_cast<unsigned>(bits(command.rs2, 47, 32));
  const unsigned element = to.accumulator && !state.shrink ? 4 : 1;
  const bool zeros = command.rs1 == 0;
  const unsigned repeats = to.accumulator ? 1 : state.repeats;
  const uint64_t all_rows = bits(command.rs2, 63, 48);
  if (!sending_) {
    if (active_ == commands_.size()) return;
    command_ = 0;
    while (commands_[command_].valid) ++command_;
    rows_ = state.stride == 0 && !zeros ? 1 : all_rows;
    commands_[command_] = {true, queue_.front().command.entry, rows_ * cols * element};
    ++active_;
    sending_ = true;
    row_ = 0;
    if (rows_ == 0 || cols == 0) {
      returned(command_, 0);
      sending_ = false;
      queue_.pop_front();
      return;
    }
  }
  if (row_ < rows_) {
    const uint32_t row = to.row + static_cast<uint32_t>(row_);
    if (zeros) {
      if (zeros_.size() >= 2) return;
      zeros_.push_back({command_, cols * element, (cols + dim_ - 1) / dim_, row, to.accumulator});
    } else {
      if (rows_queue_.size() >= kRowQueue) return;
      const unsigned copies = state.stride == 0 ? static_cast<unsigned>(all_rows) : repeats;
      rows_queue_.push_back({(command.rs1 + row_ * state.stride) & kAddressMask, now_ + 1, cols * element, command_,
                             element, copies, row,
                             state.block_stride, to.accumulator, element == 1 && state.scale != kOne});
    }
    ++row_;
    if (row_ < rows_ || rows_ == 1) return;  // a load of one row takes a second cycle
  }
  sending_ = false;
  queue_.pop_front();
}

// The reader: one read a cycle, the one that brings the most bytes of what the row still needs, the smallest of those.
void GemminiLoad::request() {
  if (!translating_.empty() && translating_.front().ready <= now_ && bus_.get_ready()) {
    bus_.get(translating_.front().address, translating_.front().bytes, translating_.front().source);
    translating_.pop_front();
  }
  if (reading_ && !free_reads_.empty() && translating_.size() < kTranslationCycles) {
    const uint64_t address = reader_row_.address + requested_;
    const unsigned left = reader_row_.bytes - requested_;
    unsigned size = 0, useful = 0;
    for (unsigned s = beat_bytes_; s <= max_bytes_; s *= 2) {
      const unsigned offset = static_cast<unsigned>(address & (s - 1)), got = std::min(s - offset, left);
      if (got > useful) size = s, useful = got;
    }
    const unsigned source = free_reads_.front();
    free_reads_.pop_front();
    const unsigned row_bytes = dim_ * reader_row_.element_bytes;
    reads_[source] = {true, reader_row_, static_cast<unsigned>(address & (size - 1)), useful, size / beat_bytes_,
                      requested_ % row_bytes, requested_ / row_bytes};
    translating_.push_back({now_ + kTranslationCycles, address & ~uint64_t{size - 1}, size, source});
    requested_ += useful;
    if (requested_ == reader_row_.bytes) reading_ = false;
  }
  if (!reading_ && !rows_queue_.empty() && rows_queue_.front().ready <= now_) {
    reader_row_ = rows_queue_.front();
    rows_queue_.pop_front();
    reading_ = true;
    requested_ = 0;
  }
}

// Takes a beat and finds the local rows that it completes.
void GemminiLoad::receive() {
  GemminiBus::Beat beat;
  if (!bus_.beat(beat)) return;
  Read& read = reads_[beat.source];
  std::deque<Piece>& pieces = lanes_[read.row.element_bytes == 4].pieces;
  if (pieces.size() >= kPieceQueue) return;
  bus_.take_beat();
  const auto useful = [&](unsigned beats) {
    const unsigned bytes = beats * beat_bytes_;
    return std::min(bytes > read.shift ? bytes - read.shift : 0, read.bytes);
  };
  const unsigned before = useful(merged_), now = useful(++merged_);
  const unsigned row_bytes = dim_ * read.row.element_bytes;
  // where local rows end within the read
  for (unsigned end = std::min(row_bytes - read.row_offset, read.bytes), start = 0; start < read.bytes;
       start = end, end = std::min(end + row_bytes, read.bytes)) {
    if (end <= before || end > now) continue;
    const unsigned elements = (end - start) / read.row.element_bytes;
    const unsigned scaling = read.row.scaled ? (std::max(elements, dim_) + kScaledPerCycle - 1) / kScaledPerCycle : 1;
    pieces.push_back({now_ + kPlacingCycles, read.row.command, end - start, std::max(scaling, read.row.repeats),
                       read.row.row + (read.first_block + (start ? (start + read.row_offset) / row_bytes : 0)) * read.row.block_stride,
                       read.row.accumulator});
  }
  if (!beat.last) return;
  merged_ = 0;
  read.valid = false;
  free_reads_.push_back(beat.source);
}

// Rows of words go past the scaler of bytes. A row that is written several times takes a cycle for each.
void GemminiLoad::place() {
  for (Lane& lane : lanes_) {
    if (lane.pieces.empty() || lane.pieces.front().ready > now_) continue;
    const Piece& piece = lane.pieces.front();
    if (!piece.accumulator) banks_.scratchpad_written |= uint64_t{1} << banks_.scratchpad_bank(piece.row);
    if (++lane.spent < piece.cycles) continue;
    lane.spent = 0;
    returned(piece.command, piece.bytes);
    lane.pieces.pop_front();
  }
}

void GemminiLoad::write_zeros() {
  if (zeros_.empty()) return;
  Zeros& zeros = zeros_.front();
  if (!zeros.accumulator) {
    const uint64_t bank = uint64_t{1} << banks_.scratchpad_bank(zeros.row);
    if (banks_.scratchpad_written & bank) return;
    banks_.scratchpad_written |= bank;
  }
  if (++zero_block_ < zeros.blocks) return;
  zero_block_ = 0;
  returned(zeros.command, zeros.bytes);
  zeros_.pop_front();
}

}  // namespace baco
