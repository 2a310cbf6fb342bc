#include "timed_load.h"

#include <algorithm>

namespace baco {

namespace {
constexpr uint64_t kAddresses = (uint64_t{1} << 40) - 1;  // they wrap
}  // namespace

TimedLoad::TimedLoad(const Config& config, TimedMemory& memory, TimedBanks& banks, TimedStation& station)
    : config_(config),
      dim_(static_cast<unsigned>(config.dim)),
      beat_(static_cast<unsigned>(config.dma_bits) / 8),
      chunk_(std::max(static_cast<unsigned>(config.dma_max_bytes), beat_)),
      row_bits_(local_row_bits(config)),
      memory_(memory),
      banks_(banks),
      station_(station),
      reads_(static_cast<size_t>(config.load_queue)),
      jobs_(static_cast<size_t>(config.load_queue)),
      sizes_(static_cast<size_t>(config.dma_requests)),
      turns_(std::max(1u, dim_ / static_cast<unsigned>(config.scale_lanes))) {}

void TimedLoad::accept(const TimedCommand& issued) {
  const Command& command = issued.command;
  const uint64_t rs1 = command.rs1, rs2 = command.rs2;
  Job job;
  job.row.entry = issued.entry;
  job.row.identity = true;
  if (command.funct == kConfig) {
    job.row.wide = bit(rs2, 31) && !states_[0].shrink;  // the Verilog takes its stride for a local address here
    State& state = states_[std::min<size_t>(2, bits(rs1, 4, 3))];
    state.stride = rs2 & kAddresses;
    state.block_stride = bits(rs1, 31, 16);
    state.repeats = static_cast<unsigned>(bits(rs1, 15, 8));
    state.scale = static_cast<uint32_t>(bits(rs1, 63, 32));
    state.shrink = bit(rs1, 2);
    state.packed = config_.packed_weights && bit(rs1, 5);
    state.block_element = block_element(config_, rs1);
    job.row.nothing = true;
    jobs_.push(job);
    return;
  }
  const State& state = states_[command.funct == kMvin3 ? 2 : command.funct == kMvin2 ? 1 : 0];
  const LocalAddress local = LocalAddress::decode(static_cast<uint32_t>(rs2), row_bits_);
  job.rows = static_cast<unsigned>(bits(rs2, 63, 48));
  job.cols = static_cast<unsigned>(bits(rs2, 47, 32));
  job.row.accumulator = local.accumulator;
  job.row.accumulate = local.accumulate;
  job.row.row = local.row;
  job.row.wide = local.accumulator && !state.shrink;
  job.row.packed = state.packed && !job.row.wide;
  job.row.repeats = state.repeats;
  job.row.repeated = config_.first_layer && !local.accumulator && state.repeats > 1;
  job.row.block_element = job.row.wide ? BlockElement::kNone : state.block_element;
  job.row.powers = brings_powers(job.row.block_element, rs2);
  job.zero = rs1 == 0;
  job.row.identity = job.zero || state.scale == 0x3f800000u ||
                     !(job.row.wide ? config_.mvin_scale_acc : config_.mvin_scale);
  job.replicate = job.zero || state.stride == 0;
  const uint64_t bytes_of_row = row_bytes(job.cols, job.row);
  const uint64_t gap = (state.stride - bytes_of_row) & kAddresses;
  job.merged = !job.replicate && gap < beat_;  // rows less than a beat apart: one span
  job.gap = static_cast<unsigned>(gap % beat_);
  job.offset = static_cast<unsigned>(rs1 % beat_);
  job.stride = static_cast<unsigned>(state.stride % beat_);
  job.block_stride = state.block_stride;
  jobs_.push(job);
  if (job.zero) return;
  const uint64_t bytes = bytes_of_row + (job.merged ? (job.rows - 1) * state.stride : 0);
  reads_.push({rs1, state.stride, bytes, job.merged || job.replicate ? 1u : job.rows});
}

bool TimedLoad::busy() const {
  return jobs_.valid() || walk_.valid || row_valid_ || held_ || flush_ || scaling_ || turn_ || write_valid_;
}

void TimedLoad::tick(uint64_t cycle) {
  align(repeat(scale(write(cycle))));
  request();
  reads_.tick();
  jobs_.tick();
  sizes_.tick();
  scaled_.tick();
}

// The row at the local memories; whether another one can come there.
bool TimedLoad::write(uint64_t cycle) {
  if (!write_valid_) return true;
  const uint32_t row = static_cast<uint32_t>(write_.row);
  const bool taken = write_.nothing || write_.powers || (write_.accumulator ? banks_.write_accumulator(row, write_.accumulate)
                                                           : banks_.write_scratchpad(row));
  if (taken && write_.last) station_.complete(cycle, kLoads, write_.entry);
  return taken;
}

const TimedLoad::Row* TimedLoad::copy() const {
  if (held_) return &window_;
  return row_valid_ && !row_.repeated && !flush_ ? &row_ : nullptr;
}

// Whether a row that is there now is taken.
bool TimedLoad::scale(bool land_ready) {
  const Row* const in = copy();
  const bool straight = in && in->identity && scaling_ == 0 && turn_ == 0;
  const bool steps = in && !straight && (!in->identity || !in->wide) && scaling_ != kRoom;
  const bool follows = steps && turn_ + 1 == turns_;
  const bool leaves = scaled_.valid() && land_ready;
  if (land_ready) {
    write_valid_ = scaled_.valid() || straight;
    if (scaled_.valid())
      write_ = scaled_.front();
    else if (straight)
      write_ = *in;
  }
  if (scaling_) {
    if (leaves) scaled_.pop();
    if (stage_valid_[kStages - 1]) scaled_.push(stage_[kStages - 1]);
    for (unsigned s = kStages - 1; s > 0; --s) {
      stage_valid_[s] = stage_valid_[s - 1];
      stage_[s] = stage_[s - 1];
    }
    stage_valid_[0] = false;
  }
  if (follows) {
    stage_valid_[0] = true;
    stage_[0] = *in;
  }
  if (steps) turn_ = follows ? 0 : turn_ + 1;
  scaling_ += follows;
  scaling_ -= leaves;
  return in && (straight ? land_ready : follows);
}

// Copies of packed pixels: a local row is a window over rows. Whether the row in front is taken.
bool TimedLoad::repeat(bool copy_taken) {
  const bool free = !held_ || copy_taken, flushing = flush_ > 0;
  const bool through = row_valid_ && !row_.repeated && !held_ && !flushing;
  const bool take = row_valid_ && row_.repeated && free && !flushing;
  if (free) {
    held_ = take || flushing;
    if (take) {
      const int64_t row = row_.first ? row_.row - (row_.repeats - 1) : window_.row + 1;
      window_ = row_;
      window_.row = row;
      window_.last = false;
      flush_ = row_.last ? row_.repeats - 1 : 0;
    } else if (flushing) {
      window_.last = flush_ == 1;
      ++window_.row;
      --flush_;
    }
    window_.nothing = window_.row < 0;
  }
  return take || (through && copy_taken);
}

uint64_t TimedLoad::row_bytes(unsigned cols, const Row& row) const {
  if (row.block_element != BlockElement::kNone) return block_row_bytes(row.block_element, row.powers, cols);
  return row.packed ? (uint64_t{cols} + 1) / 2 : uint64_t{cols} * element_bytes(row);
}

void TimedLoad::align(bool row_taken) {
  const bool room = !row_valid_ || row_taken;
  Walk& w = walk_;
  bool fire = false, ends_job = false, ends_block = false;
  took_beat_ = false;
  if (w.valid) {
    const bool fetches = !w.row.nothing && !w.zero && !w.replay;
    const unsigned unit = std::min(beat_, element_bytes(w.row) * dim_), taken = std::min(w.left, unit);
    ends_block = !fetches || w.left <= unit;
    const bool last_block = w.cols_left <= dim_, last_row = w.rows_left == 1;
    ends_job = w.row.nothing || (ends_block && last_block && last_row);
    const unsigned end = w.offset + taken;
    const bool crosses = (end - 1) / beat_ != 0, in_hold = w.share || loaded_;
    const bool ahead = !in_hold && crosses, needs = fetches && (!in_hold || crosses);
    fire = room && (!needs || (memory_.beat && !ahead));
    took_beat_ = memory_.beat && needs && (ahead || room);
    if (fire) {
      loaded_ = false;
      if (ends_block) {
        row_ = w.row;
        row_.first = !w.begun;
        row_.last = ends_job;
      }
      if (fetches) {
        w.offset = end % beat_;
        w.share = w.offset != 0;
      }
      if (!ends_block) {
        w.left -= unit;
      } else {
        w.begun = true;
        if (w.replicate && !last_row) {
          w.replay = true;
          --w.rows_left;
          ++w.row.row;
        } else if (!last_block) {
          w.replay = false;
          w.cols_left -= dim_;
          w.left = static_cast<unsigned>(row_bytes(std::min(w.cols_left, dim_), w.row));
          if (w.replicate) {
            w.rows_left = w.rows;
            w.group += static_cast<int64_t>(w.block_stride);
            w.row.row = w.group;
          } else {
            w.row.row += static_cast<int64_t>(w.block_stride);
          }
        } else {
          --w.rows_left;
          w.cols_left = w.cols;
          w.left = static_cast<unsigned>(row_bytes(std::min(w.cols, dim_), w.row));
          w.group += w.replicate ? static_cast<int64_t>(w.block_stride) : 1;
          w.row.row = w.group;
          w.start = (w.start + w.stride) % beat_;
          w.offset = w.start;
          w.share = w.merged && (end + w.gap) / beat_ == (end - 1) / beat_;
        }
      }
    } else if (took_beat_) {
      loaded_ = true;
    }
  }
  if (fire)
    row_valid_ = ends_block;
  else if (row_taken)
    row_valid_ = false;
  if (took_beat_) memory_.dram.take_beat();
  if (w.valid && !(fire && ends_job)) return;
  w.valid = jobs_.valid();
  if (!w.valid) return;
  static_cast<Job&>(w) = jobs_.front();
  jobs_.pop();
  w.begun = w.replay = w.share = false;
  w.start = w.offset;
  w.left = static_cast<unsigned>(row_bytes(std::min(w.cols, dim_), w.row));
  w.cols_left = w.cols;
  w.rows_left = w.rows;
  w.group = w.row.row;
}

void TimedLoad::request() {
  const bool offered = spans_ && in_flight_ != static_cast<unsigned>(config_.dma_requests);
  const bool accepted = offered && memory_.read_ready;
  uint64_t beats = 1;
  if (offered)
    while (beats * 2 * beat_ <= chunk_ && span_beat_ % (beats * 2) == 0 && span_left_ >= beats * 2) beats *= 2;
  if (took_beat_ && ++beats_seen_ == sizes_.front()) {
    beats_seen_ = 0;
    sizes_.pop();
    --in_flight_;
  }
  if (accepted) {
    memory_.dram.read(span_beat_ * beat_, static_cast<unsigned>(beats) * beat_);
    sizes_.push(static_cast<unsigned>(beats));
    ++in_flight_;
  }
  const bool span_ready = !spans_ || (accepted && span_left_ == beats);
  const bool job_ready = !walks_ || (span_ready && walked_.spans == 1);
  if (span_ready) {
    spans_ = walks_;
    if (walks_) {
      span_beat_ = walked_.address / beat_;
      span_left_ = (walked_.bytes + walked_.address % beat_ + beat_ - 1) / beat_;
      walked_.address = (walked_.address + walked_.stride) & kAddresses;
      --walked_.spans;
    }
  } else if (accepted) {
    span_beat_ += beats;
    span_left_ -= beats;
  }
  if (job_ready) {
    walks_ = reads_.valid();
    if (walks_) {
      walked_ = reads_.front();
      reads_.pop();
    }
  }
}

}  // namespace baco
