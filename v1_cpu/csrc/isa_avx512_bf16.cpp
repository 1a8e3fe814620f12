// The kernels for avx512_bf16.
#include <immintrin.h>
#include "abi.h"

#define V1_SIMD "simd_avx512.h"
namespace v1_avx512_bf16 {
namespace {
#include "kernels.h"
}  // namespace
}  // namespace v1_avx512_bf16

extern const KernelTable v1_table_avx512_bf16 = {"avx512_bf16", v1_avx512_bf16::attend_scratch, v1_avx512_bf16::fetch, v1_avx512_bf16::attend, v1_avx512_bf16::merge, v1_avx512_bf16::write};
