// Writes one JSON document; commas and escapes are taken care of, nesting is the caller's.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace baco {

class JsonWriter {
 public:
  const std::string& text() const { return text_; }

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(const std::string& name) {
    string(name);
    text_ += ':';
    fresh_ = true;
  }
  void value(const std::string& value) { string(value); }
  void value(const char* value) { string(value); }
  void value(bool value) { raw(value ? "true" : "false"); }
  void value(int value) { raw(std::to_string(value)); }
  void value(unsigned value) { raw(std::to_string(value)); }
  // Readers with 64-bit integers take these exactly.
  void value(uint64_t value) { raw(std::to_string(value)); }
  void value(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    raw(std::isfinite(value) ? text : "null");
  }
  // An array of the values that another writer has written one after the other.
  void array_of(const JsonWriter& values) { raw("[" + values.text_ + "]"); }
  template <class T>
  void field(const std::string& name, const T& content) {
    key(name);
    value(content);
  }

 private:
  void open(char bracket) {
    separate();
    text_ += bracket;
    fresh_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    fresh_ = false;
  }
  void raw(const std::string& token) {
    separate();
    text_ += token;
  }
  void separate() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  void string(const std::string& value) {
    separate();
    text_ += '"';
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20 || byte >= 0x7f) {  // messages are ASCII; anything else stays readable and valid
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", byte);
        text_ += escape;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool fresh_ = true;
};

}  // namespace baco
