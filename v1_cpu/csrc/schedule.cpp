// Divides a batch into items of work, balanced over threads: made once per batch, reused by every layer.
//
// An item is one KV head of one request. Long prefills are divided by queries, long contexts under few queries by keys, when there
// would be too few items to keep the threads busy. The first and last part of divided keys are open-ended, so that a schedule made
// without a window (or with another) still covers every key. Items are ordered by falling cost; threads take them one by one.
#include <algorithm>
#include <cstring>
#include <vector>

#include "schedule.h"

namespace {

constexpr int64_t MAGIC = 0x56315343;
constexpr double ITEM_COST = 0.3;            // microseconds: the fixed part of an item
constexpr double BYTE_COST = 1.0 / 15e3;     // microseconds: one byte of keys and values from memory
constexpr double PRODUCT_COST = 1.0 / 80e3;  // microseconds: one multiply-add
constexpr double SMALL = 8.0;                // microseconds of work below which a second thread does not pay
constexpr double UNEVEN = 1.05;              // of the mean: the most that a thread may have for work to stay undivided
constexpr int64_t FEW = 16;                  // items for a thread; with more, dividing is rare
constexpr int64_t QUERY_STEP = 64;
constexpr int64_t KEY_STEP = 256;                   // keys are divided at its multiples, and no part has fewer
constexpr int64_t LONE_STEP = 32, LONE_LEAST = 64;  // the same for the only head of the only request, whose threads would have nothing else

struct Costed { Item item; double cost; };
struct Load { double cost = 0; };  // in this namespace: a vector of plain numbers would be a symbol of the library

struct Planner {
  const Call& c;
  std::vector<Costed> items;
  std::vector<Group> groups;
  int64_t partial_rows = 0, threads = 1;
  const int64_t group = c.num_heads / c.num_kv_heads;

  int64_t keys_seen(int64_t queries, int64_t kv_len) const {
    int64_t n = kv_len;
    if (c.window) n = std::min(n, c.window * (c.causal ? 1 : 2) + queries);
    if (c.chunk) n = std::min(n, c.chunk + queries);
    return std::max<int64_t>(n, 0);
  }
  double cost(int64_t queries, int64_t keys) const {
    const double size = c.kv_type == V1_F32 ? 4 : c.kv_type >= V1_E4M3 ? 1 : 2, width = double(c.head_size + c.head_size_v);
    return ITEM_COST + std::max(double(keys) * width * size * BYTE_COST, double(keys) * double(queries * group) * width * PRODUCT_COST);
  }
  // The work of queries [begin, end) of a request, causal half left out.
  double range_cost(int64_t b, int64_t begin, int64_t end) const {
    const int64_t offset = kv_len(b) - query_len(b);
    const int64_t last = c.causal && !c.tree_mask ? std::min(kv_len(b), offset + (begin + end + 1) / 2) : kv_len(b);
    return cost(end - begin, keys_seen(end - begin, std::max<int64_t>(last, 0)));
  }
  int64_t query_len(int64_t b) const { return c.query_start_loc[b + 1] - c.query_start_loc[b]; }
  int64_t kv_len(int64_t b) const { return c.block_table ? c.kv_lens[b] : c.kv_lens[b + 1] - c.kv_lens[b]; }

  // Whether whole requests, the largest first, each head to the thread that has least, come out even.
  bool even(double total, int64_t threads) const {
    std::vector<Load> work, loads(static_cast<size_t>(threads));
    for (int64_t b = 0; b < c.num_requests; b++)
      if (query_len(b) > 0) work.insert(work.end(), size_t(c.num_kv_heads), Load{range_cost(b, 0, query_len(b))});
    std::sort(work.begin(), work.end(), [](Load a, Load b) { return a.cost > b.cost; });
    const auto less = [](Load a, Load b) { return a.cost < b.cost; };
    for (const Load w : work) std::min_element(loads.begin(), loads.end(), less)->cost += w.cost;
    return std::max_element(loads.begin(), loads.end(), less)->cost <= UNEVEN * total / double(threads);
  }

