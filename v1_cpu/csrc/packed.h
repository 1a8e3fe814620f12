// The kernel for many query rows per KV head (prefill, chunks, one KV head under many query heads): flash attention on packed tiles.
//
// Keys and values are packed per tile of KEYS keys into panels of PANEL columns, once per work item, and reused by all its query
// tiles through a direct-mapped store. Per block of rows: scores = Q K^T, one step of the online softmax, output += P V, both
// products by `gemm`. A "word" is what one 32-bit lane holds: a float32, or two bf16 for the dot-product instructions.
//
//   keys    [KEYS / PANEL][key words][PANEL]       key words: head size, or pairs of it
//   values  [columns / PANEL][value words][PANEL]  value words: keys of the tile, or pairs of them
//
// Numbers split in bf16 parts (SplitWords) take as many planes of words: [.. / PANEL][plane][words][PANEL], and in rows of queries and
// weights one plane behind the other.

constexpr int64_t TILE = 256;          // keys
constexpr int64_t QUERY_ROWS = 192;    // rows per query tile
constexpr int64_t EXPANDED_BYTES = 64 << 20;  // of packed tiles of all threads, where keys and values have to be made for them

struct FloatWords {
  static constexpr int PER_WORD = 1, PLANES = 1;
  static constexpr int64_t PANEL = GEMM_VECTORS * W, KEYS = TILE, QUERIES = QUERY_ROWS;
  static constexpr int64_t ROWS = GEMM_ROWS, KEY_STEP = 1;
  static int64_t block(const Call&) { return GEMM_BLOCK; }
  static inline V madd(V sum, V a, V b) { return vfma(a, b, sum); }
  static int64_t key_of(int64_t word, int) { return word; }
};
#ifdef V1_WORDS
struct PairWords {
  static constexpr int PER_WORD = 2, PLANES = 1;
  static constexpr int64_t PANEL = GEMM_VECTORS * W, KEYS = TILE, QUERIES = QUERY_ROWS;
#ifdef __AMX_BF16__
  static constexpr int64_t ROWS = 16, KEY_STEP = 32;
  // Outputs of 64 rows beside keys and values of larger heads are too much for the second-level cache.
  static int64_t block(const Call& c) { return c.head_size > 128 ? 32 : 64; }
#else
  static constexpr int64_t ROWS = GEMM_ROWS, KEY_STEP = 2;
  static int64_t block(const Call&) { return GEMM_BLOCK; }
#endif
  static inline V madd(V sum, V a, V b) { return vdot(sum, (Words)a, (Words)b); }
  static int64_t key_of(int64_t word, int half) { return 2 * word + half; }
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
  static int64_t block(const Call&) { return 32; }
  static int64_t key_of(int64_t word, int half) { return word / W * 2 * W + word % W + half * W; }
};
#endif

// c[ROWS][N vectors] = (or +=) a[ROWS][words] b[words][M::PANEL]. The sum of a tile is made apart: it rounds less than a running one.
template <class M, int N>
static inline void gemm_tile(const float* a, int64_t lda, const float* b, int64_t words, float* c, int64_t ldc, bool accumulate) {
  V sums[GEMM_ROWS][N];
  for (int r = 0; r < GEMM_ROWS; r++)
    for (int i = 0; i < N; i++) sums[r][i] = vzero();
  for (int64_t k = 0; k < words; k++) {
    V column[N];
    for (int i = 0; i < N; i++) column[i] = vload(b + k * M::PANEL + i * W);
    for (int r = 0; r < GEMM_ROWS; r++) {
      const V x = vset(a[r * lda + k]);
      for (int i = 0; i < N; i++) sums[r][i] = M::madd(sums[r][i], x, column[i]);
    }
  }
  for (int r = 0; r < GEMM_ROWS; r++)
    for (int i = 0; i < N; i++) vstore(c + r * ldc + i * W, accumulate ? vadd(vload(c + r * ldc + i * W), sums[r][i]) : sums[r][i]);
}
// `columns` a multiple of 2 * W, `rows` of M::ROWS; the panels of b are `panel_words` words apart, the planes of a `plane`.
template <class M>
static inline void gemm(const float* a, int64_t lda, int64_t, int64_t rows, const float* b, int64_t panel_words, int64_t words, float* c,
                        int64_t ldc, int64_t columns, bool accumulate) {
  for (int64_t column = 0; column < columns; column += M::PANEL, b += panel_words * M::PANEL)
    for (int64_t r = 0; r < rows; r += GEMM_ROWS) {
      if (columns - column >= M::PANEL) gemm_tile<M, GEMM_VECTORS>(a + r * lda, lda, b, words, c + r * ldc + column, ldc, accumulate);
      else gemm_tile<M, 2>(a + r * lda, lda, b, words, c + r * ldc + column, ldc, accumulate);
    }
}
#ifdef __AMX_BF16__
#include "amx.h"
#endif
#include "pack.h"

