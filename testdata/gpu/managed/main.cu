// Variables that host and device share, defined in one file and used in two.
#include "../check.h"

extern __managed__ int total;
extern __managed__ double weights[4];
__managed__ int *place = nullptr;
__managed__ int own = 6;

__device__ void add(int);

__global__ void work(int x) {
    add(x * own);
    weights[x] *= 2;
    if (place) *place = total;
}

int main() {
    check("before", total, 40);
    weights[1] = 2.5;
    work<<<1, 1>>>(1);
    finish("first");
    check("the other file's variable", total, 46);
    check("an array", weights[1], 5.0);
    place = room<int>(1);
    own = -1;
    work<<<1, 1>>>(3);
    finish("second");
    check("a pointer that the host set", *place, 46 - 3);
    check("its initial value, doubled", weights[3], 0.5);
    return wrong;
}
