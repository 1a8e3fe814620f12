// The products of packed.h on AMX tiles: 32 rows by 32 columns in four accumulators, 32 bf16 deep per step.
// The panels of packed.h are AMX's own layout (pairs of k per 32-bit column), read with the panel's stride.

struct TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
struct TileScope {  // tiles are configured while one lives
  TileScope() {
    static const TileConfig config __attribute__((aligned(64)));
    _tile_loadconfig(&config);
  }
  // Four columns in the tiles that hold queries (7) and scores (0-3): for up to four query rows.
  explicit TileScope(bool narrow) {
    TileConfig config __attribute__((aligned(64)));
    if (narrow) {
      for (int i = 0; i < 4; i++) config.bytes_per_row[i] = 16;
      config.bytes_per_row[7] = 16;
    }
    _tile_loadconfig(&config);
  }
  ~TileScope() { _tile_release(); }
};

// Operands have been stored by vectors; to a compiler a tile's load reads no memory.
#define FINISH_STORES __asm__ volatile("" ::: "memory")

// A store waits for its accumulator's last product, and its sixteen rows fill the queue that the next loads need: the accumulators of
// a block are therefore stored among the first products of the next. Macros, as a tile's number is part of the instruction.
#define STORE_BLOCK(tile) \
  if (done && (tile < 2 || done_two)) _tile_stored(tile, done + tile / 2 * 16 * ldc + tile % 2 * 16, ldc * 4)
#define BEGIN_BLOCK(tile) \
  if (accumulate) _tile_loadd(tile, c0 + tile / 2 * 16 * ldc + tile % 2 * 16, ldc * 4); \
  else _tile_zero(tile)

template <>
inline void gemm<PairWords>(const float* a, int64_t lda, int64_t, int64_t rows, const float* b, int64_t panel_words, int64_t words, float* c,
                            int64_t ldc, int64_t columns, bool accumulate) {
  constexpr int64_t panel_bytes = PairWords::PANEL * 4;
  FINISH_STORES;
  float* done = nullptr;  // the block whose accumulators are still to be stored
  bool done_two = false;
  for (int64_t column = 0; column < columns; column += 32) {
    const float* panel = b + column / PairWords::PANEL * panel_words * PairWords::PANEL + column % PairWords::PANEL;
    for (int64_t r = 0; r < rows; r += 32) {
      const bool two = rows - r > 16;
      const float *a0 = a + r * lda, *a1 = a0 + 16 * lda;
      float* c0 = c + r * ldc + column;
      _tile_loadd(4, a0, lda * 4);
      _tile_loadd(6, panel, panel_bytes);
      STORE_BLOCK(0);
      BEGIN_BLOCK(0);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, panel + 16, panel_bytes);
      STORE_BLOCK(1);
      BEGIN_BLOCK(1);
      _tile_dpbf16ps(1, 4, 7);
      STORE_BLOCK(2);
      STORE_BLOCK(3);
      if (two) {
        _tile_loadd(5, a1, lda * 4);
        BEGIN_BLOCK(2);
        _tile_dpbf16ps(2, 5, 6);
        BEGIN_BLOCK(3);
        _tile_dpbf16ps(3, 5, 7);
        for (int64_t k = 16; k < words; k += 16) {
          _tile_loadd(4, a0 + k, lda * 4);
          _tile_loadd(6, panel + k * PairWords::PANEL, panel_bytes);
          _tile_loadd(7, panel + k * PairWords::PANEL + 16, panel_bytes);
          _tile_loadd(5, a1 + k, lda * 4);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        }
      } else {
        for (int64_t k = 16; k < words; k += 16) {
          _tile_loadd(4, a0 + k, lda * 4);
          _tile_loadd(6, panel + k * PairWords::PANEL, panel_bytes);
          _tile_loadd(7, panel + k * PairWords::PANEL + 16, panel_bytes);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
        }
      }
      done = c0;
      done_two = two;
    }
  }
  STORE_BLOCK(0);
  STORE_BLOCK(1);
  STORE_BLOCK(2);
  STORE_BLOCK(3);
}
#undef STORE_BLOCK
#undef BEGIN_BLOCK

