// The exported C functions: choice of the instruction set, threads, and the loop over work items.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include <pthread.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "cpu.h"
#include "schedule.h"

#define V1_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

const KernelTable* chosen = nullptr;

// Memory of a thread, kept between calls, grown on demand.
struct Arena {
  char* data = nullptr;
  int64_t size = 0;
  ~Arena() { std::free(data); }
  char* reserve(int64_t bytes) {
    if (bytes <= size) return data;
    std::free(data);
    size = (bytes + 4095) / 4096 * 4096;
    data = static_cast<char*>(std::aligned_alloc(4096, size_t(size)));
    if (!data) {
      size = 0;
      std::abort();  // a few MB are not to be had: nothing sensible can follow, and C code cannot throw into Python
    }
    return data;
  }
};
thread_local Arena scratch_arena, partial_arena;

// OpenMP's threads do not survive a fork, and its next parallel region would wait for them: a forked child works alone.
bool forked = false;
int set_up_fork = pthread_atfork(nullptr, nullptr, [] { forked = true; });

template <class F>
void parallel(int64_t threads, F work) {
#ifdef _OPENMP
  if (threads > 1 && !forked && !omp_in_parallel()) {
#pragma omp parallel num_threads(int(threads))
    work();
    return;
  }
#endif
  (void)threads;
  work();
}

}  // namespace

V1_EXPORT int64_t v1_abi_version() { return V1_ABI_VERSION; }

// Picks the named instruction set, or the best for null. Returns its name, or null if this CPU or build does not have it.
V1_EXPORT const char* v1_select(const char* name) {
  for (int i = 0; kernel_tables[i].table; i++) {
    const KernelTable* table = kernel_tables[i].table;
    const auto worthwhile = kernel_tables[i].worthwhile;
    const bool asked = name ? std::strcmp(name, table->name) == 0 : !worthwhile || worthwhile();
    if (asked && kernel_tables[i].usable()) {
      chosen = table;
      return table->name;
    }
  }
  return nullptr;
}
// The i-th instruction set of this build, best first; null past the end. `usable` tells whether this CPU runs it.
V1_EXPORT const char* v1_isa(int64_t i, int64_t* usable) {
  for (int64_t j = 0; kernel_tables[j].table; j++)
    if (j == i) {
      *usable = kernel_tables[j].usable();
      return kernel_tables[j].table->name;
    }
  return nullptr;
}

// Fills `out` with the batch's schedule if `capacity` (in int64) suffices; returns the size needed.
V1_EXPORT int64_t v1_schedule(const Call* call, int64_t* out, int64_t capacity) {
  const std::vector<int64_t> schedule = make_schedule(*call);
  if (int64_t(schedule.size()) <= capacity) std::memcpy(out, schedule.data(), schedule.size() * 8);
  return int64_t(schedule.size());
}

V1_EXPORT void v1_attend(const Call* call) {
  std::vector<int64_t> own;
  const int64_t* words = call->schedule;
  if (!words || !fits(*reinterpret_cast<const Schedule*>(words), *call)) {
    own = make_schedule(*call);
    words = own.data();
  }
  const Schedule& schedule = *reinterpret_cast<const Schedule*>(words);
  const Item* items = reinterpret_cast<const Item*>(words + sizeof(Schedule) / 8);
  const Group* groups = reinterpret_cast<const Group*>(items + schedule.num_items);
  const KernelTable& kernels = *chosen;
  const int64_t threads = std::min({schedule.num_threads, call->num_threads, schedule.num_items});
  const int64_t scratch_size = kernels.attend_scratch(call);
  const int64_t partial_size = schedule.num_partial_rows * (2 + (call->head_size_v + 31) / 32 * 32) * int64_t(sizeof(float));
  char* shared = partial_arena.reserve(partial_size + schedule.num_groups * int64_t(sizeof(std::atomic<int64_t>)) + 64);
  auto* missing = reinterpret_cast<std::atomic<int64_t>*>(shared);
  for (int64_t g = 0; g < schedule.num_groups; g++) new (missing + g) std::atomic<int64_t>(groups[g].parts);
  float* partial = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(missing + schedule.num_groups) + 63) / 64 * 64);
  std::atomic<int64_t> next{0};
  parallel(threads, [&] {
    char* scratch = scratch_arena.reserve(scratch_size);
    const auto take = [&] {
      const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i < schedule.num_items) kernels.fetch(call, items + i);
      return i;
    };
    for (int64_t i = take(), following; i < schedule.num_items; i = following < 0 ? take() : following) {
      const Item& item = items[i];
      // The next item is taken early, so that its first keys are there in time; not at the end, where it could be another thread's.
      following = i + 4 * threads < schedule.num_items ? take() : -1;
      kernels.attend(call, &item, partial, scratch);
      // Whoever finishes a group's last part merges it; the order of the parts is fixed, so the sum does not depend on who.
      if (item.group >= 0 && missing[item.group].fetch_sub(1, std::memory_order_acq_rel) == 1)
        kernels.merge(call, &groups[item.group], partial, scratch);
    }
  });
}

V1_EXPORT void v1_copy_blocks(const BlockCopy* copy) {
  constexpr int64_t BYTES_PER_THREAD = 128 << 10, STEP_BYTES = 32 << 10;
  // Pieces of blocks, as a batch may copy a single large one.
  const int64_t pieces = std::max<int64_t>(1, copy->block_bytes / STEP_BYTES), step = (copy->block_bytes + pieces - 1) / pieces;
  const int64_t threads = std::min(copy->num_threads, copy->block_bytes * copy->num_pairs / BYTES_PER_THREAD);
  std::atomic<int64_t> next{0};
  parallel(threads, [&] {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < copy->num_pairs * pieces;) {
      const int64_t* pair = copy->pairs + i / pieces * 2;
      const int64_t begin = i % pieces * step, end = std::min(begin + step, copy->block_bytes);
      std::memcpy(static_cast<char*>(copy->destination) + pair[1] * copy->destination_block + begin,
                  static_cast<const char*>(copy->source) + pair[0] * copy->source_block + begin, size_t(std::max<int64_t>(end - begin, 0)));
    }
  });
}

V1_EXPORT void v1_write(const Write* write) {
  constexpr int64_t BYTES_PER_THREAD = 128 << 10, STEP_BYTES = 32 << 10;
  const int64_t token_bytes = write->num_kv_heads * (write->head_size + write->head_size_v) * (write->source_type == V1_F32 ? 4 : 2);
  const int64_t threads = std::min(write->num_threads, token_bytes * write->num_tokens / BYTES_PER_THREAD);
  const KernelTable& kernels = *chosen;
  if (threads <= 1) return kernels.write(write, 0, write->num_tokens);
  const int64_t step = std::max<int64_t>(1, STEP_BYTES / std::max<int64_t>(token_bytes, 1));
  std::atomic<int64_t> next{0};
  parallel(threads, [&] {
    for (int64_t t; (t = next.fetch_add(step, std::memory_order_relaxed)) < write->num_tokens;)
      kernels.write(write, t, std::min(t + step, write->num_tokens));
  });
}
