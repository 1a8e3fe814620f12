// The kernel for few query rows per KV head (decode): keys and values are read once, straight from the cache, in float32.
//
// Per tile of keys: scores (each key is loaded for up to four rows, dot products summed across lanes by one transposing network),
// one step of the online softmax, then the values. Rows stay in cache: row-major keys need no packing.

constexpr int64_t DIRECT_ROWS = 8;   // more rows than this are worth packing keys
constexpr int64_t DIRECT_TILE = 64;  // keys per tile

// The query of a row as `score_rows` wants it: float32 in load2's order, or bf16 words for the dot-product instruction.
template <class T> struct FloatQuery {
  static constexpr int64_t STEP = 2 * W;
  typedef T Key;
  V a, b;
  void load(const float* q) { a = vload(q); b = vload(q + W); }
  struct Loaded {
    V a, b;
    void load(const T* k) { load2(k, a, b); }
    void load_tail(const T* k, int n) { load2_tail(k, n, a, b); }
  };
  V dot(V sum, const Loaded& k) const { return vfma(b, k.b, vfma(a, k.a, sum)); }
};
#ifdef V1_WORDS
template <class T> struct WordQuery {
  static constexpr int64_t STEP = 2 * W;
  typedef T Key;
  Words a;
  void load(const float* q) { a = (Words)vload(q); }
  struct Loaded {
    Words a;
    void load(const T* k) { a = load_words(k); }
    void load_tail(const T* k, int n) { a = load_words_tail(k, n); }
  };
  V dot(V sum, const Loaded& k) const { return vdot(sum, a, k.a); }
};
#endif

// Rows of keys and of values alternate in memory, which hardware prefetchers follow badly: without this decode takes three times as
// long. Into the second-level cache: a tile of long rows would evict the one at work from the first, unless that is large.
static inline void prefetch_row(const void* row, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char*)row + i, 0, FETCH_INTO_FIRST ? 3 : 2);
}

// s[r][j] = q_r . key_j for R rows and `n` keys (n a multiple of W). `ahead`: the next tile's keys, or null.
template <class Q, int R>
static inline void score_rows(const float* q, int64_t q_stride, const typename Q::Key* const* keys, const typename Q::Key* const* ahead, int64_t n,
                              int64_t d, float* s) {
  constexpr int N = W / R;
  constexpr int64_t words = sizeof(Q) / sizeof(float);
  const int64_t full = d / Q::STEP;
  const int tail = int(d - full * Q::STEP);
  for (int64_t j = 0; j < n; j += N) {
    V sums[R * N];
    for (int i = 0; i < R * N; i++) sums[i] = vzero();
    if (ahead)
      for (int i = 0; i < N; i++) prefetch_row(ahead[j + i], d * int64_t(sizeof(typename Q::Key)));
    for (int64_t step = 0; step < full; step++) {
      Q query[R];
      for (int r = 0; r < R; r++) query[r].load(q + r * q_stride + step * words);
      for (int i = 0; i < N; i++) {
        typename Q::Loaded key;
        key.load(keys[j + i] + step * Q::STEP);
        for (int r = 0; r < R; r++) sums[r * N + i] = query[r].dot(sums[r * N + i], key);
      }
    }
    if (tail) {
      Q query[R];
      for (int r = 0; r < R; r++) query[r].load(q + r * q_stride + full * words);
      for (int i = 0; i < N; i++) {
        typename Q::Loaded key;
        key.load_tail(keys[j + i] + full * Q::STEP, tail);
        for (int r = 0; r < R; r++) sums[r * N + i] = query[r].dot(sums[r * N + i], key);
      }
    }
    float lanes[W];
    vstore(lanes, vsums(sums));
    for (int r = 0; r < R; r++) __builtin_memcpy(s + r * DIRECT_TILE + j, lanes + r * N, N * sizeof(float));
  }
}

