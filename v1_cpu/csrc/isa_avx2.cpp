// The kernels for avx2.
#include <immintrin.h>
#include "abi.h"

#define V1_SIMD "simd_avx2.h"
namespace v1_avx2 {
namespace {
#include "kernels.h"
}  // namespace
}  // namespace v1_avx2

extern const KernelTable v1_table_avx2 = {"avx2", v1_avx2::attend_scratch, v1_avx2::fetch, v1_avx2::attend, v1_avx2::merge, v1_avx2::write};
