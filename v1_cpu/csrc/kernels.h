// All kernels, written once: each isa_*.cpp includes this file inside its own namespace, with its own compiler flags.
// No standard library and nothing with external linkage here but the table: an inline function shared by two objects would be
// merged by the linker, and the survivor could hold instructions that the CPU lacks.

#include "types.h"
#include V1_SIMD
#include "softmax.h"
#include "direct.h"
#include "packed.h"
#include "mla.h"
#include "mla_expand.h"
#ifdef __AMX_BF16__
#include "amx_decode.h"
#endif
#include "write.h"

static inline bool is_direct(const Call& c, int64_t queries) { return queries * (c.num_heads / c.num_kv_heads) <= DIRECT_ROWS; }

#ifdef __AMX_BF16__
constexpr int64_t FEW_PRODUCTS = 400;  // of a query and a key, up to which a bf16 decode takes multiply-adds
constexpr int64_t SPLIT_ROWS = 32;     // of float32 queries, from which on cutting keys in parts for the tiles pays
#endif

template <class T>
static void attend_with(const Call& c, const Request& r, const Item& item, float* partial, char* scratch) {
#ifdef V1_WORDS
  constexpr bool words = __is_same(T, bf16) || __is_same(T, e4m3) || __is_same(T, e5m2);
#endif
  if (c.up) return attend_expanded<T>(c, r, item, partial, scratch);
  if (is_direct(c, item.query_end - item.query_begin)) {
#ifdef V1_WORDS
    if constexpr (words)
      if (c.query_type == V1_BF16) {
#ifdef __AMX_BF16__
        // Tiles take four rows for the price of one, and 64 keys for that of 17: a single row and few keys are faster on
        // multiply-adds (4 rows of 128: 17 keys in 1.1 us instead of 2.2, 96 keys in the same time).
        const int64_t rows = (item.query_end - item.query_begin) * (c.num_heads / c.num_kv_heads);
        const int64_t keys = smaller(item.key_end, r.kv_len) - item.key_begin;
        if (__is_same(T, bf16) && (rows == 1 || rows * keys <= FEW_PRODUCTS))
          return attend_direct<T, FloatQuery<T>>(c, r, item, partial, scratch);
        return TileDecode<T>(c, r, item, scratch).attend(partial);
#else
        return attend_direct<T, WordQuery<T>>(c, r, item, partial, scratch);
#endif
      }
#endif
    return attend_direct<T, FloatQuery<T>>(c, r, item, partial, scratch);
  }
  if (is_latent(c)) return attend_latents<T>(c, r, item, partial, scratch);
#ifdef V1_WORDS
  if constexpr (words)
    if (c.query_type == V1_BF16) {
#ifdef __AMX_BF16__
      const TileScope tiles;
#endif
      return Packed<T, PairWords>(c, r, item, r.kv_len, scratch).attend(partial);
    }
#endif
#ifdef __AMX_BF16__
  const bool halves = c.query_type == V1_F16 && !__is_same(T, float);
  if (halves || r.query_len * (c.num_heads / c.num_kv_heads) >= SPLIT_ROWS) {  // of the request: however its queries are divided
    const TileScope tiles;
    if (halves) return Packed<T, SplitWords<2>>(c, r, item, r.kv_len, scratch).attend(partial);
    return Packed<T, SplitWords<3>>(c, r, item, r.kv_len, scratch).attend(partial);
  }
#endif
  Packed<T, FloatWords>(c, r, item, r.kv_len, scratch).attend(partial);
}

// Numbers below 2^-126 are zero while one lives: weights that ALiBi makes so small would cost a hundred cycles per multiply-add.
struct FlushToZero {
#ifdef __SSE__
  const unsigned before = __builtin_ia32_stmxcsr();
  FlushToZero() { __builtin_ia32_ldmxcsr(before | 0x8040); }
  ~FlushToZero() { __builtin_ia32_ldmxcsr(before); }
#endif
};

static void attend(const Call* c, const Item* item, float* partial, char* scratch) {
  [[maybe_unused]] const FlushToZero flush;
  const Request r = request_of(*c, item->request);
  if (c->kv_type == V1_F32) attend_with<float>(*c, r, *item, partial, scratch);
  if (c->kv_type == V1_BF16) attend_with<bf16>(*c, r, *item, partial, scratch);
  if (c->kv_type == V1_F16) attend_with<f16>(*c, r, *item, partial, scratch);
  if (c->kv_type == V1_E4M3) attend_with<e4m3>(*c, r, *item, partial, scratch);
  if (c->kv_type == V1_E5M2) attend_with<e5m2>(*c, r, *item, partial, scratch);
}

