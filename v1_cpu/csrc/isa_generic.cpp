// The kernels for generic.

#include "abi.h"

#define V1_SIMD "simd_generic.h"
namespace v1_generic {
namespace {
#include "kernels.h"
}  // namespace
}  // namespace v1_generic

extern const KernelTable v1_table_generic = {"generic", v1_generic::attend_scratch, v1_generic::fetch, v1_generic::attend, v1_generic::merge, v1_generic::write};
