// The kernel for two to eight query rows per KV head on AMX: the work of direct.h, on tiles.
//
// Scores come out transposed, S^T = K Q^T: row-major keys are a left operand as they lie in the cache, the queries' pairs are packed
// once. Up to four rows, the vector unit adds the values as in direct.h. Beyond, values become a right operand by zipping the rows of
// two keys, and weights keep 16 bits of mantissa although tiles take bf16: the left operand holds each row's high part in rows 0-7 and
// the rest in rows 8-15, and the two halves of the product are added.

constexpr int64_t TILE_ROWS = 8;    // query rows
constexpr int64_t DECODE_TILE = 128;  // keys

struct DecodeShape {  // sizes in floats
  int64_t steps, key_words, columns, query_size, output_size;
  explicit DecodeShape(const Call& c)
      : steps((c.head_size + 31) / 32), key_words(steps * 16), columns(round_up(c.head_size_v, 32)), query_size(steps * 256),
        output_size(columns * 16) {}
  int64_t scratch() const {
    return (query_size + output_size + DECODE_TILE * (key_words + columns / 2 + 16 + TILE_ROWS + 8) + columns) * 4 + 4 * DECODE_TILE * 8 + 4096;
  }
};

template <int N> struct Count { static constexpr int value = N; };

template <class T>
struct TileDecode {
  const Call& c;
  const Request& r;
  const Item& item;
  const DecodeShape shape;
  const Logits logits;
  const Cache<T> cache;
  const int64_t group, rows;
  float *queries, *output, *staged, *packed, *transposed, *scores, *weights, *row_sum;
  const T **keys, **values, **next_keys, **next_values;
  Keys seen, row_keys[TILE_ROWS];
  float maximum[TILE_ROWS], sum[TILE_ROWS];
  const bool few;    // at most four rows
  bool as_they_lie;  // keys can be tiles without a copy

  TileDecode(const Call& call, const Request& request, const Item& it, char* scratch)
      : c(call), r(request), item(it), shape(call), logits(logits_of(call)), cache(call, request, it.kv_head),
        group(call.num_heads / call.num_kv_heads), rows((it.query_end - it.query_begin) * group), few(rows <= 4) {
    queries = (float*)take(scratch, shape.query_size * 4);
    output = (float*)take(scratch, shape.output_size * 4);
    staged = (float*)take(scratch, DECODE_TILE * shape.key_words * 4);
    packed = (float*)take(scratch, DECODE_TILE / 2 * shape.columns * 4);
    transposed = (float*)take(scratch, DECODE_TILE * 16 * 4);
    scores = (float*)take(scratch, TILE_ROWS * DECODE_TILE * 4);
    weights = (float*)take(scratch, 16 * DECODE_TILE / 2 * 4);
    row_sum = (float*)take(scratch, shape.columns * 4);
    keys = (const T**)take(scratch, DECODE_TILE * 8);
    values = (const T**)take(scratch, DECODE_TILE * 8);
    next_keys = (const T**)take(scratch, DECODE_TILE * 8);
    next_values = (const T**)take(scratch, DECODE_TILE * 8);
    as_they_lie = __is_same(T, bf16) && c.head_size % 32 == 0 && r.table && c.block_size % 16 == 0;
    __builtin_memset(weights, 0, 16 * DECODE_TILE / 2 * 4);
    __builtin_memset(output, 0, shape.output_size * 4);
    load_queries();
  }

  void load_queries() {  // [step][pair][row] words
    __builtin_memset(queries, 0, shape.query_size * 4);
    seen = {r.kv_len, 0};
    for (int64_t row = 0; row < rows; row++) {
      const int64_t i = item.query_begin + row / group, head = item.kv_head * group + row % group;
      row_keys[row] = keys_of(c, r, i);
      seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
      maximum[row] = MINUS_INFINITY;
      sum[row] = 0;
      const bf16* q = (const bf16*)c.query + (r.token + i) * c.query_token + head * c.query_head;
      bf16* to = (bf16*)queries + 2 * row;
      for (int64_t e = 0; e < c.head_size; e++) to[e / 2 * 32 + e % 2] = q[e];
    }
    seen = {larger(seen.begin, item.key_begin), smaller(seen.end, item.key_end)};
  }

