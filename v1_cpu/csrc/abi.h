// The C ABI between Python (v1_cpu/native.py packs `Call` field by field) and the kernels. Plain data, no torch headers.
#pragma once
#include <stdint.h>

#define V1_ABI_VERSION 3

// Element types, in the order of native.py's table.
enum V1Type : int64_t { V1_F32 = 0, V1_BF16 = 1, V1_F16 = 2, V1_E4M3 = 3, V1_E5M2 = 4 };

// One attention call. Every field is 8 bytes wide, so that the layout is the same for every compiler and for Python's struct.
// Strides are in elements. T tokens, H query heads, KH KV heads, B requests; see v1_cpu/kernels/__init__.py for the semantics.
struct Call {
  const void* query;                  // [T, H, D]
  const void* key;                    // paged: the cache; dense: [S, KH, D]
  const void* value;                  // paged: the cache, D elements on; dense: [S, KH, Dv]
  void* out;                          // [T, H, Dv]
  float* lse;                         // [H, T] or null
  const int32_t* query_start_loc;     // [B + 1]
  const int32_t* kv_lens;             // paged: seq_lens [B]; dense: kv_start_loc [B + 1]
  const int32_t* block_table;         // [B, max_blocks]; null: dense
  const float* alibi_slopes;          // [H] or null
  const float* sinks;                 // [H] or null
  const uint8_t* tree_mask;           // [T, M] or null
  const uint8_t* causal_per_request;  // [B] or null
  const int64_t* schedule;            // v1_schedule's output or null
  int64_t query_token, query_head;    // strides
  int64_t key_block, key_head, key_token;
  int64_t value_block, value_head, value_token;
  int64_t out_token, out_head;
  int64_t lse_head, table_row, tree_row;
  int64_t num_requests, num_heads, num_kv_heads, head_size, head_size_v;
  int64_t block_size;                 // 0: dense
  int64_t query_type, kv_type;        // V1Type
  int64_t causal, window, chunk;      // 0: none
  int64_t num_threads;
  double scale, soft_cap, k_scale, v_scale;
  // Keys and values are made from latents (mla_expand.h): `key` is then dense [S, rank + D - nope], a latent and a rope key a token,
  // key_head 0, in the query's type; or null.
  const void* up;                     // [H, nope + Dv, rank], the query's type
  int64_t up_head, up_row;            // strides
  int64_t rank, nope;
};

// One cache write: token t of key and value goes to slot_mapping[t] (block * block_size + offset), -1 is skipped.
struct Write {
  const void* key;
  const void* value;
  void* key_cache;
  void* value_cache;
  const int64_t* slot_mapping;
  int64_t key_token, key_head, value_token, value_head;  // strides of the sources
  int64_t cache_block, cache_head, cache_token;          // strides of the cache
  int64_t num_tokens, num_kv_heads, head_size, head_size_v, block_size;
  int64_t source_type, cache_type;
  int64_t num_threads;
  double k_scale, v_scale;
};

// Copies whole blocks: pairs[i] is (block of source, block of destination). No destination may be another pair's source.
struct BlockCopy {
  const void* source;
  void* destination;
  const int64_t* pairs;                        // [num_pairs, 2]
  int64_t source_block, destination_block;     // strides in bytes
  int64_t block_bytes, num_pairs, num_threads;
};

// A unit of work: query tokens [query_begin, query_end) of one request under one KV head, over keys [key_begin, key_end).
// A unit that is not the only one for its queries leaves a partial result in rows from `partial_row` on, merged by its group.
struct Item {
  int64_t request, kv_head, query_begin, query_end, key_begin, key_end, partial_row, group;
};

// Queries whose keys were divided: `parts` partial results, `rows` rows each, from `partial_row` on.
struct Group {
  int64_t request, kv_head, query_begin, query_end, partial_row, parts;
};

// A schedule is int64: this header, `num_items` items, `num_groups` groups.
struct Schedule {
  int64_t magic, size, num_requests, num_tokens, num_heads, num_kv_heads, num_items, num_groups, num_partial_rows, num_threads;
};

// What one instruction set offers. `scratch` is the calling thread's, of at least the size its `*_scratch` says.
struct KernelTable {
  const char* name;
  int64_t (*attend_scratch)(const Call*);
  void (*fetch)(const Call*, const Item*);  // what `attend` of it will read first
  void (*attend)(const Call*, const Item*, float* partial, char* scratch);
  void (*merge)(const Call*, const Group*, const float* partial, char* scratch);
  void (*write)(const Write*, int64_t token_begin, int64_t token_end);
};
