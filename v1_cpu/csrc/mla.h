// The kernel for latents: one KV head whose values are the first columns of its keys, under many query rows, in float32.
//
// Nothing is packed but the queries. Scores are sums along the elements: a vector holds four elements of W / 4 rows, four vectors W
// rows, against which four elements of a key, repeated, are multiplied; its four lanes are added up at a key's end. Scores stand
// transposed, a key per line and a query row per lane: maxima and sums of the softmax need no shuffles, and the weights can be
// broadcast from where they are when the values, vectors of columns of the same rows, are added. Keys are read as they lie.

constexpr int LATENT_SUMS = GEMM_ROWS * GEMM_VECTORS;  // accumulators in registers
constexpr int QUAD_KEYS = LATENT_SUMS / 4;             // keys scored at a time
constexpr int64_t LATENT_KEYS = 96;   // keys per tile at most: a multiple of QUAD_KEYS, like the next
constexpr int64_t LATENT_FEW = 48;    // keys per tile under rows of a single vector: the first tile, which is waited for, is short
constexpr int64_t LATENT_ROWS = 128;  // query rows per tile, where a token has no more

static inline bool is_latent(const Call& c) {
  return c.key == c.value && c.num_kv_heads == 1 && c.head_size_v <= c.head_size && !c.window && !c.chunk && !c.tree_mask &&
         !logits_of(c).special;
}

static inline int64_t latent_output_stride(const Call& c) { return round_up(c.head_size_v, GEMM_VECTORS * W) + 16; }
struct LatentShape {  // sizes in floats
  int64_t rows, key_stride, o_stride;
  explicit LatentShape(const Call& c)
      : rows(round_up(larger(c.num_heads, LATENT_ROWS), W)), key_stride(round_up(c.head_size, 2 * W) + 16), o_stride(latent_output_stride(c)) {}
  int64_t scratch() const {
    return (key_stride * (rows + LATENT_KEYS) + rows * (o_stride + LATENT_KEYS + 3)) * 4 + LATENT_KEYS * 24 + rows * 16 + 1024;
  }
};
template <int N> struct LatentCount { static constexpr int value = N; };

// The next tile's lines, fetched a few at a time while the tile at hand is worked on: asked for at once they would be waited for. In
// the order of memory, and every line: where the hardware fetches along it is ahead of us, and lines that it has brought cost nothing.
struct Ahead {
  const char* const* rows = nullptr;  // of lines not yet fetched
  const char* at = nullptr;
  int64_t left = 0, in_row = 0, row_lines = 0;
  void start(const char* const* first, int64_t n, int64_t row_bytes) {
    row_lines = in_row = (row_bytes + 63) / 64;
    left = larger(n, 0) * row_lines;
    rows = first;
    if (left) at = *rows;
  }
  __attribute__((always_inline)) void fetch(int64_t lines) {
    for (lines = smaller(lines, left), left -= lines; lines > 0; lines--, at += 64) {
      if (!in_row) {
        at = *++rows;
        in_row = row_lines;
      }
      in_row--;
      __builtin_prefetch(at, 0, FETCH_INTO_FIRST ? 3 : 2);
    }
  }
};

// scores[j][0 .. W) = keys[j] . rows over d elements (a multiple of 4) for QUAD_KEYS keys; q is [d / 4][4 vectors], see `load_row`.
static inline void latent_scores(const float* const* keys, const float* q, int64_t d, float* scores, int64_t stride, Ahead& next) {
  Ahead ahead = next;
  V sums[QUAD_KEYS][4];
  for (int j = 0; j < QUAD_KEYS; j++)
    for (int i = 0; i < 4; i++) sums[j][i] = vzero();
  for (int64_t e = 0; e < d; e += 4) {
    if (e % 8 == 0) ahead.fetch(1);
    V line[4];
    for (int i = 0; i < 4; i++) line[i] = vload(q + (e + i) * W);
    for (int j = 0; j < QUAD_KEYS; j++) {
      const V x = vquad(keys[j] + e);
      for (int i = 0; i < 4; i++) sums[j][i] = vfma(x, line[i], sums[j][i]);
    }
  }
  next = ahead;
  for (int j = 0; j < QUAD_KEYS; j++) vstore(scores + j * stride, vquads(sums[j]));
}

