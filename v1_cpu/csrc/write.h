// Writing new keys and values to the cache: one row-major copy per token and head, converted to float8 where the cache is.

// With `lines` the row is whole cache lines, which go to memory past the caches (decision 0150): nothing of them is read first.
template <class S> static inline void copy_row(const S* from, S* to, int64_t n, float, [[maybe_unused]] bool lines) {
  constexpr int64_t STEP = W * sizeof(float) / sizeof(S);
  int64_t i = 0;  // rows are too short for a call of memcpy each
#ifdef V1_STREAMS
  if (lines) {
    for (; i < n; i += STEP) vstream((float*)(to + i), vload((const float*)(from + i)));
    return;
  }
#endif
  for (; i + STEP <= n; i += STEP) vstore((float*)(to + i), vload((const float*)(from + i)));
  if (i < n) __builtin_memcpy(to + i, from + i, (n - i) * sizeof(S));
}
template <class S, class T> static inline void copy_row(const S* from, T* to, int64_t n, float scale, bool) {
  for (int64_t i = 0; i < n; i++) narrow(widen(from[i]) / scale, to[i]);
}

static inline int64_t place_of(const Write& w, int64_t slot) {
  const int64_t block = slot / w.block_size;
  return block * w.cache_block + (slot - block * w.block_size) * w.cache_token;
}
// A key and its value lie in as many places as there are heads, far apart: they are fetched while the token before is written.
template <class T> static inline void prefetch_place(const Write& w, int64_t t, int64_t end, int64_t head) {
  if (t >= end || w.slot_mapping[t] < 0) return;
  const int64_t at = place_of(w, w.slot_mapping[t]) + head * w.cache_head;
  for (int64_t i = 0; i < w.head_size; i += 64 / int64_t(sizeof(T))) __builtin_prefetch((T*)w.key_cache + at + i, 1);
  for (int64_t i = 0; i < w.head_size_v; i += 64 / int64_t(sizeof(T))) __builtin_prefetch((T*)w.value_cache + at + i, 1);
}

// Whether every row of keys and values is whole cache lines of the cache, and copied as it is.
template <class S, class T> static inline bool in_lines(const Write& w) {
#ifdef V1_STREAMS
  const int64_t ends = uint64_t(w.key_cache) | uint64_t(w.value_cache) |
                       uint64_t(w.cache_block | w.cache_head | w.cache_token | w.head_size | w.head_size_v) * sizeof(T);
  return __is_same(S, T) && ends % 64 == 0;
#else
  (void)w;
  return false;
#endif
}

template <class S, class T>
static void write_tokens(const Write& w, int64_t begin, int64_t end) {
  const bool lines = in_lines<S, T>(w);
  for (int64_t t = begin; t < end; t++) {
    const int64_t slot = w.slot_mapping[t];
    if (slot < 0) continue;
    const int64_t at = place_of(w, slot);
    const S* key = (const S*)w.key + t * w.key_token;
    const S* value = (const S*)w.value + t * w.value_token;
    for (int64_t h = 0; h < w.num_kv_heads; h++) {
      if (!lines) prefetch_place<T>(w, t + 1, end, h);
      copy_row(key + h * w.key_head, (T*)w.key_cache + at + h * w.cache_head, w.head_size, float(w.k_scale), lines);
      copy_row(value + h * w.value_head, (T*)w.value_cache + at + h * w.cache_head, w.head_size_v, float(w.v_scale), lines);
    }
  }
#ifdef V1_STREAMS
  if (lines) _mm_sfence();  // other threads may read them next
#endif
}
template <class S>
static void write_from(const Write& w, int64_t begin, int64_t end) {
  if (w.cache_type == V1_E4M3) write_tokens<S, e4m3>(w, begin, end);
  else if (w.cache_type == V1_E5M2) write_tokens<S, e5m2>(w, begin, end);
  else write_tokens<S, S>(w, begin, end);
}
