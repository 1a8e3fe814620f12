// The expanded form of MLA: ordinary attention (packed.h) whose keys and values are made from latents, tile by tile.
//
// `Packed` asks for the rows of a tile of keys once per item. They are made then, for the item's head: latents times that head's part
// of the up-projection, by packed.h's own `gemm`, rounded to the latents' type; the rope key is copied behind the key. What is made
// for a tile stays in the second-level cache until it has been packed.

template <class T, class M> struct ExpandedShape {  // sizes in floats
  int64_t columns, words, up_size, operand, stride, made, block;
  explicit ExpandedShape(const Call& c)
      : columns(round_up(c.nope + c.head_size_v, 2 * W)), words(M::PER_WORD == 1 ? c.rank : round_up(c.rank, 2 * W) / 2),
        up_size(round_up(columns, M::PANEL) * words * M::PLANES), operand(larger(round_up(c.rank, 2 * W), words * M::PLANES)), stride(round_up(columns, M::PANEL) + 16),
        made(round_up((c.head_size + c.head_size_v) * int64_t(sizeof(T)), 64) / 4), block(M::block(c)) {}
  int64_t scratch() const { return (up_size + block * (operand + stride) + M::KEYS * made) * 4 + 4 * 64; }
};

template <class T, class M>
struct ExpandedRows {
  const Call& c;
  const Request& r;
  const ExpandedShape<T, M> shape;
  const T* latents;
  float *up, *operand, *products;
  char* made;

  ExpandedRows(const Call& call, const Request& request, int64_t head, char*& scratch)
      : c(call), r(request), shape(call), latents((const T*)call.key + request.kv_start * call.key_token) {
    up = (float*)take(scratch, shape.up_size * 4);
    operand = (float*)take(scratch, shape.block * shape.operand * 4);
    products = (float*)take(scratch, shape.block * shape.stride * 4);
    made = take(scratch, M::KEYS * shape.made * 4);
    const T *rows[W], *first = (const T*)c.up + head * c.up_head;
    for (int64_t column = 0; column < shape.columns; column += W) {
      for (int64_t i = 0; i < W; i++) rows[i] = first + smaller(column + i, c.nope + c.head_size_v - 1) * c.up_row;
      Pack<T, M>::key_columns(rows, c.rank, up + column / M::PANEL * M::PLANES * shape.words * M::PANEL + column % M::PANEL, shape.words);
    }
  }

  // Latents [first, first + n) as rows of an operand, which may be read up to `padded` rows and whole vectors.
  const float* operand_of(int64_t first, int64_t n, int64_t padded, int64_t& stride) const {
    const T* from = latents + first * c.key_token;
    const bool fits = first + padded <= r.kv_len && c.rank % (2 * W) == 0 && c.key_token % M::PER_WORD == 0;
    if (fits && M::PLANES == 1 && (M::PER_WORD == 2 || __is_same(T, float))) {
      stride = c.key_token / M::PER_WORD;
      return (const float*)from;
    }
    stride = shape.operand;
    for (int64_t i = 0; i < n; i++, from += c.key_token) {
      float* to = operand + i * stride;
      if constexpr (M::PLANES > 1) {
        Pack<T, M>::row(from, c.rank, to, shape.words);
      } else if (M::PER_WORD == 1) {
        widen_row(from, c.rank, to);
        to_element_order<T>(to, stride);
      } else {
        __builtin_memset(to, 0, stride * 4);
        __builtin_memcpy(to, from, c.rank * sizeof(T));
      }
    }
    __builtin_memset(operand + n * stride, 0, (padded - n) * stride * 4);
    return operand;
  }
  static void round_row(const float* from, int64_t n, T* to) {
#ifdef V1_WORDS
    if constexpr (__is_same(T, bf16))
      if (n % (2 * W) == 0) {
        for (int64_t i = 0; i < n; i += 2 * W) vstore((float*)(to + i), (V)pack_words(vload(from + i), vload(from + i + W)));
        return;
      }
#endif
    store_row(to, from, int(n), 1.0f);
  }

  void rows(int64_t begin, int64_t n, const T** k, const T** v) const {
    for (int64_t j = 0; j < n; j += shape.block) {
      const int64_t count = smaller(shape.block, n - j), padded = round_up(count, M::ROWS);
      int64_t stride;
      const float* a = operand_of(begin + j, count, padded, stride);
      gemm<M>(a, stride, shape.words, padded, up, shape.words, shape.words, products, shape.stride, shape.columns, false);
      for (int64_t i = 0; i < count; i++) {
        T* to = (T*)(made + (j + i) * shape.made * 4);
        round_row(products + i * shape.stride, c.nope, to);
        __builtin_memcpy(to + c.nope, latents + (begin + j + i) * c.key_token + c.rank, (c.head_size - c.nope) * sizeof(T));
        round_row(products + i * shape.stride + c.nope, c.head_size_v, to + c.head_size);
        k[j + i] = to;
        v[j + i] = to + c.head_size;
      }
    }
  }
};

template <class T, class M> static inline void attend_expanded_with(const Call& c, const Request& r, const Item& item, float* partial, char* scratch) {
  const ExpandedRows<T, M> rows(c, r, item.kv_head, scratch);
  Packed<T, M, ExpandedRows<T, M>>(c, r, item, r.kv_len, scratch, rows).attend(partial);
}
template <class T> static inline void attend_expanded(const Call& c, const Request& r, const Item& item, float* partial, char* scratch) {
#ifdef V1_WORDS
  if constexpr (__is_same(T, bf16)) {
#ifdef __AMX_BF16__
    const TileScope tiles;
#endif
    return attend_expanded_with<T, PairWords>(c, r, item, partial, scratch);
  }
#endif
  if constexpr (sizeof(T) > 1) {  // no float8: latents have the query's type
#ifdef __AMX_BF16__
    const TileScope tiles;
    attend_expanded_with<T, SplitWords<__is_same(T, f16) ? 2 : 3>>(c, r, item, partial, scratch);
#else
    attend_expanded_with<T, FloatWords>(c, r, item, partial, scratch);
#endif
  }
}
static inline int64_t expanded_scratch(const Call& c) {
  if (!c.up) return 0;
#ifdef __AMX_BF16__
  return larger(ExpandedShape<float, SplitWords<3>>(c).scratch(), ExpandedShape<bf16, PairWords>(c).scratch());
#elif defined V1_WORDS
  return larger(ExpandedShape<float, FloatWords>(c).scratch(), ExpandedShape<bf16, PairWords>(c).scratch());
#else
  return ExpandedShape<float, FloatWords>(c).scratch();
#endif
}
