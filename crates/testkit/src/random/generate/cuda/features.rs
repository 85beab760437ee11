//! Parts of C++ files about newer hardware and the device runtime: half types, clusters, bulk
//! copies, graphs, kernels that start kernels, arrays of shared memory whose size the launch sets.
//!
//! In: nothing. Out: rows, as in [`super::parts`], with the targets and headers that they need.
//! Guaranteed: a file with any of them compiles for the targets it names.

use super::parts::SourcePart;
use crate::random::generate::model::PtxArch;

/// Which targets have a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureTargets {
    /// Those from this SM number on.
    Sm(u32),
    /// Only `a` targets in which warps can change their number of registers.
    Accelerated,
}

impl FeatureTargets {
    /// True for a target that has the feature.
    pub(super) fn suits(self, arch: PtxArch) -> bool {
        match self {
            FeatureTargets::Sm(number) => number <= arch.number(),
            FeatureTargets::Accelerated => arch.number() >= 90 && arch.0.ends_with('a'),
        }
    }
}

/// A part, and what it needs.
pub(super) struct Feature {
    pub(super) since: FeatureTargets,
    /// Headers, without brackets.
    pub(super) headers: &'static [&'static str],
    /// It calls libcudadevrt.
    pub(super) library: bool,
    pub(super) part: SourcePart,
}

macro_rules! features {
    ($($since:expr, [$($header:literal)*], $library:literal, $text:literal, [$($use:literal),*];)*) => {
        /// All of them.
        pub(super) const FEATURES: &[Feature] = &[$(Feature {
            since: $since,
            headers: &[$($header),*],
            library: $library,
            part: ($text, &[$($use),*]),
        },)*];
    };
}

const ALL: FeatureTargets = FeatureTargets::Sm(75);

features! {
    ALL, ["cuda_fp16.h"], false,
    "inline __device__ __noinline__ int to_half@I(int x) {
  __half a = __int2half_rn(x), b = __hfma(a, __float2half(@K.5f), a);
  __half2 c = __hmul2(__halves2half2(a, b), __float2half2_rn(@N.25f));
  return __half2int_rn(hsqrt(b)) + __half2int_rz(__low2half(c)) + @C;
}
inline __device__ __half2 halves@I[@N]; inline __constant__ __half fixed@I = __half_raw{0x3c00};",
    ["to_half@I(X)", "__half2int_rn(__low2half(halves@I[X % @N]))", "__half2int_rn(__hadd(fixed@I, __int2half_rn(X)))"];
    FeatureTargets::Sm(80), ["cuda_bf16.h"], false,
    "inline __device__ __noinline__ int brain@I(int x) {
  __nv_bfloat16 a = __int2bfloat16_rn(x), b = __hfma(a, a, __float2bfloat16(@K.5f));
  return __bfloat162int_rn(hexp(b)) ^ __bfloat162int_rz(__hmax(a, b));
}
inline __device__ __nv_bfloat162 pair@I;",
    ["brain@I(X)", "__bfloat162int_rn(atomicAdd(&pair@I, __float2bfloat162_rn((float)X)).x)"];
    ALL, ["cuda_fp8.h"], false,
    "inline __device__ __noinline__ int eighth@I(int x) {
  __nv_fp8_e4m3 a((float)x); __nv_fp8_e5m2 b((float)(x * @K));
  __nv_fp8x4_e4m3 c(make_float4(x, @K, @N, 1)); float4 d = (float4)c;
  return (int)((float)a + (float)b + d.x * d.w);
}",
    ["eighth@I(X)"];
    ALL, ["mma.h"], false,
    "inline __device__ __noinline__ int tiles@I(int x) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(a, __int2half_rn(x)); wmma::fill_fragment(b, __float2half(@K.5f)); wmma::fill_fragment(c, @N.0f);
  wmma::mma_sync(c, a, b, c);
  __shared__ float out[16 * 16]; wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
  return (int)out[x & 15];
}",
    ["tiles@I(X)"];
    ALL, ["cooperative_groups.h"], false,
    "inline __device__ __noinline__ int together@I(int x) {
  namespace cg = cooperative_groups;
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  x += tile.shfl_down(x, @N) + tile.any(x > @K); auto some = cg::coalesced_threads(); return some.shfl(x, 0) + some.size();
}
inline __device__ __noinline__ int grid@I(int x) {
  namespace cg = cooperative_groups; auto grid = cg::this_grid(); grid.sync();
  return x + (int)grid.thread_rank() + @C;
}",
    ["together@I(X)", "grid@I(X)"];
    FeatureTargets::Sm(80), ["cooperative_groups.h" "cooperative_groups/reduce.h"], false,
    "inline __device__ __noinline__ int reduced@I(int x) {
  namespace cg = cooperative_groups; auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  return cg::reduce(tile, x, cg::plus<int>()) + __reduce_max_sync(0xffffffffu, x * @K);
}",
    ["reduced@I(X)"];
    FeatureTargets::Sm(90), ["cooperative_groups.h"], false,
    "inline __device__ __noinline__ int cluster@I(int x) {
  namespace cg = cooperative_groups; auto cluster = cg::this_cluster();
  __shared__ int mine[@N]; mine[x % @N] = x; cluster.sync();
  int *other = cluster.map_shared_rank(mine, (cluster.block_rank() + 1) % cluster.num_blocks());
  x += other[x % @N]; cluster.barrier_arrive(); cluster.barrier_wait(); return x + cluster.dim_blocks().x;
}",
    ["cluster@I(X)"];
    FeatureTargets::Sm(80), ["cuda_pipeline.h"], false,
    "inline __device__ int4 source@I[@N];
