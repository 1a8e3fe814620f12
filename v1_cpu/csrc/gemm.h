// The products of packed.h: what a word is, and the register tile that multiplies words. AMX has tiles of its own (amx.h).

struct FloatWords {
  static constexpr int PER_WORD = 1, PLANES = 1;
  static constexpr int64_t PANEL = GEMM_VECTORS * W, KEYS = TILE, QUERIES = QUERY_ROWS;
  static constexpr int64_t ROWS = GEMM_ROWS, KEY_STEP = 1;
  static constexpr bool IN_REGISTERS = true;  // whether `gemm_tile` makes the products
  static int64_t block(const Call&) { return GEMM_BLOCK; }
  static inline V madd(V sum, V a, V b) { return vfma(a, b, sum); }
  static int64_t key_of(int64_t word, int) { return word; }
  static inline V weight(V x) { return vexp2(x); }
  static inline void store_weights(float* w, int64_t, V a, V b) {
    vstore(w, a);
    vstore(w + W, b);
  }
};
#ifdef V1_WORDS
struct PairWords {
  static constexpr int PER_WORD = 2, PLANES = 1;
  static constexpr int64_t PANEL = GEMM_VECTORS * W, KEYS = TILE, QUERIES = QUERY_ROWS;
#ifdef __AMX_BF16__
  static constexpr int64_t ROWS = 16, KEY_STEP = 32;
  static constexpr bool IN_REGISTERS = false;
  // Outputs of 64 rows beside keys and values of larger heads are too much for the second-level cache.
  static int64_t block(const Call& c) { return c.head_size > 128 ? 32 : 64; }
#else
  static constexpr int64_t ROWS = GEMM_ROWS, KEY_STEP = 2;
  static constexpr bool IN_REGISTERS = true;
  static int64_t block(const Call&) { return GEMM_BLOCK; }
#endif
  static inline V madd(V sum, V a, V b) { return vdot(sum, (Words)a, (Words)b); }
  static int64_t key_of(int64_t word, int half) { return 2 * word + half; }
  static inline V weight(V x) { return vexp2_coarse(x); }
  static inline void store_weights(float* w, int64_t, V a, V b) { vstore(w, (V)pack_words(a, b)); }
};
#endif
#ifdef __AMX_BF16__
// Products of wider numbers on bf16 tiles. A number is cut in parts of eight bits of mantissa, largest first: two for float16, whose
// products and rounded results need no more; three for float32, of which they are the whole. Products below the rounding of the type
// are left out: three of four, six of nine remain. A word pairs elements, or keys, sixteen apart.
template <int PARTS> struct SplitWords {
  static constexpr int PER_WORD = 2, PLANES = PARTS;
  static constexpr int64_t PANEL = 32, KEYS = TILE, QUERIES = 2 * QUERY_ROWS;  // rows per query tile: packed tiles are large
  static constexpr int64_t ROWS = 16, KEY_STEP = 32;
  static constexpr bool IN_REGISTERS = false;
  static int64_t block(const Call&) { return 32; }
  static int64_t key_of(int64_t word, int half) { return word / W * 2 * W + word % W + half * W; }
  static inline V weight(V x) { return vexp2(x); }
  static inline void store_weights(float* w, int64_t plane, V a, V b);
};
#endif

// The sums a[ROWS][words] b[words][N vectors], which `end` takes from the registers.
template <class M, int N, class End>
static inline void gemm_tile(const float* a, int64_t lda, const float* b, int64_t words, int64_t row, int64_t column, const End& end) {
  V sums[GEMM_ROWS][N];
  for (int r = 0; r < GEMM_ROWS; r++)
    for (int i = 0; i < N; i++) sums[r][i] = vzero();
  for (int64_t k = 0; k < words; k++) {
    V columns[N];
    for (int i = 0; i < N; i++) columns[i] = vload(b + k * M::PANEL + i * W);
    for (int r = 0; r < GEMM_ROWS; r++) {
      const V x = vset(a[r * lda + k]);
      for (int i = 0; i < N; i++) sums[r][i] = M::madd(sums[r][i], x, columns[i]);
    }
  }
  end(row, column, sums);
}
// `columns` a multiple of 2 * W, `rows` of M::ROWS; the panels of b are `panel_words` words apart.
template <class M, class End>
static inline void gemm_to(const float* a, int64_t lda, int64_t rows, const float* b, int64_t panel_words, int64_t words, int64_t columns,
                           const End& end) {
  for (int64_t column = 0; column < columns; column += M::PANEL, b += panel_words * M::PANEL)
    for (int64_t r = 0; r < rows; r += GEMM_ROWS) {
      if (columns - column >= M::PANEL) gemm_tile<M, GEMM_VECTORS>(a + r * lda, lda, b, words, r, column, end);
      else gemm_tile<M, 2>(a + r * lda, lda, b, words, r, column, end);
    }
}
// Sums to memory. What is accumulated is the sum of a tile, made apart: it rounds less than a running one.
struct ToMemory {
  float* c;
  int64_t ldc;
  bool accumulate;
  template <int N> inline void operator()(int64_t row, int64_t column, const V (&sums)[GEMM_ROWS][N]) const {
    float* to = c + row * ldc + column;
#pragma GCC unroll 8  // else a compiler takes the registers' way through memory
    for (int r = 0; r < GEMM_ROWS; r++, to += ldc)
      for (int i = 0; i < N; i++) vstore(to + i * W, accumulate ? vadd(vload(to + i * W), sums[r][i]) : sums[r][i]);
  }
};
// Scores to weights by the rows' earlier maxima, and their sums by lanes.
template <class M> struct ToWeights {
  float factor;
  const float* maximum;
  float* weights;
  int64_t stride, plane;
  float* sums_by_lanes;
  template <int N> inline void operator()(int64_t row, int64_t column, const V (&scores)[GEMM_ROWS][N]) const {
    const V by = vset(factor);
    float* w = weights + row * stride + column / M::PER_WORD;
#pragma GCC unroll 8
    for (int r = 0; r < GEMM_ROWS; r++, w += stride) {
      const V minus_base = vset(-maximum[row + r]);
      V total = vload(sums_by_lanes + row * W + r * W);
      for (int i = 0; i < N; i += 2) {
        const V a = M::weight(exponent_of(vfma(scores[r][i], by, minus_base))), b = M::weight(exponent_of(vfma(scores[r][i + 1], by, minus_base)));
        total = vadd(total, vadd(a, b));
        M::store_weights(w + i * W / M::PER_WORD, plane, a, b);
      }
      vstore(sums_by_lanes + row * W + r * W, total);
    }
  }
};
// c[rows][columns] = (or +=) a b; the planes of a are `plane` apart.
template <class M>
static inline void gemm(const float* a, int64_t lda, int64_t, int64_t rows, const float* b, int64_t panel_words, int64_t words, float* c,
                        int64_t ldc, int64_t columns, bool accumulate) {
  gemm_to<M>(a, lda, rows, b, panel_words, words, columns, ToMemory{c, ldc, accumulate});
}
#ifdef __AMX_BF16__
#include "amx.h"
#endif
