// Every update rule (AllOptimizers) and schedule (AllSchedules) that a configuration can name.
#pragma once

#include "nixie/optimizers/optimizer.h"
