// The kernel for latents on dot products of bf16, without tiles: mla.h's work for bfloat16 queries over latents in bfloat16 or float8.
//
// Scores stand transposed, a key per line and a query row per lane, as in mla.h: keys are read as they lie, a word at a time, and
// broadcast against the same word of W rows, which are packed once. The softmax needs no shuffles, and leaves the weights of two keys
// in the words that the values' products want. Values are zipped to words, a panel of columns at a time, for all rows at hand.

constexpr int64_t WORD_PANEL = GEMM_VECTORS * W;  // columns of values

struct WordLatentShape {  // in floats: words, or numbers
  int64_t rows, words, key_words, o_stride;
  explicit WordLatentShape(const Call& c)
      : rows(LatentShape(c).rows), words(round_up(c.head_size, 2 * W) / 2), key_words(words + 16), o_stride(latent_output_stride(c)) {}
  int64_t scratch() const {
    return (rows * (words + o_stride + LATENT_KEYS + 3) + LATENT_KEYS * key_words + LATENT_KEYS / 2 * WORD_PANEL) * 4 + LATENT_KEYS * 24 +
           rows * 16 + 1024;
  }
};

// scores[j][0 .. VECTORS) = keys[j] . rows over `words` words (a multiple of 4) for QUAD_KEYS keys; q is [word][VECTORS]. Under less than
// four vectors every key has several sums: there are registers for more sums than for addresses of keys.
template <int VECTORS>
static inline void word_scores(const bf16* const* keys, const float* q, int64_t words, float* scores, int64_t stride, Ahead& next) {
  constexpr int KEYS = QUAD_KEYS, PHASES = 4 / VECTORS;
  Ahead ahead = next;
  V sums[KEYS][PHASES][VECTORS];
  for (int j = 0; j < KEYS; j++)
    for (int p = 0; p < PHASES; p++)
      for (int i = 0; i < VECTORS; i++) sums[j][p][i] = vzero();
  const bf16* key[KEYS];
  for (int j = 0; j < KEYS; j++) key[j] = keys[j];
  for (int64_t k = 0; k < words; k += PHASES) {
    if (k % (4 * PHASES) == 0) ahead.fetch(1);
    for (int p = 0; p < PHASES; p++) {
      V line[VECTORS];
      for (int i = 0; i < VECTORS; i++) line[i] = vload(q + ((k + p) * VECTORS + i) * W);
      for (int j = 0; j < KEYS; j++) {
        float word;
        __builtin_memcpy(&word, key[j] + 2 * (k + p), 4);
        for (int i = 0; i < VECTORS; i++) sums[j][p][i] = vdot(sums[j][p][i], (Words)line[i], (Words)vset(word));
      }
    }
  }
  next = ahead;
  for (int j = 0; j < KEYS; j++)
    for (int i = 0; i < VECTORS; i++) {
      V sum = sums[j][0][i];
      for (int p = 1; p < PHASES; p++) sum = vadd(sum, sums[j][p][i]);
      vstore(scores + j * stride + i * W, sum);
    }
}

// o[r][0 .. PANEL) = alpha[r] * o[r] + sum over pairs of weights[pair][r] . values[pair] for ROWS rows.
template <int ROWS>
static inline void word_values(const float* values, int64_t pairs, const float* weights, int64_t stride, const float* alpha, float* o,
                               int64_t o_stride, Ahead& next, int64_t quota) {
  Ahead ahead = next;
  V sums[ROWS][GEMM_VECTORS];
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < GEMM_VECTORS; i++) sums[r][i] = vmul(vset(alpha[r]), vload(o + r * o_stride + i * W));
  for (int64_t k = 0; k < pairs; k++) {
    V v[GEMM_VECTORS];
    for (int i = 0; i < GEMM_VECTORS; i++) v[i] = vload(values + k * WORD_PANEL + i * W);
    ahead.fetch(quota);
    for (int r = 0; r < ROWS; r++) {
      const V weight = vset(weights[k * stride + r]);
      for (int i = 0; i < GEMM_VECTORS; i++) sums[r][i] = vdot(sums[r][i], (Words)weight, (Words)v[i]);
    }
  }
  next = ahead;
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < GEMM_VECTORS; i++) vstore(o + r * o_stride + i * W, sums[r][i]);
}

template <class T>
struct WordLatents : LatentRows<T> {
  using Base = LatentRows<T>;
  using Base::c, Base::r, Base::group, Base::columns, Base::o, Base::o_stride, Base::scores, Base::alpha, Base::lanes, Base::tile, Base::rows_of, Base::ahead, Base::quota;
  const int64_t words, key_words;
  const bool copied;  // rows are converted, or would be read past their end
  float *q, *values, *converted;
  const bf16** keys;

