// The kernel for latents: one KV head whose values are the first columns of its keys, under many query rows, in float32.
//
// Nothing is packed but the queries. Scores stand transposed, a key per line and a query row per lane: maxima and sums of the softmax
// need no shuffles, and the weights can be broadcast from where they are when the values, vectors of columns of the same rows, are
// added. Where there are two vectors of query rows a key's number is broadcast against both. Rows of a single vector would need as
// many broadcasts as products: their scores are dot products along the elements. Either way keys are read as they lie.

constexpr int64_t LATENT_KEYS = 96;   // keys per tile at most: a multiple of LATENT_SUMS / 2 and of DOT_KEYS, like the next
constexpr int64_t LATENT_FEW = 48;    // keys per tile under rows of a single vector: the first tile, which is waited for, is short
constexpr int64_t LATENT_ROWS = 128;  // query rows per tile, where a token has no more
constexpr int64_t LATENT_CHUNK = 192;  // elements of a query tile that stay in the first-level cache while all keys pass
constexpr int LATENT_SUMS = GEMM_ROWS * GEMM_VECTORS;  // accumulators in registers
constexpr int DOT_ROWS = W == 16 ? 8 : 4, DOT_KEYS = 2;  // dot products at a time: a multiple of W

static inline bool is_latent(const Call& c) {
  return c.key == c.value && c.num_kv_heads == 1 && c.head_size_v <= c.head_size && !c.window && !c.chunk && !c.tree_mask &&
         !logits_of(c).special;
}

struct LatentShape {  // sizes in floats
  int64_t rows, key_stride, columns;
  explicit LatentShape(const Call& c)
      : rows(round_up(larger(c.num_heads, LATENT_ROWS), W)), key_stride(round_up(c.head_size, 2 * W) + 16),
        columns(round_up(c.head_size_v, 2 * W)) {}
  int64_t scratch() const {
    return (key_stride * (rows + LATENT_KEYS) + (columns + 16) * rows + LATENT_KEYS * rows + 3 * rows) * 4 + LATENT_KEYS * 32 + rows * 16 + 1024;
  }
};

// The next tile's rows are fetched a few lines at a time while the tile at hand is worked on: asked for at once they would be waited
// for. `latent_scores` takes the even lines and what is not a value, `latent_values` the others.
struct Following {
  const char* const* rows;  // one per key of the tile at hand, or null
  int64_t size, values;     // bytes of an element; elements that are values
};

// Under rows of a single vector memory limits. There the lines are asked for across all rows of the next tile, not along one: rows lie
// in many pages, whose translations and streams then overlap. Even lines; `latent_values` takes the others.
struct Across {
  const char* const* rows;
  int64_t tile, end;  // rows; bytes of a row, 0 if there is no next tile
  int64_t key = 0, at = 0;
  void fetch() {
    if (at >= end) return;
    __builtin_prefetch(rows[key] + at, 0, 2);
    if (++key == tile) key = 0, at += 128;
  }
};

// scores[j][r] = keys[j] . q[r] over d elements (a multiple of W) for DOT_KEYS keys and DOT_ROWS rows.
static inline void latent_dots(const float* const* keys, const float* q, int64_t d, float* scores, int64_t stride, Across& next) {
  Across ahead = next;
  V sums[DOT_KEYS * DOT_ROWS];
  for (V& sum : sums) sum = vzero();
  for (int64_t e = 0; e < d; e += W) {
    if (e % 32 == 0) ahead.fetch();
    V key[DOT_KEYS];
    for (int j = 0; j < DOT_KEYS; j++) key[j] = vload(keys[j] + e);
    for (int r = 0; r < DOT_ROWS; r++) {
      const V x = vload(q + r * d + e);
      for (int j = 0; j < DOT_KEYS; j++) sums[j * DOT_ROWS + r] = vfma(x, key[j], sums[j * DOT_ROWS + r]);
    }
  }
  next = ahead;
  float lanes[DOT_KEYS * DOT_ROWS];
  for (int i = 0; i < DOT_KEYS * DOT_ROWS; i += W) vstore(lanes + i, vsums(sums + i));
  for (int j = 0; j < DOT_KEYS; j++) __builtin_memcpy(scores + j * stride, lanes + j * DOT_ROWS, DOT_ROWS * sizeof(float));
}

