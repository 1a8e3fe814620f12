// See schedule.cpp.
#pragma once
#include <vector>

#include "abi.h"

std::vector<int64_t> make_schedule(const Call& call);
bool fits(const Schedule& schedule, const Call& call);  // was it made for this batch?
