// What each floating-point computation does. Exact results and flags come from softfloat; where the machine's own
// arithmetic is certain to give the same, it is used instead, several times as fast.
#include <cmath>
#include <cstring>

#include "host.h"
#include "softfloat.h"

namespace baco {
namespace {

using riscv::Op;
using softfloat::Binary32;
using softfloat::Binary64;

template <class F>
struct Machine;
template <>
struct Machine<Binary32> {
  using Type = float;
};
template <>
struct Machine<Binary64> {
  using Type = double;
};

template <class F>
typename Machine<F>::Type to_machine(typename F::Bits bits) {
  typename Machine<F>::Type value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class F>
typename F::Bits from_machine(typename Machine<F>::Type value) {
  typename F::Bits bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A normal number that is not next to the subnormals, where tininess before and after rounding differ.
template <class F>
bool plain(typename F::Bits bits) {
  const int exponent = static_cast<int>((bits & F::kInfinity) >> F::kFraction);
  return exponent > 1 && exponent < 2 * F::kBias + 1;
}

#if defined(__FMA__) || defined(__aarch64__)
constexpr bool kMachineFused = true;
#else
constexpr bool kMachineFused = false;
#endif

uint64_t sign_extend32(uint32_t x) { return static_cast<uint64_t>(int64_t{static_cast<int32_t>(x)}); }

}  // namespace

// A value narrower than the register must be boxed in ones; anything else reads as the canonical NaN.
template <class F>
typename F::Bits Host::operand(uint8_t number) const {
  const uint64_t value = registers_[number];
  if (sizeof(typename F::Bits) == 4 && (value & kBox) != kBox) return F::kNan;
  return static_cast<typename F::Bits>(value);
}

template <class F>
Host::Outcome Host::write_float(const riscv::Decoded& d, typename F::Bits value, int latency) {
  write(d.rd, sizeof(typename F::Bits) == 4 ? kBox | value : value, latency);
  return Outcome::kRetired;
}

// The instructions that exist once per format; `op` is the binary32 form of d.op.
template <class F>
Host::Outcome Host::arithmetic(const riscv::Decoded& d, Op op) {
  using Bits = typename F::Bits;
  constexpr bool kDouble = sizeof(Bits) == 8;
  const int rm = rounding(d);
  const int latency = kDouble ? options_.double_latency : options_.float_latency;
  const int divide_latency = kDouble ? options_.double_divide_latency : options_.float_divide_latency;
  const int move = options_.float_move_latency;
  const Bits a = operand<F>(d.rs1), b = operand<F>(d.rs2), c = operand<F>(d.rs3);

  // With the default rounding and "inexact" already raised, plain operands and a plain result raise nothing new.
  const bool quick = rm == softfloat::kNearestEven && (fflags_ & softfloat::kInexact) && plain<F>(a);
  const auto machine = [&](auto compute, Bits& result) {
    result = from_machine<F>(compute(to_machine<F>(a), to_machine<F>(b)));
    return plain<F>(result);
  };
  const auto done = [&](Bits value, int cycles) { return write_float<F>(d, value, cycles); };
  const auto integer = [&](uint64_t value) {
    write(d.rd, value, move);
    return Outcome::kRetired;
  };
  const auto fused = [&](Bits negate_product, Bits negate_addend) {
    const Bits x = a ^ negate_product, z = c ^ negate_addend;
    if (kMachineFused && quick && plain<F>(b) && plain<F>(c)) {
      const Bits result = from_machine<F>(std::fma(to_machine<F>(x), to_machine<F>(b), to_machine<F>(z)));
      if (plain<F>(result)) return done(result, latency);
    }
    return done(softfloat::multiply_add<F>(x, b, z, rm, fflags_), latency);
  };
  const auto divider_busy = [&] {
    if (divider_ready_ <= counts_.cycles) {
      divider_ready_ = counts_.cycles + static_cast<uint64_t>(divide_latency);
      return false;
    }
    resume_ = divider_ready_;
    reason_ = Stall::kDivider;
    return true;
  };
  Bits result;

  switch (op) {  // these have no rounding mode
    case Op::FSGNJ_S: return done((a & ~F::kSign) | (b & F::kSign), move);
    case Op::FSGNJN_S: return done((a & ~F::kSign) | (~b & F::kSign), move);
    case Op::FSGNJX_S: return done(a ^ (b & F::kSign), move);
    case Op::FMIN_S: return done(softfloat::minimum<F>(a, b, fflags_), move);
    case Op::FMAX_S: return done(softfloat::maximum<F>(a, b, fflags_), move);
    case Op::FLE_S: return integer(softfloat::less_or_equal<F>(a, b, fflags_));
    case Op::FLT_S: return integer(softfloat::less<F>(a, b, fflags_));
    case Op::FEQ_S: return integer(softfloat::equal<F>(a, b, fflags_));
    case Op::FCLASS_S: return integer(softfloat::classify<F>(a));
    case Op::FMV_X_W:  // the bits as they are, boxed or not
      return integer(kDouble ? registers_[d.rs1] : sign_extend32(static_cast<uint32_t>(registers_[d.rs1])));
    case Op::FMV_W_X: return done(static_cast<Bits>(registers_[d.rs1]), move);
    default: break;
  }
  if (rm > softfloat::kNearestAway) return illegal(d);

  switch (op) {
    case Op::FADD_S:
      if (quick && plain<F>(b) && machine([](auto x, auto y) { return x + y; }, result)) return done(result, latency);
      return done(softfloat::add<F>(a, b, rm, fflags_), latency);
    case Op::FSUB_S:
      if (quick && plain<F>(b) && machine([](auto x, auto y) { return x - y; }, result)) return done(result, latency);
      return done(softfloat::add<F>(a, b ^ F::kSign, rm, fflags_), latency);
    case Op::FMUL_S:
      if (quick && plain<F>(b) && machine([](auto x, auto y) { return x * y; }, result)) return done(result, latency);
      return done(softfloat::multiply<F>(a, b, rm, fflags_), latency);
    case Op::FDIV_S:
      if (divider_busy()) return Outcome::kRetry;
      if (quick && plain<F>(b) && machine([](auto x, auto y) { return x / y; }, result)) {
        return done(result, divide_latency);
      }
      return done(softfloat::divide<F>(a, b, rm, fflags_), divide_latency);
    case Op::FSQRT_S:
      if (divider_busy()) return Outcome::kRetry;
      if (quick && !(a & F::kSign) && machine([](auto x, auto) { return std::sqrt(x); }, result)) {
        return done(result, divide_latency);
      }
      return done(softfloat::square_root<F>(a, rm, fflags_), divide_latency);
    case Op::FMADD_S: return fused(0, 0);
    case Op::FMSUB_S: return fused(0, F::kSign);
    case Op::FNMSUB_S: return fused(F::kSign, 0);
    case Op::FNMADD_S: return fused(F::kSign, F::kSign);
    case Op::FCVT_W_S: return integer(static_cast<uint64_t>(int64_t{softfloat::to_i32<F>(a, rm, fflags_)}));
    case Op::FCVT_WU_S: return integer(sign_extend32(softfloat::to_u32<F>(a, rm, fflags_)));
    case Op::FCVT_L_S: return integer(static_cast<uint64_t>(softfloat::to_i64<F>(a, rm, fflags_)));
    case Op::FCVT_LU_S: return integer(softfloat::to_u64<F>(a, rm, fflags_));
    case Op::FCVT_S_W:
      return done(softfloat::from_i64<F>(static_cast<int32_t>(registers_[d.rs1]), rm, fflags_), move);
    case Op::FCVT_S_WU:
      return done(softfloat::from_u64<F>(static_cast<uint32_t>(registers_[d.rs1]), rm, fflags_), move);
    case Op::FCVT_S_L:
      return done(softfloat::from_i64<F>(static_cast<int64_t>(registers_[d.rs1]), rm, fflags_), move);
    case Op::FCVT_S_LU: return done(softfloat::from_u64<F>(registers_[d.rs1], rm, fflags_), move);
    default: return illegal(d);
  }
}

Host::Outcome Host::execute_float(const riscv::Decoded& d) {
  if (!(mstatus_ & kFs)) return illegal(d);
  switch (d.op) {
    case Op::FCVT_S_D:
      if (rounding(d) > softfloat::kNearestAway) return illegal(d);
      return write_float<Binary32>(d, softfloat::narrow(operand<Binary64>(d.rs1), rounding(d), fflags_),
                                   options_.float_move_latency);
    case Op::FCVT_D_S:
      if (rounding(d) > softfloat::kNearestAway) return illegal(d);
      return write_float<Binary64>(d, softfloat::widen(operand<Binary32>(d.rs1), fflags_),
                                   options_.float_move_latency);

#define BACO_BOTH(name) \
  case Op::name##_S: return arithmetic<Binary32>(d, Op::name##_S); \
  case Op::name##_D: return arithmetic<Binary64>(d, Op::name##_S);
    BACO_BOTH(FMADD)
    BACO_BOTH(FMSUB)
    BACO_BOTH(FNMSUB)
    BACO_BOTH(FNMADD)
    BACO_BOTH(FADD)
    BACO_BOTH(FSUB)
    BACO_BOTH(FMUL)
    BACO_BOTH(FDIV)
    BACO_BOTH(FSQRT)
    BACO_BOTH(FSGNJ)
    BACO_BOTH(FSGNJN)
    BACO_BOTH(FSGNJX)
    BACO_BOTH(FMIN)
    BACO_BOTH(FMAX)
    BACO_BOTH(FLE)
    BACO_BOTH(FLT)
    BACO_BOTH(FEQ)
    BACO_BOTH(FCLASS)
    BACO_BOTH(FCVT_W)
    BACO_BOTH(FCVT_WU)
    BACO_BOTH(FCVT_L)
    BACO_BOTH(FCVT_LU)
#undef BACO_BOTH
#define BACO_BOTH(single_form, double_form) \
  case Op::single_form: return arithmetic<Binary32>(d, Op::single_form); \
  case Op::double_form: return arithmetic<Binary64>(d, Op::single_form);
    BACO_BOTH(FCVT_S_W, FCVT_D_W)
    BACO_BOTH(FCVT_S_WU, FCVT_D_WU)
    BACO_BOTH(FCVT_S_L, FCVT_D_L)
    BACO_BOTH(FCVT_S_LU, FCVT_D_LU)
    BACO_BOTH(FMV_X_W, FMV_X_D)
    BACO_BOTH(FMV_W_X, FMV_D_X)
#undef BACO_BOTH
    default: return illegal(d);
  }
}

}  // namespace baco
