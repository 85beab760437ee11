//! Sources of the linked objects, and the files made of them.
//!
//! In: a file name, `a.o`. Out: that file in a folder. Guaranteed: an existing file is not made
//! again.

use anyhow::{Context, Result, ensure};
use culd_testkit::reference::oracle::{COMPILE_LIMIT, Oracle, process};
use std::fs;
use std::path::Path;

/// Names and texts.
pub(super) const SOURCES: &[(&str, &str)] = &[
    ("a", "extern __device__ int f(int); __global__ void k(int *p) { *p = f(p[1]); }\n"),
    ("b", "__device__ int g(int); __device__ int f(int x) { return x * 3 + g(x); }\n"),
    (
        "c",
        "__device__ int count = 5; __device__ int g(int x) { return x + count; }\n\
         __global__ void k2(int *p) { *p = g(*p) + count; }\n",
    ),
    // Kernels that need nothing.
    ("x", "__global__ void kx(int *p) { *p = 11; }\n"),
    ("y", "__global__ void ky(int *p) { *p = 12; }\n"),
    ("z", "__global__ void kz(int *p) { *p = 13; }\n"),
    // No kernel.
    (
        "plain",
        "__device__ int plain_value = 3; __constant__ int plain_table[4] = {1, 2};\n\
         static __device__ int own_value = 4;\n\
         __device__ int plain(int x) { return x + plain_value + plain_table[x & 3] + own_value; }\n",
    ),
    // Floating point.
    (
        "fast",
        "__device__ float half_of(float); __global__ void kf(float *p) {\n\
         p[0] = half_of(p[1]) / p[3]; p[4] = sqrtf(p[5]) * p[6] + p[7]; }\n",
    ),
    ("slow", "__device__ float half_of(float x) { return x / 2.f + expf(x) * x; }\n"),
    // A kernel that starts another, in live code and in dead code.
    (
        "child",
        "__device__ int seven(int x) { return x * 7; }\n\
         __global__ void child(int *p) { *p = seven(*p); }\n\
         __global__ void parent(int *p) { child<<<1, 1>>>(p); }\n",
    ),
    (
        "dead",
        "__global__ void child(int *p) { *p += 1; }\n\
         __device__ void never(int *p) { child<<<1, 1>>>(p); }\n\
         __global__ void parent(int *p) { *p = 2; }\n",
    ),
    (
        "calls",
        "#include <cstdio>\n#include <cassert>\n__device__ int six(int x) { return x * 6; }\n\
         __global__ void kc(int *p) { printf(\"%d\", six(*p)); int *q = (int *)malloc(*p); *q = 1;\n\
         free(q); assert(p[1] == 3); }\n",
    ),
    // Not defined anywhere.
    ("lost", "__device__ int nowhere(int); __global__ void kl(int *p) { *p = nowhere(2); }\n"),
    // Kernels and variables, some of which host code uses.
    (
        "host",
        "__device__ int used_one = 3; __device__ int second = 4; __constant__ int fixed = 5;\n\
         static __device__ int inner = 6; __managed__ int shared_with_host = 7;\n\
         __device__ int reads(int x) { return x + used_one; }\n\
         template <class T> __global__ void made(T *p) { *p = 3; }\n\
         static __global__ void hidden(int *p) { *p = 4; }\n\
         namespace { __global__ void unnamed(int *p) { *p = 6; } }\n\
         __global__ void launched(int *p) { *p = reads(*p) + inner; }\n\
         __global__ void ignored(int *p) { *p = second + fixed; }\n\
         __global__ void leftover(int *p) { *p = 9; }\n\
         int main() { int x; cudaMemcpyFromSymbol(&x, fixed, 4); cudaMemcpyFromSymbol(&x, inner, 4);\n\
         shared_with_host = 2; launched<<<1, 1>>>(0); made<int><<<1, 1>>>(0);\n\
         hidden<<<1, 1>>>(0); unnamed<<<1, 1>>>(0); }\n",
    ),
    // Names of used symbols occur in those of others.
    (
        "within",
        "__device__ int v = 3; __device__ int vv = 4;\n\
         extern \"C\" __global__ void run(int *p) { *p = v + vv; }\n\
         extern \"C\" __global__ void rerun(int *p) { *p = vv; }\n\
         int main() { int x; cudaMemcpyFromSymbol(&x, v, 4); run<<<1, 1>>>(0); }\n",
    ),
    // The name of a launched kernel is in that of another one.
    (
        "rerun",
        "#include <cstdio>\n__device__ int seen = 3; __device__ float weights[3] = {1, 2, 3};\n\
         static __noinline__ __device__ float only(float x) { printf(\"only %f\\n\", x);\n\
         return sinf(x) * weights[int(x) % 3]; }\n\
         static __noinline__ __device__ float both(float x, float y) { return powf(x, y) + seen; }\n\
         extern \"C\" __global__ void rerun(float *p) { __shared__ float s[32];\n\
         s[threadIdx.x] = only(p[0]); __syncthreads(); p[1] = both(s[7], p[2]) / p[3]; }\n\
         extern \"C\" __global__ void run(float *p) { __shared__ float t[32];\n\
         t[threadIdx.x] = p[0]; __syncthreads(); printf(\"run\\n\");\n\
         for (int i = 0; i < p[9]; i++) p[i] = both(t[i & 31], p[i]); }\n\
         int main() { float x[3]; cudaMemcpyToSymbol(weights, x, 12); run<<<1, 1>>>(0); }\n",
    ),
    // Host code launches `tell` and `told`, and `retell`, which it does not launch, names both. The
    // compiler folds the only table that names `gone`. Comments of inline assembly have braces.
    (
        "retell",
        "#include <cstdio>\ntypedef void (*Kernel)(int *, int); typedef int (*Change)(int);\n\
         __device__ __noinline__ int one(int x) { return x * 3 + 1; }\n\
         __device__ __noinline__ int two(int x) { return x * 5 + clock(); }\n\
         __device__ __noinline__ int gone(int x) { printf(\"gone %d\\n\", x); return x - 1; }\n\
         __device__ Change changes[2] = {one, two}; __device__ Change others[2] = {gone, two};\n\
         extern \"C\" __global__ void tell(int *p, int i);\n\
         extern \"C\" __global__ void told(int *p, int i) { p[i] = 4; }\n\
         __device__ Kernel both[2] = {tell, told};\n\
         extern \"C\" __global__ void retell(void **p, int i) { asm volatile(\"// a {\");\n\
         p[0] = (void *)tell; p[1] = (void *)both[i]; p[others[i & 1](4)] = p; }\n\
         extern \"C\" __global__ void tell(int *p, int i) { asm volatile(\"// b } /* c {\");\n\
         for (int k = 0; k < i; k++) p[k] += changes[k & 1](k); printf(\"told %d\\n\", i);\n\
         asm volatile(\"/* d {\\n // */\"); }\n\
         int main() { tell<<<1, 1>>>(0, 1); told<<<1, 1>>>(0, 2); }\n",
    ),
    // The name of the first variable is in those of all with internal linkage.
    (
        "first",
        "__device__ int first[4]; __device__ int *const second = &first[2];\n\
         struct Pair { const int *place; int *other; };\n\
         static __device__ Pair third = { first + 1, nullptr };\n\
         static __constant__ int table[4] = { 1, 2, 3, 4 };\n\
         namespace { __managed__ int managed[13]; __device__ int get(int x) { return managed[x]; } }\n\
         static __device__ __noinline__ int add(int x)\n\
         { static __device__ int count = 4; return x + atomicAdd(&count, table[x & 3]); }\n\
         extern \"C\" __global__ void idle(int *p) { *p = get(*p) + *third.place + *second; }\n\
         extern \"C\" __global__ void busy(int *p) { *p = add(*p); }\n\
         int main() { int x; cudaMemcpyFromSymbol(&x, first, 4); busy<<<1, 1>>>(0); }\n",
    ),
    (
        "guest",
        "__device__ int reads(int); __global__ void visits(int *p) { *p = reads(3); }\n\
         int main() { visits<<<1, 1>>>(0); }\n",
    ),
    // C++: templates, inline, static, unnamed, pointers to functions, virtual functions.
    (
        "parts",
        "template <class T> __device__ T square(T x) { return x * x + T(1); }\n\
         template <class T> __device__ __noinline__ T cube(T x) { return x * x * x; }\n\
         inline __device__ int added(int x) { return x + 17; }\n\
         static __device__ int kept(int x) { return x * 3; }\n\
         static __device__ __noinline__ int called(int x) { return x * 5; }\n\
         namespace { __device__ __noinline__ int own(int x) { return x ^ 9; } }\n\
         extern \"C\" __device__ int plain(int x) { return x - 1; }\n\
         __device__ int unused(int x) { return kept(x) + own(x); }\n\
         __device__ float outside(float); __device__ int never_read = 4; __device__ int live;\n\
         __constant__ int table[4] = {1, 2, 3, 4};\n\
         template <class T> __global__ void each(T *p) { *p = square(*p) + cube(*p) + added(1); }\n\
         template __global__ void each<int>(int *); template __global__ void each<float>(float *);\n\
         __global__ void all(int *p) { *p = kept(p[1]) + called(p[2]) + own(p[3]) + plain(p[4]) + live\n\
         + table[p[7] & 3]; p[8] = (int)outside((float)p[8]); }\n",
    ),
    (
        "more",
        "template <class T> __device__ T square(T x) { return x * x + T(1); }\n\
         template <class T> __device__ __noinline__ T cube(T x) { return x * x * x; }\n\
         extern __device__ int live; __device__ int one(int x) { return x + 1; }\n\
         __device__ int two(int x) { return x + 2; }\n\
         __device__ int (*choice[2])(int) = {one, two};\n\
         __device__ __attribute__((weak)) int weak_one(int x) { return x + 100; }\n\
         __device__ float outside(float x) { return square(x) + cube(x) + live; }\n\
         struct Base { __device__ virtual int value(int x) { return x; } };\n\
         struct Derived : Base { int m; __device__ Derived(int a) : m(a) {}\n\
         __device__ int value(int x) override { return x + m; } };\n\
         __global__ void dispatch(int *p) { Derived d(p[0]); Base *b = &d; if (p[1]) b = new Base;\n\
         p[2] = b->value(3) + choice[p[3] & 1](p[4]) + weak_one(p[5]); p[6] = (int)outside(p[7]); }\n",
    ),
    (
        "needs",
        "__device__ float outside(float); extern \"C\" __device__ int plain(int);\n\
         __device__ int unused(int); __global__ void needing(int *p) {\n\
         *p = (int)outside(p[1]) + plain(p[2]) + unused(p[3]); }\n",
    ),
    // nvlink's compiler knows the space of a pointer that such a function returns, or gets.
    (
        "pick",
        "__device__ int picked[10]; __device__ __noinline__ int *pick(int k) { return picked + k; }\n\
         __global__ void picks(int *o, int n) { int *p = pick(n);\n\
         for (int i = 0; i < n / 4; i++) p[i] = o[i]; o[0] = p[o[1]]; }\n",
    ),
    (
        "put",
        "__device__ __noinline__ void put(int *p) { p[1] = 2; }\n\
         __global__ void puts(int *o) { put(o); }\n",
    ),
    // Copies of functions, for the space of a pointer that they get, come behind all functions.
    (
        "copies",
        "__device__ unsigned counter; __device__ int global;\n\
         __device__ __noinline__ int first(int p, int q) { return p * q + 3; }\n\
         __device__ __noinline__ int add(int *p, int x)\n\
         { int o = atomicCAS(p, x, x + 1); atomicMax(p, o); return o; }\n\
         __device__ __noinline__ int set(int *p, int x) { *p = x; return p[x]; }\n\
         __device__ __noinline__ float twice(int x) { return x * 2.f; }\n\
         __global__ void adds(int *o) { o[1] = add((int *)&counter, o[0]) + set(&global, o[2]); }\n\
         __device__ __noinline__ int get(int *p, int x) { return p[x] * x; }\n\
         __global__ void gets(int *o) { __shared__ int s[32]; s[threadIdx.x] = o[0];\n\
         o[1] = get(s, o[0]) + add(s, o[2]) + get(&global, 2) + set(o, o[3]); }\n\
         __device__ int last(int x) { return x + 7; }\n",
    ),
    // A limit of registers changes its text.
    ("gamma", "extern \"C\" __global__ void gammas(double *o) { o[0] = lgamma(o[1]); }\n"),
    // Too much shared memory for a program.
    (
        "roomy",
        "extern \"C\" __global__ void roomy(int *p) { __shared__ int z[20000];\n\
         z[threadIdx.x] = *p; __syncthreads(); *p = z[p[1]]; }\n",
    ),
    // ptxas refuses it.
    (
        "refused",
        "extern \"C\" __global__ void refused(int *p) { asm volatile(\"no.such;\"); *p = 3; }\n",
    ),
    // Shared memory that other files see.
    (
        "pool",
        "__shared__ int pool_of_all[32]; extern __shared__ int sized_later[];\n\
         __device__ int in_pool(int x) { return pool_of_all[x] + sized_later[x]; }\n\
         __global__ void fills(int *p) { pool_of_all[threadIdx.x] = *p; *p = in_pool(p[1]); }\n",
    ),
    // Functions that other files do not see, with arguments that inlining makes constant.
    (
        "local",
        "__noinline__ static __device__ int sum(int x, int n) {\n\
         int s = 0; for (int i = 0; i < x; i++) { s += x * i % n; s ^= n << 3; } return s; }\n\
         __forceinline__ __device__ int gain(int x, int n) { return sum(x, n) - 1; }\n\
         __global__ void gains(int *p, int *l, int n) { int a = 0;\n\
         for (int i = threadIdx.x; i < n; i++) for (int j = i + 1; j < n; j++)\n\
         if (l[i] != l[j]) a += gain(l[i], 5) - gain(l[j], 5);\n\
         *p = a; }\n\
         __global__ void powers(double *p, int n) { *p = pow(2.0f, (double)n); }\n",
    ),
    // Much code.
    (
        "wide",
        "template <int N> __global__ void wide(float *p) { float s = p[0];\n\
         for (int i = 0; i < N; i++) s = s * p[i & 7] + sinf(s) / p[i & 3]; p[0] = s; }\n\
         template <int N> struct Each { Each<N - 1> next; void (*kernel)(float *) = wide<N>; };\n\
         template <> struct Each<0> {}; Each<24> all_of_them;\n",
    ),
    (
        "wider",
        "template <int N> __global__ void wider(float *p) { float s = p[1];\n\
         for (int i = 0; i < N; i++) s = s * p[i & 7] + cosf(s) / p[i & 3]; p[0] = s; }\n\
         template <int N> struct Each { Each<N - 1> next; void (*kernel)(float *) = wider<N>; };\n\
         template <> struct Each<0> {}; Each<24> all_of_them;\n",
    ),
    // The same beside local functions, in a program that needs other code.
    (
        "tile",
        "__shared__ float tile[64]; extern __shared__ short later[]; __device__ int beyond(int);\n\
         static __noinline__ __device__ float within(float x, int n) { return sinf(x) * n; }\n\
         __device__ float in_tile(int x) { tile[x] = within(tile[x + 1], x);\n\
         return tile[x] + later[x] + beyond(x); }\n\
         __global__ void tiles(float *p) { p[threadIdx.x] = in_tile(threadIdx.x) + *p / p[1]; }\n",
    ),
    // An `extern` array alone.
    (
        "line",
        "extern __shared__ short line[];\n\
         __global__ void lines(short *p) { line[*p] = p[1]; __syncthreads(); p[2] = line[0]; }\n",
    ),
    // Demoted variables: the compiler defines each inside the only kernel that uses it.
    (
        "demoted",
        "__device__ int first[2] = {1, 2}; static __constant__ int second[2] = {3, 4};\n\
         __global__ void one(int *p) { __shared__ int s[8]; s[p[0] & 7] = p[1]; __syncthreads();\n\
         p[2] = s[p[3] & 7] + first[p[4] & 1]; }\n\
         __global__ void two(int *p) { __shared__ float t[8]; __shared__ double u[4];\n\
         t[p[0] & 7] = p[1]; u[p[2] & 3] = p[3]; __syncthreads();\n\
         p[4] = t[p[5] & 7] + u[p[6] & 3] + second[p[7] & 1]; }\n",
    ),
    // Variables of libdevice's, whose order is another one with -split-compile.
    (
        "turned",
        "__device__ __managed__ int kept[4]; static __device__ int own[4] = {1, 2, 3, 4};\n\
         __device__ __noinline__ int far(int x) { __shared__ double s[16]; s[x & 15] = x;\n\
         __syncthreads(); return (int)lgamma((double)x + s[(x + 1) & 15]); }\n\
         static __device__ __noinline__ int bent(int x) { __shared__ double s[16]; s[x & 15] = x;\n\
         __syncthreads(); x += s[(x + 1) & 15]; return (int)(sinf(x) + own[x & 3]); }\n\
         static __device__ __noinline__ int even(int x)\n\
         { return (int)(cos((double)x) + own[x & 3] + kept[x & 3]); }\n\
         __device__ __noinline__ int turned(int x) { return far(x) + bent(x) + even(x); }\n\
         __global__ void turn(int *p) { p[0] = turned(p[1]) + (int)cos((double)p[2]); }\n",
    ),
    // A parameter at a constant address, which culd read through a generic one: an object without
    // optimization, asked for names, changed what the compiler did next in the process.
    (
        "constant",
        "__device__ int distant(int);\n\
         __global__ void reads(int *p, const __grid_constant__ int4 q) { *p = distant(p[1]) + q.y; }\n",
    ),
    ("asker", "__device__ int distant(int); __global__ void ask(int *p) { *p = distant(*p); }\n"),
    // Tables of addresses, whose variables NVIDIA's compiler orders by a hash of addresses.
    (
        "tables",
        "static __device__ const char *words[] = {\"one\", \"two\", \"three\", \"four\"};\n\
         __device__ int u[2], v[2], w[2]; __constant__ int *ways[] = {u, v, w + 1, u + 1};\n\
         __global__ void looks(int *p) { *p = words[*p & 3][p[1] & 1] + *ways[p[2] & 3]; }\n",
    ),
    // Functions that are inlined into others, but not with -g.
    (
        "inlined",
        "template <int N> __device__ int scaled(int x) { return x * N; }\n\
         struct Base { int at; __device__ Base(int x) : at(x) {} __device__ virtual int get(int x)\n\
         { return x + at; } __device__ virtual ~Base() {} };\n\
         __device__ int in_base(int x) { Base one(x); Base *p = &one; return p->get(scaled<3>(x)); }\n\
         __global__ void bases(int *p) { *p = in_base(*p) + scaled<5>(p[1]); }\n",
    ),
    // Texts, and functions of libdevice, that other files have as well.
    (
        "texts",
        "#include <cstdio>\n#include <cassert>\n\
         __global__ void says(int *p, double *d) { printf(\"%d\", *p); assert(p[1] == 3);\n\
         d[0] = tan(d[1]) + sqrt(d[2]); }\n\
         __global__ void says_more(int *p, double *d) { printf(\"%f\", *d); assert(p[2] == 4);\n\
         d[3] = sin(d[4]); }\n",
    ),
    (
        "tiled",
        "__device__ float in_tile(int); __device__ int beyond(int x) { return x * 3; }\n\
         __global__ void asks_tile(float *p) { *p = in_tile(2); }\n",
    ),
    ("pooled", "__device__ int in_pool(int); __global__ void asks(int *p) { *p = in_pool(2); }\n"),
];

