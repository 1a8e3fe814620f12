// Holds the kernels of libv1_cpu.so to a scalar double-precision reference, without torch or Python: `runner LIBRARY [ISA ...]`.
//
// Runs under qemu-user on CPUs older than this one, and under sanitizers. Cases are drawn from V1_RUNNER_SEED (1) on, V1_RUNNER_CASES
// (100) of them; every instruction set that the CPU has (or those named) gets the same ones. Ends with "N passed, M failed".
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "abi.h"

namespace {

// ---- storage types, by search and by formula: independent of the library's conversions

double float8(int code, int mantissa_bits, int bias) {
  const int exponent = (code & 0x7f) >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
  const double scale = 1 << mantissa_bits;
  const double magnitude = exponent ? std::ldexp(1 + mantissa / scale, exponent - bias) : std::ldexp(mantissa / scale, 1 - bias);
  return code & 0x80 ? -magnitude : magnitude;
}
double half(int code) {
  const int exponent = code >> 10 & 31, mantissa = code & 1023;
  const double magnitude = exponent ? std::ldexp(1 + mantissa / 1024.0, exponent - 15) : std::ldexp(mantissa / 1024.0, -14);
  return code & 0x8000 ? -magnitude : magnitude;
}
int size_of(int64_t type) { return type == V1_F32 ? 4 : type <= V1_F16 ? 2 : 1; }

double load(const char* p, int64_t type) {
  if (type == V1_F32) { float x; std::memcpy(&x, p, 4); return x; }
  if (type == V1_E4M3) return float8(uint8_t(*p), 3, 7);
  if (type == V1_E5M2) return float8(uint8_t(*p), 2, 15);
  uint16_t u;
  std::memcpy(&u, p, 2);
  if (type == V1_F16) return half(u);
  const uint32_t wide = uint32_t(u) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}
// Rounds to nearest even by trying the neighbours.
void store(double x, char* p, int64_t type) {
  if (type == V1_F32) { const float f = float(x); std::memcpy(p, &f, 4); return; }
  if (type == V1_BF16) {
    const float f = float(x);
    uint32_t u;
    std::memcpy(&u, &f, 4);
    const uint16_t v = uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
    std::memcpy(p, &v, 2);
    return;
  }
  const bool wide = type == V1_F16;
  const int count = wide ? 0x7c00 : type == V1_E4M3 ? 0x7f : 0x7c, sign = x < 0;
  auto value = [&](int code) { return wide ? half(code) : type == V1_E4M3 ? float8(code, 3, 7) : float8(code, 2, 15); };
  int low = 0, high = count - 1;
  const double magnitude = std::fabs(x);
  while (high - low > 1) (value((low + high) / 2) <= magnitude ? low : high) = (low + high) / 2;
  const double down = magnitude - value(low), up = value(high) - magnitude;
  const int code = down < up || (down == up && low % 2 == 0) ? low : high;
  if (wide) { const uint16_t v = uint16_t(code | sign << 15); std::memcpy(p, &v, 2); }
  else *p = char(code | sign << 7);
}

// ---- one case

struct Api {
  const char* (*select)(const char*);
  const char* (*isa)(int64_t, int64_t*);
  void (*attend)(const Call*);
  void (*write)(const Write*);
  int64_t (*schedule)(const Call*, int64_t*, int64_t);
};

struct Random {
  std::mt19937 engine;
  int64_t upto(int64_t n) { return int64_t(engine() % uint32_t(n)); }
  bool chance(double p) { return engine() < p * 4294967296.0; }
  double normal() {
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += engine() / 4294967296.0;
    return sum - 6;
  }
  template <class T> T pick(std::initializer_list<T> from) { return from.begin()[upto(int64_t(from.size()))]; }
};

bool run_case(const Api& api, uint32_t seed, bool small, std::string& what) {
  Random random{std::mt19937(seed)};
  const int64_t type = random.upto(3), paged = random.chance(0.8);
  const int64_t kv_type = paged && random.chance(0.3) ? V1_E4M3 + random.upto(2) : type;
  const int64_t d = random.pick({8, 16, 24, 32, 40, 64, 80, 96, 128, 136, 33}), dv = random.chance(0.7) ? d : random.pick({8, 17, 64, 50, 128});
  const int64_t kh = random.pick({1, 2, 3}), group = random.pick({1, 1, 2, 4, 5, 8, 17}), h = kh * group;
  const int64_t block = random.pick({1, 7, 16, 32, 128}), requests = random.upto(5), longest = small ? 90 : 700;
  std::vector<int32_t> starts{0}, lens, kv_starts{0};
  for (int64_t b = 0; b < requests; b++) {
    const int64_t n = random.chance(0.1) ? 0 : 1 + random.upto(longest), q = random.chance(0.5) ? 1 : random.upto(small ? 30 : 250) + (n > 0);
    starts.push_back(starts.back() + int32_t(std::min(q, paged ? n : q)));
    lens.push_back(int32_t(n));
    kv_starts.push_back(kv_starts.back() + int32_t(n));
  }
  const int64_t tokens = starts.back(), keys = kv_starts.back();
  Call c{};
  c.window = random.chance(0.3) ? 1 + random.upto(80) : 0;
  c.chunk = paged && random.chance(0.15) ? 1 + random.upto(50) : 0;
  c.causal = random.chance(0.7);
  c.soft_cap = random.chance(0.2) ? 2.0 : 0.0;
  c.k_scale = kv_type == type ? 1.0 : 0.07;
  c.v_scale = kv_type == type ? 1.0 : 0.04;
  c.scale = 1 / std::sqrt(double(d));
  std::vector<float> slopes(size_t(h), 0), sinks(size_t(h), 0);
  for (auto& x : slopes) x = float(random.upto(100)) / 300;
  for (auto& x : sinks) x = float(random.normal());
  if (random.chance(0.2)) c.alibi_slopes = slopes.data();
  if (random.chance(0.2)) c.sinks = sinks.data();
  std::vector<uint8_t> flags;
  for (int64_t b = 0; b < requests; b++) flags.push_back(uint8_t(random.upto(2)));
  if (random.chance(0.1)) c.causal_per_request = flags.data();
  int64_t widest = 1;
  for (int64_t b = 0; b < requests; b++) widest = std::max<int64_t>(widest, starts[size_t(b) + 1] - starts[size_t(b)]);
  std::vector<uint8_t> tree(size_t(tokens * widest), 0);
  for (auto& x : tree) x = random.chance(0.6);
  if (paged && !c.causal_per_request && c.causal && random.chance(0.1)) c.tree_mask = tree.data();
  const double growth = random.chance(0.2) && !c.sinks ? 40 : 0;  // maxima are overtaken by later keys, some by far
  char text[320];
  std::snprintf(text, sizeof text, "seed %u type %d kv %d %s heads %d/%d d %d dv %d block %d requests %d tokens %d window %d chunk %d causal %d cap %g alibi %d sinks %d tree %d growth %g",
                seed, int(type), int(kv_type), paged ? "paged" : "dense", int(h), int(kh), int(d), int(dv), int(block), int(requests), int(tokens),
                int(c.window), int(c.chunk), int(c.causal), c.soft_cap, c.alibi_slopes != nullptr, c.sinks != nullptr, c.tree_mask != nullptr, growth);
  what = text;

  // Exactly as large as needed, so that a sanitizer sees a read past the end.
  auto fill = [&](int64_t n, int64_t as, double grow) {
    std::vector<char> data(size_t(n * size_of(as)));
    for (int64_t i = 0; i < n; i++) store(random.normal() * (1 + grow * double(i) / double(n)), &data[size_t(i * size_of(as))], as);
    return data;
  };
  const std::vector<char> query = fill(tokens * h * d, type, 0), key = fill(keys * kh * d, type, growth), value = fill(keys * kh * dv, type, 0);
  std::vector<char> out(query.size() / size_t(d) * size_t(dv), 0x7f);
  std::vector<float> lse(size_t(h * tokens), 1e30f);

  // The cache, if any: shuffled blocks, garbage (NaN) in unused slots.
  std::vector<int64_t> needed;
  int64_t num_blocks = 2, max_blocks = 1;
  for (int64_t n : lens) {
    needed.push_back((n + block - 1) / block);
    num_blocks += needed.back();
    max_blocks = std::max(max_blocks, needed.back());
  }
  std::vector<int32_t> order, table(size_t(requests * max_blocks), -1);
  for (int64_t i = 0; i < num_blocks; i++) order.push_back(int32_t(i));
  for (int64_t i = num_blocks - 1; i > 0; i--) std::swap(order[size_t(i)], order[size_t(random.upto(i + 1))]);
  std::vector<int64_t> slots;
  for (int64_t b = 0, used = 0; b < requests; used += needed[size_t(b)], b++) {
    for (int64_t i = 0; i < needed[size_t(b)]; i++) table[size_t(b * max_blocks + i)] = order[size_t(used + i)];
    for (int64_t j = 0; j < lens[size_t(b)]; j++) slots.push_back(table[size_t(b * max_blocks + j / block)] * block + j % block);
  }
  const int64_t row = d + dv, width = size_of(kv_type);
  std::vector<char> cache(paged ? size_t(num_blocks * kh * block * row * width) : 0, char(0xff));
  if (paged) {
    Write w{};
    w.key = key.data(), w.value = value.data(), w.key_cache = cache.data(), w.value_cache = cache.data() + d * width;
    w.slot_mapping = slots.data();
    w.key_token = kh * d, w.key_head = d, w.value_token = kh * dv, w.value_head = dv;
    w.cache_block = kh * block * row, w.cache_head = block * row, w.cache_token = row;
    w.num_tokens = keys, w.num_kv_heads = kh, w.head_size = d, w.head_size_v = dv, w.block_size = block;
    w.source_type = type, w.cache_type = kv_type, w.num_threads = 2, w.k_scale = c.k_scale, w.v_scale = c.v_scale;
    api.write(&w);
  }
  c.query = query.data(), c.out = out.data(), c.lse = lse.data(), c.query_start_loc = starts.data();
  c.query_token = h * d, c.query_head = d, c.out_token = h * dv, c.out_head = dv, c.lse_head = tokens, c.tree_row = widest;
  c.num_requests = requests, c.num_heads = h, c.num_kv_heads = kh, c.head_size = d, c.head_size_v = dv;
  c.query_type = type, c.kv_type = kv_type, c.num_threads = 1 + random.upto(4);
  if (paged) {
    c.key = cache.data(), c.value = cache.data() + d * width, c.kv_lens = lens.data();
    c.block_table = table.data(), c.table_row = max_blocks, c.block_size = block;
    c.key_block = c.value_block = kh * block * row, c.key_head = c.value_head = block * row, c.key_token = c.value_token = row;
  } else {
    c.key = key.data(), c.value = value.data(), c.kv_lens = kv_starts.data();
    c.key_token = kh * d, c.key_head = d, c.value_token = kh * dv, c.value_head = dv;
  }
  std::vector<int64_t> schedule(size_t(api.schedule(&c, nullptr, 0)));
  api.schedule(&c, schedule.data(), int64_t(schedule.size()));
  if (random.chance(0.7)) c.schedule = schedule.data();
  api.attend(&c);

  // The formula.
  const double bound = type == V1_F32 ? 1e-4 : type == V1_F16 ? 4e-3 : 3e-2;
  double worst = 0, worst_lse = 0;
  std::vector<double> weight, wanted(static_cast<size_t>(dv));
  for (int64_t b = 0; b < requests; b++) {
    const int64_t first = starts[size_t(b)], queries = starts[size_t(b) + 1] - first, n = lens[size_t(b)];
    const bool causal = c.causal_per_request ? flags[size_t(b)] : c.causal;
    auto element = [&](bool is_value, int64_t j, int64_t head, int64_t i) {
      const int64_t size = is_value ? dv : d, at = kv_starts[size_t(b)] + j;
      if (!paged) return load((is_value ? value : key).data() + ((at * kh + head) * size + i) * size_of(type), type);
      const int64_t slot = slots[size_t(at)];
      const char* p = cache.data() + ((slot / block * kh + head) * block + slot % block) * row * width;
      return load(p + (is_value ? d + i : i) * width, kv_type) * (is_value ? c.v_scale : c.k_scale);
    };
    std::vector<double> ks(size_t(n * kh * d)), vs(size_t(n * kh * dv)), qs(static_cast<size_t>(d));
    for (int64_t head = 0; head < kh; head++)
      for (int64_t j = 0; j < n; j++) {
        for (int64_t e = 0; e < d; e++) ks[size_t((head * n + j) * d + e)] = element(false, j, head, e);
        for (int64_t e = 0; e < dv; e++) vs[size_t((head * n + j) * dv + e)] = element(true, j, head, e);
      }
    for (int64_t i = 0; i < queries; i++)
      for (int64_t head = 0; head < h; head++) {
        const int64_t p = n - queries + i, shared = head / group * n;
        for (int64_t e = 0; e < d; e++) qs[size_t(e)] = load(query.data() + (((first + i) * h + head) * d + e) * size_of(type), type);
        weight.assign(size_t(n), -INFINITY);
        double top = c.sinks ? sinks[size_t(head)] : -INFINITY;
        for (int64_t j = 0; j < n; j++) {
          if (c.tree_mask ? j >= n - queries && !tree[size_t((first + i) * widest + j - (n - queries))] : causal && j > p) continue;
          if (c.window && (p - j >= c.window || (!causal && j - p >= c.window))) continue;
          if (c.chunk && (j / c.chunk != (p >= 0 ? p / c.chunk : -1))) continue;
          double x = 0;
          for (int64_t e = 0; e < d; e++) x += qs[size_t(e)] * ks[size_t((shared + j) * d + e)];
          x *= c.scale;
          if (c.soft_cap != 0) x = c.soft_cap * std::tanh(x / c.soft_cap);
          if (c.alibi_slopes) x += slopes[size_t(head)] * double(j - p);
          weight[size_t(j)] = x;
          top = std::max(top, x);
        }
        double sum = c.sinks ? std::exp(sinks[size_t(head)] - top) : 0, rms = 0, error = 0;
        wanted.assign(size_t(dv), 0.0);
        for (int64_t j = 0; j < n; j++) {
          if (weight[size_t(j)] == -INFINITY) continue;
          const double w = std::exp(weight[size_t(j)] - top);
          sum += w;
          for (int64_t e = 0; e < dv; e++) wanted[size_t(e)] += w * vs[size_t((shared + j) * dv + e)];
        }
        for (int64_t e = 0; e < dv; e++) {
          const double x = sum > 0 ? wanted[size_t(e)] / sum : 0, got = load(out.data() + (((first + i) * h + head) * dv + e) * size_of(type), type);
          rms += x * x / double(dv);
          error = std::max(error, std::isfinite(got) ? std::fabs(got - x) : 1e30);
        }
        if (error > 0) worst = std::max(worst, error / std::max(std::sqrt(rms), 1e-12));
        const double l = sum > 0 ? top + std::log(sum) : -INFINITY, got = lse[size_t(head * tokens + first + i)];
        if (!(l == got)) worst_lse = std::max(worst_lse, std::isfinite(got) && std::isfinite(l) ? std::fabs(l - got) / std::max(1.0, std::fabs(l) / 32) : 1e30);  // large scores round more
      }
  }
  std::snprintf(text, sizeof text, ": error %.2e of rms (allowed %.0e), lse %.2e", worst, bound, worst_lse);
  what += text;
  return worst <= bound && worst_lse <= (type == V1_F32 ? 1e-4 : 1e-3);
}

}  // namespace