// o[r][0 .. VECTORS) = alpha[r] * o[r] + sum over n keys of weights[j][r] * keys[j][column ...] for ROWS rows.
template <int ROWS, int VECTORS>
static inline void latent_values(const float* const* keys, int64_t n, int64_t column, const float* weights, int64_t stride,
                                 const float* alpha, float* o, int64_t o_stride, Ahead& next, int64_t quota) {
  Ahead ahead = next;
  V sums[ROWS][VECTORS];
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < VECTORS; i++) sums[r][i] = vmul(vset(alpha[r]), vload(o + r * o_stride + column + i * W));
  for (int64_t j = 0; j < n; j++) {
    V v[VECTORS];
    for (int i = 0; i < VECTORS; i++) v[i] = vload(keys[j] + column + i * W);
    ahead.fetch(quota);
    for (int r = 0; r < ROWS; r++) {
      const V weight = vset(weights[j * stride + r]);
      for (int i = 0; i < VECTORS; i++) sums[r][i] = vfma(weight, v[i], sums[r][i]);
    }
  }
  next = ahead;
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < VECTORS; i++) vstore(o + r * o_stride + column + i * W, sums[r][i]);
}

// What is the same for float32 and for words: the rows at hand, their softmax, and the way through an item's keys.
template <class T>
struct LatentRows {
  const Call& c;
  const Request& r;
  const Item& item;
  const Logits logits;
  const Cache<T> cache;
  const int64_t group, columns, o_stride;  // columns: of outputs, in whole steps
  int64_t lanes = 0;  // rows at hand, rounded up to vectors: the stride of scores
  int64_t tile = 0;   // keys per tile
  float *o, *scores, *maximum, *sum, *alpha;
  const T **rows_of, **next_rows;
  Keys* row_keys;
  Ahead ahead;
  int64_t quota = 0;  // lines of the next tile to fetch at each step of the values

  LatentRows(const Call& call, const Request& request, const Item& it, int64_t max_rows, char*& scratch)
      : c(call), r(request), item(it), logits(logits_of(call)), cache(call, request, 0), group(call.num_heads),
        columns(round_up(call.head_size_v, 2 * W)), o_stride(latent_output_stride(call)) {
    o = (float*)take(scratch, max_rows * o_stride * 4);
    scores = (float*)take(scratch, LATENT_KEYS * max_rows * 4);
    maximum = (float*)take(scratch, max_rows * 4);
    sum = (float*)take(scratch, max_rows * 4);
    alpha = (float*)take(scratch, max_rows * 4);
    rows_of = (const T**)take(scratch, LATENT_KEYS * 8);
    next_rows = (const T**)take(scratch, LATENT_KEYS * 8);
    row_keys = (Keys*)take(scratch, max_rows * 16);
  }

  // Rows of queries [from, ...) of the request; what they see comes back.
  Keys begin_rows(int64_t from, int64_t rows) {
    lanes = round_up(rows, W);
    tile = lanes > W ? LATENT_KEYS : LATENT_FEW;
    Keys seen{r.kv_len, 0};
    for (int64_t row = 0; row < lanes; row++) {
      maximum[row] = MINUS_INFINITY;
      sum[row] = 0;
      if (row >= rows) continue;
      const Keys k = keys_of(c, r, from + row / group);
      row_keys[row] = {larger(k.begin, item.key_begin), smaller(k.end, item.key_end)};
      if (row_keys[row].begin < row_keys[row].end) seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
    }
    __builtin_memset(o, 0, rows * o_stride * 4);
    const int64_t first = smaller(tile, seen.end - seen.begin);
    if (first > 0) cache.rows(seen.begin, first, next_rows, next_rows);
    ahead.start((const char* const*)next_rows, first, c.head_size * int64_t(sizeof(T)));
    return seen;
  }
  // Row pointers of the tile at `key` and, to be fetched in `scored` + `added` steps, of the one that follows before `end`.
  void begin_tile(int64_t key, int64_t end, int64_t scored, int64_t added) {
    exchange(rows_of, next_rows);
    const int64_t next = key + tile, count = larger(smaller(tile, end - next), 0);
    if (count) cache.rows(next, count, next_rows, next_rows);
    ahead.start((const char* const*)next_rows, count, c.head_size * int64_t(sizeof(T)));
    quota = (larger(ahead.left - scored, 0) + added) / larger(added, 1);
  }

