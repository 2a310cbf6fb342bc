// Stands in for rtl.cpp in a program that holds the functional model only.
#include <stdexcept>

#include "rtl.h"

namespace baco {

struct RtlDevice::Model {};

bool RtlDevice::built() { return false; }
const char* RtlDevice::trace_format() { return ""; }
RtlDevice::RtlDevice(const Config&, Memory&, CommandLog&, const RtlOptions&) {
  throw std::runtime_error("this program was built without RTL");
}
std::vector<std::unique_ptr<RtlDevice>> RtlDevice::of_system(const std::vector<Config>&, Memory&,
                                                             const std::vector<CommandLog*>&, const RtlOptions&) {
  throw std::runtime_error("this program was built without RTL");
}
// None of these is ever reached: no object exists.
RtlDevice::~RtlDevice() = default;
bool RtlDevice::offer(const Command&) { return false; }
bool RtlDevice::response(uint64_t&) { return false; }
bool RtlDevice::busy() const { return false; }
void RtlDevice::tick() {}
std::string RtlDevice::error() const { return {}; }
bool RtlDevice::rejected(RefusedCommand&) const { return false; }
const std::string& RtlDevice::broken() const { throw std::logic_error("no RTL"); }
uint64_t RtlDevice::cycle() const { return 0; }
bool RtlDevice::quiet() const { return false; }
void RtlDevice::skip(uint64_t) {}
uint64_t RtlDevice::progress() const { return 0; }
RtlStatistics RtlDevice::statistics() const { return {}; }
const ArraySwitching& RtlDevice::array() const { throw std::logic_error("no RTL"); }
const Dram& RtlDevice::dram() const { throw std::logic_error("no RTL"); }
void RtlDevice::write_coverage(const std::string&) const {}
void RtlDevice::finish() {}

}  // namespace baco
