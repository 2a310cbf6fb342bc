#include "timed_execute.h"

#include <algorithm>

namespace baco {

TimedExecute::TimedExecute(const Config& config, TimedBanks& banks, TimedStation& station)
    : config_(config),
      dim_(static_cast<unsigned>(config.dim)),
      latency_(2 * dim_ / static_cast<unsigned>(config.tile_rows)),
      row_bits_(local_row_bits(config)),
      banks_(banks),
      station_(station),
      commands_(static_cast<size_t>(config.execute_queue)) {}

void TimedExecute::write(uint64_t cycle) {
  if (written_.empty() || written_.front().cycle > cycle) return;
  const Written& one = written_.front();
  if (one.at.accumulator)
    banks_.write_accumulator(one.row, one.at.accumulate);
  else
    banks_.write_scratchpad(one.row);
}

bool TimedExecute::idle() const {
  bool none = !products_.valid() && !exchanges_.valid() && !transposer_.full && !transposer_.started && m_index_ == 0 &&
              x_index_ == 0 && !flushing_;
  for (const Fetch& one : fetches_) none = none && !one.operations.valid() && !one.rows.valid();
  return none;
}

void TimedExecute::tick(uint64_t cycle) {
  const bool was_idle = idle(), drained = was_idle && remaining_ <= 2 && !active_c_ && !shadow_c_;
  // rows at the array: of the one operand that is transposed, those that leave the transposer
  std::array<bool, 3> raw, row, popped{}, taken{};
  for (size_t o = 0; o < 3; ++o) raw[o] = fetches_[o].rows.valid();
  Transposer& t = transposer_;
  const bool enters = (raw[kA] && transposed_[kA]) || (raw[kB] && transposed_[kB]) || (raw[kX] && transposed_[kX]);
  const bool takes = t.started ? t.entering : enters;
  for (size_t o = 0; o < 3; ++o) row[o] = transposed_[o] ? t.full && (!takes || enters) : raw[o];

  const bool m_valid = products_.valid();
  const Product product = m_valid ? products_.front() : Product{};
  const bool m_first = m_index_ == 0, m_last = m_index_ + 1 == product.waves;
  const bool m_go = m_valid && (!product.a || row[kA]) && (!product.b || row[kB]) && !flushing_ &&
                    (!m_first || !product.flip || shadow_full_);
  const bool m_flips = m_go && m_first && product.flip;
  const bool x_valid = exchanges_.valid(), x_real = x_valid && exchanges_.front();
  const bool flush_starts = os_ && !flushing_ && !m_valid && !x_valid && x_index_ == 0 && (active_c_ || shadow_c_) &&
                            quiet_ >= 2;
  const bool flips = m_flips || (flush_starts && !shadow_c_);
  const bool x_go = flushing_ || flush_starts ||
                    (x_valid && (!x_real || row[kX]) && (x_index_ != 0 || !shadow_full_ || flips));
  const bool x_last = x_index_ == dim_ - 1, m_pop = m_go && m_last, x_pop = x_go && x_last && !flushing_;
  popped[kA] = m_go && product.a;
  popped[kB] = m_go && product.b;
  popped[kX] = x_go && x_real && !flushing_ && !flush_starts;
  multiplying_ = m_go && product.a;

  const bool out_taken = (popped[kA] && transposed_[kA]) || (popped[kB] && transposed_[kB]) || (popped[kX] && transposed_[kX]);
  const bool runs = (t.started || enters || t.full) && (!takes || enters) && (!t.full || out_taken);
  for (size_t o = 0; o < 3; ++o) taken[o] = transposed_[o] ? runs && takes : popped[o];
  if (runs) {
    const bool last = t.step == dim_ - 1;
    t.step = last ? 0 : t.step + 1;
    t.started = !last;
    t.entering = takes;
    if (last) t.full = takes;
  }

  // what leaves the array with this wave
  const bool x_c = flips ? active_c_ : shadow_c_;
  const Target target = !os_ ? product.target : flips ? active_ : shadow_;
  const unsigned index = os_ ? x_index_ : m_index_;
  if ((os_ ? x_go && x_c : m_go && product.target.kept) && index < target.rows)
    written_.push_back({cycle + latency_ + 2, target.at, target.at.row + index * target.stride, index + 1 == target.rows,
                        target.entry});

  if (m_pop) station_.complete(cycle, kExecution, product.entry);
  decode(cycle, m_pop, was_idle, drained);
  if (!written_.empty() && written_.front().cycle == cycle) {
    if (written_.front().last) station_.complete(cycle, kExecution, written_.front().entry);
    written_.pop_front();
  }
  if (m_go && m_first && !product.target.kept) station_.complete(cycle, kExecution, product.target.entry);

  for (const size_t o : {size_t{kX}, size_t{kA}, size_t{kB}}) fetch(fetches_[o], taken[o] && raw[o]);

  if (m_go || x_go)
    remaining_ = latency_ + 1;
  else if (remaining_)
    --remaining_;
  quiet_ = m_go || x_go ? 0 : std::min(3u, quiet_ + 1);
  if (m_go) m_index_ = m_last ? 0 : m_index_ + 1;
  if (x_go) x_index_ = x_last ? 0 : x_index_ + 1;
  if (flush_starts) flushing_ = true;
  if (x_go && x_last) flushing_ = false;
  if (x_pop)
    shadow_full_ = true;
  else if (flips)
    shadow_full_ = false;
  const Target was_active = active_;
  const bool was_active_c = active_c_;
  if (m_pop && product.target.kept && os_) {
    active_c_ = true;
    active_ = product.target;
  } else if (flips) {
    active_c_ = false;
  }
  if (flips) {
    shadow_c_ = was_active_c;
    shadow_ = was_active;
  } else if (x_go && x_last) {
    shadow_c_ = false;
  }
  if (m_pop) products_.pop();
  if (x_pop) exchanges_.pop();
  products_.tick();
  exchanges_.tick();
  for (Fetch& one : fetches_) {
    one.operations.tick();
    one.rows.tick();
  }
  commands_.tick();
  last_written_ = !written_.empty() && written_.front().cycle == cycle + 1 && written_.front().last;
}

void TimedExecute::fetch(Fetch& from, bool taken) {
  if (taken) from.rows.pop();
  if (from.arrives) from.rows.push(0);
  from.arrives = false;
  if (from.operations.valid() && from.credits) {
    const Rows& rows = from.operations.front();
    from.arrives = from.index >= rows.rows || banks_.read_scratchpad(rows.base + from.index * rows.stride);
    if (from.arrives && ++from.index == rows.total) {
      from.index = 0;
      from.operations.pop();
    }
  }
  from.credits += taken;
  from.credits -= from.arrives;
}

void TimedExecute::decode(uint64_t cycle, bool done_taken, bool was_idle, bool drained) {
  if (!commands_.valid()) return;
  const TimedCommand& next = commands_.front();
  const uint64_t rs1 = next.command.rs1;
  switch (next.command.funct) {
    case kConfig: {
      const bool strides_only = bit(rs1, 7), os = config_.os && (!config_.ws || !bit(rs1, 2));
      if (preloaded_ || done_taken || !(strides_only || (was_idle && (os == config_os_ || drained)))) return;
      stride_a_ = static_cast<unsigned>(bits(rs1, 31, 16));
      stride_c_ = static_cast<unsigned>(bits(next.command.rs2, 63, 48));
      if (!strides_only) {
        config_os_ = os_ = os;
        a_transpose_ = bit(rs1, 8);
        b_transpose_ = bit(rs1, 9);
        transposed_ = {os ? !a_transpose_ : a_transpose_, os && b_transpose_, !os && b_transpose_};
      }
      station_.complete(cycle, kExecution, next.entry);
      commands_.pop();
      return;
    }
    case kPreload:
      preload_ = next;
      preloaded_ = true;
      commands_.pop();
      return;
    default:
      if (preloaded_ && !operate(next)) return;
      commands_.pop();
  }
}

// The operations of a pair, when all queues behind have room.
bool TimedExecute::operate(const TimedCommand& compute) {
  if (!products_.room() || !exchanges_.room()) return false;
  for (const Fetch& one : fetches_)
    if (!one.operations.room()) return false;
  const uint64_t rs1 = compute.command.rs1, rs2 = compute.command.rs2;
  const Operand a = Operand::decode(rs1, row_bits_), b = Operand::decode(rs2, row_bits_);
  const Operand x = Operand::decode(preload_.command.rs1, row_bits_), c = Operand::decode(preload_.command.rs2, row_bits_);
  const auto real = [](const Operand& one) { return !one.at.garbage; };
  const auto some = [](const Operand& one) { return !one.at.garbage && one.rows && one.cols; };
  const auto count = [](int value) { return static_cast<unsigned>(value); };
  const bool d_built = config_.preload_d || (config_.ws && config_.os);
  const bool fresh = compute.command.funct == kComputePreloaded;
  const bool op_x = some(x) && (!os_ || d_built);
  const bool zeros = !config_.floats() && !os_ && (fresh ? !op_x : zero_weights_);
  Product product;
  product.flip = fresh && !zeros;
  product.entry = compute.entry;
  product.target = {some(c), c.at, count(c.rows), stride_c_, preload_.entry};
  product.a = some(a) && !zeros;
  product.b = some(b) && (os_ || d_built);
  unsigned needed = 1;
  if (os_)
    needed = real(a) && real(b) ? count(std::min(a.cols, b.rows)) : 1;
  else
    needed = real(a) ? std::max(count(a.rows), product.target.kept ? count(c.rows) : 0)
                     : product.target.kept ? count(c.rows) : 1;
  const bool transposes = (transposed_[kA] && product.a) || (transposed_[kB] && product.b);
  product.waves = transposes ? dim_ : std::max(1u, needed);
  if (product.a)
    fetches_[kA].operations.push(
        {a.at.row, stride_a_, count(a_transpose_ ? a.cols : a.rows), transposed_[kA] ? dim_ : product.waves});
  if (product.b)
    fetches_[kB].operations.push(
        {b.at.row, 1, count(os_ && b_transpose_ ? b.cols : b.rows), transposed_[kB] ? dim_ : product.waves});
  if (product.flip) {
    exchanges_.push(op_x);
    if (op_x) fetches_[kX].operations.push({x.at.row, 1, count(!os_ && b_transpose_ ? x.cols : x.rows), dim_});
  }
  products_.push(product);
  zero_weights_ = zeros;
  preloaded_ = false;
  return true;
}

}  // namespace baco
