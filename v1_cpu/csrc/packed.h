// The kernel for many query rows per KV head (prefill, chunks, one KV head under many query heads): flash attention on packed tiles.
//
// Keys and values are packed per tile of KEYS keys into panels of PANEL columns, once per work item, and reused by all its query
// tiles through a direct-mapped store. Per block of rows: scores = Q K^T, one step of the online softmax, output += P V, both
// products by `gemm`. Where a row knows a maximum from earlier keys, scores become weights in the registers they are summed in
// (`ToWeights`). A "word" is what one 32-bit lane holds: a float32, or two bf16 for the dot-product instructions.
//
//   keys    [KEYS / PANEL][key words][PANEL]       key words: head size, or pairs of it
//   values  [columns / PANEL][value words][PANEL]  value words: keys of the tile, or pairs of them
//
// Numbers split in bf16 parts (SplitWords) take as many planes of words: [.. / PANEL][plane][words][PANEL], and in rows of queries and
// weights one plane behind the other.

constexpr int64_t TILE = GEMM_KEYS;    // keys
constexpr int64_t QUERY_ROWS = 192;    // rows per query tile
constexpr float LARGEST_WEIGHTS = 4294967296.0f;  // 2^32: sum of a row's weights in a tile that may stand on an earlier maximum
constexpr int64_t EXPANDED_BYTES = 64 << 20;  // of packed tiles of all threads, where keys and values have to be made for them

