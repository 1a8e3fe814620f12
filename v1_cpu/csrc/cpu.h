// Which instruction sets this build has and which of them this CPU and its operating system can run.
#pragma once
#include "abi.h"

struct KernelChoice {
  const KernelTable* table;
  bool (*usable)();
  bool (*worthwhile)() = nullptr;  // where usable is not enough to be chosen unasked
};
extern const KernelChoice kernel_tables[];  // best first, ended by a null table
