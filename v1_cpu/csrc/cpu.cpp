// See cpu.h. CPUID says what the CPU has, XCR0 what the operating system saves on a context switch.
#include "cpu.h"

extern const KernelTable v1_table_generic;

namespace {
bool always() { return true; }
}  // namespace

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const KernelTable v1_table_avx2, v1_table_avx512, v1_table_avx512_bf16, v1_table_amx;

namespace {

struct Cpu {
  uint32_t leaf1_c = 0, leaf7_b = 0, leaf7_c = 0, leaf7_d = 0, leaf7_1_a = 0;
  uint64_t xcr0 = 0;
  Cpu() {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &leaf1_c, &d)) return;
    if (leaf1_c >> 27 & 1) {  // OSXSAVE
      uint32_t low, high;
      __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      xcr0 = uint64_t(high) << 32 | low;
    }
    uint32_t subleaves;
    if (!__get_cpuid_count(7, 0, &subleaves, &leaf7_b, &leaf7_c, &leaf7_d)) return;
    if (subleaves >= 1) __get_cpuid_count(7, 1, &leaf7_1_a, &b, &c, &d);
  }
};
const Cpu& cpu() {
  static const Cpu it;
  return it;
}
bool all(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

bool has_avx2() {  // with FMA and F16C
  return (cpu().xcr0 & 0x6) == 0x6 && all(cpu().leaf1_c, 1u << 12 | 1u << 28 | 1u << 29) && all(cpu().leaf7_b, 1u << 5);
}
bool has_avx512() {  // F, DQ, BW, VL
  return has_avx2() && (cpu().xcr0 & 0xe6) == 0xe6 && all(cpu().leaf7_b, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31);
}
bool has_avx512_bf16() { return has_avx512() && all(cpu().leaf7_1_a, 1u << 5); }
bool fast_dot_products() {  // VDPBF16PS: on AMD twice the products of a float32 multiply-add, on Intel half of them
  uint32_t a, b, c, d;
  return __get_cpuid(0, &a, &b, &c, &d) && b != 0x756e6547;  // "Genu", of GenuineIntel
}
bool has_amx() {  // with VBMI, which every CPU with AMX has
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (!has_avx512_bf16() || (cpu().xcr0 & 0x60000) != 0x60000 || !all(cpu().leaf7_d, 1u << 22 | 1u << 24) ||
      !all(cpu().leaf7_c, 1u << 1))
    return false;
  static const bool permitted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return permitted;
}

}  // namespace

// The build hook defines V1_HAVE_* for the objects that its compiler could make.
const KernelChoice kernel_tables[] = {
#ifdef V1_HAVE_AMX
    {&v1_table_amx, has_amx},
#endif
#ifdef V1_HAVE_AVX512_BF16
    {&v1_table_avx512_bf16, has_avx512_bf16, fast_dot_products},
#endif
#ifdef V1_HAVE_AVX512
    {&v1_table_avx512, has_avx512},
#endif
#ifdef V1_HAVE_AVX2
    {&v1_table_avx2, has_avx2},
#endif
    {&v1_table_generic, always},
    {nullptr, always}};
#elif defined(__aarch64__)
#include <sys/auxv.h>

extern const KernelTable v1_table_neon, v1_table_neon_bf16;

namespace {
bool has_neon_bf16() {
  constexpr unsigned long hwcap2_bf16 = 1ul << 14;
  return (getauxval(AT_HWCAP2) & hwcap2_bf16) != 0;
}
}  // namespace

const KernelChoice kernel_tables[] = {
#ifdef V1_HAVE_NEON_BF16
    {&v1_table_neon_bf16, has_neon_bf16},
#endif
#ifdef V1_HAVE_NEON
    {&v1_table_neon, always},
#endif
    {&v1_table_generic, always},
    {nullptr, always}};
#else
const KernelChoice kernel_tables[] = {{&v1_table_generic, always}, {nullptr, always}};
#endif