inline __device__ __noinline__ int piped@I(int x) {
  __shared__ int4 stage[@N]; __pipeline_memcpy_async(&stage[x % @N], &source@I[x % @N], 16);
  __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); return stage[(x + 1) % @N].y;
}",
    ["piped@I(X)"];
    FeatureTargets::Sm(90), [], false,
    "struct alignas(64) Map@I { unsigned long long words[16]; }; inline __device__ Map@I map@I;
inline __device__ __noinline__ int bulk@I(int x) {
  __shared__ alignas(128) char to[@N * 128]; __shared__ alignas(8) unsigned long long bar;
  unsigned at = (unsigned)__cvta_generic_to_shared(to), b = (unsigned)__cvta_generic_to_shared(&bar), done = 0;
  if (threadIdx.x == 0) {
    asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" :: \"r\"(b) : \"memory\");
    asm volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];\"
                 :: \"r\"(at), \"l\"(&map@I), \"r\"(x), \"r\"(b) : \"memory\");
    asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];\"
                 :: \"r\"(at), \"l\"(&map@I), \"r\"(b) : \"memory\");
    asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], @K;\" :: \"r\"(b) : \"memory\");
  }
  asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }\"
               : \"=r\"(done) : \"r\"(b) : \"memory\");
  return to[x & 127] + done;
}",
    ["bulk@I(X)"];
    FeatureTargets::Accelerated, [], false,
    "inline __device__ __noinline__ int more@I(int x) { return x * @K + @C; }
template <int N> __global__ void __launch_bounds__(256, 1) split@I(int *o) {
  if (threadIdx.x < 128) { asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\"); *o = N; }
  else { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 232;\"); o[1] = more@I(o[N]); }
}
template __global__ void split@I<@N>(int *);",
    ["more@I(X)"];
    ALL, [], false,
    "extern __shared__ char array_1[]; extern __shared__ double array_8[];
inline __device__ __noinline__ int sized@I(int x) {
  array_1[x & 7] = (char)x; array_8[x & 3] = x; __syncthreads(); return array_1[(x + @N) & 7] + (int)array_8[x & 1];
}",
    ["sized@I(X)"];
    ALL, [], false,
    "extern __shared__ __align__(16) int array_16[]; extern __shared__ __align__(32) int array_32[];
inline __device__ __noinline__ int aligned@I(int x) {
  __shared__ char odd[@N]; odd[x % @N] = (char)x; array_32[x & 7] = x; __syncthreads(); return array_32[@K & 7] + odd[x % @N];
}
inline __device__ __noinline__ int aligned_too@I(int x) { array_16[x & 7] += x; return array_16[@N]; }",
    ["aligned@I(X)", "aligned_too@I(X)"];
    ALL, [], false,
    "extern __shared__ __align__(128) float4 array_128[]; extern __shared__ __align__(1024) int array_1024[];
inline __device__ __noinline__ int wide@I(int x) { array_128[x & 3].x = x; __syncwarp(); return (int)array_128[@N & 3].y + @C; }
inline __device__ __noinline__ int page@I(int x) { return atomicAdd(&array_1024[x & 15], @K); }",
    ["wide@I(X)", "page@I(X)"];
    ALL, [], true,
    "inline __device__ __noinline__ int graph@I(int x) {
  cudaGraphExec_t exec = (cudaGraphExec_t)(size_t)x;
  if (x == @K) exec = cudaGetCurrentGraphExec();
  return cudaGraphLaunch(exec, cudaStreamGraphFireAndForget) + cudaGraphLaunch(exec, cudaStreamGraphTailLaunch);
}
inline __device__ __noinline__ int branch@I(int x) { cudaGraphSetConditional((cudaGraphConditionalHandle)x, x > @K); return x; }",
    ["graph@I(X)", "branch@I(X)"];
    ALL, [], true,
    "inline __device__ __noinline__ int node@I(int x) {
  cudaGraphDeviceNode_t node = (cudaGraphDeviceNode_t)(size_t)x; int value = @K;
  x += cudaGraphKernelNodeSetEnabled(node, x > @N) + cudaGraphKernelNodeSetGridDim(node, dim3(x, @N, 1));
  x += cudaGraphKernelNodeSetParam(node, 8, &value, 4);
  cudaGraphKernelNodeUpdate update = {}; update.node = node; return x + cudaGraphKernelNodeUpdatesApply(&update, 1);
}",
    ["node@I(X)"];
    ALL, [], true,
    "static __global__ void child@I(int *o, int x) { o[threadIdx.x] = x + @K; }
template <int N> __global__ void child_too@I(int *o) { o[N] = N; }
static __device__ int place@I[@N];
static __device__ __noinline__ int starts@I(int x) {
  child@I<<<1, @N>>>(place@I, x); child_too@I<@N><<<@N, 32, @K, cudaStreamTailLaunch>>>(place@I);
  return cudaGetLastError() + place@I[x % @N];
}",
    ["starts@I(X)"];
    ALL, [], true,
    "inline __device__ __noinline__ int runtime@I(int x) {
  cudaStream_t stream; cudaEvent_t event; int value = 0;
  x += cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) + cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  x += cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, x) + cudaGetDevice(&value);
  x += cudaEventRecord(event, stream) + cudaStreamWaitEvent(stream, event, 0);
  return x + cudaStreamDestroy(stream) + cudaEventDestroy(event) + value;
}",
    ["runtime@I(X)"];
}
