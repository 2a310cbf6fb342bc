// Runs the host core for tests/sim/test_host*.py, with an accelerator made up here.
//
//   host_driver table              cases from standard input, one a line, one result line each
//   host_driver run IMAGE BASE ENTRY TOHOST FROMHOST MAX_CYCLES [alone]
//                                  a flat image; console to standard output, the last line of it is a summary
//
// A case: WORD FCSR DATA [REGISTER VALUE]..., all hexadecimal; registers 0x00..0x1f are x, 0x20..0x3f are f. WORD is
// executed at kCode, the 8 bytes at kData hold DATA. Its result: next pc, mcause (0 if it did not trap), mtval, fcsr,
// the 8 bytes, and every register that has changed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <sstream>
#include <string>

#include "host.h"

namespace {

constexpr uint64_t kCode = 0x80000000, kTrap = 0x80001000, kData = 0x80008000, kBytes = 0x10000;
constexpr uint32_t kFcsr = 0x003, kMstatus = 0x300, kMtvec = 0x305, kMcause = 0x342, kMtval = 0x343;

// Takes one command every three cycles, is busy for 20 cycles after each, and answers commands with xd seven cycles
// later with rs1 + rs2 * funct.
class ToyDevice : public baco::Device {
 public:
  bool offer(const baco::Command& command) override {
    if (now_ < next_) return false;
    next_ = now_ + 3;
    idle_ = now_ + 20;
    if (command.xd) answers_.push_back({now_ + 7, command.rs1 + command.rs2 * command.funct});
    std::ostringstream text;
    text << static_cast<int>(command.funct) << ":" << command.rs1 << ":" << command.rs2;
    commands += (commands.empty() ? "" : ",") + text.str();
    return true;
  }
  bool response(uint64_t& data) override {
    if (answers_.empty() || now_ < answers_.front().due) return false;
    data = answers_.front().data;
    answers_.pop_front();
    return true;
  }
  bool busy() const override { return now_ < idle_; }
  void tick() override { ++now_; }
  std::string error() const override { return {}; }

  std::string commands;

 private:
  struct Answer {
    uint64_t due, data;
  };
  uint64_t now_ = 0, next_ = 0, idle_ = 0;
  std::deque<Answer> answers_;
};

uint64_t csr(const baco::Host& host, uint32_t number) {
  uint64_t value = 0;
  host.read_csr(number, value);
  return value;
}

int table() {
  baco::Memory memory(kCode, kBytes);
  ToyDevice device;
  baco::Host host(memory, device, {});
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream fields(line);
    uint64_t word, fcsr, data, number, value, before[64] = {};
    fields >> std::hex >> word >> fcsr >> data;
    host.reset(kCode);
    memory.store<uint32_t>(kCode, static_cast<uint32_t>(word), "test");
    memory.store<uint64_t>(kData, data, "test");
    host.write_csr(kMstatus, 0xe000);  // FS and XS
    host.write_csr(kMtvec, kTrap);
    host.write_csr(kFcsr, fcsr);
    while (fields >> number >> value) {
      if (number < 32) {
        host.set_x(static_cast<int>(number), value);
      } else {
        host.set_f(static_cast<int>(number - 32), value);
      }
    }
    const auto get = [&](int i) { return i < 32 ? host.x(i) : host.f(i - 32); };
    for (int i = 0; i < 64; ++i) before[i] = get(i);
    while (host.counts().instructions + host.counts().traps == 0) {
      host.cycle();
      device.tick();
    }
    std::cout << std::hex << host.pc() << ' ' << csr(host, kMcause) << ' ' << csr(host, kMtval) << ' '
              << csr(host, kFcsr) << ' ' << memory.load<uint64_t>(kData, "test");
    for (int i = 0; i < 64; ++i) {
      if (get(i) != before[i]) std::cout << ' ' << i << ' ' << get(i);
    }
    std::cout << '\n';
  }
  return 0;
}

int run(int count, char** arguments) {
  const auto number = [&](int i) { return std::strtoull(arguments[i], nullptr, 0); };
  const bool alone = count > 8 && std::strcmp(arguments[8], "alone") == 0;
  const uint64_t base = number(3), most = number(7);
  baco::Memory memory(base, 16 << 20);
  std::FILE* file = std::fopen(arguments[2], "rb");
  if (file == nullptr) return 2;
  char buffer[4096];
  uint64_t at = base;
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, file)) > 0; at += got) {
    std::memcpy(memory.at(at, got, "test"), buffer, got);
  }
  std::fclose(file);

  ToyDevice device;
  baco::HostOptions options;
  options.tohost = number(5);
  options.fromhost = number(6);
  options.console = [](const char* bytes, size_t size) { std::fwrite(bytes, 1, size, stdout); };
  std::string error;
  try {
    baco::Host host(memory, device, options);
    host.reset(number(4));
    try {
      while (!host.exited() && host.counts().cycles < most) {
        if (alone && !device.busy() && host.run_alone(most - host.counts().cycles) > 0) continue;
        host.cycle();
        device.tick();
      }
    } catch (const baco::HostError& e) {
      error = e.what();
    }
    const baco::HostCounts& counts = host.counts();
    std::printf("\nexited=%d code=%d cycles=%llu instructions=%llu commands=%llu traps=%llu log=%s", host.exited(),
                host.exit_code(), static_cast<unsigned long long>(counts.cycles),
                static_cast<unsigned long long>(counts.instructions),
                static_cast<unsigned long long>(counts.rocc_commands), static_cast<unsigned long long>(counts.traps),
                device.commands.c_str());
    for (int i = 0; i < baco::kStalls; ++i) {
      std::printf(" %s=%llu", baco::name(static_cast<baco::Stall>(i)),
                  static_cast<unsigned long long>(counts.stalls[static_cast<size_t>(i)]));
    }
    std::printf(" recent=%llx", host.recent().empty() ? 0ull : static_cast<unsigned long long>(host.recent().back()));
  } catch (const baco::HostError& e) {
    error = e.what();
  }
  std::printf("\n%s\n", error.c_str());
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "table") == 0) return table();
  if (count > 7 && std::strcmp(arguments[1], "run") == 0) return run(count, arguments);
  return 2;
}
