#include "memory.h"

#include <sys/mman.h>

#include <cstdio>

namespace baco {

static std::string describe(const std::string& who, uint64_t address, uint64_t bytes) {
  char text[200];
  std::snprintf(text, sizeof text, "%s touches %llu bytes at address 0x%llx, which is outside memory", who.c_str(),
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(address));
  return text;
}

MemoryFault::MemoryFault(const std::string& who, uint64_t address, uint64_t bytes)
    : std::runtime_error(describe(who, address, bytes)), address(address), bytes(bytes) {}

void Memory::allocate() {
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("cannot reserve " + std::to_string(bytes_) + " bytes of memory");
  data_ = static_cast<uint8_t*>(at);
}

Memory::~Memory() { munmap(data_, bytes_); }

}  // namespace baco