// Sizes in floats.
template <class M> struct Shape {
  int64_t key_words, query_stride, score_stride, columns, o_stride, key_size, value_words, value_size, slots, block, rows;  // block: rows of one product
  explicit Shape(const Call& c, int64_t max_keys) {
    key_words = M::PER_WORD == 1 ? c.head_size : round_up(c.head_size, 2 * W) / 2;
    query_stride = round_up(c.head_size, 2 * W) / M::PER_WORD * M::PLANES + 16;  // 16: keeps rows out of each other's cache sets
    score_stride = larger(M::KEYS, M::KEYS / M::PER_WORD * M::PLANES) + 16;
    columns = round_up(c.head_size_v, 2 * W);
    o_stride = round_up(columns, M::PANEL) + 16;
    key_size = M::KEYS * key_words * M::PLANES;
    value_words = M::KEYS / M::PER_WORD;
    value_size = value_words * round_up(columns, M::PANEL) * M::PLANES;
    const int64_t budget = c.up ? larger(16 << 20, EXPANDED_BYTES / c.num_threads) : (c.num_threads > 6 ? 4 : 16) << 20, tile = (key_size + value_size) * int64_t(sizeof(float));
    slots = larger(1, smaller(budget / tile, (max_keys + M::KEYS - 1) / M::KEYS));
    const int64_t group = c.num_heads / c.num_kv_heads;
    block = M::block(c);
    rows = round_up(larger(group, M::QUERIES), block) + block;
  }
  int64_t scratch() const {
    const int64_t floats = rows * (query_stride + o_stride + 2) + larger(block * score_stride, query_stride * 2) + block * score_stride + slots * (key_size + value_size);
    return floats * int64_t(sizeof(float)) + slots * 8 + 2 * M::KEYS * 8 + rows * 16 + 64 * 16;
  }
};

static inline char* take(char*& scratch, int64_t bytes) {
  char* at = scratch;
  scratch += round_up(bytes, 64);
  return at;
}

template <class T, class M, class Rows = Cache<T>>  // Rows: where rows of keys and values come from
struct Packed {
  const Call& c;
  const Request& r;
  const Item& item;
  const Shape<M> shape;
  const Logits logits;
  const Rows cache;
  const int64_t group;
  int64_t slots, begin = 0;  // tiles to keep; first query of the query tile at hand
  float *q, *o, *maximum, *sum, *scores, *weights, *tiles;
  int64_t* held;
  Keys* row_keys;
  const T **key_rows, **value_rows;

  Packed(const Call& call, const Request& request, const Item& it, int64_t max_keys, char* scratch)
      : Packed(call, request, it, max_keys, scratch, Rows(call, request, it.kv_head)) {}
  Packed(const Call& call, const Request& request, const Item& it, int64_t max_keys, char* scratch, const Rows& rows_of)
      : c(call), r(request), item(it), shape(call, max_keys), logits(logits_of(call)), cache(rows_of),
        group(call.num_heads / call.num_kv_heads) {
    tiles = (float*)take(scratch, shape.slots * (shape.key_size + shape.value_size) * 4);
    q = (float*)take(scratch, shape.rows * shape.query_stride * 4);
    o = (float*)take(scratch, shape.rows * shape.o_stride * 4);
    scores = (float*)take(scratch, larger(shape.block * shape.score_stride, round_up(c.head_size, 2 * W)) * 4);
    weights = M::PER_WORD == 1 ? scores : (float*)take(scratch, shape.block * shape.score_stride * 4);
    maximum = (float*)take(scratch, shape.rows * 4);
    sum = (float*)take(scratch, shape.rows * 4);
    held = (int64_t*)take(scratch, shape.slots * 8);
    row_keys = (Keys*)take(scratch, shape.rows * 16);
    key_rows = (const T**)take(scratch, M::KEYS * 8);
    value_rows = (const T**)take(scratch, M::KEYS * 8);
    for (int64_t i = 0; i < shape.slots; i++) held[i] = -1;
    __builtin_memset(weights, 0, shape.block * shape.score_stride * 4);
  }

