// The kernel for latents on AMX tiles: mla.h's work for bfloat16 queries over latents in bfloat16 or float8.
//
// Scores stand transposed, S^T = K Q^T: keys are left operands as they lie, the queries' pairs are packed once, and a vector of scores
// holds one key under sixteen query rows, so that the softmax needs no shuffles. Values are packed once per tile of keys (pairs of keys
// per 32-bit word) and shared by all rows; the weights are turned in registers. Operands and results are whole tiles of 1 KB:
//
//   queries  [row group][step of 32 elements][16 pairs][16 rows]      scores  [row group][key][16 rows]
//   weights  [row group][step of 32 keys][16 rows][16 pairs]          values  [step of 32 keys][column tile][16 pairs][16 columns]
//   output   [row group][column tile][16 rows][16 columns]            columns in the order that `unzip_columns` undoes

constexpr int64_t LATENT_TILE = 128;  // keys
constexpr int64_t LATENT_GROUPS = LATENT_TILE / 16, LATENT_DEPTHS = LATENT_TILE / 32;

struct TileLatentShape {  // sizes in bytes unless said otherwise
  int64_t rows, steps, columns, key_row, queries, scores, weights, output, values;  // steps of 32 elements, tiles of 16 columns
  explicit TileLatentShape(const Call& c)
      : rows(round_up(larger(c.num_heads, LATENT_ROWS), 16)), steps((c.head_size + 31) / 32), columns((c.head_size_v + 31) / 32 * 2),
        key_row(steps * 64 + 64), queries(rows * steps * 64), scores(rows * LATENT_TILE * 4), weights(rows * LATENT_TILE * 2),
        output(rows * columns * 64), values(columns * LATENT_DEPTHS * 1024) {}
  int64_t scratch() const {
    return queries + scores + weights + output + values + LATENT_TILE * (key_row + 16) + rows * 28 + columns * 64 + 1024;
  }
};

template <class T>
struct TileLatents {
  const Call& c;
  const Request& r;
  const Item& item;
  const TileLatentShape shape;
  const Logits logits;
  const Cache<T> cache;
  const int64_t group;
  int64_t groups = 0, quota = 0;  // row groups at hand; lines of the next tile to fetch per product
  float *queries, *scores, *weights, *output, *values, *maximum, *sum, *alpha, *line;
  char* copies;
  const T **rows_of, **next_rows;
  Keys* row_keys;
  const bool lie;  // sixteen keys in a row can be a tile without a copy
  Ahead ahead;
  const char* base[LATENT_GROUPS];  // the tile's keys, sixteen and sixteen
  int64_t stride[LATENT_GROUPS];

  TileLatents(const Call& call, const Request& request, const Item& it, char* scratch)
      : c(call), r(request), item(it), shape(call), logits(logits_of(call)), cache(call, request, 0), group(call.num_heads),
        lie(__is_same(T, bf16) && (!request.table || call.block_size % 16 == 0) && call.head_size % 32 == 0) {
    queries = (float*)take(scratch, shape.queries);
    scores = (float*)take(scratch, shape.scores);
    weights = (float*)take(scratch, shape.weights);
    output = (float*)take(scratch, shape.output);
    values = (float*)take(scratch, shape.values);
    copies = take(scratch, LATENT_TILE * shape.key_row);
    maximum = (float*)take(scratch, shape.rows * 4);
    sum = (float*)take(scratch, shape.rows * 4);
    alpha = (float*)take(scratch, shape.rows * 4);
    line = (float*)take(scratch, shape.columns * 64);
    row_keys = (Keys*)take(scratch, shape.rows * 16);
    rows_of = (const T**)take(scratch, LATENT_TILE * 8);
    next_rows = (const T**)take(scratch, LATENT_TILE * 8);
  }

  static Words words(const bf16* from, int64_t left) { return left >= 32 ? load_words(from) : load_words_tail(from, int(larger(left, 0))); }

