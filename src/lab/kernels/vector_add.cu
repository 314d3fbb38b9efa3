// vector_add: c = a + b, one value after the other.
KERNEL(vector_add)
{
    const float *a = (const float *)A.in[0], *b = (const float *)A.in[1];
    float *c = (float *)A.out[0];
    BLOCK_BEGIN
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) c[i] = a[i] + b[i];
    BLOCK_END
}