// The products of numbers in two or three parts, smallest first. Tiles 4 and 5 hold a part of a's rows, 6 and 7 one of b's columns, of
// which each product has one in common with the one before it: eight loads for twelve products, fourteen for twenty-four.
#define LOAD_A(part) \
  _tile_loadd(4, a + part * a_plane, lda * 4); \
  if (TWO) _tile_loadd(5, a + 16 * lda + part * a_plane, lda * 4)
#define LOAD_B(part) \
  _tile_loadd(6, b + part * b_plane, 128); \
  _tile_loadd(7, b + part * b_plane + 16, 128)
#define MULTIPLY \
  _tile_dpbf16ps(0, 4, 6); \
  _tile_dpbf16ps(1, 4, 7); \
  if (TWO) { \
    _tile_dpbf16ps(2, 5, 6); \
    _tile_dpbf16ps(3, 5, 7); \
  }
template <int PARTS, bool TWO>
static inline void split_products(const float* a, int64_t a_plane, int64_t lda, const float* b, int64_t b_plane) {
  if (PARTS == 3) {
    LOAD_A(2);
    LOAD_B(0);
    MULTIPLY;
    LOAD_A(1);
    MULTIPLY;
    LOAD_B(1);
    MULTIPLY;
    LOAD_A(0);
    MULTIPLY;
    LOAD_B(2);
    MULTIPLY;
    LOAD_B(0);
    MULTIPLY;
  } else {
    LOAD_A(1);
    LOAD_B(0);
    MULTIPLY;
    LOAD_A(0);
    MULTIPLY;
    LOAD_B(1);
    MULTIPLY;
  }
}
#undef LOAD_A
#undef LOAD_B
#undef MULTIPLY

// c[rows][columns] = (or +=) a[rows][words] b[words][columns], whole accumulators of 32 by 32; see `gemm` in packed.h.
template <int PARTS>
static inline void split_gemm(const float* a, int64_t lda, int64_t a_plane, int64_t rows, const float* b, int64_t panel_words,
                              int64_t words, float* c, int64_t ldc, int64_t columns, bool accumulate) {
  constexpr int64_t PANEL = SplitWords<PARTS>::PANEL;
  const int64_t b_plane = panel_words * PANEL;
  FINISH_STORES;
  for (int64_t column = 0; column < columns; column += 32, b += PARTS * b_plane)
    for (int64_t r = 0; r < rows; r += 32) {
      const bool two = r + 16 < rows;
      float* to = c + r * ldc + column;
      if (accumulate) {
        _tile_loadd(0, to, ldc * 4);
        _tile_loadd(1, to + 16, ldc * 4);
        if (two) {
          _tile_loadd(2, to + 16 * ldc, ldc * 4);
          _tile_loadd(3, to + 16 * ldc + 16, ldc * 4);
        }
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      const float* from = a + r * lda;
      if (two)
        for (int64_t k = 0; k < words; k += 16) split_products<PARTS, true>(from + k, a_plane, lda, b + k * PANEL, b_plane);
      else
        for (int64_t k = 0; k < words; k += 16) split_products<PARTS, false>(from + k, a_plane, lda, b + k * PANEL, b_plane);
      _tile_stored(0, to, ldc * 4);
      _tile_stored(1, to + 16, ldc * 4);
      if (two) {
        _tile_stored(2, to + 16 * ldc, ldc * 4);
        _tile_stored(3, to + 16 * ldc + 16, ldc * 4);
      }
    }
}
template <>
inline void gemm<SplitWords<2>>(const float* a, int64_t lda, int64_t plane, int64_t rows, const float* b, int64_t panel_words, int64_t words,
                                float* c, int64_t ldc, int64_t columns, bool accumulate) {
  split_gemm<2>(a, lda, plane, rows, b, panel_words, words, c, ldc, columns, accumulate);
}
template <>
inline void gemm<SplitWords<3>>(const float* a, int64_t lda, int64_t plane, int64_t rows, const float* b, int64_t panel_words, int64_t words,
                                float* c, int64_t ldc, int64_t columns, bool accumulate) {
  split_gemm<3>(a, lda, plane, rows, b, panel_words, words, c, ldc, columns, accumulate);
}
#undef FINISH_STORES