int main(int count, char** arguments) {
  void* library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
  if (!library) {
    std::fprintf(stderr, "usage: runner LIBRARY [ISA ...]: %s\n", dlerror());
    return 2;
  }
  Api api{};
  auto find = [&](const char* name, auto& function) { function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name)); };
  find("v1_select", api.select);
  find("v1_isa", api.isa);
  find("v1_attend", api.attend);
  find("v1_write", api.write);
  find("v1_schedule", api.schedule);
  std::vector<std::string> sets(arguments + 2, arguments + count);
  if (sets.empty()) {
    int64_t usable = 0;
    for (int64_t i = 0; const char* name = api.isa(i, &usable); i++)
      if (usable) sets.push_back(name);
  }
  const char* wish = std::getenv("V1_RUNNER_CASES");
  const uint32_t cases = wish ? uint32_t(std::atoi(wish)) : 100;
  const char* first = std::getenv("V1_RUNNER_SEED");
  const uint32_t begin = first ? uint32_t(std::atoi(first)) : 1;
  int passed = 0, failed = 0;
  for (const std::string& set : sets) {
    if (!api.select(set.c_str())) {
      std::printf("%s: not on this CPU\n", set.c_str());
      failed++;
      continue;
    }
    std::printf("%s\n", set.c_str());
    for (uint32_t seed = begin; seed < begin + cases; seed++) {
      std::string what;
      if (run_case(api, seed, seed % 8 != 0, what)) {
        passed++;
      } else {
        failed++;
        std::printf("FAILED %s %s\n", set.c_str(), what.c_str());
      }
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
