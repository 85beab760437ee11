#include "shape.h"

__device__ int thrice(int x) { return 3 * x; }
static __device__ int next(int x) { return x + 1; }
static __device__ int before(int x) { return x - 1; }
static __device__ int square(int x) { return x * x; }
static __device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ const Function table[4] = {next, before, square, twice};

struct Square : Shape {
    double side;
    __device__ explicit Square(double side) : side(side) {}
    __device__ double area() const override { return side * side; }
};

struct Box : Shape {
    double width, height;
    __device__ Box(double width, double height) : width(width), height(height) {}
    __device__ double area() const override { return width * height; }
};

__device__ Shape *made(int kind) {
    if (kind & 1) return new Box(4, 2 + (kind + 1) / 2.0);
    return new Square(2 + kind);
}