  void add(int64_t b, int64_t begin, int64_t end, double limit) {
    const double work = range_cost(b, begin, end);
    const int64_t keys = kv_len(b);
    const int64_t seen = keys_seen(end - begin, keys);
    const bool lone = c.num_requests * c.num_kv_heads == 1;
    const int64_t step = lone ? LONE_STEP : KEY_STEP;
    int64_t parts = int64_t(work / limit + 0.99);
    if (lone) parts = std::min(parts, threads);  // one for each: more are merged for nothing
    parts = std::min(parts, std::max(seen / KEY_STEP, lone ? std::min(seen / LONE_LEAST, int64_t(work / SMALL)) : 0));
    if (parts < 2 || c.tree_mask) parts = 1;
    const int64_t first = keys - seen, rows = (end - begin) * group;
    for (int64_t h = 0; h < c.num_kv_heads; h++) {
      if (parts > 1) groups.push_back({b, h, begin, end, partial_rows, parts});
      for (int64_t i = 0; i < parts; i++) {
        auto cut = [&](int64_t n) { return first + (keys - first) * n / parts / step * step; };
        items.push_back({{b, h, begin, end, i ? cut(i) : 0, i + 1 < parts ? cut(i + 1) : INT64_MAX, parts > 1 ? partial_rows : -1,
                          parts > 1 ? int64_t(groups.size()) - 1 : -1}, work / double(parts)});
        if (parts > 1) partial_rows += rows;
      }
    }
  }
  void add_request(int64_t b, double total) {
    const int64_t n = query_len(b);
    if (n <= 0) return;
    const double limit = total / double(4 * threads), whole = range_cost(b, 0, n);
    const int64_t steps = (n + QUERY_STEP - 1) / QUERY_STEP, wanted = std::min<int64_t>(int64_t(whole / limit + 0.99), steps / 2);
    if (wanted < 2) return add(b, 0, n, total / (2.5 * double(threads)));
    double done = 0, per_part = 0;
    for (int64_t s = 0; s < steps; s++) per_part += range_cost(b, s * QUERY_STEP, std::min(n, (s + 1) * QUERY_STEP)) / double(wanted);
    int64_t begin = 0, part = 1;
    for (int64_t s = 0; s < steps; s++) {
      const int64_t end = std::min(n, (s + 1) * QUERY_STEP);
      done += range_cost(b, s * QUERY_STEP, end);
      if (done >= per_part * double(part) * 0.999 || end == n) {
        add(b, begin, end, 1e30);
        begin = end;
        part++;
      }
    }
    if (begin < n) add(b, begin, n, 1e30);
  }
};

}  // namespace

std::vector<int64_t> make_schedule(const Call& c) {
  Planner planner{c, {}, {}};
  double total = 0;
  for (int64_t b = 0; b < c.num_requests; b++)
    if (planner.query_len(b) > 0) total += planner.range_cost(b, 0, planner.query_len(b)) * double(c.num_kv_heads);
  const int64_t threads = total < SMALL ? 1 : std::min<int64_t>(c.num_threads, 1 + int64_t(total / SMALL));
  planner.threads = threads;
  const bool whole = threads > 1 && c.num_requests * c.num_kv_heads <= FEW * threads && planner.even(total, threads);
  for (int64_t b = 0; b < c.num_requests; b++) {
    if (threads > 1 && !whole) planner.add_request(b, total);
    else if (planner.query_len(b) > 0) planner.add(b, 0, planner.query_len(b), 1e30);
  }
  if (threads > 1)
    std::stable_sort(planner.items.begin(), planner.items.end(), [](const Costed& a, const Costed& b) { return a.cost > b.cost * 1.25; });
  const int64_t header_size = sizeof(Schedule) / 8, item_size = sizeof(Item) / 8, group_size = sizeof(Group) / 8;
  const int64_t num_items = int64_t(planner.items.size()), num_groups = int64_t(planner.groups.size());
  std::vector<int64_t> out(size_t(header_size + num_items * item_size + num_groups * group_size));
  const Schedule header{MAGIC, int64_t(out.size()), c.num_requests, c.num_requests ? c.query_start_loc[c.num_requests] : 0, c.num_heads,
                        c.num_kv_heads, num_items, num_groups, planner.partial_rows, threads};
  std::memcpy(out.data(), &header, sizeof header);
  for (int64_t i = 0; i < num_items; i++) std::memcpy(&out[size_t(header_size + i * item_size)], &planner.items[size_t(i)].item, sizeof(Item));
  if (num_groups) std::memcpy(&out[size_t(header_size + num_items * item_size)], planner.groups.data(), size_t(num_groups) * sizeof(Group));
  return out;
}

bool fits(const Schedule& s, const Call& c) {
  return s.magic == MAGIC && s.num_requests == c.num_requests && s.num_heads == c.num_heads && s.num_kv_heads == c.num_kv_heads &&
         (c.num_requests == 0 || s.num_tokens == c.query_start_loc[c.num_requests]);
}
