// The vocabulary of vectors for AVX2 + FMA + F16C: eight floats. See simd_generic.h for what the names mean.

typedef __m256 V;
constexpr int W = 8;
constexpr int GEMM_ROWS = 6, GEMM_VECTORS = 2, GEMM_BLOCK = 24, GEMM_KEYS = 256;
constexpr bool FETCH_INTO_FIRST = false;
constexpr int FETCH_FLOATS_FROM = 1;
constexpr int DIRECT_PAIRS = 1;
constexpr bool FLOAT8_PAIRED = false;

static inline V vzero() { return _mm256_setzero_ps(); }
static inline V vset(float x) { return _mm256_set1_ps(x); }
static inline V vload(const float* p) { return _mm256_loadu_ps(p); }
static inline void vstore(float* p, V v) { _mm256_storeu_ps(p, v); }
#define V1_STREAMS
static inline void vstream(float* p, V v) { _mm256_stream_ps(p, v); }
static inline V vadd(V a, V b) { return _mm256_add_ps(a, b); }
static inline V vsub(V a, V b) { return _mm256_sub_ps(a, b); }
static inline V vmul(V a, V b) { return _mm256_mul_ps(a, b); }
static inline V vinverse(V a) { return _mm256_div_ps(vset(1.0f), a); }
static inline V vfma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
static inline V vmax(V a, V b) { return _mm256_max_ps(a, b); }
static inline V vmin(V a, V b) { return _mm256_min_ps(a, b); }
static inline V viota() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
static inline float vsum(V v) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
static inline float vmaximum(V v) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
template <class F> static inline V across(const V* a, F op) {  // lane i: op over the lanes of vector i
  V t[4], u[2];
  for (int i = 0; i < 4; i++) t[i] = op(_mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]));
  for (int i = 0; i < 2; i++)
    u[i] = op(_mm256_shuffle_ps(t[2 * i], t[2 * i + 1], 0x44), _mm256_shuffle_ps(t[2 * i], t[2 * i + 1], 0xee));
  return op(_mm256_permute2f128_ps(u[0], u[1], 0x20), _mm256_permute2f128_ps(u[0], u[1], 0x31));
}
static inline V vsums(const V* a) { return across(a, vadd); }
static inline V vmaxima(const V* a) { return across(a, vmax); }
static inline V vquad(const float* p) { return _mm256_broadcast_ps((const __m128*)p); }
static inline V vquads(const V* a) {
  const V t = vadd(_mm256_unpacklo_ps(a[0], a[1]), _mm256_unpackhi_ps(a[0], a[1]));
  const V u = vadd(_mm256_unpacklo_ps(a[2], a[3]), _mm256_unpackhi_ps(a[2], a[3]));
  return vadd(_mm256_shuffle_ps(t, u, 0x44), _mm256_shuffle_ps(t, u, 0xee));
}
static inline V vround(V x, V& shifted) {
  const V magic = vset(12582912.0f);
  shifted = vadd(x, magic);
  return vsub(shifted, magic);
}
static inline V vscale2(V p, V, V shifted) {
  const __m256i power = _mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(shifted), 23), _mm256_set1_epi32(127 << 23));
  return vmul(p, _mm256_castsi256_ps(power));
}
static inline void interleave(V& a, V& b) {
  const V lo = _mm256_unpacklo_ps(a, b), hi = _mm256_unpackhi_ps(a, b);
  a = _mm256_permute2f128_ps(lo, hi, 0x20);
  b = _mm256_permute2f128_ps(lo, hi, 0x31);
}
static inline void vtranspose(V* v) {
  V t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    v[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    v[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    v[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    v[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; i++) {
    t[i] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
  }
  for (int i = 0; i < 8; i++) v[i] = t[i];
}

static inline void load2(const float* p, V& a, V& b) { a = vload(p); b = vload(p + W); }
static inline void load2(const bf16* p, V& a, V& b) {
  const __m256i words = _mm256_loadu_si256((const __m256i*)p);
  a = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  b = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(-65536)));
}
static inline void load2(const f16* p, V& a, V& b) {
  a = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
  b = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p + 1));
}
static inline void load2(const e5m2* p, V& a, V& b) {
  const __m256i half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)p)), 8);
  a = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
  b = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
}
static inline void load2(const e4m3* p, V& a, V& b) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p));
  const __m256i magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
  const __m256i nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
  const __m256i sign = _mm256_and_si256(wide, _mm256_set1_epi16(int16_t(0x8000)));
  const __m256i half = _mm256_or_si256(_mm256_or_si256(sign, _mm256_slli_epi16(magnitude, 7)),
                                       _mm256_and_si256(nan, _mm256_set1_epi16(0x7fff)));
  a = vmul(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), vset(256.0f));
  b = vmul(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), vset(256.0f));
}
template <class T> static inline void load2_tail(const T* p, int n, V& a, V& b) {
  T padded[2 * W] = {};
  __builtin_memcpy(padded, p, n * sizeof(T));
  load2(padded, a, b);
}
template <class T> static inline void store_row(T* out, const float* x, int n, float factor) {
  for (int i = 0; i < n; i++) narrow(x[i] * factor, out[i]);
}
static inline void store_row(f16* out, const float* x, int n, float factor) {
  int i = 0;
  for (; i + W <= n; i += W)
    _mm_storeu_si128((__m128i*)(out + i), _mm256_cvtps_ph(vmul(vload(x + i), vset(factor)), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; i++) narrow(x[i] * factor, out[i]);
}