// Fetches the first keys and values of an item that the direct kernel will take next.
template <class T> static void fetch_rows(const Call& c, const Request& r, const Item& item) {
  Keys seen{r.kv_len, 0};
  for (int64_t i = item.query_begin; i < item.query_end; i++) {
    const Keys k = keys_of(c, r, i);
    seen = {smaller(seen.begin, k.begin), larger(seen.end, k.end)};
  }
  seen = {larger(seen.begin, item.key_begin), smaller(seen.end, item.key_end)};
  const int64_t n = smaller(seen.end - seen.begin, DIRECT_TILE);
  if (n <= 0) return;
  const T *keys[DIRECT_TILE], *values[DIRECT_TILE];
  Cache<T>(c, r, item.kv_head).rows(seen.begin, n, keys, values);
  for (int64_t j = 0; j < n; j++) {
    prefetch_row(keys[j], c.head_size * int64_t(sizeof(T)));
    prefetch_row(values[j], c.head_size_v * int64_t(sizeof(T)));
  }
}
static void fetch(const Call* c, const Item* item) {
  if (!is_direct(*c, item->query_end - item->query_begin)) return;
  const Request r = request_of(*c, item->request);
  if (c->kv_type == V1_F32) fetch_rows<float>(*c, r, *item);
  else if (c->kv_type <= V1_F16) fetch_rows<bf16>(*c, r, *item);
  else fetch_rows<e4m3>(*c, r, *item);
}

static int64_t attend_scratch(const Call* c) {
  int64_t bytes = direct_scratch(*c), longest = -1;
  for (int64_t b = 0; b < c->num_requests; b++) {
    const Request r = request_of(*c, b);
    if (c->up || !is_direct(*c, r.query_len)) longest = larger(longest, r.kv_len);
  }
  if (is_latent(*c)) bytes = larger(bytes, latent_scratch(*c));
#ifdef __AMX_BF16__
  bytes = larger(bytes, DecodeShape(*c).scratch());
#endif
  if (longest >= 0) bytes = larger(bytes, Shape<FloatWords>(*c, longest).scratch());
#ifdef V1_WORDS
  if (longest >= 0) bytes = larger(bytes, Shape<PairWords>(*c, longest).scratch());
#endif
#ifdef __AMX_BF16__
  if (longest >= 0) bytes = larger(bytes, Shape<SplitWords<3>>(*c, longest).scratch());
  if (longest >= 0) bytes = larger(bytes, Shape<SplitWords<2>>(*c, longest).scratch());  // its tiles are smaller, so it may keep one more
#endif
  return bytes + expanded_scratch(*c);
}

// Partial results of queries whose keys were divided, merged in order.
static void merge(const Call* c, const Group* g, const float* partial, char* scratch) {
  const Request r = request_of(*c, g->request);
  const int64_t group = c->num_heads / c->num_kv_heads, rows = (g->query_end - g->query_begin) * group, stride = partial_stride(*c);
  const int64_t dv = c->head_size_v;
  float* o = (float*)scratch;
  for (int64_t row = 0; row < rows; row++) {
    const float* first = partial + (g->partial_row + row) * stride;
    float maximum = MINUS_INFINITY, sum = 0;
    for (int64_t i = 0; i < g->parts; i++) maximum = maximum > first[i * rows * stride] ? maximum : first[i * rows * stride];
    for (int64_t j = 0; j < dv; j++) o[j] = 0;
    for (int64_t i = 0; i < g->parts; i++) {
      const float* part = first + i * rows * stride;
      const float weight = maximum == MINUS_INFINITY ? 0.0f : exp2_of(part[0] - maximum);
      sum += weight * part[1];
      for (int64_t j = 0; j < dv; j++) o[j] += weight * part[2 + j];
    }
    finish_row(*c, r.token + g->query_begin + row / group, g->kv_head * group + row % group, o, maximum, sum);
  }
}

static void write(const Write* w, int64_t begin, int64_t end) {
  if (w->source_type == V1_F32) write_from<float>(*w, begin, end);
  if (w->source_type == V1_BF16) write_from<bf16>(*w, begin, end);
  if (w->source_type == V1_F16) write_from<f16>(*w, begin, end);
}
