// AMX tiles in plain C++, for machines without them: isa_amx.cpp includes this after <immintrin.h> (see builds.py).
// What the instructions are defined to do with palette 1; what they refuse ends the program.

struct EmulatedTiles {
  bool configured = false;
  uint16_t bytes_per_row[8] = {};
  uint8_t rows[8] = {};
  alignas(64) unsigned char data[8][16][64] = {};
  void need(bool holds, const char* what) const {
    if (holds) return;
    __builtin_printf("emulated tiles: %s\n", what);
    __builtin_trap();
  }
  void used(int tile) const { need(configured && rows[tile], "a tile that is not configured"); }
};
static thread_local EmulatedTiles emulated_tiles;

static inline void emulated_loadconfig(const void* from) {
  EmulatedTiles& t = emulated_tiles;
  const unsigned char* config = (const unsigned char*)from;
  t = EmulatedTiles();
  t.need(config[0] == 1 && config[1] == 0, "a palette or start row that is not served");
  t.configured = true;
  __builtin_memcpy(t.bytes_per_row, config + 16, sizeof t.bytes_per_row);
  __builtin_memcpy(t.rows, config + 48, sizeof t.rows);
  for (int i = 0; i < 8; i++) t.need(t.rows[i] <= 16 && t.bytes_per_row[i] <= 64, "a tile that is too large");
}
static inline void emulated_release() { emulated_tiles = EmulatedTiles(); }
static inline void emulated_zero(int tile) {
  emulated_tiles.used(tile);
  __builtin_memset(emulated_tiles.data[tile], 0, sizeof emulated_tiles.data[tile]);
}
static inline void emulated_load(int tile, const void* from, int64_t stride) {
  emulated_zero(tile);
  for (int row = 0; row < emulated_tiles.rows[tile]; row++)
    __builtin_memcpy(emulated_tiles.data[tile][row], (const char*)from + row * stride, emulated_tiles.bytes_per_row[tile]);
}
static inline void emulated_store(int tile, void* to, int64_t stride) {
  emulated_tiles.used(tile);
  for (int row = 0; row < emulated_tiles.rows[tile]; row++)
    __builtin_memcpy((char*)to + row * stride, emulated_tiles.data[tile][row], emulated_tiles.bytes_per_row[tile]);
}
__attribute__((optimize("O3"))) static inline void emulated_dot(int to, int left, int right) {
  EmulatedTiles& t = emulated_tiles;
  t.used(to);
  t.used(left);
  t.used(right);
  const int depth = t.bytes_per_row[left] / 4;
  t.need(t.rows[to] == t.rows[left] && t.rows[right] == depth && t.bytes_per_row[to] == t.bytes_per_row[right],
         "tiles whose shapes do not fit");
  for (int row = 0; row < t.rows[to]; row++) {
    float sums[16], pairs[16][2];
    __builtin_memcpy(sums, t.data[to][row], 64);
    for (int k = 0; k < depth; k++) {
      uint32_t a, b[16];
      __builtin_memcpy(&a, t.data[left][row] + 4 * k, 4);
      __builtin_memcpy(b, t.data[right][k], 64);
      const uint32_t a_pair[2] = {a << 16, a & 0xffff0000};
      float a_of[2];
      __builtin_memcpy(a_of, a_pair, 8);
      for (int column = 0; column < 16; column++) {
        const uint32_t pair[2] = {b[column] << 16, b[column] & 0xffff0000};
        __builtin_memcpy(pairs[column], pair, 8);
      }
      for (int column = 0; column < 16; column++)
        sums[column] += a_of[0] * pairs[column][0] + a_of[1] * pairs[column][1];
    }
    __builtin_memcpy(t.data[to][row], sums, t.bytes_per_row[to]);
  }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated_loadconfig
#define _tile_release emulated_release
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_zero emulated_zero
#define _tile_dpbf16ps emulated_dot
