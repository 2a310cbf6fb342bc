#include "stream.h"

#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>

#include "fields.h"

namespace baco {

namespace {

// Bytes of all dumps: whoever reads them holds them as text.
constexpr uint64_t kMostDumped = 64 << 20;

[[noreturn]] void malformed(size_t line, const std::string& why) {
  throw std::runtime_error("command stream, line " + std::to_string(line) + ": " + why);
}

uint64_t hex(std::istringstream& words, size_t line, const char* what, uint64_t limit = UINT64_MAX) {
  std::string word;
  if (!(words >> word)) malformed(line, std::string("no ") + what);
  if (word.size() > 16 || word.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
    malformed(line, std::string(what) + " '" + word + "' is not hexadecimal");
  uint64_t value = std::stoull(word, nullptr, 16);
  if (value > limit) malformed(line, std::string(what) + " " + word + " is too large");
  return value;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::vector<uint8_t> hex_bytes(std::istringstream& words, size_t line) {
  std::string word;
  if (!(words >> word)) malformed(line, "no bytes");
  if (word.size() % 2) malformed(line, "an odd number of digits");
  std::vector<uint8_t> bytes(word.size() / 2);
  for (size_t n = 0; n < bytes.size(); ++n) {
    int high = digit(word[2 * n]), low = digit(word[2 * n + 1]);
    if (high < 0 || low < 0) malformed(line, "bytes are not hexadecimal");
    bytes[n] = static_cast<uint8_t>(high << 4 | low);
  }
  return bytes;
}

}  // namespace

std::vector<StreamItem> read_stream(std::istream& text) {
  std::vector<StreamItem> items;
  std::string line_text;
  uint64_t dumped = 0;
  for (size_t line = 1; std::getline(text, line_text); ++line) {
    std::istringstream words(line_text.substr(0, line_text.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    StreamItem item;
    item.line = line;
    if (word == "cmd") {
      item.kind = StreamItem::Kind::kCommand;
      item.command.funct = static_cast<uint8_t>(hex(words, line, "function code", 127));
      item.command.rs1 = hex(words, line, "rs1");
      item.command.rs2 = hex(words, line, "rs2");
      item.command.xd = item.command.funct == kCounter;
      if (words >> std::ws; !words.eof()) item.command.xd = hex(words, line, "xd", 1) != 0;
    } else if (word == "fence") {
      item.kind = StreamItem::Kind::kFence;
    } else if (word == "write") {
      item.kind = StreamItem::Kind::kWrite;
      item.address = hex(words, line, "address");
      item.bytes = hex_bytes(words, line);
    } else if (word == "fill") {
      item.kind = StreamItem::Kind::kFill;
      item.address = hex(words, line, "address");
      item.count = hex(words, line, "count");
      item.bytes = {static_cast<uint8_t>(hex(words, line, "byte", 255))};
    } else if (word == "dump") {
      item.kind = StreamItem::Kind::kDump;
      item.address = hex(words, line, "address");
      item.count = hex(words, line, "count");
      if (item.count > kMostDumped - dumped) malformed(line, "dumps of more than 64 MiB in all");
      dumped += item.count;
    } else {
      malformed(line, "'" + word + "' is not an item; they are cmd, fence, write, fill and dump");
    }
    if (words >> word) malformed(line, "unexpected '" + word + "'");
    items.push_back(std::move(item));
  }
  return items;
}

void StreamPlayer::cycle() {
  static const char digits[] = "0123456789abcdef";
  uint64_t value;
  if (waiting_) {
    if (!device_.response(value)) return;
    waiting_ = false;
    out_ << "response " << std::hex << value << std::dec << '\n';
  }
  // Memory accesses take no time here; the first command or fence ends the cycle.
  while (next_ < items_.size()) {
    const StreamItem& item = items_[next_];
    switch (item.kind) {
      case StreamItem::Kind::kCommand:
        if (device_.offer(item.command)) {
          ++next_;
          waiting_ = item.command.xd;
        }
        return;
      case StreamItem::Kind::kFence:
        if (!device_.busy()) ++next_;
        return;
      case StreamItem::Kind::kWrite:
        std::memcpy(memory_.at(item.address, item.bytes.size(), "command stream"), item.bytes.data(),
                    item.bytes.size());
        break;
      case StreamItem::Kind::kFill:
        std::memset(memory_.at(item.address, item.count, "command stream"), item.bytes[0], item.count);
        break;
      case StreamItem::Kind::kDump: {
        const uint8_t* bytes = memory_.at(item.address, item.count, "command stream");
        std::string text(2 * item.count, '0');
        for (uint64_t n = 0; n < item.count; ++n) {
          text[2 * n] = digits[bytes[n] >> 4];
          text[2 * n + 1] = digits[bytes[n] & 15];
        }
        out_ << "dump " << std::hex << item.address << std::dec << ' ' << text << '\n';
        break;
      }
    }
    ++next_;
  }
}

}  // namespace baco
