// What both kernels share: who sees which keys, logits from raw scores, the online softmax of a row, and its end.
//
// Scores are kept in units of log2: p = 2^(score * factor - maximum). Without soft cap and ALiBi `factor` carries the whole scale;
// with them `finish_logits` rewrites the scores first and `factor` is 1.

constexpr float LOG2E = 1.44269504088896340736f, LN2 = 0.69314718055994530942f;
#define MINUS_INFINITY (-__builtin_inff())

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// 2^x for x <= 127; 0 from -127 on, NaN stays NaN. Relative error 1e-7 (minimax polynomial of degree 5 on [-1/2, 1/2]).
static inline V exp2_fraction(V f) {
  V p = vfma(vset(0.001327647129073739f), f, vset(0.009675540961325169f));
  p = vfma(p, f, vset(0.05550713092088699f));
  p = vfma(p, f, vset(0.24022120237350464f));
  p = vfma(p, f, vset(0.6931469440460205f));
  return vfma(p, f, vset(1.0f));
}
#ifdef __AVX512F__
static inline V vexp2(V x) {  // one instruction each for the fraction and for scaling, which also takes -inf to 0
  const V f = _mm512_reduce_ps(x, 8);
  return _mm512_scalef_ps(exp2_fraction(f), vsub(x, f));
}
#else
static inline V vexp2(V x) {
  V shifted;
  x = vmax(vset(-127.0f), x);
  const V n = vround(x, shifted), f = vsub(x, n);
  return vscale2(exp2_fraction(f), n, shifted);
}
#endif
// The same with degree 3, relative error 7.5e-5: for probabilities that are rounded to bf16 (error 2e-3) next.
#ifdef __AVX512F__
static inline V vexp2_coarse(V x) {  // on [0, 1): one instruction each for the fraction and for scaling, which also takes -inf to 0
  const V f = _mm512_reduce_ps(x, 9);
  V p = vfma(vset(0.07802452306574525f), f, vset(0.2260671677921285f));
  p = vfma(p, f, vset(0.6958335288617442f));
  return _mm512_scalef_ps(vfma(p, f, vset(0.9999252204679483f)), x);
}
#else
static inline V vexp2_coarse(V x) {
  V shifted;
  x = vmax(vset(-127.0f), x);
  const V n = vround(x, shifted), f = vsub(x, n);
  V p = vfma(vset(0.0551716685295105f), f, vset(0.2426111251115799f));
  p = vfma(p, f, vset(0.6932609677314758f));
  return vscale2(vfma(p, f, vset(0.9999280571937561f)), n, shifted);
}
#endif
// An exponent that may be too large, for both: their sum is infinite then.
static inline V exponent_of(V x) {
#ifdef __AVX512F__
  return x;
#else
  return vmin(vset(127.0f), x);
#endif
}
static inline float exp2_of(float x) {
  float lanes[W];
  vstore(lanes, vexp2(vset(x)));
  return lanes[0];
}
// cap * tanh(x / (2 log2 e)) = cap - 2 cap / (1 + 2^x), with an absolute error of 1e-7 caps.
static inline V capped(V x, V cap, V minus_two_caps) {
  const V e = vexp2(vmin(vset(43.0f), x));
  return vfma(minus_two_caps, vinverse(vadd(vset(1.0f), e)), cap);
}

struct Request {
  int64_t token, query_len, kv_len, kv_start, offset;  // offset: position of its first query
  bool causal;
  const int32_t* table;
};
struct Keys { int64_t begin, end; };