  // One step of the online softmax for the W rows from `row` on; `weigh` turns scores into weights and returns their sums.
  template <class F> void soften(int64_t row, int64_t rows, int64_t key, int64_t n, F weigh) {
    float* s = scores + row;
    for (int64_t i = row; i < smaller(row + W, rows); i++) {
      for (int64_t j = 0, end = smaller(row_keys[i].begin - key, n); j < end; j++) scores[j * lanes + i] = MINUS_INFINITY;
      for (int64_t j = larger(row_keys[i].end - key, 0); j < n; j++) scores[j * lanes + i] = MINUS_INFINITY;
    }
    V top = vload(s);
    for (int64_t j = 1; j < n; j++) top = vmax(top, vload(s + j * lanes));
    const V factor = vset(logits.factor), old = vload(maximum + row), next = vmax(old, vmul(top, factor));
    const V base = vmax(next, vset(-3e38f));  // where nothing has been seen: 2^(-inf + 3e38) = 0
    const V rescale = vexp2(vsub(old, base));
    const V total = weigh(s, n, factor, vsub(vzero(), base));
    vstore(maximum + row, next);
    vstore(sum + row, vfma(vload(sum + row), rescale, total));
    vstore(alpha + row, rescale);
  }

  // All rows in steps of four or more, then of what is left.
  template <class F> void by_rows(int64_t rows, F add) {
    int64_t row = 0;
    const auto take_rows = [&](auto count) {
      for (; row + count.value <= rows; row += count.value) add(count, row);
    };
    take_rows(LatentCount<GEMM_ROWS>());
    take_rows(LatentCount<4>());
    take_rows(LatentCount<2>());
    take_rows(LatentCount<1>());
  }
};
// Flattened: with calls left in it, a tile takes 5 per cent longer.
template <class Tiles> static inline __attribute__((flatten)) void attend_latent_tiles(Tiles& tiles, float* partial) {
  const Call& c = tiles.c;
  const Item& item = tiles.item;
  const int64_t group = tiles.group, step = larger(1, LATENT_ROWS / group);
  for (int64_t from = item.query_begin; from < item.query_end; from += step) {
    const int64_t rows = (smaller(from + step, item.query_end) - from) * group;
    const Keys seen = tiles.begin_rows(from, rows);
    tiles.load_queries(from, rows);
    for (int64_t key = seen.begin; key < seen.end; key += tiles.tile) {
      const int64_t n = smaller(tiles.tile, seen.end - key);
      tiles.load_keys(key, n, seen.end, rows);
      tiles.attend_tile(rows, key, n);
    }
    for (int64_t row = 0; row < rows; row++) Tiles::output(tiles.o + row * tiles.o_stride, tiles.columns);
    Item part = item;
    part.query_begin = from;
    if (part.partial_row >= 0) part.partial_row += (from - item.query_begin) * group;
    finish_rows(c, tiles.r, part, 0, rows, tiles.o, tiles.o_stride, tiles.maximum, tiles.sum, partial);
  }
}

template <class T>
struct LatentTiles : LatentRows<T> {
  using Base = LatentRows<T>;
  using Base::c, Base::r, Base::group, Base::columns, Base::o, Base::o_stride, Base::scores, Base::alpha, Base::lanes, Base::tile, Base::rows_of, Base::ahead, Base::quota;
  const int64_t key_stride;
  const bool copied;  // rows are converted, or would be read past their end
  const int64_t d;    // elements of keys and queries, zeros up to whole vectors included
  float *q, *converted;
  const float** keys;

  LatentTiles(const Call& call, const Request& request, const Item& it, char* scratch) : LatentTiles(call, request, it, LatentShape(call), scratch) {}
  LatentTiles(const Call& call, const Request& request, const Item& it, const LatentShape& shape, char* scratch)
      : Base(call, request, it, shape.rows, scratch), key_stride(shape.key_stride),
        copied(!__is_same(T, float) || columns > call.head_size || call.head_size % W),
        d(copied ? round_up(call.head_size, 2 * W) : call.head_size) {
    q = (float*)take(scratch, key_stride * shape.rows * 4);
    converted = (float*)take(scratch, LATENT_KEYS * key_stride * 4);
    keys = (const float**)take(scratch, LATENT_KEYS * 8);
  }