// scores[j][0 .. 2) (+)= sum over e in [from, to) of keys[j][e] * q[e][0 .. 2), two vectors of rows, for KEYS keys; lines of scores are
// `stride` apart, those of q 2 * W; from and to are multiples of 2.
template <int KEYS>
static inline void latent_scores(const float* const* keys, const float* q, int64_t from, int64_t to, float* scores, int64_t stride,
                                 Following next) {
  constexpr int STEP = 2, VECTORS = 2;  // elements per pointer that has to be loaded; vectors of rows
  V sums[KEYS][VECTORS];
  for (int j = 0; j < KEYS; j++)
    for (int i = 0; i < VECTORS; i++) sums[j][i] = from ? vload(scores + j * stride + i * W) : vzero();
  for (int64_t e = from; e < to; e += STEP) {
    if (next.rows && e * next.size % 128 == 0)
      for (int j = 0; j < KEYS; j++) {
        __builtin_prefetch(next.rows[j] + e * next.size, 0, 2);
        if (e >= next.values) __builtin_prefetch(next.rows[j] + e * next.size + 64, 0, 2);
      }
    V line[STEP][VECTORS];
    for (int u = 0; u < STEP; u++)
      for (int i = 0; i < VECTORS; i++) line[u][i] = vload(q + ((e + u) * VECTORS + i) * W);
    for (int j = 0; j < KEYS; j++) {
      const float* key = keys[j] + e;
      for (int u = 0; u < STEP; u++) {
        const V x = vset(key[u]);
        for (int i = 0; i < VECTORS; i++) sums[j][i] = vfma(x, line[u][i], sums[j][i]);
      }
    }
  }
  for (int j = 0; j < KEYS; j++)
    for (int i = 0; i < VECTORS; i++) vstore(scores + j * stride + i * W, sums[j][i]);
}

// o[r][0 .. VECTORS) = alpha[r] * o[r] + sum over n keys of weights[j][r] * keys[j][column ...] for ROWS rows.
template <int ROWS, int VECTORS>
static inline void latent_values(const float* const* keys, int64_t n, int64_t column, const float* weights, int64_t stride,
                                 const float* alpha, float* o, int64_t o_stride, const char* const* next, int64_t at) {
  V sums[ROWS][VECTORS];
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < VECTORS; i++) sums[r][i] = vmul(vset(alpha[r]), vload(o + r * o_stride + column + i * W));
  for (int64_t j = 0; j < n; j++) {
    V v[VECTORS];
    for (int i = 0; i < VECTORS; i++) v[i] = vload(keys[j] + column + i * W);
    if (next) __builtin_prefetch(next[j] + at, 0, 2);
    for (int r = 0; r < ROWS; r++) {
      const V weight = vset(weights[j * stride + r]);
      for (int i = 0; i < VECTORS; i++) sums[r][i] = vfma(weight, v[i], sums[r][i]);
    }
  }
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < VECTORS; i++) vstore(o + r * o_stride + column + i * W, sums[r][i]);
}

template <class T>
struct LatentTiles {
  const Call& c;
  const Request& r;
  const Item& item;
  const LatentShape shape;
  const Logits logits;
  const Cache<T> cache;
  const int64_t group, o_stride;
  int64_t lanes = 0;  // rows at hand, rounded up to vectors: the stride of scores
  int64_t tile = 0;   // keys per tile
  const bool copied;  // rows are converted, or would be read past their end
  const int64_t d;    // elements of keys and queries, zeros up to whole vectors included
  float *q, *o, *scores, *maximum, *sum, *alpha, *converted;
  const T **rows_of, **next_rows;
  const float** keys;
  Keys* row_keys;
  Following following{};
  Across ahead{};

  LatentTiles(const Call& call, const Request& request, const Item& it, char* scratch)
      : c(call), r(request), item(it), shape(call), logits(logits_of(call)), cache(call, request, 0), group(call.num_heads),
        o_stride(shape.columns + 16), copied(!__is_same(T, float) || shape.columns > call.head_size || call.head_size % W),
        d(copied ? round_up(call.head_size, 2 * W) : call.head_size) {
    q = (float*)take(scratch, shape.key_stride * shape.rows * 4);
    converted = (float*)take(scratch, LATENT_KEYS * shape.key_stride * 4);
    o = (float*)take(scratch, shape.rows * o_stride * 4);
    scores = (float*)take(scratch, LATENT_KEYS * shape.rows * 4);
    maximum = (float*)take(scratch, shape.rows * 4);
    sum = (float*)take(scratch, shape.rows * 4);
    alpha = (float*)take(scratch, shape.rows * 4);
    rows_of = (const T**)take(scratch, LATENT_KEYS * 8);
    next_rows = (const T**)take(scratch, LATENT_KEYS * 8);
    keys = (const float**)take(scratch, LATENT_KEYS * 8);
    row_keys = (Keys*)take(scratch, shape.rows * 16);
  }

