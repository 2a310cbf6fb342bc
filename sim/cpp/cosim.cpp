#include "cosim.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fields.h"
#include "functional.h"
#include "log.h"
#include "memory_use.h"
#include "rtl.h"
#include "stream.h"
#include "verdict.h"

namespace baco {

namespace {

constexpr uint32_t kOne = 0x3f800000u;
// Scales at which accumulator rows are stored when they cannot be stored raw: each shows other bits.
constexpr uint32_t kScales[] = {kOne, 0x3b800000u, 0x37800000u, 0x33800000u};  // 1, 2**-8, 2**-16, 2**-24

struct Settings {
  std::string name;
  uint64_t data = 0, seed = 0, base = 0;
  unsigned gap = 0;
  uint32_t power_up = 0;
  DramOptions dram;
};

// A local memory as it is stored at the end: `address` of row 0, `pitch` bytes a row, `size` bytes an element.
struct Image {
  std::string place;
  uint32_t flags, scale;
  int rows, size;
  uint64_t address = 0;
  uint64_t pitch(const Config& config) const { return static_cast<uint64_t>(config.dim) * static_cast<uint64_t>(size); }
};

std::vector<Image> images(const Config& config, uint64_t address) {
  constexpr uint32_t accumulator = 1u << 31, raw = 1u << 29;
  std::vector<Image> found{{"scratchpad", 0, kOne, config.scratchpad_rows, config.element_bytes()}};
  if (config.read_full_width) {
    found.push_back({"accumulator", accumulator | raw, kOne, config.accumulator_rows, 4});
  } else if (config.read_small_width) {
    for (const uint32_t scale : kScales) {
      if (scale != kOne && !config.accumulator_scale) break;
      char place[32];
      std::snprintf(place, sizeof place, "scaled:%08x", scale);
      found.push_back({place, accumulator, scale, config.accumulator_rows, config.element_bytes()});
    }
  }
  for (Image& image : found) {
    image.address = address;
    address += image.pitch(config) * static_cast<uint64_t>(image.rows);
  }
  return found;
}

uint64_t image_bytes(const Config& config) {
  const Image last = images(config, 0).back();
  return last.address + last.pitch(config) * static_cast<uint64_t>(last.rows);
}

Command command(uint8_t funct, uint64_t rs1, uint64_t rs2) {
  Command made;
  made.funct = funct;
  made.rs1 = rs1;
  made.rs2 = rs2;
  return made;
}

void append(std::vector<StreamItem>& items, const Command& what) {
  StreamItem item;
  item.kind = StreamItem::Kind::kCommand;
  item.command = what;
  items.push_back(std::move(item));
}

void store_local_memories(const Config& config, const std::vector<Image>& all, std::vector<StreamItem>& items) {
  if (config.row_functions) append(items, command(kConfigFunction, 0, 0));  // as they are
  if (config.requantization) append(items, command(kConfigOutput, 0x7f800000, 0));
  for (const Image& image : all) {
    const uint64_t pitch = image.pitch(config);
    append(items, command(kConfig, 2, pitch | uint64_t{image.scale} << 32));
    for (int row = 0; row < image.rows; row += config.dim) {
      const uint64_t rows = static_cast<uint64_t>(std::min(config.dim, image.rows - row));
      append(items, command(kMvout, image.address + static_cast<uint64_t>(row) * pitch,
                            image.flags | static_cast<uint32_t>(row) | static_cast<uint64_t>(config.dim) << 32 | rows << 48));
    }
  }
}

// Whether the stream leaves a PRELOAD without its COMPUTE: macros, which bring their own, are refused there.
bool leaves_preload(const std::vector<StreamItem>& items) {
  bool pending = false;
  for (const StreamItem& item : items) {
    if (item.kind != StreamItem::Kind::kCommand) continue;
    const uint8_t funct = item.command.funct;
    if (funct == kPreload) pending = true;
    if (funct == kComputePreloaded || funct == kComputeAccumulated) pending = false;
  }
  return pending;
}

// What follows a legal stream: a COMPUTE of nothing where one is missing, and the local memories.
std::vector<StreamItem> epilogue(const Config& config, const std::vector<Image>& all,
                                 const std::vector<StreamItem>& items) {
  std::vector<StreamItem> more;
  if (leaves_preload(items)) {
    const uint64_t nothing = encode_operand(kGarbageAddress, 0, 0);
    append(more, command(kComputePreloaded, nothing, nothing));
  }
  more.emplace_back();  // a fence
  store_local_memories(config, all, more);
  return more;
}

// How one side took a stream.
struct Outcome {
  RefusedCommand refused;
  std::string failure;  // of the simulation itself, empty when it came to an end
  size_t responses = 0;
  uint64_t cycles = 0;
  bool raced = false;
};

size_t count_lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

// The functional side, which can be given one list of items after the other.
class Expected {
 public:
  Expected(const Config& config, Memory& memory) : memory_(memory), device_(config, memory), races_(config, memory) {
    device_.observer = [this](const Command& primitive) { races_.follow(primitive, convolution_); };
  }
  void play(const std::vector<StreamItem>& items) {
    StreamPlayer player(items, device_, memory_, out_);
    while (!player.done() && device_.refusal() == Refusal::kNone) {
      const StreamItem* item = player.current();
      if (item && item->kind == StreamItem::Kind::kFence) races_.fence();
      const bool is_command = item && item->kind == StreamItem::Kind::kCommand;
      convolution_ = is_command && item->command.funct == kLoopConv ? ++convolutions_ : 0;
      if (is_command) last_ = item->command;
      player.cycle();
    }
  }
  Outcome outcome() const {
    Outcome outcome;
    outcome.responses = count_lines(out_.str());
    outcome.raced = races_.found();
    if (device_.refusal() != Refusal::kNone) outcome.refused = {device_.refusal(), 0, defined_bits(last_)};
    return outcome;
  }

