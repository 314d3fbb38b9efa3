// arithmetic: price * (1 - discount) * (1 + tax) in one kernel, or one operation of it, as Kernel Weaver's pattern (e)
// has it; PART says which.
#define ALL_OF_IT 0
#define ONE_MINUS 1
#define ONE_PLUS  2
#define PRODUCT   3

KERNEL(arithmetic)
{
    const float *a = (const float *)A.in[0], *b = (const float *)A.in[1], *c = (const float *)A.in[2];
    float *out = (float *)A.out[0];
    const u32 part = (u32)A.n[1];
    BLOCK_BEGIN
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) {
        if (part == ALL_OF_IT) out[i] = a[i] * (1.0f - b[i]) * (1.0f + c[i]);
        else if (part == ONE_MINUS) out[i] = 1.0f - a[i];
        else if (part == ONE_PLUS) out[i] = 1.0f + a[i];
        else out[i] = a[i] * b[i];
    }
    BLOCK_END
}
