// black_scholes: prices of European options.  The normal distribution is a polynomial (Abramowitz and Stegun, 26.2.17).
FUNCTION float normal_share(float d)
{
    const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    const float inner = 1.781477937f + k * (-1.821255978f + k * 1.330274429f);
    const float tail = 0.39894228f * expf(-0.5f * d * d) * k * (0.31938153f + k * (-0.356563782f + k * inner));
    return d > 0 ? 1.0f - tail : tail;
}

KERNEL(black_scholes)
{
    const float *prices = (const float *)A.in[0], *strikes = (const float *)A.in[1], *years = (const float *)A.in[2];
    float *calls = (float *)A.out[0], *puts = (float *)A.out[1];
    const float rate = A.f[0], volatility = A.f[1];
    BLOCK_BEGIN
    for (u64 i = GRID_THREAD; i < A.n[0]; i += GRID_THREADS) {
        const float root = sqrtf(years[i]);
        const float d1 = (logf(prices[i] / strikes[i]) + (rate + 0.5f * volatility * volatility) * years[i]) /
                         (volatility * root);
        const float share1 = normal_share(d1), share2 = normal_share(d1 - volatility * root);
        const float today = strikes[i] * expf(-rate * years[i]);
        calls[i] = prices[i] * share1 - today * share2;
        puts[i] = today * (1.0f - share2) - prices[i] * (1.0f - share1);
    }
    BLOCK_END
}
