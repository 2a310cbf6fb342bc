// Why a program cannot go on: an exception without a handler, a trap loop, an impossible request.
#pragma once
#include <stdexcept>
#include <string>

namespace baco {

struct HostError : std::runtime_error {
  explicit HostError(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace baco