  // The rows of queries from `from` on: transposed, two vectors of rows at a time, as q[pair of vectors][element][row]; those of a
  // vector that is left over, as they are.
  void load_queries(int64_t from, int64_t rows) {
    float* lines = converted;  // not in use yet
    for (int64_t first = 0; first < lanes; first += W) {
      const int64_t pair = first / (2 * W) * 2 * W;
      const bool paired = pair + 2 * W <= lanes;
      float* to = q + pair * d;
      for (int64_t row = first; row < first + W; row++) {
        float* line = lines + (row - first) * shape.key_stride;
        load_row(from, row, rows, line);
        if (!paired) __builtin_memcpy(to + (row - first) * d, line, d * 4);
      }
      if (!paired) continue;
      for (int64_t e = 0; e < d; e += W) {
        V block[W];
        for (int i = 0; i < W; i++) block[i] = vload(lines + i * shape.key_stride + e);
        vtranspose(block);
        for (int i = 0; i < W; i++) vstore(to + (e + i) * 2 * W + first - pair, block[i]);
      }
    }
    __builtin_memset(o, 0, rows * o_stride * 4);
  }
  void load_row(int64_t from, int64_t row, int64_t rows, float* line) {
    maximum[row] = MINUS_INFINITY;
    sum[row] = 0;
    if (row >= rows) {
      __builtin_memset(line, 0, d * 4);
      return;
    }
    row_keys[row] = keys_of(c, r, from + row / group);
    row_keys[row] = {larger(row_keys[row].begin, item.key_begin), smaller(row_keys[row].end, item.key_end)};
    load_query(c, r.token + from + row / group, row % group, line);
    if (Order<T>::paired) to_pair_order(line, round_up(c.head_size, 2 * W));
  }

  // Row pointers of the next tile, from `key` on, and the first line of each row: translations of all pages are under way.
  void look_ahead(int64_t key, int64_t count) {
    cache.rows(key, count, next_rows, next_rows);
    for (int64_t j = 0; j < count; j++) __builtin_prefetch(next_rows[j], 0, 2);
  }
  // Keys [key, key + n), and row pointers of the tile that follows before `end`.
  void load_keys(int64_t key, int64_t n, int64_t end) {
    exchange(rows_of, next_rows);
    const int64_t next = key + tile, count = smaller(tile, end - next);
    if (count > 0) look_ahead(next, count);
    for (int64_t j = larger(count, 1); j < tile; j++) next_rows[j] = next_rows[0];
    following = {count > 0 ? (const char* const*)next_rows : nullptr, int64_t(sizeof(T)), c.head_size_v};
    ahead = {(const char* const*)next_rows, tile, count > 0 ? c.head_size * int64_t(sizeof(T)) : 0};
    for (int64_t j = 0; j < tile; j++) {
      const T* row = rows_of[smaller(j, n - 1)];  // keys past the end are masked
      if (copied) {
        float* to = converted + j * shape.key_stride;
        if (j < n) widen_row(row, c.head_size, to);
        keys[j] = j < n ? to : keys[n - 1];
      } else {
        keys[j] = (const float*)row;
      }
    }
  }

  void score_pair(int64_t row, int64_t n) {
    constexpr int KEYS = LATENT_SUMS / 2;
    for (int64_t from = 0; from < d; from += LATENT_CHUNK)
      for (int64_t j = 0; j < n; j += KEYS) {
        const Following next{row || !following.rows ? nullptr : following.rows + j, following.size, following.values};
        latent_scores<KEYS>(keys + j, q + row * d, from, smaller(from + LATENT_CHUNK, d), scores + j * lanes + row, lanes, next);
      }
  }
  void score_single(int64_t first, int64_t n) {
    if (first) ahead.end = 0;  // `score_pair` has asked for everything
    for (int64_t row = first; row < first + W; row += DOT_ROWS)
      for (int64_t j = 0; j < n; j += DOT_KEYS) latent_dots(keys + j, q + row * d, d, scores + j * lanes + row, lanes, ahead);
  }