 private:
  Memory& memory_;
  FunctionalDevice device_;
  Races races_;
  std::ostringstream out_;
  Command last_;
  uint32_t convolutions_ = 0, convolution_ = 0;  // that have come; number of the one that is running, 0 for none
};

// What each unit is offered, on one model. What is said of all stands in the first outcome.
std::vector<Outcome> play_rtl(const std::vector<Config>& configs, Memory& memory,
                              const std::vector<std::vector<StreamItem>>& items, const Settings& settings,
                              const Options& options, RtlCoverage* coverage) {
  const size_t units = configs.size();
  std::vector<Outcome> outcomes(units);
  std::vector<std::ostringstream> out(units);
  std::vector<std::unique_ptr<CommandLog>> logs;
  std::vector<CommandLog*> all_logs;
  for (const Config& config : configs) {
    logs.push_back(std::make_unique<CommandLog>(config));
    all_logs.push_back(logs.back().get());
  }
  RtlOptions rtl;
  rtl.dram = settings.dram;
  rtl.power_up = settings.power_up;
  rtl.coverage = coverage;
  const std::vector<std::unique_ptr<RtlDevice>> devices = RtlDevice::of_system(configs, memory, all_logs, rtl);
  const RtlDevice& first = *devices.front();
  std::vector<StreamPlayer> players;
  for (size_t unit = 0; unit < units; ++unit) players.emplace_back(items[unit], *devices[unit], memory, out[unit]);
  uint64_t random = settings.seed ^ 0x9e3779b97f4a7c15u, next_check = 0, progress = 0, moved_at = 0;
  const auto goes_on = [&] {
    for (size_t unit = 0; unit < units; ++unit)
      if (!players[unit].done() || devices[unit]->busy()) return true;
    return false;
  };
  const auto any_rejected = [&] {
    bool any = false;
    for (size_t unit = 0; unit < units; ++unit) any |= devices[unit]->rejected(outcomes[unit].refused);
    return any;
  };
  try {
    while (goes_on()) {
      for (size_t unit = 0; unit < units; ++unit) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (!players[unit].done() && (random >> 33) % 100 >= settings.gap) players[unit].cycle();
      }
      for (const auto& device : devices) device->tick();
      const uint64_t cycle = first.cycle();
      if (cycle < next_check) continue;
      next_check = cycle + kCheckCycles;
      if (any_rejected() || !first.broken().empty()) break;
      uint64_t now = 0;
      for (size_t unit = 0; unit < units; ++unit) now += devices[unit]->progress() + players[unit].position();
      if (now != progress) {
        progress = now;
        moved_at = cycle;
      } else if (cycle - moved_at > options.stall_cycles) {
        outcomes[0].failure = "stuck nothing has moved since cycle " + std::to_string(moved_at);
        break;
      }
    }
    any_rejected();
    if (!first.broken().empty()) outcomes[0].failure = "handshake " + first.broken();
  } catch (const MemoryFault& fault) {
    outcomes[0].failure = std::string("fault ") + fault.what();
  }
  for (size_t unit = 0; unit < units; ++unit) outcomes[unit].responses = count_lines(out[unit].str());
  outcomes[0].cycles = first.cycle();
  return outcomes;
}

bool same(const RefusedCommand& one, const RefusedCommand& other) {
  return one.why == other.why && one.command.funct == other.command.funct && one.command.rs1 == other.command.rs1 &&
         one.command.rs2 == other.command.rs2;
}

std::string describe(const RefusedCommand& refused) {
  char text[80];
  std::snprintf(text, sizeof text, "%d %x %llx %llx", static_cast<int>(refused.why), refused.command.funct,
                static_cast<unsigned long long>(refused.command.rs1),
                static_cast<unsigned long long>(refused.command.rs2));
  return refused.why == Refusal::kNone ? "legal" : text;
}

template <class T>
T value_at(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The CRC of zlib, of main memory with the local memories stored behind it.
uint32_t digest(Memory& memory) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t n = 0; n < 256; ++n) {
      uint32_t c = n;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
      made[n] = c;
    }
    return made;
  }();
  const uint8_t* bytes = memory.at(memory.base(), memory.size(), "digest");
  uint32_t crc = ~uint32_t{0};
  for (uint64_t i = 0; i < memory.size(); ++i) crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
  return ~crc;
}

