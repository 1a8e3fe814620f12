// The vocabulary of vectors for AVX-512 (F, BW, VL, DQ): sixteen floats. See simd_generic.h for what the names mean.
// With AVX-512-BF16 the pair vocabulary comes on top: `Words` are vectors of two bf16 per 32-bit lane, `vdot` their products.

typedef __m512 V;
constexpr int W = 16;
constexpr int GEMM_ROWS = 6, GEMM_VECTORS = 4, GEMM_BLOCK = 48;
#ifdef __AMX_BF16__
constexpr int GEMM_KEYS = 256;
#else
constexpr int GEMM_KEYS = 512;
#endif
#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)  // AMD's, which follow a few rows of float32 by themselves
constexpr bool FETCH_INTO_FIRST = true;
constexpr int FETCH_FLOATS_FROM = 5;
#else
constexpr bool FETCH_INTO_FIRST = false;
constexpr int FETCH_FLOATS_FROM = 1;
#endif
constexpr int DIRECT_PAIRS = 2;
constexpr bool FLOAT8_PAIRED = true;

static inline V vzero() { return _mm512_setzero_ps(); }
static inline V vset(float x) { return _mm512_set1_ps(x); }
static inline V vload(const float* p) { return _mm512_loadu_ps(p); }
static inline void vstore(float* p, V v) { _mm512_storeu_ps(p, v); }
#define V1_STREAMS
static inline void vstream(float* p, V v) { _mm512_stream_ps(p, v); }
static inline V vadd(V a, V b) { return _mm512_add_ps(a, b); }
static inline V vsub(V a, V b) { return _mm512_sub_ps(a, b); }
static inline V vmul(V a, V b) { return _mm512_mul_ps(a, b); }
static inline V vfma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
static inline V vmax(V a, V b) { return _mm512_max_ps(a, b); }
static inline V vinverse(V a) {  // an estimate of 14 bits and one step of Newton's: a division takes as long as sixteen multiply-adds
  const V x = _mm512_rcp14_ps(a);
  return vmul(x, _mm512_fnmadd_ps(a, x, vset(2.0f)));
}
static inline V vmin(V a, V b) { return _mm512_min_ps(a, b); }
static inline V viota() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
static inline float vsum(V v) { return _mm512_reduce_add_ps(v); }
static inline float vmaximum(V v) { return _mm512_reduce_max_ps(v); }

