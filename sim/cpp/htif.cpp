#include "htif.h"

#include <cstdio>
#include <utility>

#include "host_error.h"

namespace baco {
namespace {

constexpr uint64_t kNone = 1;  // no aligned address equals it
constexpr uint64_t kClose = 57, kRead = 63, kWrite = 64, kExit = 93;
constexpr uint64_t kBadFile = 9, kBadAddress = 14, kNoSuchCall = 38;  // errno values of the RISC-V C libraries

uint64_t failure(uint64_t errno_value) { return 0 - errno_value; }

}  // namespace

Htif::Htif(Memory& memory, uint64_t tohost, uint64_t fromhost, Console console)
    : memory_(memory),
      tohost_(tohost == 0 ? kNone : tohost),
      fromhost_(fromhost),
      console_(std::move(console)) {
  if (tohost == 0) return;
  if (tohost % 8 != 0 || !memory.contains(tohost, 8)) {
    throw HostError("tohost is not an aligned double word in memory");
  }
  if (fromhost != 0 && (fromhost % 8 != 0 || !memory.contains(fromhost, 8))) {
    throw HostError("fromhost is not an aligned double word in memory");
  }
}

void Htif::serve() {
  const auto request = memory_.load<uint64_t>(tohost_, "host");
  if (request == 0) return;
  memory_.store<uint64_t>(tohost_, 0, "host");
  const uint64_t device = request >> 56, command = request >> 48 & 0xff, payload = request << 16 >> 16;
  if (request >> 48 == 0xffff && (payload & 1)) {
    exit(request >> 1);
  } else if (device == 0 && command == 0) {
    if (payload & 1) {
      exit(payload >> 1);
    } else {
      system_call(payload);
    }
  } else if (device == 1 && command == 1) {
    const char byte = static_cast<char>(payload & 0xff);
    if (console_) console_(&byte, 1);
  } else if (!(device == 1 && command == 0)) {
    char text[128];
    std::snprintf(text, sizeof text, "the program asked device %d for command %d through tohost; there is no such",
                  static_cast<int>(device), static_cast<int>(command));
    throw HostError(text);
  }
}

void Htif::exit(uint64_t code) {
  exited_ = true;
  exit_code_ = static_cast<int>(code);
}

void Htif::system_call(uint64_t address) {
  if (!memory_.contains(address, 64)) {
    char text[128];
    std::snprintf(text, sizeof text, "the program passed a system call at address 0x%llx, which is outside memory",
                  static_cast<unsigned long long>(address));
    throw HostError(text);
  }
  uint64_t words[4];
  for (uint64_t i = 0; i < 4; ++i) words[i] = memory_.load<uint64_t>(address + 8 * i, "host");
  uint64_t result = failure(kNoSuchCall);
  switch (words[0]) {
    case kWrite: result = write(words[1], words[2], words[3]); break;
    case kRead:
    case kClose: result = 0; break;
    case kExit: exit(words[1]); return;
    default: break;
  }
  memory_.store<uint64_t>(address, result, "host");
  if (fromhost_ != 0) memory_.store<uint64_t>(fromhost_, 1, "host");
}

uint64_t Htif::write(uint64_t file, uint64_t address, uint64_t count) {
  if (file != 1 && file != 2) return failure(kBadFile);
  if (count == 0) return 0;
  if (!memory_.contains(address, count)) return failure(kBadAddress);
  if (console_) console_(reinterpret_cast<const char*>(memory_.at(address, count, "host")), count);
  return count;
}

}  // namespace baco
