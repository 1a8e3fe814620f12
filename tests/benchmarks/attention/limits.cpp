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

// Floating-point operations per second of one thread. kind 0: float32 FMA, 1: bf16 dot product, 2: bf16 AMX tiles (0 if absent).
__attribute__((target("avx512f"))) static double fma_rate(long n) {
  __m512 a[12], b = _mm512_set1_ps(0.5f);
  for (auto& x : a) x = b;
  const double start = seconds();
  for (long i = 0; i < n; i++) {
    for (auto& x : a) x = _mm512_fmadd_ps(x, b, b);
    __asm__ volatile("" : "+v"(a[0]), "+v"(a[5]));
  }
  const double rate = double(n) * 12 * 32 / (seconds() - start);
  __m512 s = a[0];
  for (auto& x : a) s = _mm512_add_ps(s, x);
  volatile float keep = _mm512_reduce_add_ps(s);
  (void)keep;
  return rate;
}
__attribute__((target("avx512f,avx512bf16"))) static double dot_rate(long n) {
  __m512 a[12];
  const __m512bh b = (__m512bh)_mm512_set1_epi32(0x3c003c00);
  for (auto& x : a) x = _mm512_setzero_ps();
  const double start = seconds();
  for (long i = 0; i < n; i++) {
    for (auto& x : a) x = _mm512_dpbf16_ps(x, b, b);
    __asm__ volatile("" : "+v"(a[0]), "+v"(a[5]));
  }
  const double rate = double(n) * 12 * 64 / (seconds() - start);
  __m512 s = a[0];
  for (auto& x : a) s = _mm512_add_ps(s, x);
  volatile float keep = _mm512_reduce_add_ps(s);
  (void)keep;
  return rate;
}
__attribute__((target("amx-tile,amx-bf16"))) static double tile_rate(long n) {
  if (syscall(SYS_arch_prctl, 0x1023, 18)) return 0;
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
double multiply_add_rate(int kind, int threads) {
  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  total += kind == 0 ? fma_rate(3000000) : kind == 1 ? dot_rate(2000000) : tile_rate(1000000);
  return total;
}
}
