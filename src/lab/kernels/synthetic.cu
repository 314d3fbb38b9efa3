// synthetic: a kernel of chosen needs.  LIVE values of a thread stay in registers through the loop; shared memory comes
// with the launch.  It ends after n[0] rounds, or after n[1] nanoseconds where that is not 0.
KERNEL(synthetic)
{
    float *out = (float *)A.out[0];
    float live[LIVE], sum = 0;
    BLOCK_BEGIN
    const u64 begin = A.n[1] ? lab_now() : 0;
    UNROLLED
    for (int i = 0; i < LIVE; i++) live[i] = (float)(THREAD + i);
    for (u32 round = 0; round < (u32)A.n[0]; round++) {
        UNROLLED
        for (int i = 0; i < LIVE; i++) live[i] = live[i] * 0.5f + live[(i + 1) % LIVE];
        if (A.n[1] && lab_now() - begin >= A.n[1]) break;
    }
    UNROLLED
    for (int i = 0; i < LIVE; i++) sum += live[i];
    if (sum == -1.0f) out[0] = sum;                         // never: so that nothing above can be left out
    BLOCK_END
}