  void load_queries(int64_t from, int64_t rows) {
    float* line = converted;  // not in use yet
    const int64_t lines = FETCH_INTO_FIRST ? ahead.left / lanes + 1 : 0;  // of the first tile
    for (int64_t row = 0; row < lanes; row++) {
      ahead.fetch(lines);
      if (row < rows) {
        load_query(c, r.token + from + row / group, row % group, line);
        if (Order<T>::paired) to_pair_order(line, round_up(c.head_size, 2 * W));
      } else {
        __builtin_memset(line, 0, d * 4);
      }
      // Row 4g + i of W has lanes 4g to 4g + 3 of vector i.
      float* to = q + row / W * W * d + row % 4 * W + row % W / 4 * 4;
      for (int64_t e = 0; e < d; e += 4) __builtin_memcpy(to + e * W, line + e, 16);
    }
  }

  void load_keys(int64_t key, int64_t n, int64_t end, int64_t rows) {  // [key, key + n)
    this->begin_tile(key, end, round_up(n, QUAD_KEYS) / QUAD_KEYS * ((d + 7) / 8) * (lanes / W),
                     n * (columns / (GEMM_VECTORS * W)) * ((rows + GEMM_ROWS - 1) / GEMM_ROWS));
    for (int64_t j = 0; j < tile; j++) {
      const T* row = rows_of[smaller(j, n - 1)];  // keys past the end are masked
      if (copied) {
        float* to = converted + j * key_stride;
        if (j < n) widen_row(row, c.head_size, to);
        keys[j] = j < n ? to : keys[n - 1];
      } else {
        keys[j] = (const float*)row;
      }
    }
  }

  static V weigh(float* s, int64_t n, int64_t stride, V factor, V minus_base) {
    V total = vzero();
    for (int64_t j = 0; j < n; j++, s += stride) {
      const V p = vexp2(vfma(vload(s), factor, minus_base));
      vstore(s, p);
      total = vadd(total, p);
    }
    return total;
  }
  template <int VECTORS> void add_values(int64_t column, int64_t rows, int64_t n) {
    this->by_rows(rows, [&](auto count, int64_t row) {
      latent_values<count.value, VECTORS>(keys, n, column, scores + row, lanes, alpha + row, o + row * o_stride, o_stride, ahead, quota);
    });
  }
  void attend_tile(int64_t rows, int64_t key, int64_t n) {
    for (int64_t row = 0; row < lanes; row += W)
      for (int64_t j = 0; j < n; j += QUAD_KEYS) latent_scores(keys + j, q + row * d, d, scores + j * lanes + row, lanes, ahead);
    for (int64_t row = 0; row < lanes; row += W)
      this->soften(row, rows, key, n, [this](float* s, int64_t keys_here, V factor, V base) { return weigh(s, keys_here, lanes, factor, base); });
    int64_t column = 0;
    for (; column + GEMM_VECTORS * W <= columns; column += GEMM_VECTORS * W) add_values<GEMM_VECTORS>(column, rows, n);
    for (; column < columns; column += 2 * W) add_values<2>(column, rows, n);
  }
  static void output(float* row, int64_t n) { to_element_order<T>(row, n); }
};

#ifdef __AMX_BF16__
#include "amx_mla.h"
#elif defined(V1_WORDS)
#include "words_mla.h"
#endif

static inline int64_t latent_scratch(const Call& c) {
#ifdef __AMX_BF16__
  return larger(LatentShape(c).scratch(), TileLatentShape(c).scratch());
#elif defined(V1_WORDS)
  return larger(LatentShape(c).scratch(), WordLatentShape(c).scratch());
#else
  return LatentShape(c).scratch();
#endif
}
template <class T> static inline void attend_latents(const Call& c, const Request& r, const Item& item, float* partial, char* scratch) {
#ifdef V1_WORDS
  if constexpr (__is_same(T, bf16) || __is_same(T, e4m3) || __is_same(T, e5m2))
    if (c.query_type == V1_BF16) {
#ifdef __AMX_BF16__
      return TileLatents<T>(c, r, item, scratch).attend(partial);
#else
      WordLatents<T> tiles(c, r, item, scratch);
      return attend_latent_tiles(tiles, partial);
#endif
    }
#endif
  LatentTiles<T> tiles(c, r, item, scratch);
  attend_latent_tiles(tiles, partial);
}
