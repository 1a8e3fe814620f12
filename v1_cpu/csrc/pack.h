// How rows of queries, keys and values become the words of packed.h's panels and operands: one `Pack` per kind of word.

template <class T, class M> struct Pack {  // float32 words
  static constexpr bool paired = Order<T>::paired;
  static void key_columns(const T* const* rows, int64_t d, float* panel, int64_t) {  // W keys to W columns
    for (int64_t i = 0; i < d; i += 2 * W) {
      V a[W], b[W];
      const int64_t left = d - i;
      for (int j = 0; j < W; j++) {
        if (left >= 2 * W) load2(rows[j] + i, a[j], b[j]);
        else load2_tail(rows[j] + i, int(left), a[j], b[j]);
      }
      vtranspose(a);
      vtranspose(b);
      for (int j = 0; j < W; j++) {
        const int64_t ka = i + (paired ? 2 * j : j), kb = i + (paired ? 2 * j + 1 : W + j);
        if (ka < d) vstore(panel + ka * M::PANEL, a[j]);
        if (kb < d) vstore(panel + kb * M::PANEL, b[j]);
      }
    }
  }
  static void value_row(const T* const* rows, int64_t d, float* panel, int64_t panel_words) {  // one key
    for (int64_t i = 0; i < d; i += 2 * W) {
      V a, b;
      if (d - i >= 2 * W) load2(rows[0] + i, a, b);
      else load2_tail(rows[0] + i, int(d - i), a, b);
      float* to = panel + i / M::PANEL * panel_words * M::PANEL + i % M::PANEL;
      vstore(to, a);
      vstore(to + W, b);
    }
  }
  static void output(float* o, int64_t n) { to_element_order<T>(o, n); }
  static void query(const Call& c, int64_t token, int64_t head, float* out, int64_t, float*) { load_query(c, token, head, out); }
};
#ifdef V1_WORDS
template <class T> struct Pack<T, PairWords> {
  static void key_columns(const T* const* rows, int64_t d, float* panel, int64_t) {
    for (int64_t i = 0; i < d; i += 2 * W) {
      V a[W];
      const int64_t left = d - i;
      for (int j = 0; j < W; j++)
        a[j] = (V)(left >= 2 * W ? load_words(rows[j] + i) : load_words_tail(rows[j] + i, int(left)));
      vtranspose(a);
      for (int j = 0; j < W; j++) vstore(panel + (i / 2 + j) * PairWords::PANEL, a[j]);
    }
  }
  static void value_row(const T* const* rows, int64_t d, float* panel, int64_t panel_words) {  // two keys; rows[1] may be null
    for (int64_t i = 0; i < d; i += 2 * W) {
      const int n = int(smaller(d - i, 2 * W));
      const Words even = n == 2 * W ? load_words(rows[0] + i) : load_words_tail(rows[0] + i, n);
      const Words odd = !rows[1] ? Words{} : n == 2 * W ? load_words(rows[1] + i) : load_words_tail(rows[1] + i, n);
      Words a, b;
      zip_rows(even, odd, a, b);
      float* to = panel + i / PairWords::PANEL * panel_words * PairWords::PANEL + i % PairWords::PANEL;
      vstore(to, (V)a);
      vstore(to + W, (V)b);
    }
  }
  static void output(float* o, int64_t n) {
    for (int64_t i = 0; i < n; i += 2 * W) {
      V a = vload(o + i), b = vload(o + i + W);
      unzip_columns(a, b);
      vstore(o + i, a);
      vstore(o + i + W, b);
    }
  }
  static void query(const Call& c, int64_t token, int64_t head, float* out, int64_t words, float*) {
    __builtin_memset(out, 0, words * sizeof(float));
    __builtin_memcpy(out, (const bf16*)c.query + token * c.query_token + head * c.query_head, c.head_size * sizeof(bf16));
  }
};
#endif

#ifdef __AMX_BF16__
// Words (low, high) of the parts of two vectors. They are cut off, not rounded: what is left is exact.
template <int PLANES> static inline void split_words(V low, V high, V (&out)[PLANES]) {
  const __m512i upper = _mm512_set1_epi32(-65536);
  for (int i = 0; i < PLANES; i++) {
    const __m512i a = _mm512_castps_si512(low), b = _mm512_castps_si512(high);
    out[i] = (V)_mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, upper, 0xf8);  // a >> 16 | (b & upper)
    if (i + 1 < PLANES) {
      low = vsub(low, (V)_mm512_and_si512(a, upper));
      high = vsub(high, (V)_mm512_and_si512(b, upper));
    }
  }
}
template <int PARTS> inline void SplitWords<PARTS>::store_weights(float* w, int64_t plane, V a, V b) {
  V parts[PARTS];
  split_words(a, b, parts);
  for (int p = 0; p < PARTS; p++) vstore(w + p * plane, parts[p]);
}
template <class T, int PLANES> struct Pack<T, SplitWords<PLANES>> {
  static constexpr int64_t PANEL = SplitWords<PLANES>::PANEL;
  static void key_columns(const T* const* rows, int64_t d, float* panel, int64_t words) {
    for (int64_t i = 0; i < d; i += 2 * W) {
      V parts[PLANES][W];
      for (int j = 0; j < W; j++) {
        V a, b, out[PLANES];
        load_step(rows[j] + i, d - i, a, b);
        split_words(a, b, out);
        for (int p = 0; p < PLANES; p++) parts[p][j] = out[p];
      }
      for (int p = 0; p < PLANES; p++) {
        vtranspose(parts[p]);
        for (int j = 0; j < W; j++) vstore(panel + (p * words + i / 2 + j) * PANEL, parts[p][j]);
      }
    }
  }
  static void load_step(const T* from, int64_t left, V& a, V& b) {
    if (left >= 2 * W) load2(from, a, b);
    else load2_tail(from, int(left), a, b);
  }
  static void value_row(const T* const* rows, int64_t d, float* panel, int64_t words) {  // two keys; rows[1] may be null
    for (int64_t i = 0; i < d; i += 2 * W) {
      V a[2] = {}, b[2] = {}, out[PLANES];
      for (int half = 0; half < 2; half++)
        if (rows[half]) load_step(rows[half] + i, d - i, a[half], b[half]);
      float* to = panel + i / PANEL * PLANES * words * PANEL + i % PANEL;
      split_words(a[0], a[1], out);
      for (int p = 0; p < PLANES; p++) vstore(to + p * words * PANEL, out[p]);
      split_words(b[0], b[1], out);
      for (int p = 0; p < PLANES; p++) vstore(to + p * words * PANEL + W, out[p]);
    }
  }
  static void output(float* o, int64_t n) { to_element_order<T>(o, n); }
  template <class F> static void row(const F* from, int64_t d, float* out, int64_t words) {
    for (int64_t i = 0; i < d; i += 2 * W) {
      V a, b, parts[PLANES];
      if (d - i >= 2 * W) load2(from + i, a, b);
      else load2_tail(from + i, int(d - i), a, b);
      split_words(a, b, parts);
      for (int p = 0; p < PLANES; p++) vstore(out + p * words + i / 2, parts[p]);
    }
  }
  static void query(const Call& c, int64_t token, int64_t head, float* out, int64_t words, float* line) {
    const int64_t padded = round_up(c.head_size, 2 * W);
    load_query(c, token, head, line);
    if (Order<T>::paired) to_pair_order(line, padded);
    row(line, padded, out, words);
  }
};
#endif