  // One step of the online softmax for the W rows from `row` on: scores to weights, and `alpha`.
  void soften(int64_t row, int64_t rows, int64_t key, int64_t n) {
    float* s = scores + row;
    for (int64_t i = row; i < smaller(row + W, rows); i++) {
      for (int64_t j = 0, end = smaller(row_keys[i].begin - key, n); j < end; j++) scores[j * lanes + i] = MINUS_INFINITY;
      for (int64_t j = larger(row_keys[i].end - key, 0); j < n; j++) scores[j * lanes + i] = MINUS_INFINITY;
    }
    V top = vload(s);
    for (int64_t j = 1; j < n; j++) top = vmax(top, vload(s + j * lanes));
    const V factor = vset(logits.factor), old = vload(maximum + row), next = vmax(old, vmul(top, factor));
    const V base = vmax(next, vset(-3e38f));  // where nothing has been seen: 2^(-inf + 3e38) = 0
    const V rescale = vexp2(vsub(old, base)), minus_base = vsub(vzero(), base);
    V total = vmul(vload(sum + row), rescale);
    for (int64_t j = 0; j < n; j++) {
      const V p = vexp2(vfma(vload(s + j * lanes), factor, minus_base));
      vstore(s + j * lanes, p);
      total = vadd(total, p);
    }
    vstore(maximum + row, next);
    vstore(sum + row, total);
    vstore(alpha + row, rescale);
  }

  template <int VECTORS> void add_values(int64_t column, int64_t rows, int64_t n) {
    int64_t row = 0, at = column * following.size + 64;
    const int64_t past = (column + VECTORS * W) * following.size;
    const auto add = [&](auto count) {
      for (; row + count.value <= rows; row += count.value, at += 128)
        latent_values<count.value, VECTORS>(keys, n, column, scores + row, lanes, alpha + row, o + row * o_stride, o_stride,
                                            at < past ? following.rows : nullptr, at);
    };
    add(LatentCount<GEMM_ROWS>());
    add(LatentCount<4>());
    add(LatentCount<2>());
    add(LatentCount<1>());
  }
  template <int N> struct LatentCount { static constexpr int value = N; };

  void attend_tile(int64_t rows, int64_t key, int64_t n) {
    int64_t row = 0;
    for (; row + 2 * W <= lanes; row += 2 * W) score_pair(row, n);
    if (row < lanes) score_single(row, n);
    for (row = 0; row < lanes; row += W) soften(row, rows, key, n);
    int64_t column = 0;
    for (; column + GEMM_VECTORS * W <= shape.columns; column += GEMM_VECTORS * W) add_values<GEMM_VECTORS>(column, rows, n);
    for (; column < shape.columns; column += 2 * W) add_values<2>(column, rows, n);
  }

  void attend(float* partial) {
    const int64_t step = larger(1, LATENT_ROWS / group);
    for (int64_t from = item.query_begin; from < item.query_end; from += step) {
      const int64_t rows = (smaller(from + step, item.query_end) - from) * group;
      lanes = round_up(rows, W);
      tile = lanes > W ? LATENT_KEYS : LATENT_FEW;
      load_queries(from, rows);
      Keys seen{r.kv_len, 0};
      for (int64_t row = 0; row < rows; row++)
        if (row_keys[row].begin < row_keys[row].end)
          seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
      if (seen.begin < seen.end) look_ahead(seen.begin, smaller(tile, seen.end - seen.begin));
      for (int64_t key = seen.begin; key < seen.end; key += tile) {
        const int64_t n = smaller(tile, seen.end - key);
        load_keys(key, n, seen.end);
        attend_tile(rows, key, n);
      }
      for (int64_t row = 0; row < rows; row++) to_element_order<T>(o + row * o_stride, shape.columns);
      Item part = item;
      part.query_begin = from;
      if (part.partial_row >= 0) part.partial_row += (from - item.query_begin) * group;
      finish_rows(c, r, part, 0, rows, o, o_stride, maximum, sum, partial);
    }
  }
};

#ifdef __AMX_BF16__
#include "amx_mla.h"
#endif

static inline int64_t latent_scratch(const Call& c) {
#ifdef __AMX_BF16__
  return larger(LatentShape(c).scratch(), TileLatentShape(c).scratch());
#else
  return LatentShape(c).scratch();
#endif
}
template <class T> static inline void attend_latents(const Call& c, const Request& r, const Item& item, float* partial, char* scratch) {
#ifdef V1_WORDS
  if constexpr (__is_same(T, bf16) || __is_same(T, e4m3) || __is_same(T, e5m2))
    if (c.query_type == V1_BF16)
#ifdef __AMX_BF16__
      return TileLatents<T>(c, r, item, scratch).attend(partial);
#else
      return Packed<T, PairWords>(c, r, item, r.kv_len, scratch).attend(partial);
#endif
#endif
  LatentTiles<T>(c, r, item, scratch).attend(partial);
}
