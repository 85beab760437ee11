// Launches a kernel from the device for one architecture only: libcudadevrt is needed there and not elsewhere.
__global__ void child(int *p) { p[0] = 1; }

__global__ void parent(int *p) {
#if __CUDA_ARCH__ == 800
    child<<<1, 1>>>(p);
#endif
}

int main() {
    parent<<<1, 1>>>(nullptr);
    return 0;
}
