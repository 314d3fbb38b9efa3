// md5: digests of messages of 32 bytes (RFC 1321), compared with the digests that were sent along.  Word w of message i
// is at [w * n + i].
FUNCTION u32 turn(u32 x, int bits) { return x << bits | x >> (32 - bits); }

#define F_(b, c, d) ((b & c) | (~b & d))
#define G_(b, c, d) ((b & d) | (c & ~d))
#define H_(b, c, d) (b ^ c ^ d)
#define I_(b, c, d) (c ^ (b | ~d))
#define STEP_(f, a, b, c, d, word, constant, bits) a = b + turn(a + f(b, c, d) + (word) + constant##u, bits);

KERNEL(md5)
{
    const u32 *messages = (const u32 *)A.in[0], *digests = (const u32 *)A.in[1];
    u8 *is_right = (u8 *)A.out[0];
    u32 *n_wrong = (u32 *)A.out[1];
    const u64 n = A.n[0];
    BLOCK_BEGIN
    for (u64 i = GRID_THREAD; i < n; i += GRID_THREADS) {
        const u32 m0 = messages[i], m1 = messages[n + i], m2 = messages[2 * n + i], m3 = messages[3 * n + i];
        const u32 m4 = messages[4 * n + i], m5 = messages[5 * n + i], m6 = messages[6 * n + i];
        const u32 m7 = messages[7 * n + i], end = 0x80, length = 256;   // of the message; its bits
        u32 a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
        STEP_(F_, a, b, c, d, m0, 0xd76aa478, 7) STEP_(F_, d, a, b, c, m1, 0xe8c7b756, 12)
        STEP_(F_, c, d, a, b, m2, 0x242070db, 17) STEP_(F_, b, c, d, a, m3, 0xc1bdceee, 22)
        STEP_(F_, a, b, c, d, m4, 0xf57c0faf, 7) STEP_(F_, d, a, b, c, m5, 0x4787c62a, 12)
        STEP_(F_, c, d, a, b, m6, 0xa8304613, 17) STEP_(F_, b, c, d, a, m7, 0xfd469501, 22)
        STEP_(F_, a, b, c, d, end, 0x698098d8, 7) STEP_(F_, d, a, b, c, 0, 0x8b44f7af, 12)
        STEP_(F_, c, d, a, b, 0, 0xffff5bb1, 17) STEP_(F_, b, c, d, a, 0, 0x895cd7be, 22)
        STEP_(F_, a, b, c, d, 0, 0x6b901122, 7) STEP_(F_, d, a, b, c, 0, 0xfd987193, 12)
        STEP_(F_, c, d, a, b, length, 0xa679438e, 17) STEP_(F_, b, c, d, a, 0, 0x49b40821, 22)
        STEP_(G_, a, b, c, d, m1, 0xf61e2562, 5) STEP_(G_, d, a, b, c, m6, 0xc040b340, 9)
        STEP_(G_, c, d, a, b, 0, 0x265e5a51, 14) STEP_(G_, b, c, d, a, m0, 0xe9b6c7aa, 20)
        STEP_(G_, a, b, c, d, m5, 0xd62f105d, 5) STEP_(G_, d, a, b, c, 0, 0x02441453, 9)
        STEP_(G_, c, d, a, b, 0, 0xd8a1e681, 14) STEP_(G_, b, c, d, a, m4, 0xe7d3fbc8, 20)
        STEP_(G_, a, b, c, d, 0, 0x21e1cde6, 5) STEP_(G_, d, a, b, c, length, 0xc33707d6, 9)
        STEP_(G_, c, d, a, b, m3, 0xf4d50d87, 14) STEP_(G_, b, c, d, a, end, 0x455a14ed, 20)
        STEP_(G_, a, b, c, d, 0, 0xa9e3e905, 5) STEP_(G_, d, a, b, c, m2, 0xfcefa3f8, 9)
        STEP_(G_, c, d, a, b, m7, 0x676f02d9, 14) STEP_(G_, b, c, d, a, 0, 0x8d2a4c8a, 20)
        STEP_(H_, a, b, c, d, m5, 0xfffa3942, 4) STEP_(H_, d, a, b, c, end, 0x8771f681, 11)
        STEP_(H_, c, d, a, b, 0, 0x6d9d6122, 16) STEP_(H_, b, c, d, a, length, 0xfde5380c, 23)
        STEP_(H_, a, b, c, d, m1, 0xa4beea44, 4) STEP_(H_, d, a, b, c, m4, 0x4bdecfa9, 11)
        STEP_(H_, c, d, a, b, m7, 0xf6bb4b60, 16) STEP_(H_, b, c, d, a, 0, 0xbebfbc70, 23)
        STEP_(H_, a, b, c, d, 0, 0x289b7ec6, 4) STEP_(H_, d, a, b, c, m0, 0xeaa127fa, 11)
        STEP_(H_, c, d, a, b, m3, 0xd4ef3085, 16) STEP_(H_, b, c, d, a, m6, 0x04881d05, 23)
        STEP_(H_, a, b, c, d, 0, 0xd9d4d039, 4) STEP_(H_, d, a, b, c, 0, 0xe6db99e5, 11)
        STEP_(H_, c, d, a, b, 0, 0x1fa27cf8, 16) STEP_(H_, b, c, d, a, m2, 0xc4ac5665, 23)
        STEP_(I_, a, b, c, d, m0, 0xf4292244, 6) STEP_(I_, d, a, b, c, m7, 0x432aff97, 10)
        STEP_(I_, c, d, a, b, length, 0xab9423a7, 15) STEP_(I_, b, c, d, a, m5, 0xfc93a039, 21)
        STEP_(I_, a, b, c, d, 0, 0x655b59c3, 6) STEP_(I_, d, a, b, c, m3, 0x8f0ccc92, 10)
        STEP_(I_, c, d, a, b, 0, 0xffeff47d, 15) STEP_(I_, b, c, d, a, m1, 0x85845dd1, 21)
        STEP_(I_, a, b, c, d, end, 0x6fa87e4f, 6) STEP_(I_, d, a, b, c, 0, 0xfe2ce6e0, 10)
        STEP_(I_, c, d, a, b, m6, 0xa3014314, 15) STEP_(I_, b, c, d, a, 0, 0x4e0811a1, 21)
        STEP_(I_, a, b, c, d, m4, 0xf7537e82, 6) STEP_(I_, d, a, b, c, 0, 0xbd3af235, 10)
        STEP_(I_, c, d, a, b, m2, 0x2ad7d2bb, 15) STEP_(I_, b, c, d, a, 0, 0xeb86d391, 21)
        const bool right = a + 0x67452301 == digests[i] && b + 0xefcdab89 == digests[n + i] &&
                           c + 0x98badcfe == digests[2 * n + i] && d + 0x10325476 == digests[3 * n + i];
        is_right[i] = right;
        if (!right) atomicAdd(n_wrong, 1u);
    }
    BLOCK_END
}