#include "gemm.h"
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
    const int64_t floats = rows * (query_stride + o_stride + 2) + larger(block * score_stride, query_stride * 2) + block * score_stride + round_up(block, W) * W + slots * (key_size + value_size);
    return floats * int64_t(sizeof(float)) + slots * 8 + 2 * M::KEYS * 8 + rows * 16 + 64 * 17;
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
  float *q, *o, *maximum, *sum, *scores, *weights, *lanes, *tiles;  // lanes: a row's sum of weights in a tile, a vector
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
    lanes = (float*)take(scratch, round_up(shape.block, W) * W * 4);
    maximum = (float*)take(scratch, shape.rows * 4);
    sum = (float*)take(scratch, shape.rows * 4);
    held = (int64_t*)take(scratch, shape.slots * 8);
    row_keys = (Keys*)take(scratch, shape.rows * 16);
    key_rows = (const T**)take(scratch, M::KEYS * 8);
    value_rows = (const T**)take(scratch, M::KEYS * 8);
    for (int64_t i = 0; i < shape.slots; i++) held[i] = -1;
    __builtin_memset(weights, 0, shape.block * shape.score_stride * 4);
    __builtin_memset(lanes, 0, round_up(shape.block, W) * W * 4);
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

  struct Columns { int64_t begin, end; };

  // Scale, cap, bias and mask a row of scores for keys [key, key + n); returns its maxima by lanes.
  V finish_scores(float* s, int64_t n, int64_t key, int64_t row) {
    if (n <= 0) return vset(MINUS_INFINITY);
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
  V weigh(const float* s, float* w, int64_t n, float base) {
    const V factor = vset(logits.factor), minus_base = vset(-base);
    V total = vzero();
    for (int64_t j = 0; j < n; j += 2 * W) {
      const V a = M::weight(vfma(vload(s + j), factor, minus_base)), b = M::weight(vfma(vload(s + j + W), factor, minus_base));
      total = vadd(total, vadd(a, b));
      M::store_weights(w + j / M::PER_WORD, shape.value_words, a, b);
    }
    return total;
  }
  // One step of the online softmax for rows [row, row + W) of the block that starts at `first`, over the scores of the columns before
  // and after the open ones: their maxima and rescaling are vectors with a row per lane.
  void soften(int64_t first, int64_t row, int64_t count, int64_t key, int64_t n, Columns open) {
    V tops[W];
    float base[W], alpha[W];
    const int64_t rows = smaller(W, count - row);
    for (int64_t i = 0; i < rows; i++) {
      float* s = scores + (row + i) * shape.score_stride;
      tops[i] = vmax(finish_scores(s, open.begin, key, first + row + i), finish_scores(s + open.end, n - open.end, key + open.end, first + row + i));
    }
    for (int64_t i = rows; i < W; i++) tops[i] = vset(MINUS_INFINITY);
    float* top = maximum + first + row;
    const V old = vload(top), next = vmax(old, vmul(vmaxima(tops), vset(logits.factor)));
    const V from = vmax(next, vset(-3e38f));  // where nothing has been seen: 2^(-inf + 3e38) = 0
    const V rescale = vexp2(vsub(old, from));
    vstore(top, next);
    vstore(base, from);
    vstore(alpha, rescale);
    for (int64_t i = 0; i < rows; i++) {
      if (alpha[i] != 1.0f) scale_row(o + (first + row + i) * shape.o_stride, shape.columns, alpha[i]);
      float *s = scores + (row + i) * shape.score_stride, *w = weights + (row + i) * shape.score_stride;
      const V before = weigh(s, w, open.begin, base[i]);
      vstore(lanes + (row + i) * W, vadd(before, weigh(s + open.end, w + open.end / M::PER_WORD, n - open.end, base[i])));
    }
    vstore(sum + first + row, vmul(vload(sum + first + row), rescale));
  }
  // Adds the tile's weights to the rows' sums; false, with nothing added, if they are `limited` and one is too large, or no number.
  bool add_sums(int64_t first, int64_t count, bool limited) {
    V totals[16];  // of a block
    bool small = true;
    for (int64_t row = 0; row < count; row += W) {
      V by_row[W];
      for (int i = 0; i < W; i++) by_row[i] = vload(lanes + (row + i) * W);
      totals[row / W] = vsums(by_row);
      for (int64_t i = 0; i < smaller(W, count - row); i++) small &= totals[row / W][i] < LARGEST_WEIGHTS;
    }
    if (limited && !small) return false;
    for (int64_t row = 0; row < count; row += W) vstore(sum + first + row, vadd(vload(sum + first + row), totals[row / W]));
    return true;
  }
  // The columns, whole panels, that every row of the block sees after others.
  Columns open_columns(int64_t key, int64_t n, int64_t first, int64_t count) const {
    if (!M::IN_REGISTERS || logits.special || c.tree_mask) return {0, 0};
    Keys all{key, key + n};
    bool begun = true;
    for (int64_t row = first; row < first + count; row++) {
      all = {larger(all.begin, row_keys[row].begin), smaller(all.end, row_keys[row].end)};
      begun &= maximum[row] != MINUS_INFINITY;
    }
    const Columns open{round_up(all.begin - key + (begun ? 0 : 1), M::PANEL), (all.end - key) / M::PANEL * M::PANEL};
    return open.begin < open.end ? open : Columns{0, 0};
  }
  // Weights of the block's rows for `n` keys, and their sums; false, with no sums, where an open column holds too large a score.
  bool make_weights(const float* keys, int64_t key, int64_t n, int64_t first, int64_t count, Columns open) {
    const float* queries = q + first * shape.query_stride;
    const int64_t padded_rows = round_up(count, M::ROWS), columns = round_up(n, 2 * W);
    const auto score = [&](int64_t from, int64_t to) {
      if (from < to)
        gemm<M>(queries, shape.query_stride, shape.key_words, padded_rows, keys + from * shape.key_words * M::PLANES, shape.key_words, shape.key_words, scores + from, shape.score_stride, to - from, false);
    };
    score(0, open.begin);
    score(open.end, columns);
    for (int64_t row = 0; row < count; row += W) soften(first, row, count, key, n, open);
    if constexpr (M::IN_REGISTERS)
      if (open.begin < open.end)
        gemm_to<M>(queries, shape.query_stride, padded_rows, keys + open.begin * shape.key_words, shape.key_words, shape.key_words, open.end - open.begin,
                   ToWeights<M>{logits.factor, maximum + first, weights + open.begin / M::PER_WORD, shape.score_stride, shape.value_words, lanes});
    return add_sums(first, count, open.begin < open.end);
  }

  // One tile of keys for rows [first, first + shape.block) of `rows` in the query tile.
  void attend_block(const float* keys, int64_t key, int64_t n, int64_t first, int64_t rows) {
    const int64_t count = smaller(shape.block, rows - first);
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
    if (!make_weights(keys, key, n, first, count, open_columns(key, n, first, count))) make_weights(keys, key, n, first, count, {0, 0});
    const int64_t words = round_up(n, M::KEY_STEP) / M::PER_WORD;
    gemm<M>(weights, shape.score_stride, shape.value_words, round_up(count, M::ROWS), values, shape.value_words, words, o + first * shape.o_stride, shape.o_stride, shape.columns, true);
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
      maximum[row] = row < rows ? MINUS_INFINITY : 0;  // rows that fill the last block up get weights, too
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
