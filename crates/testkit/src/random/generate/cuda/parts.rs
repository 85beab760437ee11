//! The parts of generated programs in CUDA C++.
//!
//! In: nothing. Out: texts with placeholders. Guaranteed: `@I` is a number that only this part has,
//! `@N` a small number of at least 2, `@K` a number below 100, `@C` an expression of `x`, `@U` the
//! number of the file, and `@A` attributes of a kernel. In uses, `X` is an argument.

/// A text and the expressions in which others use it.
pub(super) type SourcePart = (&'static str, &'static [&'static str]);

/// Parts that all files have, as if from a header: several files may define everything in them.
pub(super) const SHARED: &[SourcePart] = &[
    (
        "template <int N> __device__ __noinline__ int rec@I(int x) {
  if constexpr (N > 0) return rec@I<N - 1>(x * @K + N); else return @C;
}",
        &["rec@I<@N>(X)", "rec@I<1>(X)"],
    ),
    (
        "template <class T> __device__ __noinline__ T tile@I(T x) {
  __shared__ T buf[16 * @N]; buf[threadIdx.x % @N] = x;
  __syncthreads(); return buf[(threadIdx.x + 1) % @N];
}",
        &["tile@I<int>(X)", "(int)tile@I<double>(X)"],
    ),
    (
        "template <class T> __device__ __noinline__ T counted@I(T x) { static T calls = T(@K); calls += x; return calls; }",
        &["counted@I<int>(X)", "(int)counted@I<float>(X)"],
    ),
    (
        "inline __device__ int state@I = @K; inline __constant__ float factors@I[@N] = {1, @K}; inline __device__ int where@I[@N];",
        &["(state@I += X)", "(int)factors@I[X % @N]", "where@I[X % @N]"],
    ),
    (
        "template <class T> __device__ T held@I = T(@K); template <class T> __constant__ T fixed@I[@N] = {T(@K)};",
        &["(held@I<int> ^= X)", "(int)held@I<double>", "fixed@I<int>[X % @N]"],
    ),
    (
        "struct Base@I {
  int v; __device__ Base@I(int v) : v(v) {} __device__ virtual ~Base@I() {}
  __device__ virtual int f(int x) { return x + v; }
  __device__ virtual int g(int x) { return @C + f(x); }
};
struct First@I : Base@I { using Base@I::Base@I; __device__ int f(int x) override { return x * v + @K; } };
template <int K> struct Other@I : Base@I {
  int w = K; using Base@I::Base@I; __device__ int g(int x) override { return x ^ w; } __device__ ~Other@I() override { w = 0; }
};
inline __device__ __noinline__ int through@I(Base@I &b, int x) { return b.f(x) + b.g(x); }",
        &[
            "[&] { First@I o(X); return through@I(o, @K); }()",
            "[&] { Other@I<@N> o(X); return through@I(o, @K); }()",
            "[&] { Base@I *o = X > @K ? new First@I(3) : new Base@I(4); int r = o->g(X); delete o; return r; }()",
        ],
    ),
    (
        "struct Point@I {
  int a; float b; __host__ __device__ constexpr Point@I(int x) : a(x), b(x * @K.5f) {}
  __device__ int sum() const { return a + (int)b; }
};
inline __device__ Point@I point@I(@K); inline __constant__ Point@I cpoint@I(@N);",
        &["point@I.sum()", "(cpoint@I.a + X)", "Point@I(X).sum()"],
    ),
    (
        "template <class F> __device__ __noinline__ int apply@I(F f, int x) { return f(x) + f(x + @K); }",
        &["apply@I([=](int y) { return y * X + @K; }, X)", "apply@I([&](int y) { return y - X; }, X)"],
    ),
    (
        "inline __device__ __noinline__ int pick@I(int x) {
  switch (x % 11) {
    case 0: x *= 3; break; case 1: x ^= @K; break; case 2: x = x * x; break; case 3: x -= @N; break; case 4: return x;
    case 5: x <<= 2; break; case 6: x = ~x; break; case 7: x /= @K; break; case 8: x |= @K; break; default: x = @C;
  }
  return x + @K;
}",
        &["pick@I(X)"],
    ),
    (
        "inline __device__ __noinline__ int maths@I(int x) { return (int)(sinf((float)x) * @K + pow((double)x, 1.5)); }",
        &["maths@I(X)"],
    ),
    (
        "inline __device__ __noinline__ int further@I(int x) { return (int)(erfc((double)x) + fmod((double)x, @K.25)) + @C; }",
        &["further@I(X)"],
    ),
    (
        "inline __device__ __noinline__ int told@I(int x) { if (x == @K) printf(\"%d of @I\\n\", x); assert(x != @N); return x + 1; }",
        &["told@I(X)"],
    ),
    (
        "inline __device__ __noinline__ int one@I(int x) { return x + @K; }
inline __device__ __noinline__ int two@I(int x) { return @C; }
inline __device__ int (*table@I[])(int) = {one@I, two@I, one@I};",
        &["table@I[X % 3](X)", "one@I(X)"],
    ),
    (
        "template <class... T> struct A_structure_with_a_name_that_is_rather_long_@I {
  static __device__ __noinline__ int size(int x) { return sizeof...(T) * x; }
};
template <class T> using Twice@I =
  A_structure_with_a_name_that_is_rather_long_@I<T, A_structure_with_a_name_that_is_rather_long_@I<T, T>, T>;",
        &["Twice@I<Twice@I<Twice@I<int>>>::size(X)", "Twice@I<Twice@I<double>>::size(X)"],
    ),
    (
        "__forceinline__ __device__ int deep@I(int x) {
  return x * @K + threadIdx.y;
}
__forceinline__ __device__ int middle@I(int x) {
  int y = deep@I(x);
  return y + deep@I(x + 1) + @C;
}
inline __device__ int outer@I(int x) {
  return middle@I(x) - deep@I(3);
}",
        &["outer@I(X)", "middle@I(X)"],
    ),
    (
        "namespace n@I { namespace inner {
struct Pair { double a[@N]; int b; };
inline __device__ __noinline__ Pair make(int x) {
  Pair p; for (int i = 0; i < @N; ++i) p.a[i] = x + i;
  p.b = @C; return p;
} } }",
        &["n@I::inner::make(X).b", "(int)n@I::inner::make(X).a[X % @N]"],
    ),
    (
        "inline __device__ __noinline__ int deep_call@I(int x, int depth) {
  return depth > @N ? @C : deep_call@I(x + depth, depth + 1) * 3;
}",
        &["deep_call@I(X, 0)"],
    ),
    (
        "template <class T> __device__ __noinline__ int dynamic@I(T x) {
  extern __shared__ int words[]; words[threadIdx.x] = (int)x;
  __syncwarp(); return atomicAdd(&words[@N], @K);
}",
        &["dynamic@I(X)", "dynamic@I<long long>(X)"],
    ),
];