  // Row pointers of keys [key, key + DECODE_TILE); those not seen point to the nearest that is.
  void look_ahead(int64_t key) {
    const int64_t from = larger(key, seen.begin), n = smaller(key + DECODE_TILE, seen.end) - from, skip = from - key;
    cache.rows(from, n, next_keys + skip, next_values + skip);
    for (int64_t j = 0; j < skip; j++) next_keys[j] = next_keys[skip], next_values[j] = next_values[skip];
    for (int64_t j = skip + n; j < DECODE_TILE; j++) next_keys[j] = next_keys[skip + n - 1], next_values[j] = next_values[skip + n - 1];
  }

  // transposed[key][row] = k . q for all keys of the tile.
  void score(int64_t key, bool ahead) {
    const int64_t d = c.head_size;
    constexpr int64_t groups = DECODE_TILE / 16;
    const char* base[groups];
    int64_t stride = shape.key_words * 4;
    for (int64_t g = 0; g < groups; g++) base[g] = (const char*)staged + g * 16 * stride;
    if (as_they_lie) {
      stride = c.key_token * 2;
      for (int64_t g = 0; g < groups; g++) {  // a group of 16 keys that is seen at all lies within one block
        const int64_t first = larger(key + g * 16, seen.begin) - key, offset = (key + first) % 16;
        base[g] = key + g * 16 < seen.end ? (const char*)(keys[first] - offset * c.key_token) : base[0];
      }
    } else {
      for (int64_t j = 0; j < DECODE_TILE; j++)
        for (int64_t i = 0; i < d; i += 32)
          vstore(staged + j * shape.key_words + i / 2, (V)(d - i >= 32 ? load_words(keys[j] + i) : load_words_tail(keys[j] + i, int(d - i))));
    }
    const int64_t per_step = (DECODE_TILE + shape.steps * (groups / 4) - 1) / (shape.steps * (groups / 4));
    int64_t fetched = ahead ? 0 : DECODE_TILE;
    for (int64_t g = 0; g < groups; g += 4) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int64_t step = 0; step < shape.steps; step++) {
        _tile_loadd(7, queries + step * 256, 64);
        _tile_loadd(4, base[g] + step * 64, stride);
        _tile_dpbf16ps(0, 4, 7);
        _tile_loadd(5, base[g + 1] + step * 64, stride);
        _tile_dpbf16ps(1, 5, 7);
        _tile_loadd(6, base[g + 2] + step * 64, stride);
        _tile_dpbf16ps(2, 6, 7);
        _tile_loadd(4, base[g + 3] + step * 64, stride);
        _tile_dpbf16ps(3, 4, 7);
        for (const int64_t end = smaller(fetched + per_step, DECODE_TILE); fetched < end; fetched++)
          prefetch_row(next_keys[fetched], d * int64_t(sizeof(T)));
      }
      float* to = transposed + g * 256;
      const int64_t row_bytes = few ? 16 : 64, tile_size = few ? 64 : 256;
      _tile_stored(0, to, row_bytes);
      _tile_stored(1, to + tile_size, row_bytes);
      _tile_stored(2, to + 2 * tile_size, row_bytes);
      _tile_stored(3, to + 3 * tile_size, row_bytes);
    }
    for (int64_t g = 0; g < groups; g++) {
      if (few) {  // 16 keys by 4 rows
        const float* from = transposed + g / 4 * 1024 + g % 4 * 64;
        const V keys0 = vload(from), keys4 = vload(from + 16), keys8 = vload(from + 32), keys12 = vload(from + 48);
        const __m512i index = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
        for (int i = 0; i < 4; i++) {
          const __m512i at = _mm512_add_epi32(index, _mm512_set1_epi32(i));
          const V low = _mm512_permutex2var_ps(keys0, at, keys4), high = _mm512_permutex2var_ps(keys8, at, keys12);
          vstore(scores + i * DECODE_TILE + g * 16, _mm512_mask_mov_ps(low, 0xff00, high));
        }
      } else {
        V t[16];
        for (int i = 0; i < 16; i++) t[i] = vload(transposed + (g * 16 + i) * 16);
        vtranspose(t);
        for (int i = 0; i < TILE_ROWS; i++) vstore(scores + i * DECODE_TILE + g * 16, t[i]);
      }
    }
  }

  // Scale, cap, bias and mask a row of scores, and one step of its online softmax.
  Step soften(float* s, int64_t row, int64_t key) {
    const int64_t i = item.query_begin + row / group, head = item.kv_head * group + row % group;
    if (logits.special) finish_logits(logits, s, DECODE_TILE, key, r.offset + i, c.alibi_slopes ? c.alibi_slopes[head] : 0.0f);
    const Keys k = {larger(row_keys[row].begin, seen.begin), smaller(row_keys[row].end, seen.end)};
    if (k.begin > key || k.end < key + DECODE_TILE || c.tree_mask) mask_scores(c, r, s, DECODE_TILE, key, k, i);
    return softmax_step(s, DECODE_TILE, logits.factor, maximum[row]);
  }
  // Scores of a row to weights, as high part and rest.
  void weigh(int64_t row, int64_t key) {
    float* s = scores + row * DECODE_TILE;
    const Step step = soften(s, row, key);
    if (step.alpha != 1.0f)
      for (int64_t tile = 0; tile < shape.columns / 16; tile++) {
        scale_row(output + tile * 256 + row * 16, 16, step.alpha);
        scale_row(output + tile * 256 + (row + 8) * 16, 16, step.alpha);
      }
    const V factor = vset(logits.factor), base = vset(-step.base);
    const __m512i high = _mm512_set1_epi32(-65536);
    V total = vzero();
    for (int64_t j = 0; j < DECODE_TILE; j += 32) {
      const V a = vexp2(vfma(vload(s + j), factor, base)), b = vexp2(vfma(vload(s + j + 16), factor, base));
      const V ha = (V)_mm512_and_si512((__m512i)a, high), hb = (V)_mm512_and_si512((__m512i)b, high);
      total = vadd(total, vadd(a, b));
      vstore(weights + row * (DECODE_TILE / 2) + j / 2, (V)pack_words(ha, hb));
      vstore(weights + (row + 8) * (DECODE_TILE / 2) + j / 2, (V)pack_words(vsub(a, ha), vsub(b, hb)));
    }
    sum[row] = sum[row] * step.alpha + vsum(total);
  }

  // Values to right operands: per 32 keys, tiles of 16 columns, in the column order that `unzip_columns` undoes.
  void pack_values(int64_t key, bool ahead) {
    const int64_t dv = c.head_size_v, first = larger(seen.begin - key, 0), end = smaller(seen.end - key, DECODE_TILE);
    const bool whole = first == 0 && end == DECODE_TILE && dv % 32 == 0;
    for (int64_t j = 0; j < DECODE_TILE; j += 2) {
      float* to = packed + j / 32 * 16 * shape.columns + j % 32 / 2 * 16;
      const T *even_row = values[j], *odd_row = values[j + 1];
      if (whole) {
        for (int64_t i = 0; i < dv; i += 32, to += 512) {
          Words a, b;
          zip_rows(load_words(even_row + i), load_words(odd_row + i), a, b);
          vstore(to, (V)a);
          vstore(to + 256, (V)b);
        }
      } else {
        const bool even_seen = j >= first && j < end, odd_seen = j + 1 >= first && j + 1 < end;
        for (int64_t i = 0; i < shape.columns; i += 32, to += 512) {
          const int n = int(smaller(dv - i, 32));
          Words a, b;
          zip_rows(even_seen ? load_words_tail(even_row + i, n) : Words{}, odd_seen ? load_words_tail(odd_row + i, n) : Words{}, a, b);
          vstore(to, (V)a);
          vstore(to + 256, (V)b);
        }
      }
      if (ahead) {
        prefetch_row(next_values[j], dv * int64_t(sizeof(T)));
        prefetch_row(next_values[j + 1], dv * int64_t(sizeof(T)));
      }
    }
  }
  void add_values() {
    constexpr int64_t stride = DECODE_TILE * 2;
    for (int64_t tile = 0; tile < shape.columns / 16; tile += 2) {
      float* o = output + tile * 256;
      _tile_loadd(0, o, 64);
      _tile_loadd(1, o + 256, 64);
      for (int64_t step = 0; step < DECODE_TILE / 32; step++) {
        const float* v = packed + step * 16 * shape.columns + tile * 256;
        _tile_loadd(4, weights + step * 16, stride);
        _tile_loadd(6, v, 64);
        _tile_loadd(7, v + 256, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
      }
      _tile_stored(0, o, 64);
      _tile_stored(1, o + 256, 64);
    }
  }

  // For up to four rows the weights stay float32 and the vector unit adds the values.
  void weigh_and_add(int64_t key, bool ahead) {
    for (int64_t row = 0; row < rows; row++) {
      float* s = scores + row * DECODE_TILE;
      const Step step = soften(s, row, key);
      if (step.alpha != 1.0f) scale_row(output + row * shape.columns, shape.columns, step.alpha);
      sum[row] = sum[row] * step.alpha + exponentials(s, DECODE_TILE, logits.factor, step.base);
    }
    const int64_t first = larger(seen.begin - key, 0), n = smaller(seen.end - key, DECODE_TILE) - first;
    const T** next = ahead ? next_values + first : nullptr;
    int64_t row = 0;
    const auto add = [&](auto count) {
      for (; row + count.value <= rows; row += count.value, next = nullptr)
        add_value_rows<T, count.value>(scores + row * DECODE_TILE + first, DECODE_TILE, values + first, next, n, c.head_size_v,
                                       output + row * shape.columns, shape.columns);
    };
    add(Count<4>());
    add(Count<2>());
    add(Count<1>());
  }
  void attend_few(float* partial) {
    for_each_tile([&](int64_t key, bool ahead) {
      score(key, ahead);
      weigh_and_add(key, ahead);
    });
    for (int64_t row = 0; row < rows; row++) to_element_order<T>(output + row * shape.columns, shape.columns);
    finish_rows(c, r, item, 0, rows, output, shape.columns, maximum, sum, partial);
  }
  template <class F> void for_each_tile(F work) {
    const int64_t begin = seen.begin / 16 * 16;  // so that groups of 16 keys keep to their blocks
    if (seen.begin < seen.end) look_ahead(begin);
    for (int64_t key = begin; key < seen.end; key += DECODE_TILE) {
      exchange(keys, next_keys);
      exchange(values, next_values);
      const bool ahead = key + DECODE_TILE < seen.end;
      if (ahead) look_ahead(key + DECODE_TILE);
      work(key, ahead);
    }
  }

  void attend(float* partial) {
    const TileScope tiles(few);
    if (few) return attend_few(partial);
    for_each_tile([&](int64_t key, bool ahead) {
      pack_values(key, ahead);  // early: a tile cannot be loaded from stores still under way
      score(key, ahead);
      for (int64_t row = 0; row < rows; row++) weigh(row, key);
      add_values();
    });
    for (int64_t row = 0; row < rows; row++) {
      for (int64_t tile = 0; tile < shape.columns / 16; tile += 2) {
        const float* o = output + tile * 256 + row * 16;
        V a = vadd(vload(o), vload(o + 128)), b = vadd(vload(o + 256), vload(o + 384));
        unzip_columns(a, b);
        vstore(row_sum + tile * 16, a);
        vstore(row_sum + tile * 16 + 16, b);
      }
      finish_rows(c, r, item, row, 1, row_sum, 0, maximum + row, sum + row, partial);
    }
  }
};