  // The packed keys [first + KEYS * index, ...) of the item, `n` of them.
  const float* tile(int64_t index, int64_t first, int64_t n) {
    const int64_t slot = index % slots;
    float* keys = tiles + slot * (shape.key_size + shape.value_size);
    if (held[slot] == index) return keys;
    held[slot] = index;
    cache.rows(first, n, key_rows, value_rows);
    const int64_t padded = round_up(n, M::PANEL);
    for (int64_t j = n; j < padded; j++) key_rows[j] = key_rows[n - 1];  // masked later
    for (int64_t j = 0; j < padded; j += W)
      Pack<T, M>::key_columns(key_rows + j, c.head_size, keys + j / M::PANEL * M::PLANES * shape.key_words * M::PANEL + j % M::PANEL, shape.key_words);
    float* values = keys + shape.key_size;
    const int64_t words = round_up(n, M::KEY_STEP) / M::PER_WORD;
    for (int64_t word = 0; word < words; word++) {
      const int64_t j = M::key_of(word, 0), other = M::key_of(word, 1);
      const T* pair[2] = {j < n ? value_rows[j] : nullptr, other < n ? value_rows[other] : nullptr};
      if (pair[0]) Pack<T, M>::value_row(pair, c.head_size_v, values + word * M::PANEL, shape.value_words);
      else zero_values(values + word * M::PANEL);
    }
    return keys;
  }
  void zero_values(float* values) {
    for (int64_t i = 0; i < shape.columns; i += 2 * W) {
      float* to = values + i / M::PANEL * M::PLANES * shape.value_words * M::PANEL + i % M::PANEL;
      for (int p = 0; p < M::PLANES; p++, to += shape.value_words * M::PANEL) {
        vstore(to, vzero());
        vstore(to + W, vzero());
      }
    }
  }

  // Scale, cap, bias and mask a row of scores for keys [key, key + n); returns its maxima by lanes.
  V finish_scores(float* s, int64_t n, int64_t key, int64_t row) {
    const int64_t i = begin + row / group, columns = round_up(n, 2 * W);
    if (logits.special)
      finish_logits(logits, s, columns, key, r.offset + i, c.alibi_slopes ? c.alibi_slopes[item.kv_head * group + row % group] : 0.0f);
    const Keys k = {row_keys[row].begin, smaller(row_keys[row].end, key + n)};
    if (k.begin > key || k.end < key + columns || c.tree_mask) mask_scores(c, r, s, columns, key, k, i);
    V top = vload(s);
    for (int64_t j = W; j < columns; j += W) top = vmax(top, vload(s + j));
    return top;
  }
  // Scores to weights; returns their sums by lanes.
  V weigh(float* s, float* w, int64_t n, float base) {
    const V factor = vset(logits.factor), minus_base = vset(-base);
    V total = vzero();
#ifdef __AMX_BF16__
    if constexpr (M::PLANES > 1) {
      for (int64_t j = 0; j < n; j += 2 * W) {
        V parts[M::PLANES];
        const V a = vexp2(vfma(vload(s + j), factor, minus_base)), b = vexp2(vfma(vload(s + j + W), factor, minus_base));
        total = vadd(total, vadd(a, b));
        split_words(a, b, parts);
        for (int p = 0; p < M::PLANES; p++) vstore(w + p * shape.value_words + j / 2, parts[p]);
      }
      return total;
    }
#endif
#ifdef V1_WORDS
    if (M::PER_WORD == 2) {
      for (int64_t j = 0; j < n; j += 2 * W) {
        const V a = vexp2_coarse(vfma(vload(s + j), factor, minus_base)), b = vexp2_coarse(vfma(vload(s + j + W), factor, minus_base));
        total = vadd(total, vadd(a, b));
        vstore(w + j / 2, (V)pack_words(a, b));
      }
      return total;
    }
#endif
    (void)w;
    for (int64_t j = 0; j < n; j += W) {
      const V p = vexp2(vfma(vload(s + j), factor, minus_base));
      total = vadd(total, p);
      vstore(s + j, p);
    }
    return total;
  }
  // One step of the online softmax for rows [row, row + W) of the block that starts at `first`: their maxima, rescaling and sums are
  // vectors with a row per lane.
  void soften(int64_t first, int64_t row, int64_t count, int64_t key, int64_t n) {
    V lanes[W];
    float base[W], alpha[W];
    const int64_t rows = smaller(W, count - row);
    for (int64_t i = 0; i < rows; i++) lanes[i] = finish_scores(scores + (row + i) * shape.score_stride, n, key, first + row + i);
    for (int64_t i = rows; i < W; i++) lanes[i] = vset(MINUS_INFINITY);
    float* top = maximum + first + row;
    const V old = vload(top), next = vmax(old, vmul(vmaxima(lanes), vset(logits.factor)));
    const V from = vmax(next, vset(-3e38f));  // where nothing has been seen: 2^(-inf + 3e38) = 0
    const V rescale = vexp2(vsub(old, from));
    vstore(top, next);
    vstore(base, from);
    vstore(alpha, rescale);
    for (int64_t i = 0; i < rows; i++) {
      if (alpha[i] != 1.0f) scale_row(o + (first + row + i) * shape.o_stride, shape.columns, alpha[i]);
      lanes[i] = weigh(scores + (row + i) * shape.score_stride, weights + (row + i) * shape.score_stride, round_up(n, 2 * W), base[i]);
    }
    vstore(sum + first + row, vfma(vload(sum + first + row), rescale, vsums(lanes)));
  }

