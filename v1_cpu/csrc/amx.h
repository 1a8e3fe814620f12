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

template <>
inline void gemm<PairWords>(const float* a, int64_t lda, int64_t rows, const float* b, int64_t panel_words, int64_t words, float* c,
                            int64_t ldc, int64_t columns, bool accumulate) {
  constexpr int64_t panel_bytes = PANEL * 4;
  for (int64_t column = 0; column < columns; column += 32) {
    const float* panel = b + column / PANEL * panel_words * PANEL + column % PANEL;
    for (int64_t r = 0; r < rows; r += 32) {
      const bool two = rows - r > 16;
      const float* a0 = a + r * lda;
      float* c0 = c + r * ldc + column;
      if (accumulate) {
        _tile_loadd(0, c0, ldc * 4);
        _tile_loadd(1, c0 + 16, ldc * 4);
        if (two) {
          _tile_loadd(2, c0 + 16 * ldc, ldc * 4);
          _tile_loadd(3, c0 + 16 * ldc + 16, ldc * 4);
        }
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      if (two)
        for (int64_t k = 0; k < words; k += 16) {
          _tile_loadd(4, a0 + k, lda * 4);
          _tile_loadd(6, panel + k * PANEL, panel_bytes);
          _tile_loadd(7, panel + k * PANEL + 16, panel_bytes);
          _tile_loadd(5, a0 + 16 * lda + k, lda * 4);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
          _tile_dpbf16ps(2, 5, 6);
          _tile_dpbf16ps(3, 5, 7);
        }
      else
        for (int64_t k = 0; k < words; k += 16) {
          _tile_loadd(4, a0 + k, lda * 4);
          _tile_loadd(6, panel + k * PANEL, panel_bytes);
          _tile_loadd(7, panel + k * PANEL + 16, panel_bytes);
          _tile_dpbf16ps(0, 4, 6);
          _tile_dpbf16ps(1, 4, 7);
        }
      _tile_stored(0, c0, ldc * 4);
      _tile_stored(1, c0 + 16, ldc * 4);
      if (two) {
        _tile_stored(2, c0 + 16 * ldc, ldc * 4);
        _tile_stored(3, c0 + 16 * ldc + 16, ldc * 4);
      }
    }
  }
}