  WordLatents(const Call& call, const Request& request, const Item& it, char* scratch) : WordLatents(call, request, it, WordLatentShape(call), scratch) {}
  WordLatents(const Call& call, const Request& request, const Item& it, const WordLatentShape& shape, char* scratch)
      : Base(call, request, it, shape.rows, scratch), words(shape.words), key_words(shape.key_words),
        copied(!__is_same(T, bf16) || columns > call.head_size || call.head_size % (2 * W)) {
    q = (float*)take(scratch, words * shape.rows * 4);
    converted = (float*)take(scratch, LATENT_KEYS * key_words * 4);
    values = (float*)take(scratch, LATENT_KEYS / 2 * WORD_PANEL * 4);
    keys = (const bf16**)take(scratch, LATENT_KEYS * 8);
  }

  static Words load_step(const bf16* from, int64_t left) { return left >= 2 * W ? load_words(from) : load_words_tail(from, int(left)); }

  // Vectors of rows that are scored together, from lane `row` on.
  int64_t vectors(int64_t row) const { return lanes - row >= 4 * W ? 4 : lanes - row >= 2 * W ? 2 : 1; }

  void load_queries(int64_t from, int64_t rows) {
    for (int64_t first = 0; first < lanes; first += vectors(first) * W)
      for (int64_t i = 0, n = vectors(first); i < n; i++)
        for (int64_t word = 0; word < words; word += W) {
          V pairs[W];
          for (int64_t j = 0; j < W; j++) {
            const int64_t row = first + i * W + j;
            const bf16* line = (const bf16*)c.query + (r.token + from + row / group) * c.query_token + row % group * c.query_head;
            pairs[j] = row < rows ? (V)load_step(line + 2 * word, c.head_size - 2 * word) : vzero();
          }
          vtranspose(pairs);
          for (int64_t j = 0; j < W; j++) vstore(q + first * words + ((word + j) * n + i) * W, pairs[j]);
        }
  }

  void load_keys(int64_t key, int64_t n, int64_t end, int64_t rows) {  // [key, key + n)
    this->begin_tile(key, end, n * lanes / (LATENT_SUMS * W) * words / 4, (n + 1) / 2 * (columns / WORD_PANEL) * ((rows + GEMM_ROWS - 1) / GEMM_ROWS));
    for (int64_t j = 0; j < tile; j++) {
      const T* row = rows_of[smaller(j, n - 1)];  // keys past the end are masked
      if (copied) {
        bf16* to = (bf16*)(converted + j * key_words);
        if (j < n) convert(row, to);
        keys[j] = j < n ? to : keys[n - 1];
      } else {
        keys[j] = (const bf16*)row;
      }
    }
  }
  void convert(const T* row, bf16* to) const {
    for (int64_t i = 0; i < c.head_size; i += 2 * W) {
      const int64_t left = c.head_size - i;
      vstore((float*)(to + i), (V)(left >= 2 * W ? load_words(row + i) : load_words_tail(row + i, int(left))));
    }
  }

  static V weigh(float* s, int64_t n, int64_t stride, V factor, V minus_base) {  // a word for two keys
    V total = vzero();
    for (int64_t j = 0; j < n; j += 2) {
      const V a = vexp2_coarse(vfma(vload(s + j * stride), factor, minus_base));
      const V b = j + 1 < n ? vexp2_coarse(vfma(vload(s + (j + 1) * stride), factor, minus_base)) : vzero();
      total = vadd(total, vadd(a, b));
      vstore(s + j / 2 * stride, (V)zip_words(a, b));
    }
    return total;
  }
  void pack_values(int64_t column, int64_t n) {
    for (int64_t j = 0; j < n; j += 2)
      for (int64_t i = column; i < smaller(column + WORD_PANEL, columns); i += 2 * W) {
        Words a, b;
        zip_rows(load_words(keys[j] + i), j + 1 < n ? load_words(keys[j + 1] + i) : Words{}, a, b);
        float* to = values + j / 2 * WORD_PANEL + i - column;
        vstore(to, (V)a);
        vstore(to + W, (V)b);
      }
  }

  template <int VECTORS> void score(int64_t row, int64_t n) {
    for (int64_t j = 0; j < n; j += QUAD_KEYS)
      word_scores<VECTORS>(keys + j, q + row * words, words, scores + j * lanes + row, lanes, ahead);
  }
  void attend_tile(int64_t rows, int64_t key, int64_t n) {
    for (int64_t row = 0; row < lanes; row += vectors(row) * W) {
      if (vectors(row) == 4) score<4>(row, n);
      else if (vectors(row) == 2) score<2>(row, n);
      else score<1>(row, n);
    }
    for (int64_t row = 0; row < lanes; row += W)
      this->soften(row, rows, key, n, [this](float* s, int64_t keys_here, V factor, V base) { return weigh(s, keys_here, lanes, factor, base); });
    for (int64_t column = 0; column < columns; column += WORD_PANEL) {
      pack_values(column, n);
      this->by_rows(rows, [&](auto count, int64_t row) {
        word_values<count.value>(values, (n + 1) / 2, scores + row, lanes, alpha + row, o + row * o_stride + column, o_stride, ahead, quota);
      });
    }
  }
  static void output(float* row, int64_t n) { Pack<T, PairWords>::output(row, n); }
};
