// No CUDA here: the host linker gets the linked device code out of the library.
#include "parts.h"

int main() { return run_solver() != 0; }
