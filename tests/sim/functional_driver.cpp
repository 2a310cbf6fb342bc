// Replays a command stream on the functional model: functional_driver CONFIG BASE BYTES [--commands] < stream
//
// BASE and BYTES (hexadecimal) place main memory. After the stream's own output come `error CODE TEXT` when a command
// was refused, and `statistic NAME VALUE` lines; with --commands every command after unrolling is
// printed as `command FUNCT RS1 RS2` when it executes.
#include <cstring>
#include <iostream>

#include "functional.h"
#include "stream.h"

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::cerr << "usage: functional_driver CONFIG BASE BYTES [--commands] < stream\n";
    return 2;
  }
  baco::Memory memory(std::stoull(argv[2], nullptr, 16), std::stoull(argv[3], nullptr, 16));
  baco::FunctionalDevice device(baco::Config::read(argv[1]), memory);
  if (argc > 4 && std::strcmp(argv[4], "--commands") == 0)
    device.observer = [](const baco::Command& c) {
      std::cout << "command " << std::hex << int{c.funct} << ' ' << c.rs1 << ' ' << c.rs2 << std::dec << '\n';
    };
  baco::StreamPlayer player(baco::read_stream(std::cin), device, memory, std::cout);
  while (!player.done()) {
    player.cycle();
    device.tick();
  }
  if (!device.error().empty())
    std::cout << "error " << static_cast<int>(device.refusal()) << ' ' << device.error() << '\n';
  const baco::FunctionalStatistics& statistics = device.statistics();
  std::cout << "statistic macs " << statistics.macs << "\nstatistic bytes_read " << statistics.bytes_read
            << "\nstatistic bytes_written " << statistics.bytes_written << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
