// Reduction in a tile.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__device__ int tile_sum(int v) { auto t = cg::tiled_partition<16>(cg::this_thread_block()); return cg::reduce(t, v, cg::plus<int>()); }
__global__ void kb(int* o) { auto b = cg::this_thread_block(); __shared__ int s; if (!b.thread_rank()) s = *o; b.sync(); o[b.thread_rank()] = s + tile_sum(s); }