// Local memories of a unit; `before`: what its places are called by.
std::string compare_local(const Config& config, Memory& rtl, Memory& functional, const std::vector<Image>& all,
                          const std::string& before) {
  const uint64_t base = rtl.base();
  const uint8_t* mine = rtl.at(base, rtl.size(), "comparison");
  const uint8_t* other = functional.at(base, rtl.size(), "comparison");
  char text[200];
  for (const Image& image : all) {
    const uint64_t pitch = image.pitch(config), start = image.address - base;
    const uint64_t bytes = pitch * static_cast<uint64_t>(image.rows);
    if (!std::memcmp(mine + start, other + start, bytes)) continue;
    for (uint64_t at = start; at < start + bytes; at += static_cast<uint64_t>(image.size)) {
      if (!std::memcmp(mine + at, other + at, static_cast<size_t>(image.size))) continue;
      const int x = image.size == 1 ? value_at<int8_t>(mine + at) : value_at<int32_t>(mine + at);
      const int y = image.size == 1 ? value_at<int8_t>(other + at) : value_at<int32_t>(other + at);
      const uint64_t column = (at - start) % pitch / static_cast<uint64_t>(image.size);
      std::snprintf(text, sizeof text, "local %s %llu %llu %d %d", (before + image.place).c_str(),
                    static_cast<unsigned long long>((at - start) / pitch), static_cast<unsigned long long>(column), x, y);
      return text;
    }
  }
  return {};
}

