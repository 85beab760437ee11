// A function with a stack that needs one of c.cu and a variable of a.cu.
extern __device__ int table[5];
__device__ int other(int x);
__device__ __noinline__ int helper(int count, float *values) {
  int kept[16];
  for (int i = 0; i < count; i++) kept[i & 15] = (int)values[i];
  return kept[count & 15] + table[count] + (count > 3 ? other(count) : 0);
}
