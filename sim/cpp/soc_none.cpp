// Stands in for soc.cpp in a program without a SoC.
#include <stdexcept>

#include "soc.h"

namespace baco {

struct Soc::Model {};

Soc::Soc(const Options&, const Config&, Memory&, CommandLog&, SocHooks) {
  throw std::runtime_error("this program was built without a SoC");
}
// None of these is ever reached: no object exists.
Soc::~Soc() = default;
bool Soc::exited() const { return false; }
int Soc::exit_code() const { return 0; }
CoreCounts Soc::core() const { return {}; }
std::vector<uint64_t> Soc::recent() const { return {}; }
bool Soc::busy() const { return false; }
void Soc::tick() {}
std::string Soc::error() const { return {}; }
uint64_t Soc::cycle() const { return 0; }
uint64_t Soc::progress() const { return 0; }
bool Soc::refused(RefusedCommand&) const { return false; }
void Soc::report(JsonWriter&) const {}

}  // namespace baco
