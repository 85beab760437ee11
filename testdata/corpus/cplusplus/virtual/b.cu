// Two classes, one of which is never made, and the factory.
#include "animal.h"
__device__ inline void* operator new(size_t, void* p, int) { return p; }
struct Cat : Animal { __device__ int legs() const override { return 4; } };
struct Snake : Animal {
    int length = 3;
    __device__ int legs() const override { return 0; }
    __device__ int weigh(int n) const override { return n * length; }
};
__device__ Animal* make(int kind, void* place)
{
    if (kind) return new (place, 0) Snake;
    return new (place, 0) Cat;
}