/// A kind of file that is made of a source.
struct FileKind {
    /// The end of its name.
    ending: &'static str,
    /// nvcc's words. `SM` stands for the number of the target.
    words: &'static str,
}

const fn kind(ending: &'static str, words: &'static str) -> FileKind {
    FileKind { ending, words }
}

/// The ending of LTO-IR alone.
const LTO_IR: &str = ".ltoir";

const KINDS: &[FileKind] = &[
    kind("s.o", "-dc -arch=sm_SM"),
    // PTX in a container.
    kind("p.fatbin", "-rdc=true -fatbin -gencode arch=compute_SM,code=compute_SM"),
    kind("l.o", "-dc -gencode arch=compute_SM,code=lto_SM"),
    kind("e.o", "-dc -gencode arch=compute_SM,code=[sm_SM,lto_SM]"),
    kind("f.o", "-use_fast_math -dlto -dc -arch=sm_SM"),
    kind("i.o", "-lineinfo -dlto -dc -arch=sm_SM"),
    kind("24.o", "-maxrregcount=24 -dlto -dc -arch=sm_SM"),
    kind("32.o", "-maxrregcount=32 -dlto -dc -arch=sm_SM"),
    kind("24i.o", "-lineinfo -maxrregcount=24 -dlto -dc -arch=sm_SM"),
    // For another target, unless that is sm_75.
    kind("75.o", "-dc -gencode arch=compute_75,code=sm_75"),
    kind("2.o", "-split-compile=2 -dlto -dc -arch=sm_SM"),
    kind("n.o", "-opt-info=inline -dlto -dc -arch=sm_SM"),
    kind(".o", "-dlto -dc -arch=sm_SM"),
    kind(LTO_IR, "-dlto -ltoir -rdc=true -arch=sm_SM"),
    kind(".fatbin", "-dlto -rdc=true -fatbin -arch=sm_SM"),
    kind(".cubin", "-rdc=true -cubin -arch=sm_SM"),
    kind(".ptx", "-rdc=true -ptx -arch=sm_SM"),
];

