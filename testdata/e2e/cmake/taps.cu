#include "parts.h"

__constant__ float taps[8] = {1, 2, 3, 4, 4, 3, 2, 1};