// o[r][column ...] += sum over n keys of p[r * p_stride + j] * value_j, for PAIRS pairs of vectors of columns. The sum of a tile is made
// apart: it rounds less than a running one.
template <class T, int R, int PAIRS, bool TAIL>
static inline void add_values(const float* p, int64_t p_stride, const T* const* values, const T* const* ahead, int64_t n, int64_t column, int tail, float* o, int64_t o_stride) {
  V sums[R][2 * PAIRS];
  for (int r = 0; r < R; r++)
    for (int i = 0; i < 2 * PAIRS; i++) sums[r][i] = vzero();
  for (int64_t j = 0; j < n; j++) {
    V v[2 * PAIRS];
    if (ahead) prefetch_row(ahead[j] + column, 2 * PAIRS * W * int64_t(sizeof(T)));
    for (int i = 0; i < PAIRS; i++) {
      if (TAIL) load2_tail(values[j] + column, tail, v[0], v[1]);
      else load2(values[j] + column + i * 2 * W, v[2 * i], v[2 * i + 1]);
    }
    for (int r = 0; r < R; r++) {
      const V weight = vset(p[r * p_stride + j]);
      for (int i = 0; i < 2 * PAIRS; i++) sums[r][i] = vfma(weight, v[i], sums[r][i]);
    }
  }
  for (int r = 0; r < R; r++)
    for (int i = 0; i < 2 * PAIRS; i++) {
      float* to = o + r * o_stride + column + i * W;
      vstore(to, vadd(vload(to), sums[r][i]));
    }
}
template <class T, int R>
static inline void add_value_rows(const float* p, int64_t p_stride, const T* const* values, const T* const* ahead, int64_t n, int64_t d, float* o, int64_t o_stride) {
  int64_t column = 0;
  for (; column + 2 * W * DIRECT_PAIRS <= d; column += 2 * W * DIRECT_PAIRS)
    add_values<T, R, DIRECT_PAIRS, false>(p, p_stride, values, ahead, n, column, 0, o, o_stride);
  for (; column + 2 * W <= d; column += 2 * W) add_values<T, R, 1, false>(p, p_stride, values, ahead, n, column, 0, o, o_stride);
  if (column < d) add_values<T, R, 1, true>(p, p_stride, values, ahead, n, column, int(d - column), o, o_stride);
}

// Query rows to scratch, zero-padded to whole steps.
template <class T> static inline void widen_row(const T* x, int64_t n, float* out) {  // load2's order
  for (int64_t i = 0; i < n; i += 2 * W, out += 2 * W) {
    V a, b;
    if (i + 2 * W <= n) load2(x + i, a, b);
    else load2_tail(x + i, int(n - i), a, b);
    vstore(out, a);
    vstore(out + W, b);
  }
}
template <class T> struct Order { static constexpr bool paired = false; };
template <> struct Order<bf16> { static constexpr bool paired = true; };
template <> struct Order<e4m3> { static constexpr bool paired = FLOAT8_PAIRED; };
template <> struct Order<e5m2> { static constexpr bool paired = FLOAT8_PAIRED; };
template <class T> static inline void to_element_order(float* x, int64_t n) {
  if (Order<T>::paired)
    for (int64_t i = 0; i < n; i += 2 * W) {
      V a = vload(x + i), b = vload(x + i + W);
      interleave(a, b);
      vstore(x + i, a);
      vstore(x + i + W, b);
    }
}
static inline void to_pair_order(float* x, int64_t n) {  // (even, odd) per step of 2 * W
  float step[2 * W];
  for (int64_t i = 0; i < n; i += 2 * W) {
    __builtin_memcpy(step, x + i, sizeof step);
    for (int j = 0; j < W; j++) {
      x[i + j] = step[2 * j];
      x[i + W + j] = step[2 * j + 1];
    }
  }
}
static inline void load_query(const Call& c, int64_t token, int64_t head, float* out) {  // element order, float32
  const int64_t at = token * c.query_token + head * c.query_head, d = c.head_size, padded = round_up(d, 2 * W);
  if (c.query_type == V1_F32) widen_row((const float*)c.query + at, d, out);
  if (c.query_type == V1_F16) widen_row((const f16*)c.query + at, d, out);
  if (c.query_type == V1_BF16) {
    widen_row((const bf16*)c.query + at, d, out);
    to_element_order<bf16>(out, padded);
  }
}

template <class P> static inline void exchange(P& a, P& b) {
  const P t = a;
  a = b;
  b = t;
}

static inline int64_t direct_scratch(const Call& c) {
  const int64_t row = round_up(c.head_size, 2 * W) + round_up(c.head_size_v, 2 * W) + DIRECT_TILE + 2;
  return DIRECT_ROWS * row * int64_t(sizeof(float)) + 4 * DIRECT_TILE * int64_t(sizeof(void*)) + 64;
}