std::string compare_main(Memory& rtl, Memory& functional, uint64_t used) {
  const uint64_t base = rtl.base();
  const uint8_t* mine = rtl.at(base, used, "comparison");
  const uint8_t* other = functional.at(base, used, "comparison");
  char text[200];
  for (uint64_t at = 0; at < used; ++at) {
    if (mine[at] == other[at]) continue;
    std::snprintf(text, sizeof text, "memory %llx %d %d", static_cast<unsigned long long>(base + at),
                  static_cast<int8_t>(mine[at]), static_cast<int8_t>(other[at]));
    return text;
  }
  return {};
}

Settings read_settings(const std::string& line) {
  Settings settings;
  std::istringstream words(line);
  std::string word;
  words >> word >> settings.name;
  settings.dram.read_depth = 256;
  while (words >> word) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    uint64_t value = 0;
    double real = 0;
    try {
      if (equals == std::string::npos) throw std::invalid_argument(word);
      real = std::stod(word.substr(equals + 1));
      if (key != "bandwidth") value = std::stoull(word.substr(equals + 1));
    } catch (const std::exception&) {
      throw std::runtime_error("stream " + settings.name + ": '" + word + "' is no setting");
    }
    const unsigned small = static_cast<unsigned>(value);
    if (key == "data") settings.data = value;
    else if (key == "latency") settings.dram.latency = value;
    else if (key == "bandwidth") settings.dram.bytes_per_cycle = real;
    else if (key == "burst") settings.dram.burst_bytes = small;
    else if (key == "reads") settings.dram.read_depth = small;
    else if (key == "writes") settings.dram.write_depth = small;
    else if (key == "stall") settings.dram.stall_percent = small;
    else if (key == "gap") settings.gap = small;
    else if (key == "power") settings.power_up = small;
    else if (key == "base") settings.base = value;
    else if (key == "setup") continue;  // for whoever shortens the stream
    else if (key == "seed") settings.seed = settings.dram.stall_seed = value;
    else throw std::runtime_error("stream " + settings.name + ": unknown setting '" + key + "'");
  }
  return settings;
}

// The items of each unit: those behind its line `unit NUMBER`, without such lines those of the first.
std::vector<std::vector<StreamItem>> read_units(const std::string& text, size_t units) {
  std::vector<std::string> parts(units);
  std::istringstream lines(text);
  size_t unit = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("unit ", 0) != 0) {
      parts[unit] += line + '\n';
      continue;
    }
    unit = static_cast<size_t>(std::atoi(line.c_str() + 5));
    if (unit >= units) throw std::runtime_error("there is no accelerator with the number " + line.substr(5));
  }
  std::vector<std::vector<StreamItem>> items;
  for (const std::string& part : parts) {
    std::istringstream own(part);
    items.push_back(read_stream(own));
  }
  return items;
}

