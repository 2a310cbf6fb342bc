#include "simulation.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

namespace baco {

namespace {

constexpr uint64_t kAloneCycles = 1 << 16;  // how long the host core runs between checks while all else rests

}  // namespace

void Watchdog::check(const Engine& engine, uint64_t progress) {
  const uint64_t cycle = engine.cycle();
  if (const std::string error = engine.error(); !error.empty()) throw Stopped("refused", error);
  if (progress != progress_) {
    progress_ = progress;
    moved_at_ = cycle;
  } else if (options_.stall_cycles && cycle - moved_at_ >= options_.stall_cycles) {
    throw Stopped("stall", "nothing has moved for " + std::to_string(cycle - moved_at_) + " cycles");
  }
  if (options_.max_cycles && cycle >= options_.max_cycles)
    throw Stopped("max_cycles", "the limit of " + std::to_string(options_.max_cycles) + " cycles is reached");
  if (options_.timeout_seconds <= 0 || cycle < next_clock_) return;
  next_clock_ = cycle + kClockCycles;
  if (seconds() >= options_.timeout_seconds) {
    char text[80];
    std::snprintf(text, sizeof text, "the time limit of %g s is reached", options_.timeout_seconds);
    throw Stopped("timeout", text);
  }
}

void Watchdog::check(const std::vector<Engine*>& engines, uint64_t progress) {
  for (const Engine* engine : engines) {
    if (engine != engines.back())
      if (const std::string error = engine->error(); !error.empty()) throw Stopped("refused", error);
    progress += engine->progress();
  }
  check(*engines.back(), progress);
}

uint64_t Watchdog::most_cycles(const Engine& engine) const {
  if (!options_.max_cycles) return kAloneCycles;
  const uint64_t left = options_.max_cycles > engine.cycle() ? options_.max_cycles - engine.cycle() : 1;
  return std::min(left, kAloneCycles);
}

void load_image(const std::string& path, Memory& memory) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw std::runtime_error("cannot read the image " + path);
  uint64_t record[2];
  while (std::fread(record, sizeof record, 1, file.get()) == 1) {
    const auto [address, bytes] = record;
    if (std::fread(memory.at(address, bytes, "the program's image"), 1, bytes, file.get()) != bytes)
      throw std::runtime_error("the image " + path + " is cut off");
  }
}

void dump_memory(const std::string& ranges, const std::string& path, Memory& memory) {
  std::ifstream text(ranges);
  if (!text) throw std::runtime_error("cannot read the ranges " + ranges);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) throw std::runtime_error("cannot write " + path);
  for (uint64_t address, bytes; text >> address >> bytes;)
    if (bytes && std::fwrite(memory.at(address, bytes, "a dump"), 1, bytes, file.get()) != bytes)
      throw std::runtime_error("cannot write " + path);
  if (std::fflush(file.get())) throw std::runtime_error("cannot write " + path);
}

void run_stream(StreamPlayer& player, Engine& engine, Watchdog& watchdog) {
  uint64_t next_check = 0;
  while (!player.done() || engine.busy()) {
    if (!player.done()) player.cycle();
    engine.tick();
    if (engine.cycle() < next_check) continue;
    next_check = engine.cycle() + kCheckCycles;
    watchdog.check(engine, engine.progress() + player.position());
  }
  if (const std::string error = engine.error(); !error.empty()) throw Stopped("refused", error);
}

void run_program(Host& host, Engine& engine, Watchdog& watchdog) {
  uint64_t next_check = 0;
  while (!host.exited()) {
    // the host core alone is much faster than cycle by cycle with an accelerator that rests
    const uint64_t passed = engine.quiet() ? host.run_alone(watchdog.most_cycles(engine)) : 0;
    if (passed) {
      engine.skip(passed);
    } else {
      host.cycle();
      engine.tick();
    }
    if (engine.cycle() < next_check) continue;
    next_check = engine.cycle() + kCheckCycles;
    watchdog.check(engine, engine.progress() + host.counts().instructions);
  }
  if (const std::string error = engine.error(); !error.empty()) throw Stopped("refused", error);
}

void run_soc(Soc& soc, Watchdog& watchdog) {
  while (!soc.exited()) {
    for (uint64_t i = 0; i < kCheckCycles && !soc.exited(); ++i) soc.tick();
    watchdog.check(soc, soc.progress());
  }
}

void run_harts(const std::vector<Host*>& hosts, const std::vector<Engine*>& engines, Watchdog& watchdog,
               size_t& running) {
  const auto exited = [&] { return std::any_of(hosts.begin(), hosts.end(), [](const Host* host) { return host->exited(); }); };
  const auto check = [&] {
    uint64_t instructions = 0;
    for (const Host* host : hosts) instructions += host->counts().instructions;
    watchdog.check(engines, instructions);
  };
  uint64_t cycle = 0, next_check = 0, behind = 0;  // cycles that cores have passed alone, of which the engines have not been told
  const auto tell = [&] {
    for (Engine* engine : engines) engine->skip(behind);
    behind = 0;
  };
  bool rest = false;  // all accelerators, until one is offered something
  while (!exited()) {
    if (!rest) rest = std::all_of(engines.begin(), engines.end(), [](const Engine* engine) { return engine->quiet(); });
    uint64_t passed = 1;
    if (rest) {
      passed = kCheckCycles;
      for (const Host* host : hosts) passed = std::min(passed, std::max<uint64_t>(1, host->resting()));
    }
    for (running = 0; running < hosts.size(); ++running) {
      if (rest && hosts[running]->run_alone(passed)) continue;
      if (rest) tell();  // it comes to a command: a cycle for all
      rest = false;
      hosts[running]->cycle();
    }
    running = 0;
    if (rest) {
      behind += passed;
    } else {
      for (Engine* engine : engines) engine->tick();
    }
    cycle += passed;
    if (cycle < next_check) continue;
    tell();
    next_check = cycle + kCheckCycles;
    check();
  }
  tell();
  for (const Engine* engine : engines)
    if (const std::string error = engine->error(); !error.empty()) throw Stopped("refused", error);
}

}  // namespace baco
