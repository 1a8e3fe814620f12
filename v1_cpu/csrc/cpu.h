// Which instruction sets this build has and which of them this CPU and its operating system can run.
#pragma once
#include "abi.h"

struct KernelChoice {
  const KernelTable* table;
  bool (*usable)();
};
extern const KernelChoice kernel_tables[];  // best first, ended by a null table
