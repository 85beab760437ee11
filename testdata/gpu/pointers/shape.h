using Function = int (*)(int);
extern __device__ const Function table[4];

struct Shape {
    __device__ virtual double area() const = 0;
    __device__ virtual ~Shape() {}
};

__device__ Shape *made(int kind);
