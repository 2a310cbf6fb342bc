// A queue between two registers of our accelerator, as baco_fifo.v: what is pushed can be seen in the next cycle, and room
// that a pop makes can be used in the next cycle.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace baco {

template <class Item>
class TimedQueue {
 public:
  explicit TimedQueue(size_t depth) : items_(depth) {}

  // As the cycle began.
  bool valid() const { return seen_ > 0; }
  bool room() const { return seen_ < items_.size(); }
  const Item& front() const { return items_[head_]; }
  // At most once a cycle each.
  void push(Item item) {
    items_[tail_] = std::move(item);
    tail_ = tail_ + 1 == items_.size() ? 0 : tail_ + 1;
    ++count_;
  }
  void pop() {
    head_ = head_ + 1 == items_.size() ? 0 : head_ + 1;
    --count_;
  }
  // The cycle ends.
  void tick() { seen_ = count_; }

 private:
  std::vector<Item> items_;
  size_t head_ = 0, tail_ = 0, count_ = 0, seen_ = 0;
};

}  // namespace baco
