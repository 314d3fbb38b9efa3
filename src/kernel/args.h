// args.h - what a kernel is handed: the one contract between host code and kernel text, read by both.
//
// No includes: kernel text is compiled with no header of the system in reach.

#ifndef WEFT_KERNEL_ARGS_H
#define WEFT_KERNEL_ARGS_H

#ifndef WEFT_BASE_H
typedef signed char        i8;
typedef short              i16;
typedef int                i32;
typedef long long          i64;
typedef unsigned char      u8;
typedef unsigned short     u16;
typedef unsigned int       u32;
typedef unsigned long long u64;
#endif
typedef float              f32;
typedef double             f64;

// Bytes that a cache fetches at once: rows are few where less than one is left in so many.
#define FETCH_LINE 64u
// Rows that go through all steps of a kernel together: columns and flags stay in L1.
#define TILE 2048u

typedef struct KernelColumn {          // a column of the chunk at hand, as it is stored
    const void *data;                  // value = base + stored
    const u64  *valid;                 // 0: no NULLs in this chunk
    i64         base;
    u32         width;                 // bytes per value; looked at only where chunks differ (LOAD_ANY)
    u32         spare;
} KernelColumn;

typedef struct KernelSlot {            // open addressing, for joins and groups alike
    u64 key;                           // the key itself when it fits one word, else its hash
    u32 row;                           // row (group) + 1; 0: empty
    u32 spare;
} KernelSlot;

// Loops over a tile that tcc's code would run several times slower: compiled with the library (words.c), called by
// tcc's code.  Indexed by the bytes of a stored key and of a payload.
typedef struct KernelWords {
    u32  (*pick)(u16 *live, u8 *mask, u32 n_rows, const u16 *picks);
    void (*between[9])(u8 *mask, const void *column, u64 low, u64 span, u32 n_rows, u32 also);
    void (*test_flag[9])(u8 *mask, const void *column, u64 from, const u8 *table, u32 n_rows);
    void (*test_bit[9])(u8 *mask, const void *column, u64 from, const u8 *table, u32 n_rows);
    u32  (*filter_flag[9])(u16 *live, u32 n_live, const void *column, u64 from, const u8 *table);
    u32  (*filter_bit[9])(u16 *live, u32 n_live, const void *column, u64 from, const u8 *table);
    void (*test_lookup[9][9])(u8 *mask, void *carried, const void *column, u64 from, const void *table, u32 n_rows);
    u32  (*filter_lookup[9][9])(u16 *live, u32 n_live, void *carried, const void *column, u64 from, const void *table);
    void (*fetch)(const void *column, u32 width, const u16 *live, u32 n_live);
    void (*gather[9])(void *out, const void *column, const u16 *rows, u32 n_rows);
    void (*spread)(void *const *state, u64 group, f64 value, i64 unit, u32 log, u32 n);      // by row, but long
    // likewise
    f64  (*sqrt)(f64 x), (*exp)(f64 x), (*ln)(f64 x), (*log10)(f64 x), (*log2)(f64 x), (*power)(f64 x, f64 y);
    f64  (*floor)(f64 x), (*ceil)(f64 x), (*round)(f64 x), (*trunc)(f64 x);
    int  (*wide_multiply)(i64 a_high, i64 a_low, i64 b_high, i64 b_low, i64 *high, i64 *low);
    void (*wide_divide)(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int is_rest, i64 *high, i64 *low);
    f64  (*wide_to_f64)(i64 high, i64 low);
    int  (*wide_from_f64)(f64 x, int n_digits, int scale, i64 *high, i64 *low);
    f64  (*wide_decimal_to_f64)(i64 high, i64 low, int scale);
    int  (*wide_quotient)(i64 a_high, i64 a_low, int a_scale, int a_shown, i64 b_high, i64 b_low, int b_scale,
                          int b_shown, int scale, i64 *high, i64 *low, int *shown);
    int  (*wide_rounded_product)(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int down, i64 *high, i64 *low);
} KernelWords;

// GPU: rows that a block, or a warp, put out together, and where they are from.  Rows come in any order; the host puts
// segments in theirs.
typedef struct KernelSegment {
    u64 place;                         // KernelArgs.place + row
    u64 first;                         // of n_rows neighbours in the output
    u64 n_rows;
} KernelSegment;

typedef struct KernelSpot {            // GPU: where in a block's shared memory a table or the cells of a state slot are
    u32 at, bytes;                     // multiples of 16
} KernelSpot;

typedef struct KernelCells {           // GPU: a state slot whose cells every block keeps for itself until its end
    u64 init;
    u32 at;
    u32 kind;                          // CELLS_...
} KernelCells;

enum { CELLS_SEEN, CELLS_ADD, CELLS_MIN, CELLS_MAX, CELLS_MIN_F64, CELLS_MAX_F64, CELLS_WIDE_LOW, CELLS_WIDE_HIGH };

typedef struct KernelNote {            // GPU: what is found out about an output column while its rows are put out
                                       // (NOTE, MARK)
    i64 low, high;
    i64 n_nulls;
    u8 *marks;                         // marks[value - first] = 1, where that is below n_marks
    u64 first, n_marks;
} KernelNote;

