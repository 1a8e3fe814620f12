// The product of packed.h on AMX tiles: 32 rows by 32 columns in four accumulators, 32 bf16 deep per step.
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

// A store waits for its accumulator's last product, and its sixteen rows fill the queue that the next loads need: the accumulators of
// a block are therefore stored among the first products of the next. Macros, as a tile's number is part of the instruction.
#define STORE_BLOCK(tile) \
  if (done && (tile < 2 || done_two)) _tile_stored(tile, done + tile / 2 * 16 * ldc + tile % 2 * 16, ldc * 4)
#define BEGIN_BLOCK(tile) \
  if (accumulate) _tile_loadd(tile, c0 + tile / 2 * 16 * ldc + tile % 2 * 16, ldc * 4); \
  else _tile_zero(tile)

template <>
inline void gemm<PairWords>(const float* a, int64_t lda, int64_t rows, const float* b, int64_t panel_words, int64_t words, float* c,
                            int64_t ldc, int64_t columns, bool accumulate) {
  constexpr int64_t panel_bytes = PANEL * 4;
  float* done = nullptr;  // the block whose accumulators are still to be stored
  bool done_two = false;
  for (int64_t column = 0; column < columns; column += 32) {
    const float* panel = b + column / PANEL * panel_words * PANEL + column % PANEL;
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
          _tile_loadd(6, panel + k * PANEL, panel_bytes);
          _tile_loadd(7, panel + k * PANEL + 16, panel_bytes);
          _tile_loadd(5, a1 + k, lda * 4);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        }
      } else {
        for (int64_t k = 16; k < words; k += 16) {
          _tile_loadd(4, a0 + k, lda * 4);
          _tile_loadd(6, panel + k * PANEL, panel_bytes);
          _tile_loadd(7, panel + k * PANEL + 16, panel_bytes);
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