  void load_queries(int64_t from, int64_t rows) {  // queries [from, ...) of the request
    groups = (rows + 15) / 16;
    for (int64_t row = 0; row < groups * 16; row++) {
      maximum[row] = MINUS_INFINITY;
      sum[row] = 0;
      if (row >= rows) continue;
      row_keys[row] = keys_of(c, r, from + row / group);
      row_keys[row] = {larger(row_keys[row].begin, item.key_begin), smaller(row_keys[row].end, item.key_end)};
    }
    float* to = queries;
    for (int64_t g = 0; g < groups; g++)
      for (int64_t step = 0; step < shape.steps; step++, to += 256) {
        V pairs[16];
        for (int64_t i = 0; i < 16; i++) {
          const int64_t row = g * 16 + i, token = r.token + from + row / group;
          const bf16* q = (const bf16*)c.query + token * c.query_token + row % group * c.query_head;
          pairs[i] = row < rows ? (V)words(q + 32 * step, c.head_size - 32 * step) : vzero();
        }
        vtranspose(pairs);
        for (int64_t i = 0; i < 16; i++) vstore(to + i * 16, pairs[i]);
      }
  }

  // Keys [key, key + n), and row pointers ahead to `end`; returns how many there are with the zeros that fill the last step.
  int64_t load_keys(int64_t key, int64_t n, int64_t end) {
    exchange(rows_of, next_rows);
    const int64_t next = key + LATENT_TILE, following = smaller(LATENT_TILE, end - next), padded = round_up(n, 32);
    if (following > 0) cache.rows(next, following, next_rows, next_rows);
    ahead.start((const char* const*)next_rows, following, c.head_size * int64_t(sizeof(T)));
    const int64_t products = (groups / 2 + groups % 2 * 2) * (LATENT_GROUPS / 2 * shape.steps + shape.columns / 2 * LATENT_DEPTHS);
    quota = (ahead.left - smaller(ahead.left, padded / 2 * shape.columns / 2) + products - 1) / products;
    for (int64_t g = 0; g < LATENT_GROUPS; g++) {
      const int64_t first = g * 16;
      base[g] = first < padded ? copies + first * shape.key_row : base[0];  // past the end: any finite numbers will do
      stride[g] = first < padded ? shape.key_row : stride[0];
      if (lie && key % 16 == 0 && first + 16 <= n) {
        base[g] = (const char*)rows_of[first];
        stride[g] = c.key_token * 2;
      } else if (first < padded) {
        for (int64_t j = first; j < first + 16; j++) {
          char* to = copies + j * shape.key_row;
          for (int64_t e = 0; e < c.head_size; e += 32) {
            const int64_t left = c.head_size - e;
            _mm512_storeu_si512(to + 2 * e, j >= n ? Words{} : left >= 32 ? load_words(rows_of[j] + e) : load_words_tail(rows_of[j] + e, int(left)));
          }
        }
      }
    }
    return padded;
  }
  void pack_values(int64_t padded) {
    for (int64_t depth = 0; depth < padded / 32; depth++)
      for (int64_t column = 0; column < shape.columns; column += 2) {
        float* to = values + (depth * shape.columns + column) * 256;
        const int64_t left = c.head_size_v - column * 16;
        for (int64_t pair = 0; pair < 16; pair++, to += 16) {
          const int64_t g = depth * 2 + pair / 8, j = pair % 8 * 2;
          const bf16* row = (const bf16*)(base[g] + j * stride[g]) + column * 16;
          Words a, b;
          zip_rows(words(row, left), words(row + stride[g] / 2, left), a, b);
          vstore(to, (V)a);
          vstore(to + 256, (V)b);
          ahead.fetch(1);
        }
      }
  }