// GPU: of the list, for each thread: a tile of it, all but one row, and what comes on top of that.
#define PICK_BYTES(items) ((PICK_ROWS + (items)) * 4)

enum {
    // GPU: rows that a thread of a block that lists rows by their bits looks at at once.
    PICK_ROWS = 16,
    // Parameters of a kernel with SIEVE: all queries, how many; of each column three.
    SIEVED_ALL = 0, SIEVED_QUERIES, SIEVED_COLUMN,
};

typedef struct KernelTest {            // GPU: which entries of a table by value one of several queries wants (t_who)
    u64         bit;                   // of the query
    u64         first, span;           // from first to first + span
    const void *table;                 // and of these, where the join table has an entry; 0: all
    u64         shift;                 // entry of the join table = entry + shift
    u64         width;                 // of its entries, in bytes; 0: bits
} KernelTest;

// GPU: what all parts of a launch (a KernelArgs for each chunk, see cuda.h) have in common.
typedef struct KernelCommon {
    u64                n_used, n_room;             // instead of insert and room: groups so far (or wanted), and how
                                                   // many fit; rows: TAKEN_ROWS
    u64                segments_room;
    KernelSegment     *segments;
    const KernelSpot  *spots;                      // by table, where the kernel is compiled to have it in shared memory
    const KernelCells *cells;                      // by state slot, likewise
    KernelNote        *notes;                      // by output column; 0: nobody wants to know
    const void        *program;                    // of the generic kernel (generic_args.h)
    const u8 *const   *entries;                    // CPU, of a program: by table, a bit for each entry that is not 0;
                                                   // 0: there are none
    u32                n_groups, n_state;          // of cells; of hash groups, the first so many
    i32                failed;                     // as KernelArgs.failed
    u32                cancel;                     // the host writes it while the kernel runs
} KernelCommon;

typedef struct KernelArgs KernelArgs;
struct KernelArgs {
    u32                 row_first, row_end;   // the morsel: row_first is a multiple of 64
    const KernelColumn *columns;
    const i64          *params;               // literals, ranges, offsets: everything that is not the shape of the
                                              // query
    const void *const  *tables;               // join tables, payloads, maps over dictionary codes
    void              **state;                // accumulators or output columns, private to the worker
    u64                *counts;               // rows that left each step, for EXPLAIN ANALYZE
    const u32          *cancel;               // not 0: leave soon
    i32                 failed;               // 1 + number of the check that failed first; 0: none; NO_ROOM
    KernelSlot         *groups;               // hash aggregate: slots, a power of two of them
    u64                 groups_mask;
    u64                *group_words;          // key words of each group; CPU: where a key takes more than one
    // A new group; may move state and groups.
    u32               (*insert)(KernelArgs *args, u64 key, const u64 *words);
    u64               (*room)(KernelArgs *args, u32 n_rows);                    // space for output rows; may move state
    const u16          *picks;                // CPU: for each pattern of eight live rows, their numbers (PICK)
    const KernelWords  *words;                // CPU, tcc
    const u16          *picked;               // CPU: only these rows (from row_base on) of the chunk; tiles then count
                                              // picked rows.  0: all
    u32                 row_base;
    u32                 sure;                 // with picked: they passed all range tests and bit tables already
                                              // (UNSURE)
    void               *host;
    KernelArgs *const  *members;              // several queries in one kernel (MEMBER): each one's args
    u32                 n_members;            // GPU: 0: it serves one query
    u32                 shared_at;            // GPU: where in a block's shared memory this member's part begins
    KernelCommon       *common;               // GPU; CPU: of a program (program.c)
    u64                 place;                // GPU: of the chunk's first row in the source, for segments
    const u8           *sieved;               // GPU: a bit for each row of the chunk; only these, in a kernel that is
                                              // compiled for it.  0: all
};

// n_used of a kernel that ends in rows counts rows and segments in one word, so that segments come in the order of the
// rows.
#define TAKEN_ROWS(n_used)     ((u32)(n_used))
#define TAKEN_SEGMENTS(n_used) ((u32)((n_used) >> 32))

// GPU: rows of equal key are put in order by one thread, in pieces of 1, 2, 4, ... of them.
#define CHAIN_PIECES   12
#define CHAIN_TOO_LONG ((i64)1 << 62)

#define NO_ROOM (-1)                          // GPU: n_used has passed a room; the host makes more and repeats

#define HASH_SEED     0x2545F4914F6CDD1Dull
#define HASH_FOLD(h)  ((h) ^ ((h) >> 32))
#define HASH_MIX(h, word) HASH_FOLD(((u64)(h) ^ (u64)(word)) * 0x9E3779B97F4A7C15ull)
#define HASH_SLOT(key) HASH_MIX(HASH_SEED, key)
// The bits of a double as a key: one pattern for both zeros, one for all NaNs.
#define KEY_OF_F64(bits) ((u64)(bits) << 1 == 0 ? 0 : (u64)(bits) << 1 > 0xffe0000000000000ull ?                       \
                         0x7ff8000000000000ull : (u64)(bits))

#endif
