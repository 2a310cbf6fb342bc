#include "guard.h"

#include "fields.h"

namespace baco {

MemoryGuard::MemoryGuard(const Config& config, const Memory& memory) : memory_(memory), use_(config) {}

void MemoryGuard::accept(const Command& command) {
  if (command.funct != kLoopWs && command.funct != kLoopConv) return;
  Loop loop;
  loop.run = command;
  loop.number = ++runs_;
  waiting_[command.funct == kLoopConv].push_back(loop);
}

void MemoryGuard::loops(unsigned running) {
  for (unsigned n = 0; n < loops_.size(); ++n) {
    Loop& loop = loops_[n];
    const bool now = running >> n & 1;
    if (now && !loop.running && !waiting_[n / 2].empty()) {
      loop = waiting_[n / 2].front();
      waiting_[n / 2].pop_front();
    }
    loop.running = now;
  }
  if (suspicious_) settle();
}

void MemoryGuard::allocate(const Command& command, int loop) {
  bool outside = false;
  use_.follow(command, [&](uint64_t address, uint64_t bytes, bool) { outside |= !memory_.contains(address, bytes); });
  if (!outside) return;
  suspicious_ = true;
  if (loop >= 0) {
    loops_[static_cast<size_t>(loop)].faulted = true;
  } else if (!refused_) {
    refused_ = true;
    command_ = command;
  }
}

bool MemoryGuard::refused(Command& command) const {
  if (refused_) command = command_;
  return refused_;
}

void MemoryGuard::settle() {
  if (refused_) return;
  const Loop* first = nullptr;
  for (const Loop& loop : loops_)
    if ((loop.running || loop.faulted) && (first == nullptr || loop.number < first->number)) first = &loop;
  if (first == nullptr || first->running || !first->faulted) return;
  refused_ = true;
  command_ = first->run;
}

}  // namespace baco
