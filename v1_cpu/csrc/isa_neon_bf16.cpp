// The kernels for neon_bf16.
#include <arm_neon.h>
#include "abi.h"

#define V1_SIMD "simd_neon.h"
namespace v1_neon_bf16 {
namespace {
#include "kernels.h"
}  // namespace
}  // namespace v1_neon_bf16

extern const KernelTable v1_table_neon_bf16 = {"neon_bf16", v1_neon_bf16::attend_scratch, v1_neon_bf16::fetch, v1_neon_bf16::attend, v1_neon_bf16::merge, v1_neon_bf16::write};
