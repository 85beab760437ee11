// Prints.
#include <cstdio>
struct Node { Node* next; int value; };
__device__ void show(const Node* n) { for (; n; n = n->next) printf("%d %p\n", n->value, (const void*)n); }
__global__ void hello() { printf("hello from %d\n", threadIdx.x); }