  // scores of four groups of keys under one group of rows
  void score_one(int64_t k, int64_t g) {
    const float* q = queries + g * shape.steps * 256;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t at = 0; at < shape.steps * 64; at += 64, q += 256) {
      _tile_loadd(7, q, 64);
      _tile_loadd(4, base[k] + at, stride[k]);
      _tile_dpbf16ps(0, 4, 7);
      ahead.fetch(quota);
      _tile_loadd(5, base[k + 1] + at, stride[k + 1]);
      _tile_dpbf16ps(1, 5, 7);
      ahead.fetch(quota);
      _tile_loadd(6, base[k + 2] + at, stride[k + 2]);
      _tile_dpbf16ps(2, 6, 7);
      ahead.fetch(quota);
      _tile_loadd(4, base[k + 3] + at, stride[k + 3]);
      _tile_dpbf16ps(3, 4, 7);
      ahead.fetch(quota);
    }
    float* to = scores + (g * LATENT_GROUPS + k) * 256;
    _tile_stored(0, to, 64);
    _tile_stored(1, to + 256, 64);
    _tile_stored(2, to + 512, 64);
    _tile_stored(3, to + 768, 64);
  }
  // scores of two groups of keys under two groups of rows
  void score_two(int64_t k, int64_t g) {
    const float *q = queries + g * shape.steps * 256, *next = q + shape.steps * 256;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t at = 0; at < shape.steps * 64; at += 64, q += 256, next += 256) {
      _tile_loadd(4, base[k] + at, stride[k]);
      _tile_loadd(6, q, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, next, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, base[k + 1] + at, stride[k + 1]);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      ahead.fetch(quota);
    }
    float *to = scores + (g * LATENT_GROUPS + k) * 256, *to_next = to + LATENT_TILE * 16;
    _tile_stored(0, to, 64);
    _tile_stored(1, to_next, 64);
    _tile_stored(2, to + 256, 64);
    _tile_stored(3, to_next + 256, 64);
  }

  // One step of the online softmax for sixteen rows: scores to weights, sums, and the rescaling of what has been added before.
  void soften(int64_t g, int64_t rows, int64_t key, int64_t padded, bool first) {
    float* s = scores + g * LATENT_TILE * 16;
    for (int64_t i = 0; i < smaller(16, rows - g * 16); i++) {
      const Keys k = row_keys[g * 16 + i];
      for (int64_t j = 0, end = smaller(k.begin - key, padded); j < end; j++) s[j * 16 + i] = MINUS_INFINITY;
      for (int64_t j = larger(k.end - key, 0); j < padded; j++) s[j * 16 + i] = MINUS_INFINITY;
    }
    V top = vload(s), more = vload(s + 16);
    for (int64_t j = 2; j < padded; j += 2) top = vmax(top, vload(s + j * 16)), more = vmax(more, vload(s + j * 16 + 16));
    top = vmax(top, more);
    const V factor = vset(logits.factor), old = vload(maximum + g * 16), next = vmax(old, vmul(top, factor));
    const V from = vmax(next, vset(-3e38f));  // where nothing has been seen: 2^(-inf + 3e38) = 0
    const V rescale = vexp2(vsub(old, from)), minus_base = vsub(vzero(), from);
    V total = vzero();
    const __m512i interleaved = _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007, 0x180008,
                                                  0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
    float* to = weights + g * LATENT_DEPTHS * 256;
    for (int64_t depth = 0; depth < padded / 32; depth++, to += 256) {
      V pairs[16];
      for (int64_t i = 0; i < 16; i++, s += 32) {
        const V a = vexp2_coarse(vfma(vload(s), factor, minus_base)), b = vexp2_coarse(vfma(vload(s + 16), factor, minus_base));
        total = vadd(total, vadd(a, b));
        pairs[i] = (V)_mm512_permutexvar_epi16(interleaved, pack_words(a, b));
      }
      vtranspose(pairs);
      for (int64_t i = 0; i < 16; i++) vstore(to + i * 16, pairs[i]);
    }
    vstore(maximum + g * 16, next);
    vstore(sum + g * 16, vfma(vload(sum + g * 16), rescale, total));
    vstore(alpha, rescale);
    for (int64_t i = 0; i < 16; i++)
      if (!first && alpha[i] != 1.0f)
        for (int64_t column = 0; column < shape.columns; column++) scale_row(output + ((g * shape.columns + column) * 16 + i) * 16, 16, alpha[i]);
  }

  // output += weights * values for COLUMNS tiles of columns and one group of rows
  template <int COLUMNS> void add_one(int64_t column, int64_t g, int64_t depths, bool first) {
    float* o = output + (g * shape.columns + column) * 256;
    const float *w = weights + g * LATENT_DEPTHS * 256, *v = values + column * 256;
    if (first) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else {
      _tile_loadd(0, o, 64);
      _tile_loadd(1, o + 256, 64);
      if (COLUMNS > 2) {
        _tile_loadd(2, o + 512, 64);
        _tile_loadd(3, o + 768, 64);
      }
    }
    for (int64_t depth = 0; depth < depths; depth++, w += 256, v += shape.columns * 256) {
      _tile_loadd(7, w, 64);
      _tile_loadd(4, v, 64);
      _tile_dpbf16ps(0, 7, 4);
      ahead.fetch(quota);
      _tile_loadd(5, v + 256, 64);
      _tile_dpbf16ps(1, 7, 5);
      ahead.fetch(quota);
      if (COLUMNS > 2) {
        _tile_loadd(6, v + 512, 64);
        _tile_dpbf16ps(2, 7, 6);
        ahead.fetch(quota);
        _tile_loadd(4, v + 768, 64);
        _tile_dpbf16ps(3, 7, 4);
        ahead.fetch(quota);
      }
    }
    _tile_stored(0, o, 64);
    _tile_stored(1, o + 256, 64);
    if (COLUMNS > 2) {
      _tile_stored(2, o + 512, 64);
      _tile_stored(3, o + 768, 64);
    }
  }
  // the same for two tiles of columns and two groups of rows
  void add_two(int64_t column, int64_t g, int64_t depths, bool first) {
    float *o = output + (g * shape.columns + column) * 256, *next = o + shape.columns * 256;
    const float *w = weights + g * LATENT_DEPTHS * 256, *v = values + column * 256;
    if (first) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else {
      _tile_loadd(0, o, 64);
      _tile_loadd(1, o + 256, 64);
      _tile_loadd(2, next, 64);
      _tile_loadd(3, next + 256, 64);
    }
    for (int64_t depth = 0; depth < depths; depth++, w += 256, v += shape.columns * 256) {
      _tile_loadd(4, w, 64);
      _tile_loadd(6, v, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, v + 256, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, w + LATENT_DEPTHS * 256, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      ahead.fetch(quota);
    }
    _tile_stored(0, o, 64);
    _tile_stored(1, o + 256, 64);
    _tile_stored(2, next, 64);
    _tile_stored(3, next + 256, 64);
  }

  void attend_tile(int64_t rows, int64_t key, int64_t n, int64_t end, bool first) {
    const int64_t padded = load_keys(key, n, end), depths = padded / 32;
    pack_values(padded);
    int64_t g = 0;
    for (; g + 2 <= groups; g += 2)
      for (int64_t k = 0; k < padded / 16; k += 2) score_two(k, g);
    if (g < groups)
      for (int64_t k = 0; k < padded / 16; k += 4) score_one(k, g);
    for (g = 0; g < groups; g++) soften(g, rows, key, padded, first);
    for (int64_t column = 0; column < shape.columns; column += 2)
      for (g = 0; g + 2 <= groups; g += 2) add_two(column, g, depths, first);
    if (g == groups) return;
    int64_t column = 0;
    for (; column + 4 <= shape.columns; column += 4) add_one<4>(column, g, depths, first);
    if (column < shape.columns) add_one<2>(column, g, depths, first);
  }

  void attend(float* partial) {
    const TileScope tiles;
    const int64_t step = larger(1, LATENT_ROWS / group);
    for (int64_t from = item.query_begin; from < item.query_end; from += step) {
      const int64_t rows = (smaller(from + step, item.query_end) - from) * group;
      load_queries(from, rows);
      Keys seen{r.kv_len, 0};
      for (int64_t row = 0; row < rows; row++)
        if (row_keys[row].begin < row_keys[row].end)
          seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
      if (seen.begin < seen.end) cache.rows(seen.begin, smaller(LATENT_TILE, seen.end - seen.begin), next_rows, next_rows);
      else __builtin_memset(output, 0, groups * shape.columns * 1024);
      for (int64_t key = seen.begin; key < seen.end; key += LATENT_TILE)
        attend_tile(rows, key, smaller(LATENT_TILE, seen.end - key), seen.end, key == seen.begin);
      Item part = item;
      part.query_begin = from;
      if (part.partial_row >= 0) part.partial_row += (from - item.query_begin) * group;
      for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < shape.columns; column += 2) {
          const float* o = output + ((row / 16 * shape.columns + column) * 16 + row % 16) * 16;
          V a = vload(o), b = vload(o + 256);
          unzip_columns(a, b);
          vstore(line + column * 16, a);
          vstore(line + column * 16 + 16, b);
        }
        finish_rows(c, r, part, row, 1, line, 0, maximum + row, sum + row, partial);
      }
    }
  }
};
