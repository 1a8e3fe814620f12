// The kernel for up to eight query rows per KV head on AMX: the work of direct.h, on tiles that keys and values fill as they lie.
//
// Scores come out transposed, S^T = K Q^T: row-major keys are a left operand, the queries' pairs are packed once. Values are a right
// operand without a copy, too: a 32-bit word of a row is a pair of *columns*, which a left operand of (weight, 0) reduces to the even
// and one of (0, weight) to the odd column. Four query rows fill a left operand of sixteen: each once for even and once for odd
// columns, and each weight as two bf16 numbers, its high part and the rest, so that it keeps 16 bits of mantissa.
//
// Head sizes that are no multiple of 32 are covered by a last step that overlaps the one before. Copies are made only of float8 rows
// (as bf16, in the order of elements that the conversion leaves), of groups of sixteen keys that do not lie in one block, and of those
// at the ends: what is not seen may hold NaN.

constexpr int64_t TILE_ROWS = 8;      // query rows
constexpr int64_t DECODE_TILE = 64;  // keys
constexpr int64_t DECODE_GROUPS = DECODE_TILE / 16;

struct DecodeShape {  // sizes in bytes unless said otherwise
  bool converted;  // from float8
  int64_t steps, columns, key_row, value_row, queries, weights, output;  // steps and columns: of 32 elements
  explicit DecodeShape(const Call& c)
      : converted(c.kv_type >= V1_E4M3), steps(steps_of(c.head_size)), columns(steps_of(c.head_size_v)), key_row(steps * 64),
        value_row(columns * 64), queries(steps * 1024), weights(2 * DECODE_GROUPS * 1024), output(2 * columns * 1024) {}
  int64_t steps_of(int64_t size) const { return converted ? (size + 63) / 64 * 2 : (size + 31) / 32; }
  int64_t scratch() const {
    return queries + weights + output + DECODE_TILE * (key_row + value_row) + DECODE_TILE * (TILE_ROWS + 16) * 4 + columns * 128 + 4 * DECODE_TILE * 8 +
           4096;
  }
  // The first element that step `i` over rows of `size` elements covers.
  int64_t at(int64_t i, int64_t size) const { return converted ? 32 * i : smaller(32 * i, larger(size - 32, 0)); }
};

template <class T>
struct TileDecode {
  const Call& c;
  const Request& r;
  const Item& item;
  const DecodeShape shape;
  const Logits logits;
  const Cache<T> cache;
  const int64_t group, rows;
  float *queries, *output, *transposed, *scores, *weights, *row_sum;
  char* copies;  // of keys, then of values: together they would not stay in the first-level cache
  const T **keys, **values, **next_keys, **next_values;
  Keys seen, row_keys[TILE_ROWS];
  float maximum[TILE_ROWS], sum[TILE_ROWS];
  bool keys_lie, values_lie;  // can be tiles without a copy
  bool ahead;                 // is there a further tile to fetch?
  int64_t fetched_values;     // rows of its values

  TileDecode(const Call& call, const Request& request, const Item& it, char* scratch)
      : c(call), r(request), item(it), shape(call), logits(logits_of(call)), cache(call, request, it.kv_head),
        group(call.num_heads / call.num_kv_heads), rows((it.query_end - it.query_begin) * group) {
    queries = (float*)take(scratch, shape.queries);
    weights = (float*)take(scratch, shape.weights);
    output = (float*)take(scratch, shape.output);
    copies = take(scratch, DECODE_TILE * larger(shape.key_row, shape.value_row));
    transposed = (float*)take(scratch, DECODE_TILE * 16 * 4);
    scores = (float*)take(scratch, TILE_ROWS * DECODE_TILE * 4);
    row_sum = (float*)take(scratch, shape.columns * 128);
    keys = (const T**)take(scratch, DECODE_TILE * 8);
    values = (const T**)take(scratch, DECODE_TILE * 8);
    next_keys = (const T**)take(scratch, DECODE_TILE * 8);
    next_values = (const T**)take(scratch, DECODE_TILE * 8);
    const bool in_blocks = __is_same(T, bf16) && (!r.table || c.block_size % 16 == 0);
    keys_lie = in_blocks && c.head_size >= 32;
    values_lie = in_blocks && c.head_size_v >= 32;
    __builtin_memset(weights, 0, shape.weights);
    __builtin_memset(output, 0, shape.output);
    load_queries();
  }