/// The text of a source.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|one| one.0 == name).map(|one| one.1)
}

/// The name of a file with the begin of LTO-IR, and of no version.
const UNKNOWN: &str = "unknown.ltoir";

/// True for the name of a file with LTO-IR.
pub(super) fn is_lto(name: &str) -> bool {
    name == UNKNOWN || kind_of(name).is_some_and(|kind| kind.words.contains("lto"))
}

/// The kind of the file called `name`, if it is the file of a source.
fn kind_of(name: &str) -> Option<&'static FileKind> {
    KINDS.iter().find(|kind| {
        name.strip_suffix(kind.ending).is_some_and(|stem| SOURCES.iter().any(|one| one.0 == stem))
    })
}

/// Makes the file called `name` in `folder` if it is the file of a source.
pub(crate) fn make(oracle: &Oracle, arch: &str, folder: &Path, name: &str) -> Result<()> {
    let file = folder.join(name);
    if name == UNKNOWN {
        return Ok(fs::write(file, [&b"\xed\x43\x4e\x7f"[..], &[0; 60]].concat())?);
    }
    let Some(&FileKind { ending, words }) = kind_of(name) else { return Ok(()) };
    if file.exists() {
        return Ok(());
    }
    let stem = name.strip_suffix(ending).context("a name with its ending")?;
    let (_, text) = SOURCES.iter().find(|one| one.0 == stem).context("a source")?;
    let source = format!("{stem}.cu");
    fs::write(folder.join(&source), text)?;
    let words = words.replace("SM", arch.trim_start_matches("sm_"));
    let words = words.split(' ').chain([source.as_str(), "-o"]);
    if ending != LTO_IR || oracle.release().has_nvcc() {
        return nvcc(oracle, folder, &words.chain([name]).collect::<Vec<_>>());
    }
    // nvcc of CUDA 12 does not stop at LTO-IR, but keeps it.
    let kept = folder.join("kept");
    fs::create_dir_all(&kept)?;
    let more = ["kept/fatbin", "--keep", "--keep-dir", "kept"];
    let words: Vec<&str> = words.chain(more).filter(|word| *word != "-ltoir").collect();
    nvcc(oracle, folder, &[&["-fatbin"], words.as_slice()].concat())?;
    Ok(fs::rename(kept.join(name), file)?)
}

/// Runs nvcc in `folder`.
pub(super) fn nvcc(oracle: &Oracle, folder: &Path, words: &[&str]) -> Result<()> {
    let mut nvcc = oracle.command("nvcc");
    nvcc.args(words).current_dir(folder);
    let run = process::run(&mut nvcc, COMPILE_LIMIT)?;
    ensure!(run.status.success(), "{nvcc:?}: {}", run.stderr_text());
    Ok(())
}