  // One tile of keys for rows [first, first + shape.block) of `rows` in the query tile.
  void attend_block(const float* keys, int64_t key, int64_t n, int64_t first, int64_t rows) {
    const int64_t count = smaller(shape.block, rows - first), padded_rows = round_up(count, M::ROWS);
    Keys seen{key + n, key};
    for (int64_t row = first; row < first + count; row++)
      seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
    n = smaller(n, seen.end - key);
    if (n <= 0 || seen.begin >= key + n) return;
    const int64_t skipped = larger(seen.begin - key, 0) / M::PANEL * M::PANEL;  // what a window leaves out of the tile's beginning
    const float* values = keys + shape.key_size + skipped / M::PER_WORD * M::PANEL;
    keys += skipped * shape.key_words * M::PLANES;
    key += skipped;
    n -= skipped;
    const float* queries = q + first * shape.query_stride;
    float* output = o + first * shape.o_stride;
    gemm<M>(queries, shape.query_stride, shape.key_words, padded_rows, keys, shape.key_words, shape.key_words, scores, shape.score_stride, round_up(n, 2 * W), false);
    for (int64_t row = 0; row < count; row += W) soften(first, row, count, key, n);
    const int64_t words = round_up(n, M::KEY_STEP) / M::PER_WORD;
    gemm<M>(weights, shape.score_stride, shape.value_words, padded_rows, values, shape.value_words, words, output, shape.o_stride, shape.columns, true);
  }

  // Queries [from, to) of the request over keys `range` of the item.
  void attend_queries(int64_t from, int64_t to, Keys range, float* partial) {
    const int64_t rows = (to - from) * group, padded = round_up(rows, shape.block);
    begin = from;
    Keys seen{range.end, range.begin};
    for (int64_t row = 0; row < rows; row++) {
      const Keys k = keys_of(c, r, from + row / group);
      row_keys[row] = {larger(k.begin, range.begin), smaller(k.end, range.end)};
      seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
      Pack<T, M>::query(c, r.token + from + row / group, item.kv_head * group + row % group, q + row * shape.query_stride, M::PLANES == 1 ? shape.query_stride : shape.key_words, scores);
    }
    for (int64_t row = 0; row < padded; row++) {
      maximum[row] = MINUS_INFINITY;
      sum[row] = 0;
    }
    __builtin_memset(q + rows * shape.query_stride, 0, (padded - rows) * shape.query_stride * sizeof(float));
    __builtin_memset(o, 0, padded * shape.o_stride * sizeof(float));
    for (int64_t index = (seen.begin - range.begin) / M::KEYS; range.begin + index * M::KEYS < seen.end; index++) {
      const int64_t key = range.begin + index * M::KEYS, n = smaller(M::KEYS, range.end - key);
      const float* keys = tile(index, key, n);
      for (int64_t first = 0; first < rows; first += shape.block) attend_block(keys, key, n, first, rows);
    }
    for (int64_t row = 0; row < rows; row++) Pack<T, M>::output(o + row * shape.o_stride, shape.columns);
    Item part = item;
    part.query_begin = from;
    if (part.partial_row >= 0) part.partial_row += (from - item.query_begin) * group;
    finish_rows(c, r, part, 0, rows, o, shape.o_stride, maximum, sum, partial);
  }

  void attend(float* partial) {
    Keys range{r.kv_len, 0};
    for (int64_t i = item.query_begin; i < item.query_end; i++) {
      const Keys k = keys_of(c, r, i);
      range = {smaller(range.begin, k.begin), larger(range.end, k.end)};
    }
    range = {larger(range.begin, item.key_begin), smaller(range.end, item.key_end)};
    const int64_t step = larger(1, M::QUERIES / group);
    slots = item.query_end - item.query_begin > step ? shape.slots : 1;
    for (int64_t from = item.query_begin; from < item.query_end; from += step)
      attend_queries(from, smaller(from + step, item.query_end), range, partial);
  }
};