std::string run(const std::vector<Config>& configs, const Options& options, const Settings& settings,
                const std::string& text, RtlCoverage* coverage) {
  const size_t units = configs.size();
  std::vector<std::vector<StreamItem>> items = read_units(text, units);
  size_t commands = 0;
  const uint64_t used = options.memory_bytes;
  const uint64_t base = settings.base ? settings.base : options.memory_base;
  uint64_t bytes = used;
  std::vector<std::vector<Image>> all;
  for (size_t unit = 0; unit < units; ++unit) {
    commands += static_cast<size_t>(std::count_if(items[unit].begin(), items[unit].end(), [](const StreamItem& item) {
      return item.kind == StreamItem::Kind::kCommand;
    }));
    all.push_back(images(configs[unit], base + bytes));
    bytes += image_bytes(configs[unit]);
  }
  Memory functional(base, bytes), rtl(base, bytes);
  if (settings.data)
    for (Memory* memory : {&functional, &rtl})
      fill_memory(memory->at(base, used, "streams"), used, settings.data, configs[0].floats());
  std::vector<Outcome> expected;
  bool raced = false;
  for (size_t unit = 0; unit < units; ++unit) {
    Expected model(configs[unit], functional);
    model.play(items[unit]);
    if (model.outcome().refused.why == Refusal::kNone) {
      const std::vector<StreamItem> more = epilogue(configs[unit], all[unit], items[unit]);
      model.play(more);
      items[unit].insert(items[unit].end(), more.begin(), more.end());
    }
    expected.push_back(model.outcome());
    raced |= expected.back().raced;
  }
  const std::vector<Outcome> found = play_rtl(configs, rtl, items, settings, options, coverage);
  if (!found[0].failure.empty()) return found[0].failure;
  for (size_t unit = 0; unit < units; ++unit)
    if (!same(found[unit].refused, expected[unit].refused))
      return "verdict " + describe(found[unit].refused) + " | " + describe(expected[unit].refused);
  for (size_t unit = 0; unit < units; ++unit)
    if (expected[unit].refused.why != Refusal::kNone) return "refused " + describe(expected[unit].refused);
  for (size_t unit = 0; unit < units; ++unit)
    if (found[unit].responses != expected[unit].responses)
      return "responses " + std::to_string(found[unit].responses) + ' ' + std::to_string(expected[unit].responses);
  if (raced) return "raced";
  for (size_t unit = 0; unit < units; ++unit) {
    const std::string before = units > 1 ? "unit" + std::to_string(unit) + "." : "";
    const std::string difference = compare_local(configs[unit], rtl, functional, all[unit], before);
    if (!difference.empty()) return difference;
  }
  const std::string difference = compare_main(rtl, functional, used);
  if (!difference.empty()) return difference;
  char text_digest[16];
  std::snprintf(text_digest, sizeof text_digest, "%08x", digest(functional));
  return "same " + std::to_string(found[0].cycles) + ' ' + std::to_string(commands) + ' ' + text_digest;
}

}  // namespace

void fill_memory(uint8_t* memory, uint64_t bytes, uint64_t seed, bool floats) {
  // Of a number's first byte, as element or sum: bits that are kept, and that are set.
  constexpr std::pair<uint8_t, uint8_t> kNumbers[] = {
      {0xff, 0x00},  // any number, and what is none
      {0xbf, 0x00},  // smaller than 2, so that most sums are numbers
      {0x8f, 0x30},  // of like size, so that sums are rounded in every place
      {0x81, 0x38},  // few different ones, so that sums cancel
  };
  const auto [kept, set] = kNumbers[floats ? seed >> 20 & 3 : 0];
  for (uint64_t i = 0; i < bytes; ++i) {
    uint64_t z = (seed + i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    memory[i] = static_cast<uint8_t>(((z ^ z >> 31) >> 56 & kept) | set);
  }
}

int cosimulate(const Options& options) {
  std::vector<Config> configs = Config::read_units(options.config);
  configs.erase(std::remove_if(configs.begin(), configs.end(), [](const Config& unit) { return !unit.accelerator; }),
                configs.end());
  std::ifstream file(options.cosim);
  if (!file) throw std::runtime_error("cannot read the streams " + options.cosim);
  std::string line, header, text;
  RtlCoverage counted;
  RtlCoverage* const coverage = options.coverage.empty() ? nullptr : &counted;
  const auto finish = [&] {
    if (header.empty()) return;
    const Settings settings = read_settings(header);
    const std::string result = run(configs, options, settings, text, coverage);
    std::printf("%s %s\n", settings.name.c_str(), result.c_str());
    std::fflush(stdout);
  };
  while (std::getline(file, line)) {
    if (line.rfind("stream ", 0) == 0) {
      finish();
      header = line;
      text.clear();
    } else {
      text += line;
      text += '\n';
    }
  }
  finish();
  if (coverage) {
    // a device that goes on from the counts knows what each is of
    Memory memory(options.memory_base, options.memory_bytes);
    CommandLog log(configs[0]);
    RtlOptions rtl;
    rtl.coverage = coverage;
    RtlDevice(configs[0], memory, log, rtl).write_coverage(options.coverage);
  }
  return 0;
}

}  // namespace baco
