// Reductions over the threads of a block. The number of threads is a power of two, at most MAX_BLOCK_THREADS.
#define MAX_BLOCK_THREADS 1024
template <class A> FN A block_sum(A v, A* shared) {
    __syncthreads();
    shared[threadIdx.x] = v;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
}
template <class A> FN A block_max(A v, A* shared) {
    __syncthreads();
    shared[threadIdx.x] = v;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] = max_nan(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
    return shared[0];
}