static inline V unpack_low(V a, V b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
static inline V unpack_high(V a, V b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
template <class F> static inline V across(const V* a, F op) {  // lane i: op over the lanes of vector i
  V t[8], u[4], v[2];
  for (int i = 0; i < 8; i++)
    t[i] = op(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
  for (int i = 0; i < 4; i++) u[i] = op(unpack_low(t[2 * i], t[2 * i + 1]), unpack_high(t[2 * i], t[2 * i + 1]));
  for (int i = 0; i < 2; i++)
    v[i] = op(_mm512_shuffle_f32x4(u[2 * i], u[2 * i + 1], 0x88), _mm512_shuffle_f32x4(u[2 * i], u[2 * i + 1], 0xdd));
  return op(_mm512_shuffle_f32x4(v[0], v[1], 0x88), _mm512_shuffle_f32x4(v[0], v[1], 0xdd));
}
static inline V vsums(const V* a) { return across(a, vadd); }
static inline V vmaxima(const V* a) { return across(a, vmax); }
static inline V vquad(const float* p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
static inline V vquads(const V* a) {
  const V t = vadd(_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]));
  const V u = vadd(_mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3]));
  return vadd(unpack_low(t, u), unpack_high(t, u));
}
static inline void interleave(V& a, V& b) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const V first = _mm512_permutex2var_ps(a, low, b);
  b = _mm512_permutex2var_ps(a, high, b);
  a = first;
}
static inline void vtranspose(V* v) {
  V t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; j++) {
      v[i + 2 * j] = unpack_low(t[i + j], t[i + j + 2]);
      v[i + 2 * j + 1] = unpack_high(t[i + j], t[i + j + 2]);
    }
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; i++) {
    v[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    v[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    v[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    v[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// Loads of n <= 2 * W elements as raw bits; the rest is zero and not touched.
static inline __mmask32 first(int n) { return n >= 32 ? ~0u : (1u << n) - 1; }

static inline void widen_bf16(__m512i words, V& a, V& b) {
  a = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  b = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(-65536)));
}
static inline void widen_half(__m512i half, V& a, V& b) {
  a = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
  b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
}
// float8 as bf16, exactly: exponent and mantissa move up and change their bias; the smallest numbers and NaN (and e5m2's infinity)
// come from a table, indexed by their low five bits.
template <int SHIFT, int BIAS, int FIRST_NORMAL, int PAST_NORMAL>
static inline __m512i float8_to_bf16(__m256i bytes, __m512i table) {
  const __m512i wide = _mm512_cvtepi8_epi16(bytes), magnitude = _mm512_and_si512(wide, _mm512_set1_epi16(0x7f));
  const __m512i moved = _mm512_add_epi16(_mm512_slli_epi16(magnitude, SHIFT), _mm512_set1_epi16(BIAS));
  const __mmask32 special = _mm512_cmpge_epu16_mask(_mm512_sub_epi16(magnitude, _mm512_set1_epi16(FIRST_NORMAL)),
                                                    _mm512_set1_epi16(PAST_NORMAL - FIRST_NORMAL));
  const __m512i value = _mm512_mask_permutexvar_epi16(moved, special, magnitude, table);
  return _mm512_ternarylogic_epi32(value, wide, _mm512_set1_epi16(int16_t(0x8000)), 0xf8);  // value | (wide & sign)
}
alignas(64) static const uint16_t E4M3_TABLE[32] = {0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0, 0, 0, 0, 0, 0, 0, 0,
                                                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7fc0};
alignas(64) static const uint16_t E5M2_TABLE[32] = {0, 0x3780, 0x3800, 0x3840, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f80, 0x7fc0, 0x7fc0, 0x7fc0};
static inline __m512i bf16_of(const e4m3*, __m256i bytes) {
  return float8_to_bf16<4, 120 << 7, 8, 0x7f>(bytes, _mm512_load_si512(E4M3_TABLE));
}
static inline __m512i bf16_of(const e5m2*, __m256i bytes) {
  return float8_to_bf16<5, 112 << 7, 4, 0x7c>(bytes, _mm512_load_si512(E5M2_TABLE));
}

static inline void load2(const float* p, V& a, V& b) { a = vload(p); b = vload(p + W); }
static inline void load2(const bf16* p, V& a, V& b) { widen_bf16(_mm512_loadu_si512(p), a, b); }
static inline void load2(const f16* p, V& a, V& b) { widen_half(_mm512_loadu_si512(p), a, b); }
static inline void load2(const e4m3* p, V& a, V& b) { widen_bf16(bf16_of(p, _mm256_loadu_si256((const __m256i*)p)), a, b); }
static inline void load2(const e5m2* p, V& a, V& b) { widen_bf16(bf16_of(p, _mm256_loadu_si256((const __m256i*)p)), a, b); }
static inline void load2_tail(const float* p, int n, V& a, V& b) {
  a = _mm512_maskz_loadu_ps(__mmask16(first(n)), p);
  b = _mm512_maskz_loadu_ps(__mmask16(first(n) >> 16), p + W);
}
static inline void load2_tail(const bf16* p, int n, V& a, V& b) { widen_bf16(_mm512_maskz_loadu_epi16(first(n), p), a, b); }
static inline void load2_tail(const f16* p, int n, V& a, V& b) { widen_half(_mm512_maskz_loadu_epi16(first(n), p), a, b); }
static inline void load2_tail(const e4m3* p, int n, V& a, V& b) {
  widen_bf16(bf16_of(p, _mm256_maskz_loadu_epi8(first(n), p)), a, b);
}
static inline void load2_tail(const e5m2* p, int n, V& a, V& b) {
  widen_bf16(bf16_of(p, _mm256_maskz_loadu_epi8(first(n), p)), a, b);
}

static inline __m512i bf16_bits(V x) {  // in the low half of each lane; rounds to nearest even, NaN stays NaN
  const __m512i u = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  return _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0));
}
static inline void store_row(float* out, const float* x, int n, float factor) {
  for (int i = 0; i < n; i += W)
    _mm512_mask_storeu_ps(out + i, __mmask16(first(n - i)), vmul(_mm512_maskz_loadu_ps(__mmask16(first(n - i)), x + i), vset(factor)));
}
static inline void store_row(bf16* out, const float* x, int n, float factor) {
  for (int i = 0; i < n; i += W) {
    const V v = vmul(_mm512_maskz_loadu_ps(__mmask16(first(n - i)), x + i), vset(factor));
    _mm256_mask_storeu_epi16(out + i, __mmask16(first(n - i)), _mm512_cvtepi32_epi16(bf16_bits(v)));
  }
}
static inline void store_row(f16* out, const float* x, int n, float factor) {
  for (int i = 0; i < n; i += W) {
    const V v = vmul(_mm512_maskz_loadu_ps(__mmask16(first(n - i)), x + i), vset(factor));
    _mm256_mask_storeu_epi16(out + i, __mmask16(first(n - i)), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
}

#ifdef __AVX512BF16__
#define V1_WORDS
typedef __m512i Words;
static inline V vdot(V sum, Words a, Words b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
static inline Words pack_words(V low, V high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }  // element order
static inline Words zip_words(V low, V high) {  // a word per lane
  const __m512i order = _mm512_setr_epi32(0x00100000, 0x00110001, 0x00120002, 0x00130003, 0x00140004, 0x00150005, 0x00160006, 0x00170007, 0x00180008,
                                          0x00190009, 0x001a000a, 0x001b000b, 0x001c000c, 0x001d000d, 0x001e000e, 0x001f000f);
  return _mm512_permutexvar_epi16(order, pack_words(low, high));
}
static inline Words load_words(const bf16* p) { return _mm512_loadu_si512(p); }
static inline Words load_words_tail(const bf16* p, int n) { return _mm512_maskz_loadu_epi16(first(n), p); }
template <class T> static inline Words load_words(const T* p) { return bf16_of(p, _mm256_loadu_si256((const __m256i*)p)); }
template <class T> static inline Words load_words_tail(const T* p, int n) { return bf16_of(p, _mm256_maskz_loadu_epi8(first(n), p)); }
// Rows t and t + 1 to words (t, t + 1) per column, in the column order that `unzip_columns` undoes.
static inline void zip_rows(Words even, Words odd, Words& a, Words& b) {
  a = _mm512_unpacklo_epi16(even, odd);
  b = _mm512_unpackhi_epi16(even, odd);
}
static inline void unzip_columns(V& a, V& b) {
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const V first = _mm512_permutex2var_ps(a, low, b);
  b = _mm512_permutex2var_ps(a, high, b);
  a = first;
}
#ifdef __AVX512VBMI__
// 64 float8 numbers (n of them; the rest is zero) as bf16, exactly, by two look-ups of bytes; `converted_element` is the order.
struct Float8Bytes {
  alignas(64) uint8_t low[128], high[128];
};
static constexpr Float8Bytes float8_bytes(int mantissa, int bias, int nan_from) {
  Float8Bytes t{};
  for (int code = 0; code < 128; code++) {
    int exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1), bits = 0;
    if (code >= nan_from) bits = mantissa == 2 && code == nan_from ? 0x7f80 : 0x7fc0;  // e5m2 has an infinity
    else if (exponent) bits = (exponent + 127 - bias) << 7 | fraction << (7 - mantissa);
    else if (fraction) {
      exponent = 1;
      while (!(fraction >> mantissa)) fraction <<= 1, exponent--;
      bits = (exponent + 127 - bias) << 7 | (fraction & ((1 << mantissa) - 1)) << (7 - mantissa);
    }
    t.low[code] = uint8_t(bits);
    t.high[code] = uint8_t(bits >> 8);
  }
  return t;
}
static constexpr Float8Bytes E4M3_BYTES = float8_bytes(3, 7, 0x7f), E5M2_BYTES = float8_bytes(2, 15, 0x7c);
static inline const Float8Bytes& bytes_of(const e4m3*) { return E4M3_BYTES; }
static inline const Float8Bytes& bytes_of(const e5m2*) { return E5M2_BYTES; }
template <class T> static inline void convert64(const T* p, int n, Words& a, Words& b) {
  const Float8Bytes& t = bytes_of(p);
  const Words codes = n == 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(n >= 64 ? ~0ull : (1ull << n) - 1, p);
  const Words low = _mm512_permutex2var_epi8(_mm512_load_si512(t.low), codes, _mm512_load_si512(t.low + 64));
  const Words magnitude = _mm512_permutex2var_epi8(_mm512_load_si512(t.high), codes, _mm512_load_si512(t.high + 64));
  const Words high = _mm512_ternarylogic_epi32(magnitude, codes, _mm512_set1_epi8(int8_t(0x80)), 0xf8);  // magnitude | (codes & sign)
  a = _mm512_unpacklo_epi8(low, high);
  b = _mm512_unpackhi_epi8(low, high);
}
// Which element stands at place i after `convert64`.
static inline int64_t converted_element(int64_t i) { return i / 64 * 64 + i % 32 / 8 * 16 + i % 64 / 32 * 8 + i % 8; }
#endif
#endif