/// Parts of one file, with names that other files use too.
pub(super) const OWN: &[SourcePart] = &[
    (
        "namespace { __device__ int hidden@I = @K; __device__ __noinline__ int secret@I(int x) { return @C + hidden@I++; } }",
        &["secret@I(X)"],
    ),
    (
        "static __device__ int kept@I[@K]; static __constant__ double given@I[3] = {@K.25};
static __device__ __noinline__ int local@I(int x) { return kept@I[x] += (int)given@I[x % 3]; }",
        &["local@I(X)"],
    ),
    (
        "extern \"C\" __device__ __noinline__ int plain$@U_@I(int x) { return @C; }",
        &["plain$@U_@I(X)"],
    ),
    (
        "__managed__ int both@U_@I = @K; __device__ float4 vector@U_@I;
__device__ __noinline__ int reads@U_@I(int x) { return both@U_@I + (int)vector@U_@I.z + x; }",
        &["reads@U_@I(X)"],
    ),
    (
        "template <class T> static __device__ __noinline__ int inside@I(T x) {
  static __shared__ T last; T old = last; last = x; return (int)old + @K;
}",
        &["inside@I<int>(X)", "inside@I<long long>(X)"],
    ),
    (
        "static __device__ __noinline__ int fetched@I(cudaTextureObject_t t, int x) { return tex1Dfetch<int>(t, x) + @C; }",
        &["fetched@I(@K, X)"],
    ),
];

/// Heads and ends of kernels; between them `x` is defined.
pub(super) const KERNELS: &[(&str, &str)] = &[
    ("__global__ void @A kernel@U_@I(int *o, double d, short s) {\n  int x = *o + (int)d * s;\n", "  *o = x;\n}"),
    ("__global__ void @A kernel@U_@I(int *o) {\n  int x = *o;\n", "  *o = x;\n}"),
    ("extern \"C\" __global__ void @A c$kernel_@U_@I(int *o) {\n  int x = *o;\n", "  *o = x;\n}"),
    (
        "struct Large@U_@I { int a[4 * @K]; };
__global__ void @A large@U_@I(const __grid_constant__ Large@U_@I p, int *o) {\n  int x = p.a[threadIdx.x];\n",
        "  *o = x + p.a[3];\n}",
    ),
];

/// A kernel that several files instantiate; all have the body of the first.
pub(super) const TEMPLATE_KERNEL: &str = "template <class T> __global__ void @A fill(T *o, int n) {
  T part[@K]; part[n] = T(n); o[threadIdx.x] = part[n / 2];
}
template __global__ void fill<int>(int *, int);
template __global__ void fill<double>(double *, int);";

/// Attributes of a kernel about its launch, and the first architecture that has them.
pub(super) const ATTRIBUTES: &[(&str, u32)] = &[
    ("", 0),
    ("__launch_bounds__(64)", 0),
    ("__launch_bounds__(128, 2)", 0),
    ("__launch_bounds__(1024)", 0),
    ("__maxnreg__(96)", 0),
    ("__maxnreg__(64)", 0),
    ("__launch_bounds__(64, 1, 4)", 90),
    ("__cluster_dims__(2, 1, 1)", 90),
    ("__cluster_dims__(4, 2, 1) __launch_bounds__(64)", 90),
    ("__block_size__((32, 2, 1), (2, 1, 1))", 90),
];
