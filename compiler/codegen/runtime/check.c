// Comparing results with what they must be, on the machine that computed them.
#include "runtime.h"

static uint64_t bits_of(const void* data, uint64_t index, unsigned bytes) {
  switch (bytes) {
    case 1: return ((const uint8_t*)data)[index];
    case 2: return ((const uint16_t*)data)[index];
    case 4: return ((const uint32_t*)data)[index];
    default: return ((const uint64_t*)data)[index];
  }
}

static void print_element(uint64_t bits, uint64_t element) {
  const unsigned unused = 64 - 8 * (unsigned)(element & 15);
  if (element & ELEMENT_FLOAT)
    print_hex(bits);
  else if (element & ELEMENT_SIGNED)
    print_number((int64_t)(bits << unused) >> unused);
  else
    print_number((int64_t)bits);
}

static void print_index(const struct check* one, uint64_t index) {
  uint64_t indices[8];
  for (uint64_t i = one->rank; i-- > 0;) {
    indices[i] = index % one->shape[i];
    index /= one->shape[i];
  }
  print("[");
  for (uint64_t i = 0; i < one->rank; ++i) {
    if (i) print(", ");
    print_number((int64_t)indices[i]);
  }
  print("]");
}

static int check_buffer(const struct check* one) {
  const unsigned bytes = (unsigned)(one->element & 15);
  const uint64_t whole = one->count * bytes / 8;
  const uint64_t* found = one->found;
  const uint64_t* expected = one->expected;
  uint64_t first = 0;
  while (first < whole && found[first] == expected[first]) ++first;  // buffers are aligned, most are right
  uint64_t wrong = 0, where = 0;
  for (uint64_t i = first * 8 / bytes; i < one->count; ++i) {
    if (bits_of(found, i, bytes) == bits_of(expected, i, bytes)) continue;
    if (wrong++ == 0) where = i;
  }
  if (wrong == 0) return 0;
  print("wrong: ");
  print(one->name);
  print_index(one, where);
  print(" is ");
  print_element(bits_of(found, where, bytes), one->element);
  print(", not ");
  print_element(bits_of(expected, where, bytes), one->element);
  print("; ");
  print_number((int64_t)wrong);
  print(" of ");
  print_number((int64_t)one->count);
  print(" elements are wrong\n");
  return 1;
}

int check_buffers(const struct check* checks, uint64_t count) {
  int wrong = 0;
  for (uint64_t i = 0; i < count; ++i) wrong |= check_buffer(checks + i);
  return wrong;
}
