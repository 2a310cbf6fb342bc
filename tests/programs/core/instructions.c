// Instructions of a core that other programs do not use: atomic ones, quotients, remainders, square roots and divisions of floating
// point with their flags. Those of whole numbers are compared with C here; of the others a sum of all bits is printed.
#include "runtime.h"

static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

// Numbers near the ends of ranges as often as others.
static uint64_t operand(void) {
  const uint64_t bits = draw();
  switch (draw() % 6) {
    case 0: return bits & 3;
    case 1: return 0 - (bits & 3);
    case 2: return (uint64_t)1 << 63 | (bits & 1);
    case 3: return (uint64_t)(int64_t)(int32_t)bits;
    default: return bits;
  }
}

#define ATOMIC(NAME, TYPE, UNSIGNED, SUFFIX, RESULT)                                                                     \
  static int NAME(uint64_t first, uint64_t second) {                                                                 \
    static volatile UNSIGNED cell[4] __attribute__((aligned(16)));                                                   \
    const unsigned at = (unsigned)(draw() & 3);                                                                      \
    const TYPE old = (TYPE)first, other = (TYPE)second;                                                              \
    (void)other;                                                                                                     \
    for (unsigned i = 0; i < 4; ++i) cell[i] = (UNSIGNED)(first + i - at);                                            \
    TYPE before;                                                                                                     \
    __asm__ volatile("amo" SUFFIX " %0, %2, (%1)" : "=r"(before) : "r"(&cell[at]), "r"((TYPE)second) : "memory");      \
    int wrong = before != old || cell[at] != (UNSIGNED)(RESULT);                                                       \
    for (unsigned i = 0; i < 4; ++i) wrong |= i != at && cell[i] != (UNSIGNED)(first + i - at);                       \
    return wrong;                                                                                                    \
  }

#define BOTH(NAME, RESULT)                                                       \
  ATOMIC(NAME##_w, int32_t, uint32_t, #NAME ".w", RESULT)                        \
  ATOMIC(NAME##_d, int64_t, uint64_t, #NAME ".d", RESULT)

BOTH(swap, other)
BOTH(and, old & other)
BOTH(or, old | other)
BOTH(xor, old ^ other)
BOTH(max, old > other ? old : other)
BOTH(min, old < other ? old : other)
ATOMIC(add_w, int32_t, uint32_t, "add.w", (uint32_t)old + (uint32_t)other)
ATOMIC(add_d, int64_t, uint64_t, "add.d", (uint64_t)old + (uint64_t)other)
ATOMIC(maxu_w, int32_t, uint32_t, "maxu.w", (uint32_t)old > (uint32_t)other ? (uint32_t)old : (uint32_t)other)
ATOMIC(maxu_d, int64_t, uint64_t, "maxu.d", (uint64_t)old > (uint64_t)other ? (uint64_t)old : (uint64_t)other)
ATOMIC(minu_w, int32_t, uint32_t, "minu.w", (uint32_t)old < (uint32_t)other ? (uint32_t)old : (uint32_t)other)
ATOMIC(minu_d, int64_t, uint64_t, "minu.d", (uint64_t)old < (uint64_t)other ? (uint64_t)old : (uint64_t)other)

static int (*const atomics[])(uint64_t, uint64_t) = {
    swap_w, swap_d, and_w, and_d, or_w,   or_d,   xor_w,  xor_d,  max_w,
    max_d,  min_w,  min_d, add_w, add_d, maxu_w, maxu_d, minu_w, minu_d,
};

// A store that is conditional succeeds behind a load that reserves, once.
static int reserved(void) {
  static volatile uint64_t cell;
  uint64_t value, failed, again;
  cell = 5;
  __asm__ volatile(
      "lr.d %0, (%3)\n"
      "sc.d %1, %4, (%3)\n"
      "sc.d %2, %3, (%3)"
      : "=&r"(value), "=&r"(failed), "=&r"(again)
      : "r"(&cell), "r"((uint64_t)7)
      : "memory");
  return value != 5 || failed != 0 || again == 0 || cell != 7;
}

static uint64_t sum;

static void mix(uint64_t bits) { sum = (sum ^ bits) * 0x9e3779b97f4a7c15u + (sum >> 29); }

// Bits of numbers of floating point: any, subnormal, near a power of two, special.
static uint64_t number(int wide) {
  const uint64_t bits = draw(), fraction = wide ? 0xfffffffffffffu : 0x7fffffu, sign = (uint64_t)1 << (wide ? 63 : 31);
  const uint64_t exponent = wide ? (uint64_t)0x7ff << 52 : (uint64_t)0xff << 23;
  uint64_t made = bits;
  switch (draw() % 6) {
    case 0: made = bits & (sign | fraction); break;
    case 1: made = bits & (sign | 3); break;
    case 2: made = (bits & sign) | exponent | (bits & 1 ? 0 : bits & fraction); break;
    case 3: made = (bits & (sign | exponent | 3)); break;
    default: break;
  }
  return wide ? made : (made & 0xffffffffu) | 0xffffffff00000000u;
}

#define FLOATING(TEXT)                                                                                             \
  __asm__ volatile("fscsr x0, %3\nfmv.d.x ft0, %1\nfmv.d.x ft1, %2\n" TEXT "\nfmv.x.d %0, ft2"                     \
                   : "=r"(result)                                                                                  \
                   : "r"(a), "r"(b), "r"(rounding << 5)                                                            \
                   : "ft0", "ft1", "ft2");                                                                         \
  __asm__ volatile("frflags %0" : "=r"(flags));                                                                    \
  mix(result);                                                                                                     \
  mix(flags)

static void floating(void) {
  for (int wide = 0; wide < 2; ++wide) {
    const uint64_t a = number(wide), b = number(wide), rounding = draw() % 5;
    uint64_t result, flags;
    if (wide) {
      FLOATING("fdiv.d ft2, ft0, ft1");
      FLOATING("fsqrt.d ft2, ft0");
      FLOATING("fmul.d ft2, ft0, ft1");
      FLOATING("fadd.d ft2, ft0, ft1");
    } else {
      FLOATING("fdiv.s ft2, ft0, ft1");
      FLOATING("fsqrt.s ft2, ft0");
      FLOATING("fmul.s ft2, ft0, ft1");
      FLOATING("fadd.s ft2, ft0, ft1");
    }
  }
}

int main(void) {
  for (int round = 0; round < 100; ++round) {
    for (unsigned i = 0; i < sizeof atomics / sizeof *atomics; ++i)
      if (atomics[i](operand(), operand())) {
        print("atomic operation ");
        print_number(i);
        print(": wrong\n");
        return 1;
      }
    if (reserved()) {
      print("reservation: wrong\n");
      return 1;
    }
    floating();
    const int64_t a = (int64_t)operand(), b = (int64_t)operand();
    uint64_t quotient, rest;
    __asm__ volatile("div %0, %2, %3\nrem %1, %2, %3" : "=&r"(quotient), "=&r"(rest) : "r"(a), "r"(b));
    mix(quotient);
    mix(rest);
  }
  print("sum ");
  print_number((int64_t)(sum >> 1));
  print("\ninstructions: right\n");
  return 0;
}