template <class T, class Q>
static void attend_direct(const Call& c, const Request& r, const Item& item, float* partial, char* scratch) {
  const int64_t group = c.num_heads / c.num_kv_heads, rows = (item.query_end - item.query_begin) * group;
  const int64_t d = c.head_size, dv = c.head_size_v, q_stride = round_up(d, 2 * W), o_stride = round_up(dv, 2 * W);
  float* q = (float*)scratch;
  float* o = q + DIRECT_ROWS * q_stride;
  float* s = o + DIRECT_ROWS * o_stride;
  float* maximum = s + DIRECT_ROWS * DIRECT_TILE;
  float* sum = maximum + DIRECT_ROWS;
  const T** keys = (const T**)(sum + DIRECT_ROWS);
  const T** values = keys + DIRECT_TILE;
  const Logits logits = logits_of(c);
  const Cache<T> cache(c, r, item.kv_head);
  const bool words = sizeof(Q) == sizeof(V);  // one vector per step: bf16 words

  Keys seen{r.kv_len, 0}, row_keys[DIRECT_ROWS];
  for (int64_t row = 0; row < rows; row++) {
    const int64_t i = item.query_begin + row / group, head = item.kv_head * group + row % group;
    row_keys[row] = keys_of(c, r, i);
    seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
    if (words) {
      __builtin_memset(q + row * q_stride, 0, q_stride * sizeof(float));
      __builtin_memcpy(q + row * q_stride, (const bf16*)c.query + (r.token + i) * c.query_token + head * c.query_head, d * sizeof(bf16));
    } else {
      load_query(c, r.token + i, head, q + row * q_stride);
      if (Order<T>::paired) to_pair_order(q + row * q_stride, q_stride);
    }
    maximum[row] = MINUS_INFINITY;
    sum[row] = 0;
  }
  __builtin_memset(o, 0, rows * o_stride * sizeof(float));
  seen = {larger(seen.begin, item.key_begin), smaller(seen.end, item.key_end)};

  const T **next_keys = values + DIRECT_TILE, **next_values = next_keys + DIRECT_TILE;
  const auto look_ahead = [&](int64_t key) {
    const int64_t n = smaller(DIRECT_TILE, seen.end - key);
    cache.rows(key, n, next_keys, next_values);
    for (int64_t j = n; j < DIRECT_TILE; j++) next_keys[j] = next_keys[n - 1], next_values[j] = next_values[n - 1];
  };
  if (seen.begin < seen.end) look_ahead(seen.begin);
  for (int64_t key = seen.begin; key < seen.end; key += DIRECT_TILE) {
    const int64_t n = smaller(DIRECT_TILE, seen.end - key), padded = round_up(n, W);
    exchange(keys, next_keys);
    exchange(values, next_values);
    const T **ahead_keys = nullptr, **ahead_values = nullptr;
    if (key + DIRECT_TILE < seen.end) {
      look_ahead(key + DIRECT_TILE);
      if (sizeof(T) < sizeof(float) || rows >= FETCH_FLOATS_FROM) {
        ahead_keys = next_keys;
        ahead_values = next_values;
      }
    }
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) score_rows<Q, 4>(q + row * q_stride, q_stride, keys, row ? nullptr : ahead_keys, padded, d, s + row * DIRECT_TILE);
    for (; row + 2 <= rows; row += 2) score_rows<Q, 2>(q + row * q_stride, q_stride, keys, row ? nullptr : ahead_keys, padded, d, s + row * DIRECT_TILE);
    for (; row < rows; row++) score_rows<Q, 1>(q + row * q_stride, q_stride, keys, row ? nullptr : ahead_keys, padded, d, s + row * DIRECT_TILE);
    for (row = 0; row < rows; row++) {
      float* scores = s + row * DIRECT_TILE;
      const int64_t i = item.query_begin + row / group, head = item.kv_head * group + row % group;
      if (logits.special)
        finish_logits(logits, scores, padded, key, r.offset + i, c.alibi_slopes ? c.alibi_slopes[head] : 0.0f);
      const Keys k = {row_keys[row].begin, smaller(row_keys[row].end, seen.end)};
      if (k.begin > key || k.end < key + padded || c.tree_mask) mask_scores(c, r, scores, padded, key, k, i);
      const Step step = softmax_step(scores, padded, logits.factor, maximum[row]);
      if (step.alpha != 1.0f) scale_row(o + row * o_stride, o_stride, step.alpha);
      sum[row] = sum[row] * step.alpha + exponentials(scores, padded, logits.factor, step.base);
    }
    row = 0;
    for (; row + 4 <= rows; row += 4) add_value_rows<T, 4>(s + row * DIRECT_TILE, DIRECT_TILE, values, row ? nullptr : ahead_values, n, dv, o + row * o_stride, o_stride);
    for (; row + 2 <= rows; row += 2) add_value_rows<T, 2>(s + row * DIRECT_TILE, DIRECT_TILE, values, row ? nullptr : ahead_values, n, dv, o + row * o_stride, o_stride);
    for (; row < rows; row++) add_value_rows<T, 1>(s + row * DIRECT_TILE, DIRECT_TILE, values, row ? nullptr : ahead_values, n, dv, o + row * o_stride, o_stride);
  }
  for (int64_t row = 0; row < rows; row++) to_element_order<T>(o + row * o_stride, o_stride);
  finish_rows(c, r, item, 0, rows, o, o_stride, maximum, sum, partial);
}