static inline Request request_of(const Call& c, int64_t b) {
  Request r;
  r.token = c.query_start_loc[b];
  r.query_len = c.query_start_loc[b + 1] - r.token;
  r.table = c.block_table ? c.block_table + b * c.table_row : nullptr;
  r.kv_start = c.block_table ? 0 : c.kv_lens[b];
  r.kv_len = c.block_table ? c.kv_lens[b] : c.kv_lens[b + 1] - c.kv_lens[b];
  r.offset = r.kv_len - r.query_len;
  r.causal = c.causal_per_request ? c.causal_per_request[b] != 0 : c.causal != 0;
  return r;
}
// The keys that masks other than the tree leave to query i of the request: always one interval.
static inline Keys keys_of(const Call& c, const Request& r, int64_t i) {
  const int64_t p = r.offset + i;
  Keys k{0, r.kv_len};
  if (r.causal && !c.tree_mask) k.end = smaller(k.end, p + 1);
  if (c.window) {
    k.begin = larger(k.begin, p - c.window + 1);
    if (!r.causal) k.end = smaller(k.end, p + c.window);
  }
  if (c.chunk) {
    const int64_t chunk = (p >= 0 ? p / c.chunk : -((c.chunk - 1 - p) / c.chunk)) * c.chunk;
    k.begin = larger(k.begin, chunk);
    k.end = smaller(k.end, chunk + c.chunk);
  }
  k.end = larger(k.end, k.begin);
  return k;
}

// Rows of scores: row r is query token `first_token + r / group` under head `first_head + r % group`.
struct Logits {
  float scale, cap, factor;
  bool special;
};
static inline Logits logits_of(const Call& c) {
  Logits l;
  l.scale = float(c.scale * c.k_scale);
  l.cap = float(c.soft_cap);
  l.special = c.soft_cap != 0 || c.alibi_slopes || !(l.scale > 0);
  l.factor = l.special ? 1.0f : l.scale * LOG2E;
  return l;
}
// Scale, soft cap and ALiBi for `n` scores (a multiple of W) of keys from `key` on, seen from position `p`.
template <bool CAP, bool ALIBI>
static inline void finish_logits(const Logits& l, float* s, int64_t n, int64_t key, int64_t p, float slope) {
  const V scale = vset(CAP ? l.scale / l.cap * 2 * LOG2E : l.scale * LOG2E), cap = vset(l.cap * LOG2E);
  const V minus_two_caps = vset(l.cap * LOG2E * -2), slope2 = vset(slope * LOG2E);
  V distance = vadd(viota(), vset(float(key - p)));
  for (int64_t j = 0; j < n; j += W) {
    V x = vmul(vload(s + j), scale);
    if (CAP) x = capped(x, cap, minus_two_caps);
    if (ALIBI) x = vfma(slope2, distance, x);
    vstore(s + j, x);
    if (ALIBI) distance = vadd(distance, vset(float(W)));
  }
}
static inline void finish_logits(const Logits& l, float* s, int64_t n, int64_t key, int64_t p, float slope) {
  if (l.cap != 0 && slope != 0) finish_logits<true, true>(l, s, n, key, p, slope);
  else if (l.cap != 0) finish_logits<true, false>(l, s, n, key, p, slope);
  else finish_logits<false, true>(l, s, n, key, p, slope);
}
// -inf for scores [0, n) of keys from `key` on that lie outside of `k`, and for the tree's.
static inline void mask_scores(const Call& c, const Request& r, float* s, int64_t n, int64_t key, Keys k, int64_t i) {
  for (int64_t j = 0, end = smaller(k.begin - key, n); j < end; j++) s[j] = MINUS_INFINITY;
  for (int64_t j = larger(k.end - key, 0); j < n; j++) s[j] = MINUS_INFINITY;
  if (!c.tree_mask) return;
  const uint8_t* tree = c.tree_mask + (r.token + i) * c.tree_row;
  for (int64_t j = larger(r.offset - key, 0), end = smaller(n, r.kv_len - key); j < end; j++)
    if (!tree[key + j - r.offset]) s[j] = MINUS_INFINITY;
}

