// The vocabulary of vectors for NEON (AArch64): four floats. See simd_generic.h for what the names mean.
// With the BF16 extension the pair vocabulary comes on top, as in simd_avx512.h.

typedef float32x4_t V;
constexpr int W = 4;
constexpr int GEMM_ROWS = 6, GEMM_VECTORS = 4, GEMM_BLOCK = 24, GEMM_KEYS = 256;
constexpr bool FETCH_INTO_FIRST = false;
constexpr int FETCH_FLOATS_FROM = 1;
constexpr int DIRECT_PAIRS = 2;
constexpr bool FLOAT8_PAIRED = false;

static inline V vzero() { return vdupq_n_f32(0); }
static inline V vset(float x) { return vdupq_n_f32(x); }
static inline V vload(const float* p) { return vld1q_f32(p); }
static inline void vstore(float* p, V v) { vst1q_f32(p, v); }
static inline V vadd(V a, V b) { return vaddq_f32(a, b); }
static inline V vsub(V a, V b) { return vsubq_f32(a, b); }
static inline V vmul(V a, V b) { return vmulq_f32(a, b); }
static inline V vfma(V a, V b, V c) { return vfmaq_f32(c, a, b); }
static inline V vinverse(V a) { return vdivq_f32(vset(1.0f), a); }
// As on x86: the second operand if either is NaN.
static inline V vmax(V a, V b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline V vmin(V a, V b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline V viota() { return V{0, 1, 2, 3}; }
static inline float vsum(V v) { return vaddvq_f32(v); }
static inline float vmaximum(V v) { return vmaxnmvq_f32(v); }
static inline V vsums(const V* a) { return vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])); }
static inline V vmaxima(const V* a) { return vpmaxnmq_f32(vpmaxnmq_f32(a[0], a[1]), vpmaxnmq_f32(a[2], a[3])); }
static inline V vquad(const float* p) { return vload(p); }
static inline V vquads(const V* a) { return vsums(a); }

static inline V vround(V x, V& shifted) {
  const V magic = vset(12582912.0f);
  shifted = vadd(x, magic);
  return vsub(shifted, magic);
}
static inline V vscale2(V p, V, V shifted) {
  const int32x4_t power = vaddq_s32(vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23), vdupq_n_s32(127 << 23));
  return vmul(p, vreinterpretq_f32_s32(power));
}
static inline void interleave(V& a, V& b) {
  const V low = vzip1q_f32(a, b);
  b = vzip2q_f32(a, b);
  a = low;
}
static inline void vtranspose(V* v) {
  const V a = vtrn1q_f32(v[0], v[1]), b = vtrn2q_f32(v[0], v[1]), c = vtrn1q_f32(v[2], v[3]), d = vtrn2q_f32(v[2], v[3]);
  const auto low = [](V x, V y) { return vreinterpretq_f32_f64(vtrn1q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y))); };
  const auto high = [](V x, V y) { return vreinterpretq_f32_f64(vtrn2q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y))); };
  v[0] = low(a, c);
  v[1] = low(b, d);
  v[2] = high(a, c);
  v[3] = high(b, d);
}

static inline void widen_half(float16x8_t half, V& a, V& b) {
  a = vcvt_f32_f16(vget_low_f16(half));
  b = vcvt_high_f32_f16(half);
}
static inline void load2(const float* p, V& a, V& b) { a = vload(p); b = vload(p + W); }
static inline void load2(const bf16* p, V& a, V& b) {
  const uint32x4_t words = vreinterpretq_u32_u16(vld1q_u16((const uint16_t*)p));
  a = vreinterpretq_f32_u32(vshlq_n_u32(words, 16));
  b = vreinterpretq_f32_u32(vandq_u32(words, vdupq_n_u32(0xffff0000)));
}
static inline void load2(const f16* p, V& a, V& b) { widen_half(vreinterpretq_f16_u16(vld1q_u16((const uint16_t*)p)), a, b); }
static inline void load2(const e5m2* p, V& a, V& b) { widen_half(vreinterpretq_f16_u16(vshll_n_u8(vld1_u8((const uint8_t*)p), 8)), a, b); }
static inline void load2(const e4m3* p, V& a, V& b) {
  const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8((const uint8_t*)p)));
  const uint16x8_t bits = vreinterpretq_u16_s16(wide), magnitude = vandq_u16(bits, vdupq_n_u16(0x7f));
  const uint16x8_t nan = vandq_u16(vceqq_u16(magnitude, vdupq_n_u16(0x7f)), vdupq_n_u16(0x7fff));
  const uint16x8_t half = vorrq_u16(vorrq_u16(vandq_u16(bits, vdupq_n_u16(0x8000)), vshlq_n_u16(magnitude, 7)), nan);
  widen_half(vreinterpretq_f16_u16(half), a, b);
  a = vmul(a, vset(256.0f));
  b = vmul(b, vset(256.0f));
}
template <class T> static inline void load2_tail(const T* p, int n, V& a, V& b) {
  T padded[2 * W] = {};
  __builtin_memcpy(padded, p, n * sizeof(T));
  load2(padded, a, b);
}
template <class T> static inline void store_row(T* out, const float* x, int n, float factor) {
  for (int i = 0; i < n; i++) narrow(x[i] * factor, out[i]);
}

#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#define V1_WORDS
typedef uint32x4_t Words;
static inline V vdot(V sum, Words a, Words b) { return vbfdotq_f32(sum, vreinterpretq_bf16_u32(a), vreinterpretq_bf16_u32(b)); }
static inline Words pack_words(V low, V high) {  // element order
  return vreinterpretq_u32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
}
static inline Words zip_words(V low, V high) {  // a word per lane
  const uint16x8_t words = vreinterpretq_u16_u32(pack_words(low, high));
  return vreinterpretq_u32_u16(vzip1q_u16(words, vextq_u16(words, words, 4)));
}
static inline Words load_words(const bf16* p) { return vreinterpretq_u32_u16(vld1q_u16((const uint16_t*)p)); }
template <class T> static inline Words load_words(const T* p) {  // float8: exact
  V a, b;
  load2(p, a, b);
  return pack_words(a, b);
}
template <class T> static inline Words load_words_tail(const T* p, int n) {
  T padded[2 * W] = {};
  __builtin_memcpy(padded, p, n * sizeof(T));
  return load_words(padded);
}
// Rows t and t + 1 to words (t, t + 1) per column: here in order.
static inline void zip_rows(Words even, Words odd, Words& a, Words& b) {
  const uint16x8_t x = vreinterpretq_u16_u32(even), y = vreinterpretq_u16_u32(odd);
  a = vreinterpretq_u32_u16(vzip1q_u16(x, y));
  b = vreinterpretq_u32_u16(vzip2q_u16(x, y));
}
static inline void unzip_columns(V&, V&) {}
#endif
