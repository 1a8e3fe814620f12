// The kernels for avx512.
#include <immintrin.h>
#include "abi.h"

#define V1_SIMD "simd_avx512.h"
namespace v1_avx512 {
namespace {
#include "kernels.h"
}  // namespace
}  // namespace v1_avx512

extern const KernelTable v1_table_avx512 = {"avx512", v1_avx512::attend_scratch, v1_avx512::fetch, v1_avx512::attend, v1_avx512::merge, v1_avx512::write};
