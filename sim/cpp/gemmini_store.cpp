#include "gemmini_store.h"

#include <algorithm>

namespace baco {

namespace {
constexpr size_t kDispatchQueue = 2, kScaleQueue = 8, kIssueQueue = 5;
constexpr uint64_t kRowReadCycles = 3;      // from the read of a local row to the scaling pipeline
constexpr uint64_t kScaleCycles = 8;
constexpr uint64_t kScratchpadCycles = 2;   // of rows that are not scaled
}  // namespace

GemminiStore::GemminiStore(const Config& config, GemminiBus& bus, GemminiBanks& banks, GemminiStation& station)
    : dim_(static_cast<unsigned>(config.dim)),
      beat_bytes_(static_cast<unsigned>(config.dma_bits) / 8),
      max_bytes_(static_cast<unsigned>(config.dma_max_bytes)),
      writes_(static_cast<unsigned>(config.dma_requests)),
      queue_size_(static_cast<size_t>(config.store_queue)),
      bus_(bus),
      banks_(banks),
      station_(station),
      commands_(static_cast<size_t>(config.dma_requests / config.dim + 1)) {}

void GemminiStore::tick() {
  puts_in_flight_ -= bus_.acknowledged();
  write();
  scale();
  dispatch();
  control();
  ++now_;
}

void GemminiStore::configure(const Command& command) {
  const uint64_t rs1 = command.rs1;
  if ((rs1 & 3) != 2) return;  // constants of normalisations
  stride_ = bits(command.rs2, 31, 0);
  pool_size_ = static_cast<unsigned>(bits(rs1, 7, 6));
  pool_stride_ = static_cast<unsigned>(bits(rs1, 5, 4));
  if (!pool_size_ && !pool_stride_) return;
  out_dim_ = static_cast<unsigned>(bits(rs1, 31, 24));
  orows_ = static_cast<unsigned>(bits(rs1, 55, 48));
  ocols_ = static_cast<unsigned>(bits(rs1, 63, 56));
  if (!pool_stride_) return;
  porows_ = static_cast<unsigned>(bits(rs1, 39, 32));
  pocols_ = static_cast<unsigned>(bits(rs1, 47, 40));
  upad_ = static_cast<unsigned>(bits(rs1, 9, 8));
  lpad_ = static_cast<unsigned>(bits(rs1, 11, 10));
}

void GemminiStore::control() {
  if (queue_.empty() || queue_.front().ready > now_) return;
  const Command& command = queue_.front().command.command;
  if (command.funct == kConfig) {
    configure(command);
    queue_.pop_front();
    return;
  }
  const LocalAddress from = banks_.local(command.rs2);
  const unsigned cols = static_cast<unsigned>(bits(command.rs2, 47, 32));
  const unsigned blocks = std::max(1u, (cols + dim_ - 1) / dim_);
  const bool pooled = pool_stride_ != 0, gathered = pool_size_ != 0 && !pooled;
  const unsigned element = from.accumulator && from.read_full ? 4 : 1;
  if (!sending_) {
    if (active_ == commands_.size()) return;
    command_ = 0;
    while (commands_[command_].valid) ++command_;
    steps_ = pooled     ? uint64_t{porows_} * pocols_ * pool_size_ * pool_size_
             : gathered ? uint64_t{orows_} * ocols_
                        : bits(command.rs2, 63, 48) * blocks;
    commands_[command_] = {true, queue_.front().command.entry, steps_};
    ++active_;
    sending_ = true;
    step_ = 0;
  }
  if (step_ < steps_) {
    if (dispatch_.size() >= kDispatchQueue) return;
    Block block{now_ + 1, command.rs1, command_, cols * element, 0, from, true};
    if (pooled) {
      const unsigned window = pool_size_ * pool_size_;
      const unsigned w = static_cast<unsigned>(step_ % window), p = static_cast<unsigned>(step_ / window);
      const int row = static_cast<int>(p / pocols_ * pool_stride_ + w / pool_size_) - static_cast<int>(upad_);
      const int col = static_cast<int>(p % pocols_ * pool_stride_ + w % pool_size_) - static_cast<int>(lpad_);
      block.at.garbage = row < 0 || col < 0 || row >= static_cast<int>(orows_) || col >= static_cast<int>(ocols_);
      if (!block.at.garbage) block.at.row += static_cast<uint32_t>(row * static_cast<int>(ocols_) + col);
      block.address += (uint64_t{p / pocols_} * out_dim_ + p % pocols_) * stride_;
      block.stores = w == window - 1;
    } else if (gathered) {
      block.at.row += static_cast<uint32_t>(step_);
      block.address += (step_ / ocols_ * out_dim_ + step_ % ocols_) * stride_;
    } else {
      block.block = static_cast<unsigned>(step_ % blocks);
      block.at.row += static_cast<uint32_t>(step_ / blocks) + block.block * dim_;
      block.address += step_ / blocks * stride_;
      block.stores = block.block + 1 == blocks;
    }
    block.address &= kAddressMask;
    dispatch_.push_back(block);
    ++step_;
    if (step_ < steps_ || steps_ == 1) return;  // one that asks for a single row takes a second cycle
  }
  sending_ = false;
  queue_.pop_front();
}

// Reads a local row: a store is done with the station when its last row has been read.
void GemminiStore::dispatch() {
  if (dispatch_.empty() || dispatch_.front().ready > now_ || scale_.size() >= kScaleQueue) return;
  Block block = dispatch_.front();
  if (!block.at.garbage) {
    const uint64_t bank = uint64_t{1} << (block.at.accumulator ? banks_.accumulator_bank(block.at.row)
                                                               : banks_.scratchpad_bank(block.at.row));
    if ((block.at.accumulator ? banks_.accumulator_used : banks_.scratchpad_written | banks_.scratchpad_read) & bank)
      return;
  }
  dispatch_.pop_front();
  Tracked& tracked = commands_[block.command];
  if (--tracked.left == 0) {
    tracked.valid = false;
    --active_;
    station_.complete(2, tracked.entry);
  }
  block.ready = now_ + kRowReadCycles;
  scale_.push_back(block);
}

void GemminiStore::scale() {
  if (scale_.empty() || scale_.front().ready > now_ || issue_.size() >= kIssueQueue) return;
  Block block = scale_.front();
  scale_.pop_front();
  block.ready = now_ + (block.at.accumulator && !block.at.garbage ? kScaleCycles : kScratchpadCycles);
  issue_.push_back(block);
}

void GemminiStore::write() {
  if (!translating_.empty() && translating_.front().ready <= now_ && bus_.put_ready()) {
    const Beat& beat = translating_.front();
    bus_.put(beat.address, beat.bytes, beat.first, beat.last, beat.enabled);
    translating_.pop_front();
  }
  if (!beats_.empty() && translating_.size() < kTranslationCycles && (!beats_.front().first || puts_in_flight_ < writes_)) {
    Beat beat = beats_.front();
    beats_.pop_front();
    puts_in_flight_ += beat.first;
    beat.ready = now_ + kTranslationCycles;
    translating_.push_back(beat);
  }
  writer_busy_ = !beats_.empty() || !translating_.empty();
  if (!beats_.empty() || issue_.empty() || issue_.front().ready > now_) return;
  const Block block = issue_.front();
  issue_.pop_front();
  if (!block.stores) return;
  // the row, in writes that cover the most of what is left
  unsigned left = block.bytes;
  for (uint64_t address = block.address; left > 0;) {
    unsigned size = 0, covered = 0;
    for (unsigned s = beat_bytes_; s <= max_bytes_; s *= 2) {
      const unsigned offset = static_cast<unsigned>(address & (s - 1)), got = std::min(s - offset, left);
      if (got > covered) size = s, covered = got;
    }
    const unsigned count = size / beat_bytes_;
    for (unsigned i = 0; i < count; ++i)
      beats_.push_back({0, address & ~uint64_t{size - 1}, size, i == 0 ? covered : 0, i == 0, i + 1 == count});
    address += covered;
    left -= covered;
  }
  writer_busy_ = true;
}

}  // namespace baco
