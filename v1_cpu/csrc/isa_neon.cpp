// The kernels for neon.
#include <arm_neon.h>
#include "abi.h"

#define V1_SIMD "simd_neon.h"
namespace v1_neon {
namespace {
#include "kernels.h"
}  // namespace
}  // namespace v1_neon

extern const KernelTable v1_table_neon = {"neon", v1_neon::attend_scratch, v1_neon::fetch, v1_neon::attend, v1_neon::merge, v1_neon::write};
