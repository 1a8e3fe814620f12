// Storage types and their scalar conversions. Included inside a namespace of the instruction set, so that no two objects share a
// function. No standard library: its inline functions would be merged by the linker across instruction sets.

struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };
struct e4m3 { uint8_t bits; };
struct e5m2 { uint8_t bits; };

static inline float from_bits(uint32_t u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
static inline uint32_t to_bits(float f) { uint32_t u; __builtin_memcpy(&u, &f, 4); return u; }

static inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) return from_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  return from_bits(to_bits(float(int(magnitude & 0x3ff) + (magnitude >= 0x400 ? 0x400 : 0)) *
                           from_bits((127u - 24 + (magnitude >= 0x400 ? (magnitude >> 10) - 1 : 0)) << 23)) | sign);
}

static inline float widen(float x) { return x; }
static inline float widen(bf16 x) { return from_bits(uint32_t(x.bits) << 16); }
static inline float widen(f16 x) { return half_to_float(x.bits); }
static inline float widen(e5m2 x) { return half_to_float(uint16_t(x.bits << 8)); }
static inline float widen(e4m3 x) {  // through half: same mantissa bits, exponent bias 15 instead of 7
  const uint32_t magnitude = x.bits & 0x7f;
  if (magnitude == 0x7f) return from_bits(0x7fc00000);
  return half_to_float(uint16_t((x.bits & 0x80) << 8 | magnitude << 7)) * 256.0f;
}

// Rounds to nearest even. NaN stays NaN.
static inline uint16_t float_to_bf16(float x) {
  const uint32_t u = to_bits(x);
  const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return uint16_t((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : rounded);
}

static inline uint16_t float_to_half(float x) {
  const uint32_t u = to_bits(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x38800000)  // below 2^-14: let the adder round at 2^-24
    return uint16_t(sign | (to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000));
  return uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

// float8 with `MANTISSA` bits, smallest normal 2^MIN_EXPONENT and largest finite value of bit pattern `MAX`; saturates, NaN stays.
template <int MANTISSA, int MIN_EXPONENT, int MAX>
static inline uint8_t float_to_float8(float x) {
  const uint32_t u = to_bits(x), sign = u >> 24 & 0x80, magnitude = u & 0x7fffffff;
  constexpr int shift = 23 - MANTISSA;
  constexpr uint32_t smallest_normal = uint32_t(127 + MIN_EXPONENT) << 23;
  // A power of two whose unit in the last place is the format's smallest step.
  constexpr uint32_t adder = uint32_t(127 + MIN_EXPONENT - MANTISSA + 23) << 23;
  const uint32_t tiny = to_bits(from_bits(magnitude) + from_bits(adder)) - adder;
  const uint32_t normal =
      (magnitude - smallest_normal + (1u << MANTISSA << shift) + ((1u << (shift - 1)) - 1) + (magnitude >> shift & 1)) >> shift;
  const uint32_t code = magnitude < smallest_normal ? tiny : normal;
  const uint32_t bounded = magnitude >= 0x7f800000 || code > MAX ? MAX : code;
  return uint8_t(sign | (magnitude > 0x7f800000 ? 0x7f : bounded));
}

static inline void narrow(float x, float& y) { y = x; }
static inline void narrow(float x, bf16& y) { y.bits = float_to_bf16(x); }
static inline void narrow(float x, f16& y) { y.bits = float_to_half(x); }
static inline void narrow(float x, e4m3& y) { y.bits = float_to_float8<3, -6, 0x7e>(x); }
static inline void narrow(float x, e5m2& y) { y.bits = float_to_float8<2, -14, 0x7b>(x); }
