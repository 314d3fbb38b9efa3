// monte_carlo: the price of an Asian option by random paths.  A path's numbers come from its own number by a hash, so
// the result does not depend on which thread takes it.  Payoffs are added up as integers, so it does not depend on the
// order either.
FUNCTION u32 mix(u32 x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

FUNCTION float uniform(u32 x) { return ((float)(x >> 8) + 0.5f) * (1.0f / 16777216.0f); }

KERNEL(monte_carlo)
{
    u64 *sum = (u64 *)A.out[0];
    const u32 n_steps = (u32)A.n[1], seed = (u32)A.n[2];
    const float price = A.f[0], strike = A.f[1], drift = A.f[2], volatility = A.f[3];
    SHARED u64 shared_sum;
    u64 own = 0;
    BLOCK_BEGIN
    if (THREAD == 0) shared_sum = 0;
    __syncthreads();
    for (u64 path = GRID_THREAD; path < A.n[0]; path += GRID_THREADS) {
        float now = price, total = 0;
        u32 state = mix(seed ^ mix((u32)path));
        for (u32 step = 0; step < n_steps; step++) {
            const float u1 = uniform(state = mix(state + 0x9e3779b9u)), u2 = uniform(state = mix(state + 0x9e3779b9u));
            const float normal = sqrtf(-2.0f * logf(u1)) * cosf(6.2831853f * u2);
            now *= expf(drift + volatility * normal);
            total += now;
        }
        const float payoff = total / (float)n_steps - strike;
        if (payoff > 0) own += (u64)(payoff * 65536.0f);
    }
    atomicAdd(&shared_sum, own);
    __syncthreads();
    if (THREAD == 0) atomicAdd(sum, shared_sum);
    BLOCK_END
}
