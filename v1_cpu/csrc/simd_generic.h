// The vocabulary of vectors in plain C++ (GCC and Clang vector extensions): four floats, any architecture.
//
// Every simd_*.h gives the same names: V, W, vzero ... vexp2, load2 (2 * W elements of a storage type as two vectors), interleave.
// A pair of vectors from `load2` holds its elements in an order of the type: even and odd ones for bf16 (and float8 where
// FLOAT8_PAIRED), else the first and the second W. Sums over a row do not care; columns of the output are put back by `interleave`.

typedef float V __attribute__((vector_size(16)));
typedef int32_t I __attribute__((vector_size(16)));
constexpr int W = 4;
constexpr int GEMM_ROWS = 4, GEMM_VECTORS = 2, GEMM_BLOCK = 16, GEMM_KEYS = 256;  // the packed kernel's register tile, rows of a block, keys of a tile
constexpr bool FETCH_INTO_FIRST = false;        // whether a decode fetches keys into the first-level cache
constexpr int FETCH_FLOATS_FROM = 1;            // query rows from which on a decode fetches float32 keys ahead
constexpr int DIRECT_PAIRS = 1;                 // pairs of output vectors per pass of the direct kernel
constexpr bool FLOAT8_PAIRED = false;

static inline V vzero() { return V{0, 0, 0, 0}; }
static inline V vset(float x) { return V{x, x, x, x}; }
static inline V vload(const float* p) { V v; __builtin_memcpy(&v, p, 16); return v; }
static inline void vstore(float* p, V v) { __builtin_memcpy(p, &v, 16); }
static inline V vadd(V a, V b) { return a + b; }
static inline V vsub(V a, V b) { return a - b; }
static inline V vmul(V a, V b) { return a * b; }
static inline V vinverse(V a) { return vset(1.0f) / a; }
static inline V vfma(V a, V b, V c) { return a * b + c; }
static inline V vmax(V a, V b) { return (V)(((I)a & (a > b)) | ((I)b & ~(a > b))); }
static inline V vmin(V a, V b) { return (V)(((I)a & (a < b)) | ((I)b & ~(a < b))); }
static inline V viota() { return V{0, 1, 2, 3}; }
static inline float vsum(V v) { return (v[0] + v[1]) + (v[2] + v[3]); }
static inline float vmaximum(V v) {
  const float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
  return a > b ? a : b;
}
// Lane i of the result is the sum (the maximum) of vector i.
static inline V vsums(const V* a) { return V{vsum(a[0]), vsum(a[1]), vsum(a[2]), vsum(a[3])}; }
static inline V vmaxima(const V* a) { return V{vmaximum(a[0]), vmaximum(a[1]), vmaximum(a[2]), vmaximum(a[3])}; }
// Four floats, repeated; and of four vectors the sums over groups of four lanes: lane 4g + i is that of group g of vector i.
static inline V vquad(const float* p) { return vload(p); }
static inline V vquads(const V* a) { return vsums(a); }

// The nearest integer to x, |x| < 2^22, as a float; `shifted` has it in the low mantissa bits.
static inline V vround(V x, V& shifted) {
  const V magic = vset(12582912.0f);
  shifted = x + magic;
  return shifted - magic;
}
// p * 2^n, n in [-127, 127] from vround's `shifted`; n = -127 gives 0.
static inline V vscale2(V p, V, V shifted) { return p * (V)(((I)shifted << 23) + (127 << 23)); }

static inline void interleave(V& a, V& b) {
  const V lo{a[0], b[0], a[1], b[1]}, hi{a[2], b[2], a[3], b[3]};
  a = lo;
  b = hi;
}
static inline void vtranspose(V* v) {
  for (int i = 0; i < W; i++)
    for (int j = i + 1; j < W; j++) {
      const float t = v[i][j];
      v[i][j] = v[j][i];
      v[j][i] = t;
    }
}

template <class T> static inline void load2(const T* p, V& a, V& b) {
  a = V{widen(p[0]), widen(p[1]), widen(p[2]), widen(p[3])};
  b = V{widen(p[4]), widen(p[5]), widen(p[6]), widen(p[7])};
}
static inline void load2(const float* p, V& a, V& b) { a = vload(p); b = vload(p + W); }
static inline void load2(const bf16* p, V& a, V& b) {
  I words;
  __builtin_memcpy(&words, p, 16);
  a = (V)(words << 16);
  b = (V)(words & I{-65536, -65536, -65536, -65536});
}
template <class T> static inline void load2_tail(const T* p, int n, V& a, V& b) {
  T padded[2 * W] = {};
  __builtin_memcpy(padded, p, n * sizeof(T));
  load2(padded, a, b);
}
template <class T> static inline void store_row(T* out, const float* x, int n, float factor) {
  for (int i = 0; i < n; i++) narrow(x[i] * factor, out[i]);
}