// One step of the online softmax: updates a row's maximum and sum, returns what its earlier output must be multiplied by.
struct Step { float base, alpha; };
static inline Step softmax_step(const float* s, int64_t n, float factor, float& maximum) {
  V top = vset(MINUS_INFINITY);
  for (int64_t j = 0; j < n; j += W) top = vmax(top, vload(s + j));
  const float m = vmaximum(top) * factor, next = m > maximum ? m : maximum;
  Step step{next == MINUS_INFINITY ? 0.0f : next, 1.0f};
  if (maximum != next) step.alpha = exp2_of(maximum - step.base);
  maximum = next;
  return step;
}
static inline float exponentials(float* s, int64_t n, float factor, float base) {
  V sum = vzero();
  for (int64_t j = 0; j < n; j += W) {
    const V p = vexp2(vfma(vload(s + j), vset(factor), vset(-base)));
    vstore(s + j, p);
    sum = vadd(sum, p);
  }
  return vsum(sum);
}
static inline void scale_row(float* o, int64_t n, float alpha) {
  for (int64_t j = 0; j < n; j += W) vstore(o + j, vmul(vload(o + j), vset(alpha)));
}

// Writes a row's output and log-sum-exp from its unnormalised sum `o`. The sink enters here, once.
static inline void finish_row(const Call& c, int64_t token, int64_t head, const float* o, float maximum, float sum) {
  float shrink = 1.0f;
  if (c.sinks) {
    const float sink = c.sinks[head] * LOG2E, base = sink > maximum ? sink : maximum;
    shrink = base == MINUS_INFINITY ? 0.0f : exp2_of(maximum - base);
    sum = base == MINUS_INFINITY ? 0.0f : sum * shrink + exp2_of(sink - base);
    maximum = base;
  }
  const float factor = sum == 0 ? 0.0f : float(c.v_scale) * shrink / sum;
  if (c.lse) c.lse[head * c.lse_head + token] = sum == 0 ? MINUS_INFINITY : maximum * LN2 + __builtin_logf(sum);
  const int64_t at = token * c.out_token + head * c.out_head, n = c.head_size_v;
  if (c.query_type == V1_F32) store_row((float*)c.out + at, o, n, factor);
  if (c.query_type == V1_BF16) store_row((bf16*)c.out + at, o, n, factor);
  if (c.query_type == V1_F16) store_row((f16*)c.out + at, o, n, factor);
}

// Where key and value rows live. `rows` fills pointers to the rows of keys [begin, begin + n).
template <class T>
struct Cache {
  const T *key, *value;
  const Call& c;
  const Request& r;
  Cache(const Call& call, const Request& request, int64_t kv_head)
      : key((const T*)call.key + kv_head * call.key_head), value((const T*)call.value + kv_head * call.value_head), c(call), r(request) {}
  void rows(int64_t begin, int64_t n, const T** k, const T** v) const {
    if (!r.table) {
      for (int64_t j = 0; j < n; j++) {
        k[j] = key + (r.kv_start + begin + j) * c.key_token;
        v[j] = value + (r.kv_start + begin + j) * c.value_token;
      }
      return;
    }
    int64_t block = begin / c.block_size, offset = begin - block * c.block_size;
    for (int64_t j = 0; j < n; block++, offset = 0) {
      const T* kb = key + r.table[block] * c.key_block;
      const T* vb = value + r.table[block] * c.value_block;
      for (; offset < c.block_size && j < n; offset++, j++) {
        k[j] = kb + offset * c.key_token;
        v[j] = vb + offset * c.value_token;
      }
    }
  }
};

// Partial results: per row maximum, sum and PARTIAL_ALIGN-padded output.
constexpr int64_t PARTIAL_ALIGN = 32;
static inline int64_t partial_stride(const Call& c) { return 2 + round_up(c.head_size_v, PARTIAL_ALIGN); }

static inline void finish_rows(const Call& c, const Request& r, const Item& item, int64_t first_row, int64_t n, const float* o,
                               int64_t o_stride, const float* maximum, const float* sum, float* partial) {
  const int64_t group = c.num_heads / c.num_kv_heads;
  for (int64_t row = first_row; row < first_row + n; row++, o += o_stride, maximum++, sum++) {
    if (item.partial_row >= 0) {
      float* to = partial + (item.partial_row + row) * partial_stride(c);
      to[0] = *maximum;
      to[1] = *sum;
      __builtin_memcpy(to + 2, o, c.head_size_v * sizeof(float));
    } else {
      finish_row(c, r.token + item.query_begin + row / group, item.kv_head * group + row % group, o, *maximum, *sum);
    }
  }
}
