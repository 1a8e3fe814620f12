// The machine's limits, measured beside the kernels: vector reads of the same blocks, and multiply-add rates in registers.
#include <stdint.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern "C" {

// Reads `bytes` of each of `n` blocks at base + index * stride, divided over threads.
int64_t read_blocks(const char* base, const int32_t* blocks, int64_t n, int64_t stride, int64_t bytes, int threads) {
  int64_t result = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(^ : result)
  for (int64_t i = 0; i < n; i++) {
    const char* p = base + blocks[i] * stride;
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (int64_t j = 0; j + 256 <= bytes; j += 256) {
      a = _mm512_xor_si512(a, _mm512_loadu_si512(p + j));
      b = _mm512_xor_si512(b, _mm512_loadu_si512(p + j + 64));
      c = _mm512_xor_si512(c, _mm512_loadu_si512(p + j + 128));
      d = _mm512_xor_si512(d, _mm512_loadu_si512(p + j + 192));
    }
    result ^= _mm512_reduce_add_epi64(_mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)));
  }
  return result;
}

static double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

// Floating-point operations per second of one thread. kind 0: float32 FMA, 1: bf16 dot product, 2: bf16 AMX tiles; 0 if absent.
//
// Twelve chains in twelve named registers: a latency of four cycles on two ports needs eight, and an array would be kept in memory.
#define TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define CHAIN_BEGIN(i) __m512 a##i = _mm512_set1_ps(0.25f + i);
#define CHAIN_FMA(i) a##i = _mm512_fmadd_ps(a##i, factor, term);
#define CHAIN_DOT(i) a##i = _mm512_dpbf16_ps(a##i, words, words);
#define CHAIN_END(i) sum = _mm512_add_ps(sum, a##i);

__attribute__((target("avx512f"))) static double fma_rate(long n) {
  __m512 factor = _mm512_set1_ps(0.5f), term = _mm512_set1_ps(0.125f), sum = _mm512_setzero_ps();
  TWELVE(CHAIN_BEGIN)
  const double start = seconds();
  for (long i = 0; i < n; i++) {
    TWELVE(CHAIN_FMA)
    __asm__ volatile("" : "+v"(factor), "+v"(term));
  }
  const double rate = double(n) * 12 * 32 / (seconds() - start);
  TWELVE(CHAIN_END)
  volatile float keep = _mm512_reduce_add_ps(sum);
  (void)keep;
  return rate;
}
__attribute__((target("avx512f,avx512bf16"))) static double dot_rate(long n) {
  if (!__builtin_cpu_supports("avx512bf16")) return 0;
  __m512bh words = (__m512bh)_mm512_set1_epi32(0x3c003c00);
  __m512 sum = _mm512_setzero_ps();
  TWELVE(CHAIN_BEGIN)
  const double start = seconds();
  for (long i = 0; i < n; i++) {
    TWELVE(CHAIN_DOT)
    __asm__ volatile("" : "+v"(words));
  }
  const double rate = double(n) * 12 * 64 / (seconds() - start);
  TWELVE(CHAIN_END)
  volatile float keep = _mm512_reduce_add_ps(sum);
  (void)keep;
  return rate;
}
__attribute__((target("amx-tile,amx-bf16"))) static double tile_rate(long n) {
  if (!__builtin_cpu_supports("amx-bf16") || syscall(SYS_arch_prctl, 0x1023, 18)) return 0;
  alignas(64) uint8_t config[64] = {1};
  for (int i = 0; i < 8; i++) {
    config[16 + 2 * i] = 64;
    config[48 + i] = 16;
  }
  _tile_loadconfig(config);
  _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); _tile_zero(4); _tile_zero(5);
  const double start = seconds();
  for (long i = 0; i < n; i++) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  const double rate = double(n) * 4 * 16384 / (seconds() - start);
  _tile_release();
  return rate;
}
// Summed over `threads` threads, each making about `millions` million instructions.
double multiply_add_rate(int kind, int threads, double millions) {
  double total = 0;
  const long turns = long(millions * 1e6) / 12 + 1;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  total += kind == 0 ? fma_rate(turns) : kind == 1 ? dot_rate(turns) : tile_rate(3 * turns / 16);
  return total;
}
}
