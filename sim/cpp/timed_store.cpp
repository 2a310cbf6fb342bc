#include "timed_store.h"

#include <algorithm>

namespace baco {

TimedStore::TimedStore(const Config& config, TimedMemory& memory, TimedBanks& banks, TimedStation& station)
    : config_(config),
      dim_(static_cast<unsigned>(config.dim)),
      element_bytes_(static_cast<unsigned>(config.element_bytes())),
      bus_(static_cast<unsigned>(config.dma_bits) / 8),
      lane_bytes_(std::min(element_bytes_ * std::min(dim_, static_cast<unsigned>(config.scale_lanes)), bus_)),
      slice_bytes_(std::min(4 * dim_, bus_)),
      row_bits_(local_row_bits(config)),
      most_beats_(std::min(511u, static_cast<unsigned>(config.dma_requests) *
                                     std::max(1u, static_cast<unsigned>(config.dma_max_bytes) / bus_))),
      memory_(memory),
      banks_(banks),
      station_(station),
      limiting_(config.requantization ? 1 : 0),
      commands_(static_cast<size_t>(config.store_queue)),
      credits_(kSlices + limiting_),
      slices_(kSlices + limiting_) {}

void TimedStore::configure(const Command& command) {
  const uint64_t rs1 = command.rs1;
  if (command.funct != kConfig || (rs1 & 3) != 2) return;
  const bool pools = config_.max_pool && bits(rs1, 5, 4);
  const auto field = [rs1](int high, int low) { return static_cast<unsigned>(bits(rs1, high, low)); };
  stride_ = bits(command.rs2, 31, 0);
  windowed_ = pools || bits(rs1, 7, 6);
  image_rows_ = field(55, 48);
  image_cols_ = field(63, 56);
  line_stride_ = stride_ * bits(rs1, 31, 24);
  edge_ = pools ? field(7, 6) : 1;
  step_ = pools ? field(5, 4) : 1;
  pad_top_ = pools ? field(9, 8) : 0;
  pad_left_ = pools ? field(11, 10) : 0;
  pooled_rows_ = pools ? field(39, 32) : image_rows_;
  pooled_cols_ = pools ? field(47, 40) : image_cols_;
}

void TimedStore::start(const Command& command) {
  const LocalAddress local = LocalAddress::decode(static_cast<uint32_t>(command.rs2), row_bits_);
  Walk w;
  w.to_scratchpad = command.funct == kMvoutScratchpad;
  w.accumulator = local.accumulator;
  w.full = local.accumulator && local.read_full && !w.to_scratchpad;
  w.windowed = windowed_ && !w.to_scratchpad;
  w.row = local.row;
  w.address = w.to_scratchpad ? bits(command.rs1, row_bits_ - 1, 0) * dim_ * element_bytes_ : command.rs1;
  w.stride = w.to_scratchpad ? bits(command.rs1, 63, 32) * dim_ * element_bytes_ : stride_;
  w.rows = static_cast<unsigned>(bits(command.rs2, 55, 48));
  w.cols = static_cast<unsigned>(bits(command.rs2, 47, 32));
  w.blocks = (w.cols + dim_ - 1) / dim_;
  walk_ = w;
  active_ = true;
}

TimedStore::Item TimedStore::item() const {
  const Walk& w = walk_;
  Item found;
  found.accumulator = w.accumulator;
  found.full = w.full;
  found.to_scratchpad = w.to_scratchpad;
  const bool last_block = w.block + 1 == w.blocks;
  found.bytes = (last_block ? w.cols - w.block * dim_ : dim_) * (w.full ? 4 : element_bytes_);
  if (!w.windowed) {
    found.row = w.row + w.line + w.block * dim_;
    found.address = w.address + w.line * w.stride + uint64_t{w.block} * dim_ * (w.full ? 4 : element_bytes_ * (w.to_scratchpad ? dim_ : 1));
    found.last = last_block && w.line + 1 == w.rows;
    return found;
  }
  const int row = static_cast<int>(w.line * step_ + w.window_row) - static_cast<int>(pad_top_);
  const int col = static_cast<int>(w.pixel * step_ + w.window_col) - static_cast<int>(pad_left_);
  found.zero = row < 0 || col < 0 || row >= static_cast<int>(image_rows_) || col >= static_cast<int>(image_cols_);
  found.row = w.row + static_cast<uint32_t>(row * static_cast<int>(image_cols_) + col);
  found.address = w.address + w.line * line_stride_ + w.pixel * w.stride;
  found.emit = w.window_row + 1 == edge_ && w.window_col + 1 == edge_;
  found.last = found.emit && w.line + 1 == pooled_rows_ && w.pixel + 1 == pooled_cols_;
  return found;
}

void TimedStore::advance() {
  Walk& w = walk_;
  if (!w.windowed) {
    if (++w.block < w.blocks) return;
    w.block = 0;
    ++w.line;
    return;
  }
  if (++w.window_col < edge_) return;
  w.window_col = 0;
  if (++w.window_row < edge_) return;
  w.window_row = 0;
  if (++w.pixel < pooled_cols_) return;
  w.pixel = 0;
  ++w.line;
}

bool TimedStore::convert_busy(uint64_t cycle) const {
  return late_ || source_ || !pipe_.empty() || slices_.valid() || cycle < converting_until_;
}

bool TimedStore::busy() const {
  return commands_.valid() || done_ || active_ || draining_ || convert_busy(now_) || spad_write_ || held_ || request_ ||
         in_flight_ > 0;
}

void TimedStore::tick(uint64_t cycle) {
  const bool converting = convert_busy(cycle), drained = !converting && !spad_write_;
  if (done_) station_.complete(cycle, kStores, done_entry_);
  done_ = false;
  pack(active_ || converting);
  while (!pipe_.empty() && pipe_.front().due <= cycle) {
    slices_.push(pipe_.front().slice);
    pipe_.pop_front();
  }
  walk(cut(cycle), drained, !converting);
  credits_ += earned_;
  arrives_ = earned_ = false;
  commands_.tick();
  slices_.tick();
  now_ = cycle + 1;
}

bool TimedStore::cut(uint64_t cycle) {
  const bool is_short = !config_.accumulator_scale || config_.floats() || !cutting_.accumulator || cutting_.full;
  const bool flows = credits_ > 1 && !scaling(cycle) && (!source_ || is_short);
  room_next_ = late_ ? flows && late_item_.bytes <= lane_bytes_ : !source_;
  if (!source_) return true;
  if ((cutting_.emit && credits_ == 0) || (is_short && scaling(cycle))) return false;
  const unsigned size = cutting_.full ? slice_bytes_ : lane_bytes_, bytes = std::min(size, cutting_.bytes);
  if (!late_) room_next_ = cutting_.bytes <= size || (flows && cutting_.bytes <= 2 * size);
  if (cutting_.emit) {
    pipe_.push_back({cycle + (is_short ? 2 : 5 + limiting_), {cutting_.address, bytes, cutting_.to_scratchpad}});
    --credits_;
  }
  if (!is_short) {
    scaled_ = true;
    last_scaled_ = cycle;
  }
  converting_until_ = cycle + (is_short ? 2 : 5 + limiting_);
  cutting_.address += size;
  cutting_.bytes -= bytes;
  if (cutting_.bytes) return false;
  source_ = false;
  return true;
}

void TimedStore::walk(bool room, bool drained, bool empty) {
  bool finishing = false;
  const bool was_late = late_;
  if (late_) {
    source_ = true;
    cutting_ = late_item_;
    late_ = false;
  }
  if (active_) {
    const Item one = item();
    const bool taken = one.accumulator ? room && !was_late && (one.zero || banks_.read_accumulator(one.row))
                                       : room_next_ && (one.zero || banks_.read_scratchpad(one.row));
    if (taken) {
      (one.accumulator ? source_ : late_) = true;
      (one.accumulator ? cutting_ : late_item_) = one;
      finishing = one.last;
      advance();
    }
  }
  const bool to_scratchpad = walk_.to_scratchpad, idle = !active_ && !draining_;
  if (finishing) active_ = false;
  if (finishing && !to_scratchpad) {
    done_ = true;
    done_entry_ = entry_;
  }
  if (draining_ && drained) {
    draining_ = false;
    done_ = true;
    done_entry_ = entry_;
  }
  if (finishing && to_scratchpad) draining_ = true;

  const bool queued = commands_.valid(), any = queued || arrives_;
  const TimedCommand next = queued ? commands_.front() : arriving_;
  const bool output = any && (next.command.funct == kConfigOutput || next.command.funct == kSetScales);
  const bool at_once = output || (any && next.command.funct == kConfig);
  const bool take = any && (output ? idle && empty : idle || (finishing && !to_scratchpad && !at_once));
  if (arrives_ && (queued || !take)) commands_.push(arriving_);
  if (!take) return;
  if (queued) commands_.pop();
  if (at_once) {
    configure(next.command);
    done_ = true;
    done_entry_ = next.entry;
  } else {
    start(next.command);
    entry_ = next.entry;
  }
}

bool TimedStore::write_scratchpad() {
  if (!spad_write_ || banks_.write_scratchpad(spad_row_)) {
    spad_write_ = false;
    return true;
  }
  return false;
}

void TimedStore::pack(bool more) {
  const bool spad_free = write_scratchpad();
  const bool any = slices_.valid();
  const Slice slice = any ? slices_.front() : Slice{};
  if (any && slice.to_scratchpad && spad_free) {
    spad_write_ = true;
    spad_row_ = static_cast<uint32_t>(slice.address / (dim_ * element_bytes_));
    slices_.pop();
    earned_ = true;
  }
  const bool valid = any && !slice.to_scratchpad;
  const uint64_t beat = slice.address / bus_;
  const unsigned offset = static_cast<unsigned>(slice.address % bus_), reach = offset + slice.bytes;
  const bool to_end = reach >= bus_, crosses = reach > bus_, same = held_ && held_beat_ == beat, elsewhere = held_ && !same;
  const bool offered = request_ && in_flight_ != most_beats_, accepted = offered && memory_.write_ready;
  const bool free = !request_ || accepted;
  const bool send_held = free && held_ && (valid ? !same : held_to_end_ || !more);
  const bool send_slice = free && valid && !elsewhere && to_end;
  const bool take = valid && (elsewhere ? free && !crosses : !to_end || free);
  sent_beat_ = accepted;
  if (accepted) {
    memory_.dram.write(request_beat_ * bus_, nullptr, request_mask_);
    ++in_flight_;
  }
  if (memory_.acknowledged) --in_flight_;
  if (send_held) {
    request_beat_ = held_beat_;
    request_mask_ = held_mask_;
  }
  if (take) {
    // bytes of this beat and of the next one
    const auto ones = [](unsigned count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; };
    uint64_t mask = (ones(std::min(reach, bus_)) & ~ones(offset)) | (same ? held_mask_ : 0);
    const uint64_t rest = crosses ? ones(reach - bus_) : 0;
    if (send_slice) {
      request_beat_ = beat;
      request_mask_ = mask;
      held_beat_ = beat + 1;
      held_mask_ = rest;
    } else {
      held_beat_ = beat;
      held_mask_ = mask;
    }
    held_ = send_slice ? crosses : true;
    held_to_end_ = !send_slice && to_end;
    slices_.pop();
    earned_ = true;
  } else if (send_held) {
    held_ = false;
  }
  if (free) request_ = send_held || send_slice;
}

}  // namespace baco
