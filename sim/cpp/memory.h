// Main memory as host core and accelerator see it: bytes, without timing.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace baco {

// An access outside memory. `who` names the client in the message ("host", "accelerator read", ...).
struct MemoryFault : std::runtime_error {
  MemoryFault(const std::string& who, uint64_t address, uint64_t bytes);
  uint64_t address;
  uint64_t bytes;
};

class Memory {
 public:
  Memory(uint64_t base, uint64_t bytes) : base_(base), bytes_(bytes), data_(nullptr) { allocate(); }
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint64_t base() const { return base_; }
  uint64_t size() const { return bytes_; }

  bool contains(uint64_t address, uint64_t bytes) const {
    uint64_t offset = address - base_;
    return offset < bytes_ && bytes <= bytes_ - offset;
  }

  // The bytes at `address`; throws MemoryFault unless all of [address, address + bytes) exists.
  uint8_t* at(uint64_t address, uint64_t bytes, const char* who) {
    if (!contains(address, bytes)) throw MemoryFault(who, address, bytes);
    return data_ + (address - base_);
  }

  template <class T>
  T load(uint64_t address, const char* who) {
    T value;
    std::memcpy(&value, at(address, sizeof(T), who), sizeof(T));
    return value;
  }
  template <class T>
  void store(uint64_t address, T value, const char* who) {
    std::memcpy(at(address, sizeof(T), who), &value, sizeof(T));
  }

 private:
  void allocate();  // lazily backed, zero-filled (mmap)
  uint64_t base_, bytes_;
  uint8_t* data_;
};

}  // namespace baco
