// Comparing what an operator wrote with what it must be, while the program runs.
#include "host.h"

_Noreturn void exit(int code);
void print(const char* text);
void print_number(int64_t value);

static inline int64_t element(const void* data, int64_t index, int64_t bytes) {
  if (bytes == 1) return ((const int8_t*)data)[index];
  if (bytes == 2) return ((const int16_t*)data)[index];
  return bytes == 4 ? ((const int32_t*)data)[index] : ((const int64_t*)data)[index];
}

// Walk over what was written (found) but its innermost dimension, that one's extent and stride; bytes of an element.
// `expected` is dense. Ends the program if anything is wrong.
void net_check(const int64_t* d, const char* name, const void* expected, const void* found) {
  struct walk w;
  d = walk_begin(&w, d, 1);
  const int64_t extent = d[0], step = d[1], bytes = d[2];
  int64_t count = 0, wrong = 0, where = 0, is = 0, should = 0;
  do {
    for (int64_t i = 0; i < extent; ++i, ++count) {
      const int64_t a = element(found, w.at[0] + i * step, bytes), b = element(expected, count, bytes);
      if (a != b && wrong++ == 0) where = count, is = a, should = b;
    }
  } while (walk_next(&w));
  if (!wrong) return;
  print("wrong: ");
  print(name);
  print(" element ");
  print_number(where);
  print(" is ");
  print_number(is);
  print(", not ");
  print_number(should);
  print("; ");
  print_number(wrong);
  print(" of ");
  print_number(count);
  print(" elements are wrong\n");
  exit(1);
}
