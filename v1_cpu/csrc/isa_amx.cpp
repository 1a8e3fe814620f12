// The kernels for amx.
#include <immintrin.h>
#include "abi.h"

#define V1_SIMD "simd_avx512.h"
namespace v1_amx {
namespace {
#include "kernels.h"
}  // namespace
}  // namespace v1_amx

extern const KernelTable v1_table_amx = {"amx", v1_amx::attend_scratch, v1_amx::fetch, v1_amx::attend, v1_amx::merge, v1_amx::write};
