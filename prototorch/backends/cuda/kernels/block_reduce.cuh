// What the threads of a block make together. Blocks have a power of two of threads, at most MAX_BLOCK_THREADS.
#define MAX_BLOCK_THREADS 1024
template <class A> FN A block_sum(A v, A* room) {
    __syncthreads();
    room[threadIdx.x] = v;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    }
    __syncthreads();
    return room[0];
}
template <class A> FN A block_max(A v, A* room) {
    __syncthreads();
    room[threadIdx.x] = v;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) room[threadIdx.x] = larger(room[threadIdx.x], room[threadIdx.x + half]);
    }
    __syncthreads();
    return room[0];
}