  void load_queries() {  // [step][pair][row] words
    __builtin_memset(queries, 0, shape.queries);
    seen = {r.kv_len, 0};
    for (int64_t row = 0; row < rows; row++) {
      const int64_t i = item.query_begin + row / group, head = item.kv_head * group + row % group;
      row_keys[row] = keys_of(c, r, i);
      seen = {smaller(seen.begin, row_keys[row].begin), larger(seen.end, row_keys[row].end)};
      maximum[row] = MINUS_INFINITY;
      sum[row] = 0;
      const bf16* q = (const bf16*)c.query + (r.token + i) * c.query_token + head * c.query_head;
      for (int64_t step = 0; step < shape.steps; step++) {
        bf16* to = (bf16*)(queries + step * 256) + 2 * row;
        const int64_t skip = 32 * step - shape.at(step, c.head_size);
        bf16 elements[32] = {};
        if (shape.converted) {
          for (int64_t i = 0; i < 32; i++) {
            const int64_t from = converted_element(32 * step + i);
            if (from < c.head_size) elements[i] = q[from];
          }
        } else {
          __builtin_memcpy(elements + skip, q + 32 * step, smaller(32, c.head_size - 32 * step) * sizeof(bf16));
        }
        for (int64_t pair = 0; pair < 16; pair++) __builtin_memcpy(to + pair * 32, elements + 2 * pair, sizeof(float));
      }
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

  static void copy_row_to(const T* row, int64_t size, char* copy) {
    if constexpr (sizeof(T) == 1) {
      for (int64_t i = 0; i < size; i += 64) {
        Words a, b;
        convert64(row + i, int(smaller(64, size - i)), a, b);
        _mm512_storeu_si512(copy + 2 * i, a);
        _mm512_storeu_si512(copy + 2 * i + 64, b);
      }
    } else {
      int64_t i = 0;
      for (; i + 32 <= size; i += 32) _mm512_storeu_si512(copy + 2 * i, load_words(row + i));
      if (i < size) _mm512_storeu_si512(copy + 2 * i, load_words_tail(row + i, int(size - i)));
    }
  }
  // Where the tiles of the rows of each group of sixteen keys are, and how far apart its rows.
  struct Rows { const char* base[DECODE_GROUPS]; int64_t stride[DECODE_GROUPS]; };
  Rows rows_of(int64_t key, const T* const* from, bool lie, int64_t token, int64_t size, int64_t copy_row) {
    Rows found;
    for (int64_t g = 0; g < DECODE_GROUPS; g++) {
      const int64_t first = key + g * 16;
      if (lie && first >= seen.begin && first + 16 <= seen.end) {
        found.base[g] = (const char*)from[g * 16];
        found.stride[g] = token * 2;
        continue;
      }
      char* copy = copies + g * 16 * copy_row;
      found.base[g] = copy;
      found.stride[g] = copy_row;
      if (first >= seen.end && g) {  // nothing to see: any finite numbers will do
        found.base[g] = found.base[0];
        found.stride[g] = found.stride[0];
        continue;
      }
      for (int64_t j = 0; j < 16; j++, copy += copy_row) copy_row_to(from[g * 16 + j], size, copy);
    }
    return found;
  }

  // scores[row][key] = q . k for all keys of the tile.
  void score(int64_t key) {
    const Rows k = rows_of(key, keys, keys_lie, c.key_token, c.head_size, shape.key_row);
    const int64_t quota = (DECODE_TILE + shape.steps * DECODE_GROUPS - 1) / (shape.steps * DECODE_GROUPS);
    int64_t fetched = ahead ? 0 : DECODE_TILE;
    const auto fetch = [&] {
      for (const int64_t end = smaller(fetched + quota, DECODE_TILE); fetched < end; fetched++) prefetch_row(next_keys[fetched], c.head_size * sizeof(T));
    };
    for (int64_t g = 0; g < DECODE_GROUPS; g += 4) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (int64_t step = 0; step < shape.steps; step++) {
        const int64_t at = shape.at(step, c.head_size) * 2;
        _tile_loadd(7, queries + step * 256, 64);
        _tile_loadd(4, k.base[g] + at, k.stride[g]);
        _tile_dpbf16ps(0, 4, 7);
        fetch();
        _tile_loadd(5, k.base[g + 1] + at, k.stride[g + 1]);
        _tile_dpbf16ps(1, 5, 7);
        fetch();
        _tile_loadd(6, k.base[g + 2] + at, k.stride[g + 2]);
        _tile_dpbf16ps(2, 6, 7);
        fetch();
        _tile_loadd(4, k.base[g + 3] + at, k.stride[g + 3]);
        _tile_dpbf16ps(3, 4, 7);
        fetch();
      }
      float* to = transposed + g * 256;
      _tile_stored(0, to, 64);
      _tile_stored(1, to + 256, 64);
      _tile_stored(2, to + 512, 64);
      _tile_stored(3, to + 768, 64);
    }
    for (int64_t g = 0; g < DECODE_GROUPS; g++) transpose(transposed + g * 256, scores + g * 16);
  }
  // [16 keys][16 rows] to [rows][DECODE_TILE]
  void transpose(const float* from, float* to) const {
    V t[16];
    if (rows <= 4) {  // four keys by four rows per vector
      for (int i = 0; i < 4; i++) {
        const float* k = from + 64 * i;
        const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(k)), _mm_loadu_ps(k + 16), 1);
        const __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(k + 32)), _mm_loadu_ps(k + 48), 1);
        t[i] = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
      }
      const __m512i index = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
      for (int64_t i = 0; i < rows; i++) {
        const __m512i at = _mm512_add_epi32(index, _mm512_set1_epi32(int(i)));
        const V low = _mm512_permutex2var_ps(t[0], at, t[1]), high = _mm512_permutex2var_ps(t[2], at, t[3]);
        vstore(to + i * DECODE_TILE, _mm512_mask_mov_ps(low, 0xff00, high));
      }
      return;
    }
    for (int i = 0; i < 16; i++) t[i] = vload(from + 16 * i);
    vtranspose(t);
    for (int64_t i = 0; i < rows; i++) vstore(to + i * DECODE_TILE, t[i]);
  }

  // The four rows of `weights` and `output` that belong to a query row: `half` is 0 for its even columns, 1 for its odd ones, 2 and 3
  // for the same of the weights' rests.
  static int64_t line(int64_t row, int64_t half) { return (half * 4 + row % 4) * 16; }

  // Scale, cap, bias and mask a row of scores, take one step of its online softmax, and write its weights.
  void weigh(int64_t row, int64_t key) {
    float* s = scores + row * DECODE_TILE;
    const int64_t i = item.query_begin + row / group, head = item.kv_head * group + row % group;
    if (logits.special) finish_logits(logits, s, DECODE_TILE, key, r.offset + i, c.alibi_slopes ? c.alibi_slopes[head] : 0.0f);
    const Keys k = {larger(row_keys[row].begin, seen.begin), smaller(row_keys[row].end, seen.end)};
    if (k.begin > key || k.end < key + DECODE_TILE || c.tree_mask) mask_scores(c, r, s, DECODE_TILE, key, k, i);
    const Step step = softmax_step(s, DECODE_TILE, logits.factor, maximum[row]);
    if (step.alpha != 1.0f)
      for (int64_t tile = 0; tile < shape.columns; tile++)
        for (int64_t half = 0; half < 4; half++) scale_row(output + (row / 4 * shape.columns + tile) * 256 + line(row, half), 16, step.alpha);
    const V factor = vset(logits.factor), base = vset(-step.base);
    const __m512i high = _mm512_set1_epi32(-65536), round = _mm512_set1_epi32(0x8000);
    V total = vzero();
    float* to = weights + row / 4 * DECODE_GROUPS * 256;
    for (int64_t j = 0; j < DECODE_TILE; j += 16, to += 256) {
      const V p = vexp2(vfma(vload(s + j), factor, base));
      total = vadd(total, p);
      const __m512i main = _mm512_and_si512((__m512i)p, high);
      const __m512i rest = _mm512_add_epi32((__m512i)vsub(p, (V)main), round);
      _mm512_storeu_si512(to + line(row, 0), _mm512_srli_epi32(main, 16));
      _mm512_storeu_si512(to + line(row, 1), main);
      _mm512_storeu_si512(to + line(row, 2), _mm512_srli_epi32(rest, 16));
      _mm512_storeu_si512(to + line(row, 3), _mm512_and_si512(rest, high));
    }
    sum[row] = sum[row] * step.alpha + vsum(total);
  }

  // output += weights * values for COLUMNS tiles of columns from `first` on and SETS sets of four query rows.
  template <int COLUMNS, int SETS> void add_columns(const Rows& v, int64_t first) {
    const int64_t quota = (DECODE_TILE + shape.columns * DECODE_GROUPS - 1) / (shape.columns * DECODE_GROUPS);
    const auto fetch = [&] {
      for (const int64_t end = smaller(fetched_values + quota, DECODE_TILE); fetched_values < end; fetched_values++)
        prefetch_row(next_values[fetched_values], c.head_size_v * sizeof(T));
    };
    float *o = output + first * 256, *next = o + shape.columns * 256;
    int64_t at[4];
    for (int i = 0; i < COLUMNS; i++) at[i] = shape.at(first + i, c.head_size_v) * 2;
    _tile_loadd(0, o, 64);
    if constexpr (COLUMNS > 1) _tile_loadd(1, o + 256, 64);
    if constexpr (SETS > 1) _tile_loadd(2, next, 64);
    else if constexpr (COLUMNS > 2) _tile_loadd(2, o + 512, 64);
    if constexpr (SETS > 1 && COLUMNS > 1) _tile_loadd(3, next + 256, 64);
    else if constexpr (COLUMNS > 3) _tile_loadd(3, o + 768, 64);
    for (int64_t g = 0; g < DECODE_GROUPS; g++) {
      const float* w = weights + g * 256;
      _tile_loadd(7, w, 64);
      _tile_loadd(4, v.base[g] + at[0], v.stride[g]);
      _tile_dpbf16ps(0, 7, 4);
      fetch();
      if constexpr (COLUMNS > 1) {
        _tile_loadd(5, v.base[g] + at[1], v.stride[g]);
        _tile_dpbf16ps(1, 7, 5);
        fetch();
      }
      if constexpr (SETS > 1) {
        _tile_loadd(6, w + DECODE_GROUPS * 256, 64);
        _tile_dpbf16ps(2, 6, 4);
        if constexpr (COLUMNS > 1) _tile_dpbf16ps(3, 6, 5);
      }
      if constexpr (COLUMNS > 2) {
        _tile_loadd(6, v.base[g] + at[2], v.stride[g]);
        _tile_dpbf16ps(2, 7, 6);
        fetch();
      }
      if constexpr (COLUMNS > 3) {
        _tile_loadd(4, v.base[g] + at[3], v.stride[g]);
        _tile_dpbf16ps(3, 7, 4);
        fetch();
      }
    }
    _tile_stored(0, o, 64);
    if constexpr (COLUMNS > 1) _tile_stored(1, o + 256, 64);
    if constexpr (SETS > 1) _tile_stored(2, next, 64);
    else if constexpr (COLUMNS > 2) _tile_stored(2, o + 512, 64);
    if constexpr (SETS > 1 && COLUMNS > 1) _tile_stored(3, next + 256, 64);
    else if constexpr (COLUMNS > 3) _tile_stored(3, o + 768, 64);
  }
  void add_values(int64_t key) {
    const Rows v = rows_of(key, values, values_lie, c.value_token, c.head_size_v, shape.value_row);
    fetched_values = ahead ? 0 : DECODE_TILE;
    int64_t i = 0;
    if (rows > 4) {
      for (; i + 2 <= shape.columns; i += 2) add_columns<2, 2>(v, i);
      if (i < shape.columns) add_columns<1, 2>(v, i);
      return;
    }
    for (; i + 4 <= shape.columns; i += 4) add_columns<4, 1>(v, i);
    if (shape.columns - i == 3) add_columns<3, 1>(v, i);
    if (shape.columns - i == 2) add_columns<2, 1>(v, i);
    if (shape.columns - i == 1) add_columns<1, 1>(v, i);
  }

  void attend(float* partial) {
    const TileScope tiles;
    const int64_t begin = seen.begin / 16 * 16;  // so that groups of 16 keys keep to their blocks
    if (seen.begin < seen.end) look_ahead(begin);
    for (int64_t key = begin; key < seen.end; key += DECODE_TILE) {
      exchange(keys, next_keys);
      exchange(values, next_values);
      ahead = key + DECODE_TILE < seen.end;
      if (ahead) look_ahead(key + DECODE_TILE);
      score(key);
      for (int64_t row = 0; row < rows; row++) weigh(row, key);
      add_values(key);
    }
    for (int64_t row = 0; row < rows; row++) {
      for (int64_t tile = 0; tile < shape.columns; tile++) {
        const float* o = output + (row / 4 * shape.columns + tile) * 256;
        V even = vadd(vload(o + line(row, 0)), vload(o + line(row, 2))), odd = vadd(vload(o + line(row, 1)), vload(o + line(row, 3)));
        interleave(even, odd);
        if (shape.converted) {
          float step[32];
          vstore(step, even);
          vstore(step + 16, odd);
          for (int64_t i = 0; i < 32; i += 8) __builtin_memcpy(row_sum + converted_element(32 * tile + i), step + i, 32);
        } else {
          float* to = row_sum + shape.at(tile, c.head_size_v);
          vstore(to, even);
          vstore(to + 16, odd);
        }
      }
      finish_rows(c, r, item, row, 1, row_sum, 0, maximum + row, sum + row, partial);
    }
  }
};
