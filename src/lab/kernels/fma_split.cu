// fma_split: two operators in one kernel, as the paper's virtualised kernel has them.  Of the 32 warps of a block the
// first n[1] work on frames of in[0], the others on frames of in[1]; a round is a frame for each, and ends when both are
// done.  n[0] values a frame, n[2] frames for each operator, n[3] the additions and multiplications of a value: of the
// first operator in the lower half, of the second in the upper.  scratch sums up the nanoseconds of rounds by operator.
FUNCTION float fma_times(float value, u32 times)
{
    for (u32 k = 0; k < times; k++) value = value * 0.5f + 1.0f;
    return value;
}

KERNEL(fma_split)
{
    u64 *times_ns = (u64 *)A.scratch;
    const u32 warps = WARPS, first = (u32)(A.n[1] < warps ? A.n[1] : warps);
    const u32 op = WARP >= first, own = op ? warps - first : first;
    const u32 thread = (op ? WARP - first : WARP) * 32 + LANE, n_threads = own * 32;
    const u32 times = (u32)(op ? A.n[3] >> 32 : A.n[3]);
    for (u64 frame = blockIdx.x; frame < A.n[2]; frame += gridDim.x) {
        const float *in = (const float *)A.in[op] + frame * A.n[0];
        float *out = (float *)A.out[op] + frame * A.n[0];
        const u64 began = lab_now();
        for (u64 i = thread; i < A.n[0]; i += n_threads) out[i] = fma_times(in[i], times);
        if (thread == 0) atomicAdd(&times_ns[op], lab_now() - began);
        __syncthreads();
    }
}

// One operator as a kernel of its own: in[0], out[0], n[0] values, n[3] times.
KERNEL(fma_alone)
{
    const float *in = (const float *)A.in[0];
    float *out = (float *)A.out[0];
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) out[i] = fma_times(in[i], (u32)A.n[3]);
}
