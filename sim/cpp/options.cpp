#include "options.h"

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>

namespace baco {

namespace {

uint64_t whole(const std::string& name, const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || text[0] == '-' || *end || errno)
    throw std::invalid_argument(name + " takes a whole number, not '" + text + "'");
  return value;
}

double real(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value >= 0)) throw std::invalid_argument(name + " takes a number, not '" + text + "'");
  return value;
}

}  // namespace

Options Options::parse(int count, char** arguments) {
  Options o;
  DramOptions& dram = o.rtl.dram;
  const std::map<std::string, std::string*> texts = {
      {"--config", &o.config}, {"--engine", &o.engine}, {"--timing", &o.timing}, {"--result", &o.result}, {"--image", &o.image},
      {"--stream", &o.stream}, {"--log", &o.log},       {"--trace", &o.rtl.trace},
      {"--cosim", &o.cosim},   {"--coverage", &o.coverage}, {"--dump-ranges", &o.dump_ranges},
      {"--dump-file", &o.dump_file},
      {"--marks", &o.marks},   {"--mark-file", &o.mark_file}};
  const std::map<std::string, uint64_t*> numbers = {
      {"--image-address", &o.image_address}, {"--entry", &o.entry},
      {"--tohost", &o.tohost},               {"--fromhost", &o.fromhost},
      {"--memory-base", &o.memory_base},     {"--memory-bytes", &o.memory_bytes},
      {"--max-cycles", &o.max_cycles},       {"--stall-cycles", &o.stall_cycles},
      {"--trace-from", &o.rtl.trace_from},   {"--trace-until", &o.rtl.trace_until},
      {"--memory-latency", &dram.latency},   {"--l2-latency", &dram.l2_latency},
      {"--console-bytes", &o.console_bytes}};
  const std::map<std::string, unsigned*> small = {
      {"--memory-burst", &dram.burst_bytes}, {"--l2-kib", &dram.l2_kib}, {"--l2-ways", &dram.l2_ways},
      {"--gemmini-hit-cycles", &o.gemmini.l2.hit_cycles}, {"--gemmini-memory-cycles", &o.gemmini.l2.memory_cycles},
      {"--gemmini-fill-cycles", &o.gemmini.l2.fill_cycles}, {"--gemmini-release-cycles", &o.gemmini.l2.release_cycles},
      {"--gemmini-burst-write-cycles", &o.gemmini.burst_write_cycles}};
  const std::map<std::string, double*> reals = {{"--memory-bandwidth", &dram.bytes_per_cycle},
                                                {"--l2-bandwidth", &dram.l2_bytes_per_cycle},
                                                {"--timeout", &o.timeout_seconds}};
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (i + 1 == count) throw std::invalid_argument(name + " lacks its value");
    const std::string value = arguments[i + 1];
    if (auto text = texts.find(name); text != texts.end()) {
      *text->second = value;
    } else if (auto number = numbers.find(name); number != numbers.end()) {
      *number->second = whole(name, value);
    } else if (auto few = small.find(name); few != small.end()) {
      const uint64_t parsed = whole(name, value);
      if (parsed > 1u << 24) throw std::invalid_argument(name + " is too large: " + value);
      *few->second = static_cast<unsigned>(parsed);
    } else if (auto fraction = reals.find(name); fraction != reals.end()) {
      *fraction->second = real(name, value);
    } else {
      throw std::invalid_argument("unknown argument " + name);
    }
  }
  if (o.config.empty()) throw std::invalid_argument("--config is required");
  if (!o.cosim.empty()) return o;
  if (o.result.empty()) throw std::invalid_argument("--result is required");
  if (o.engine != "functional" && o.engine != "rtl" && o.engine != "timed" && o.engine != "soc")
    throw std::invalid_argument("--engine is functional, timed, rtl or soc");
  if (o.timing != "baco" && o.timing != "gemmini") throw std::invalid_argument("--timing is baco or gemmini");
  if (o.image.empty() == o.stream.empty()) throw std::invalid_argument("give either --image or --stream");
  if (o.dump_ranges.empty() != o.dump_file.empty())
    throw std::invalid_argument("--dump-ranges and --dump-file belong together");
  if (o.marks.empty() != o.mark_file.empty())
    throw std::invalid_argument("--marks and --mark-file belong together");
  if (!o.marks.empty() && o.image.empty()) throw std::invalid_argument("--marks needs a program");
  return o;
}

}  // namespace baco
