// cuda.h - the words of tile C on a GPU.  Put before every kernel text, after args.h; CUDA C++ for NVRTC and nvcc.
//
//     grid               y: parts of the source (a chunk each, with KernelArgs of its own);
//                        x: blocks that share a part's tiles
//     rows of a tile     t_ .. t_ + TILE, TILE = threads of the block x ITEMS
//     row of item i      t_ + threadIdx.x * ITEMS + i: a thread's rows are neighbours, so it loads them at once, in up
//                        to 16 bytes
//
// In every row block `i` is the item within the thread.  The loops over items are unrolled, so columns and carried
// values are registers, and live rows are bits in one register.  A dead row is neither loaded nor looked up, so a late
// load costs nothing for rows that are gone.
//
// Shared memory: the host knows sizes, the text must not, so what is placed there is an option of the compiler
// (SHARED_TABLES_, a bit per table; SHARED_GROUPS_) and where it is an argument (KernelCommon).  A block fetches the
// tables before its first tile, keeps the accumulators of groups to itself, and adds them to those of all blocks after
// its last.  Of groups in a hash table it does so with the first ones, which are all where there are few
// (NEAR_GROUPS_).
//
// Words at tile level (STEP, MATCHES, ROOM, TOTAL_END) are reached by all lanes of a warp together, outside MATCHES by
// all threads of a block, and may speak across them.  Words inside a row block are not, and never wait for another
// lane, but for GROUP, whose wait needs lanes that progress on their own: sm_70 or newer.  blockDim.x is a multiple of
// 32, and blockDim.y and blockDim.z are 1.
//
// The host: KernelArgs and all it points to are in device memory, state holds each slot's init, join slots and columns
// are aligned to 16 bytes, and columns are readable for 31 values more than they have rows.  Compile with --fmad=false:
// a * b + c rounds twice here, as on the CPU.
//
// Names here end in _ (no column's name does), and all are at file scope: a column may be called uint4.

#ifndef ITEMS
#define ITEMS 8                        // rows per thread: a power of two, at most 32
#endif
#ifndef SHARED_TABLES_
#define SHARED_TABLES_ 0               // bit k: table k is in shared memory; only the first 32 can be
#endif
#ifndef EAGER_
// Bit k: column k is loaded for all rows, without waiting for what is left of them.
#define EAGER_ 0
#endif
#ifndef SHARED_GROUPS_
// The accumulators of groups are in shared memory: bit CELLS_... for each kind there is.
#define SHARED_GROUPS_ 0
#endif
#ifndef NEAR_GROUPS_
// The same for the first groups of a hash table; others are in memory that all blocks share.
#define NEAR_GROUPS_ 0
#endif
#define CELLS_KINDS_ (SHARED_GROUPS_ | NEAR_GROUPS_)
#ifndef PICKED_
#define PICKED_ 0                      // of each chunk only the rows whose bit is set (KernelArgs.sieved)
#endif
#undef TILE
#define TILE (blockDim.x * ITEMS)

#define WARP_      0xffffffffu
#define DEVICE_    static __device__ __forceinline__
#define ITEM_(i)   (1u << (i))
#if PICKED_
#define ROW_(i)    row_of_[i]
#else
#define ROW_(i)    (t_ + threadIdx.x * ITEMS + (i))
#endif
// Of a thread that has none in the last tile: the first.
#define SAFE_ROW_  (ROW_(0) < end_ ? ROW_(0) : 0)

#define BOUNDS_                                             // a kernel that has any sets it before KERNEL
// A part's rows are a function of their own, so that a kernel woven of several can call it.
#define KERNEL(name)               static __device__ __forceinline__ void                                              \
                                   name##_rows_(const KernelArgs *__restrict__ A);                                     \
                                   extern "C" __global__ void BOUNDS_ name(const KernelArgs *parts)                    \
                                   { const KernelArgs *const A = parts + blockIdx.y; begin_(A); name##_rows_(A);       \
                                     end_(A); }                                                                        \
                                   static __device__ __forceinline__ void name##_rows_(const KernelArgs *__restrict__ A)

// ---- parameters, tables, columns: declared once, before TILES ------------------------------------------------------
// What the host hands over is in global memory; saying so saves finding out at each load.
template <typename T> DEVICE_ const T *global_(const void *memory)
{
    __builtin_assume(__isGlobal(memory));
    return (const T *)memory;
}

#define PARAM(type, name, k)       const type name = (type)A->params[k];
#define PARAM_F64(name, k)         const f64 name = __longlong_as_double(A->params[k]);
extern __shared__ uint4 shared_[];     // as much as the launch says

template <typename T, bool IS_SHARED> struct Table_ {
    DEVICE_ const T *at(const KernelArgs *A, int k) { return global_<T>(A->tables[k]); }
};

template <typename T> struct Table_<T, true> {
    DEVICE_ const T *at(const KernelArgs *A, int k)
    {
        return (const T *)((const u8 *)shared_ + A->common->spots[k].at);
    }
};

#define IS_SHARED_(k)              ((k) < 32 && ((u32)SHARED_TABLES_ >> ((k) & 31) & 1))
#define TABLE(type, name, k)       const type *const __restrict__ name = Table_<type, IS_SHARED_(k)>::at(A, k);
#define COLUMN(type, name, k)      const type *const __restrict__ name##_all = global_<type>(A->columns[k].data);      \
                                   const i64 name##_base = A->columns[k].base;                                         \
                                   constexpr bool name##_eager_ = (k) < 32 && ((u32)EAGER_ >> ((k) & 31) & 1);
#define COLUMN_ANY(name, k)        const KernelColumn name##_col = A->columns[k];
#define NULLS(name, k)             const u8 *const __restrict__ name##_valid_all = (const u8 *)A->columns[k].valid;

// Several queries in one kernel: A names the one whose lines follow (see weave/fuse.c).
#define MEMBER(name, k)            KernelArgs *const name = A->members[k];

// ---- tiles and their rows -------------------------------------------------------------------------------------------
DEVICE_ u32 rows_of_tile_(u32 tile, u32 row_end)
{
    const u32 first = tile + threadIdx.x * ITEMS;
    if (first + ITEMS <= row_end) return WARP_ >> (32 - ITEMS);
    return first < row_end ? (1u << (row_end - first)) - 1 : 0;
}

// Of all lanes.
DEVICE_ u32 sum_of_warp_(u32 number)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(WARP_, number);
#else
    for (u32 far = 16; far > 0; far /= 2) number += __shfl_xor_sync(WARP_, number, far);
    return number;
#endif
}

// Of the lanes up to this one.
DEVICE_ u32 sum_until_(u32 number)
{
#pragma unroll
    for (u32 far = 1; far < 32; far *= 2) {
        const u32 before = __shfl_up_sync(WARP_, number, far);
        if (threadIdx.x % 32 >= far) number += before;
    }
    return number;
}

// Few rows of many: a block lists the numbers of those whose bit is set until they fill a tile, so that all its threads
// have something to do.  A tile is then of the list, which is the last thing in shared memory: PICK_BYTES for each
// thread.
#if PICKED_
static __shared__ u32 picked_by_[32];

struct Picker_ {
    u32 *list;
    u32  next, n;                      // row to go on with; rows in the list
};

DEVICE_ u32 *picked_list_()
{
    u32 bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return (u32 *)((u8 *)shared_ + bytes) - blockDim.x * (PICK_BYTES(ITEMS) / sizeof(u32));
}

DEVICE_ u32 bits_of_rows_(const KernelArgs *A, u32 row)
{
    if (row >= A->row_end) return 0;
    const u32 bits = __ldg((const u16 *)(A->sieved + (row >> 3)));
    return A->row_end - row < PICK_ROWS ? bits & ((1u << (A->row_end - row)) - 1) : bits;
}

// The rows of BITS to the end of the list, those of all threads in their order.  Returns how many there are.
DEVICE_ u32 list_rows_(const Picker_ &picker, u32 row, u32 bits)
{
    const u32 own = __popc(bits), until = sum_until_(own), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 31) picked_by_[warp] = until;
    __syncthreads();
    const u32 of_warp = lane < blockDim.x / 32 ? picked_by_[lane] : 0, all = sum_of_warp_(of_warp);
    u32       at = picker.n + sum_of_warp_(lane < warp ? of_warp : 0) + until - own;
    for (; bits; bits &= bits - 1) picker.list[at++] = row + __ffs(bits) - 1;
    __syncthreads();                   // the list is whole, and picked_by_ can be used again
    return all;
}

DEVICE_ bool pick_more_(const KernelArgs *A, Picker_ &picker)
{
    __syncthreads();                   // nobody looks at the list before any more
    picker.n = 0;
#pragma unroll 1
    for (; picker.n < TILE && picker.next < A->row_end; picker.next += gridDim.x * blockDim.x * PICK_ROWS) {
        const u32 row = picker.next + threadIdx.x * PICK_ROWS;
        picker.n += list_rows_(picker, row, bits_of_rows_(A, row));
    }
    return picker.n > 0;
}

#define TILES                      Picker_ picker_ = { picked_list_(), blockIdx.x * blockDim.x * PICK_ROWS, 0 };       \
                                   _Pragma("unroll 1") while (pick_more_(A, picker_))                                  \
                                   _Pragma("unroll 1") for (u32 t_ = 0, end_ = picker_.n; t_ < end_; t_ += TILE)
#define ROWS(live)                 u32 live = rows_of_tile_(t_, end_), row_of_[ITEMS];                                 \
                                   EACH(live) row_of_[i] = picker_.list[t_ + threadIdx.x * ITEMS + i];
#else
// Chunks have at most 2^30 rows, so 32 bits do.
#define TILES                      _Pragma("unroll 1") for (u32 t_ = A->row_first + blockIdx.x * TILE,                 \
                                   end_ = A->row_end; t_ < end_; t_ += gridDim.x * TILE)
#define ROWS(live)                 u32 live = rows_of_tile_(t_, end_);
#endif
#define MASK(live)
// The same rows, to be narrowed for one of several queries.
#define COPY_ROWS(live, own)       u32 own = live;
// None, where this query does not want the chunk: its columns may not be there.
#define MEMBER_ROWS(live)          if (!A->row_end) live = 0;

#define EACH(live)                 _Pragma("unroll") for (u32 i = 0; i < ITEMS; i++) if (live & ITEM_(i))
#define EACH_ROW(live)             EACH(live)

// A value per item.  Narrow ones stay packed in words until they are used, as registers decide how many threads can
// work at once.
template <typename T, bool IS_NARROW = (sizeof(T) < 4)> struct Values_ {
    T values[ITEMS];
    __device__ __forceinline__ T  operator[](u32 i) const { return values[i]; }
    __device__ __forceinline__ T &operator[](u32 i) { return values[i]; }
};

template <typename T> struct Values_<T, true> {
    static constexpr u32 PER = 4 / sizeof(T), BITS = 8 * sizeof(T), MASK = (1u << BITS) - 1;
    u32 words[(ITEMS + PER - 1) / PER];
    struct Place {
        u32      &word;
        const u32 shift;
        __device__ __forceinline__      operator T() const { return (T)(word >> shift); }
        __device__ __forceinline__ void operator=(T value) { word = (word & ~(MASK << shift)) | (u32)value << shift; }
    };
    __device__ __forceinline__ T     operator[](u32 i) const { return (T)(words[i / PER] >> (i % PER * BITS)); }
    __device__ __forceinline__ Place operator[](u32 i) { return { words[i / PER], i % PER * BITS }; }
};

// As many bytes at a time as a thread's rows fill, up to 16; those without a live row are left out.
template <int BYTES> struct Piece_ { typedef uint4 type; };
template <> struct Piece_<8> { typedef uint2 type; };
template <> struct Piece_<4> { typedef u32 type; };
template <> struct Piece_<2> { typedef u16 type; };
template <> struct Piece_<1> { typedef u8 type; };

template <int N, typename T, typename Piece> DEVICE_ void keep_(Values_<T, false> &values, int p, Piece piece)
{
    union { Piece piece; T values[N]; } loaded = { piece };
#pragma unroll
    for (int i = 0; i < N; i++) values.values[p * N + i] = loaded.values[i];
}

template <int N, typename T, typename Piece> DEVICE_ void keep_(Values_<T, true> &values, int p, Piece piece)
{
    constexpr int WORDS = (N * (int)sizeof(T) + 3) / 4;
    union { Piece piece; u32 words[WORDS]; } loaded = { piece };
#pragma unroll
    for (int w = 0; w < WORDS; w++) values.words[p * WORDS + w] = loaded.words[w];
}

template <bool IS_EAGER, typename T> DEVICE_ void load_(Values_<T> &values, const T *column, u32 row, u32 live)
{
    constexpr int BYTES = sizeof(T) * ITEMS < 16 ? (int)sizeof(T) * ITEMS : 16, N = BYTES / (int)sizeof(T);
    typedef typename Piece_<BYTES>::type Piece;
    const Piece *const from = (const Piece *)(column + row);
#pragma unroll
    for (int p = 0; p < ITEMS / N; p++) {
        if (!IS_EAGER && !(live >> (p * N) & (WARP_ >> (32 - N)))) continue;
        keep_<N>(values, p, __ldg(from + p));
    }
}

// Bit i: row + i is not NULL.  A thread's rows begin at a multiple of ITEMS.
DEVICE_ u32 load_valid_(const u8 *valid, u32 row, u32 live)
{
    u32 bits = 0;
    if (!valid) return WARP_;
    if (!live) return 0;
#pragma unroll
    for (int i = 0; i < ITEMS; i += 8) bits |= (u32)(__ldg(valid + ((row + i) >> 3)) >> (row & 7)) << i;
    return bits;
}

template <typename T> DEVICE_ void gather_(Values_<T> &values, const T *column, const u32 *rows, u32 live)
{
    values = {};                       // narrow ones are put into words
    EACH(live) values[i] = __ldg(column + rows[i]);
}

DEVICE_ u32 gather_valid_(const u8 *valid, const u32 *rows, u32 live)
{
    u32 bits = 0;
    if (!valid) return WARP_;
    EACH(live) bits |= (u32)(__ldg(valid + (rows[i] >> 3)) >> (rows[i] & 7) & 1) << i;
    return bits;
}

#if PICKED_
#define LOAD_COLUMN_(values, column, is_eager, live) gather_(values, column, row_of_, live);
#define LOAD_VALID_(valid, live)   gather_valid_(valid, row_of_, live)
#else
#define LOAD_COLUMN_(values, column, is_eager, live)                                                                   \
    load_<is_eager>(values, column, is_eager ? SAFE_ROW_ : ROW_(0), live);
#define LOAD_VALID_(valid, live)   load_valid_(valid, ROW_(0), live)
#endif

#define LOAD(type, name, live)     Values_<type> name##_loaded_; const Values_<type> &name = name##_loaded_;           \
                                   LOAD_COLUMN_(name##_loaded_, name##_all, name##_eager_, live)
// Lists of rows are the CPU's way of sharing a scan.
#define LOAD_ROWS(type, name, live) LOAD(type, name, live)
#define LOAD_TEST(type, name, live) LOAD(type, name, live)
#define UNSURE
#define PICK_UNSURE(live)          PICK(live)
#define LOAD_NULLS(name, live)     const u32 name##_valid = LOAD_VALID_(name##_valid_all, live);
#define IS_NULL(name)              (!(name##_valid & ITEM_(i)))
#define VALUE(name)                ((i64)((u64)name##_base + (u64)name[i]))
// Where chunks store a column in different widths, all lanes take the same way through the switch.
#define WIDEN_(type, name, live)   { Values_<type> narrow_; LOAD_COLUMN_(narrow_, (const type *)name##_col.data,       \
                                     false, live)                                                                      \
                                     EACH(live) name[i] = (i64)((u64)name##_col.base + narrow_[i]); }
#define LOAD_ANY(name, live)       i64 name[ITEMS]; switch (name##_col.width) {                                        \
                                       case 1: WIDEN_(u8, name, live) break; case 2: WIDEN_(u16, name, live) break;    \
                                       case 4: WIDEN_(u32, name, live) break; default: WIDEN_(u64, name, live) break; }

// There is but one kind of live rows here: what the CPU tests on a mask and then picks is narrowed in place.
#define DROP_UNLESS_(live, condition) if (!(condition)) live &= ~ITEM_(i)
// Which rows to look at is known before: no lookup waits for the one before it.
#define FILTER(live)               _Pragma("unroll") for (u32 i = 0, in_ = live; i < ITEMS; i++) if (in_ & ITEM_(i))
#define TEST(live)                 FILTER(live)
#define PASS(live, condition)      DROP_UNLESS_(live, condition)
#define PASS_ALSO(live, condition) DROP_UNLESS_(live, condition)
#define BETWEEN(type, stored, low, span) ((type)((stored) - (low)) <= (span))
#define PICK(live)
#define KEEP(live, condition)      DROP_UNLESS_(live, condition)

// The common tests on one stored column.  FILTER and TEST mean the same, as there is no mask; TYPE is the column's.
//   BETWEEN_       low <= stored <= low + span           FLAG_ BIT_       the key's byte or bit in a table is set
//   LOOKUP_        the key's payload in a table is not 0; it is carried, less 1
// Keys of these tables are below 2^32.  A range is compared for dead rows, too: that costs less than to branch.
#define KEY_(column, from)                               ((u32)((column)[i] + (from)))
#define IN_RANGE_(live, hit)                                                                                           \
    { u32 hits_ = 0; _Pragma("unroll") for (u32 i = 0; i < ITEMS; i++) hits_ |= (hit) ? ITEM_(i) : 0; live &= hits_; }
#define HIT_(live, hit)                                                                                                \
    { u32 hits_ = 0; EACH(live) hits_ |= (hit) ? ITEM_(i) : 0; live = hits_; }
#define BETWEEN_TEST(live, type, column, low, span)      IN_RANGE_(live, BETWEEN(type, (column)[i], low, span))
#define BETWEEN_TEST_ALSO(live, type, column, low, span) IN_RANGE_(live, BETWEEN(type, (column)[i], low, span))
#define BETWEEN_FILTER(live, type, column, low, span)    IN_RANGE_(live, BETWEEN(type, (column)[i], low, span))
#define FLAG_TEST(live, type, column, from, table)       HIT_(live, FLAG(table, KEY_(column, from)))
#define FLAG_FILTER(live, type, column, from, table)     HIT_(live, FLAG(table, KEY_(column, from)))
#define BIT_TEST(live, type, column, from, table)        HIT_(live, BIT(table, KEY_(column, from)))
// All bytes are asked for before the first is looked at, as in LOOKUP_FILTER.  Where the table is in the L2 cache, one
// by one took 0.39 ms for SSB Q2.3 at SF 20 on an H200.
#define BIT_FILTER(live, type, column, from, table)                                                                    \
    { Values_<u8> found_ = {}; EACH(live) found_[i] = (table)[(u64)KEY_(column, from) >> 3];                           \
      HIT_(live, found_[i] >> ((u64)KEY_(column, from) & 7) & 1) }
#define LOOKUP_FILTER(live, type, column, from, ptype, table, carried)                                                 \
    { Values_<ptype> found_ = {}; EACH(live) found_[i] = (table)[KEY_(column, from)];                                  \
      FILTER(live) { (carried)[i] = (ptype)(found_[i] - 1); DROP_UNLESS_(live, found_[i]); } }
#define LOOKUP_TEST(live, type, column, from, ptype, table, carried)                                                   \
    LOOKUP_FILTER(live, type, column, from, ptype, table, carried)
// The same by any number of the row: of a table of u16.  All looks of a thread are under way at once.
#define STATE_FILTER(live, at, table, carried)                                                                         \
    { Values_<u16> found_ = {}; EACH(live) found_[i] = (table)[at];                                                    \
      FILTER(live) { (carried)[i] = (u16)(found_[i] - 1); DROP_UNLESS_(live, found_[i]); } }

// Which queries want a row: WHO has a bit for each, in a SET of them; a row that nobody wants has none.  SIEVE: rows
// are looked up in a table by value of column K, with a LANE of bits for each.  Its parameters are where the table
// begins, how many values it has, and the queries that test it: where the table is far, only rows that one of them
// still wants are looked up, and where nobody does this time the column is not even there.  SORT_OUT: for each of N
// queries a bit per row, in its state slot; a thread writes whole bytes of them.

// What the compiler must read again for each tile: kept in registers, the arguments of six columns would halve the
// threads.
DEVICE_ u32 again_(u32 number)
{
    asm volatile("" : "+r"(number));
    return number;
}

template <bool IS_NEAR, typename Set, typename T, typename Lane>
DEVICE_ void sieve_(const KernelArgs *A, u32 k, Values_<Set> &who, u32 row, u32 row_end)
{
    const i64 *const params = A->params + SIEVED_COLUMN + 3 * again_(k);
    const Set        wants = (Set)params[2];
    if (!wants) return;
    const u32         from = (u32)params[0], size = (u32)params[1];
    const T *const    column = global_<T>(A->columns[again_(k)].data);
    const Lane *const table = Table_<Lane, IS_NEAR>::at(A, (int)again_(k));
    Values_<T>        values;
    if constexpr (IS_NEAR) {
        load_<true>(values, column, row < row_end ? row : 0, 0);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u32 at = (u32)values[i] + from;
            if (at < size) who[i] = who[i] & (Set)table[at];
        }
    } else {
        Values_<Set> found;
        u32          asked = 0;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) asked |= who[i] & wants ? ITEM_(i) : 0;
        load_<false>(values, column, row, asked);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            const u32 at = (u32)values[i] + from;
            found[i] = asked & ITEM_(i) && at < size ? (Set)__ldg(table + at) : ~(Set)0;
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) who[i] = who[i] & found[i];
    }
}

#define SIEVE(live, k, type, lane, set, who) sieve_<IS_SHARED_(k), set, type, lane>(A, k, who, ROW_(0), end_);

// Eight rows of eight bits to eight columns of eight.
DEVICE_ u64 transposed_(u64 bits)
{
    u64 swap = (bits ^ bits >> 7) & 0x00aa00aa00aa00aaull;
    bits ^= swap ^ swap << 7;
    swap = (bits ^ bits >> 14) & 0x0000cccc0000ccccull;
    bits ^= swap ^ swap << 14;
    swap = (bits ^ bits >> 28) & 0x00000000f0f0f0f0ull;
    return bits ^ swap ^ swap << 28;
}

// Bytes of eight rows: of a thread's own, or of its neighbours' as well where it has fewer.
DEVICE_ u64 eight_rows_(u64 bytes)
{
#pragma unroll
    for (u32 n = ITEMS, far = 1; n < 8; n *= 2, far *= 2) {
        const u64 other = __shfl_xor_sync(WARP_, bytes, far);
        bytes = threadIdx.x & far ? bytes << 8 * n | other : bytes | other << 8 * n;
    }
    return bytes;
}

template <typename Lane, typename Set>
DEVICE_ void sort_out_(const KernelArgs *A, const Values_<Set> &who, u32 n, u32 row, u32 row_end)
{
    constexpr u32 N = ITEMS < 8 ? ITEMS : 8;
    row_end = (row_end + PICK_ROWS - 1) / PICK_ROWS * PICK_ROWS;               // they are read so many at a time
#pragma unroll
    for (u32 first = 0; first < ITEMS; first += N) {
#pragma unroll
        for (u32 byte = 0; byte < sizeof(Lane); byte++) {
            u64 rows = 0;
            if (8 * byte >= n) break;
#pragma unroll
            for (u32 i = 0; i < N; i++) rows |= (u64)((u64)who[first + i] >> 8 * byte & 0xff) << 8 * i;
            rows = eight_rows_(rows);
            if (row + first >= row_end || row % 8) continue;
            const u64 sorted = rows ? transposed_(rows) : 0;
#pragma unroll
            for (u32 m = 0; m < 8; m++)
                if (8 * byte + m < n) ((u8 *)A->state[8 * byte + m])[(row + first) >> 3] = (u8)(sorted >> 8 * m);
        }
    }
}

#define SORT_OUT(live, lane, set, who, n) sort_out_<lane, set>(A, who, (u32)(n), ROW_(0), end_);
#define ROW_NUMBER                 ROW_(i)

// EXPLAIN ANALYZE: rows that left step k.  A block adds up its own in shared memory; still it is not for nothing, and
// counts may be 0.
#define STEPS_ 64
static __shared__ u32 steps_[STEPS_];

DEVICE_ void count_rows_(u64 *counts, u32 k, u32 live)
{
    const u32 n_rows = sum_of_warp_(__popc(live));
    if (threadIdx.x % 32 != 0 || !n_rows) return;
    if (k >= STEPS_) {
        atomicAdd(counts + k, (u64)n_rows);
        return;
    }
    const u32 before = atomicAdd(&steps_[k], n_rows);
    // Rows with many matches may be more than 32 bits count.
    if (before + n_rows < before) atomicAdd(counts + k, (u64)1 << 32);
}

#define STEP(k, live)              if (A->counts) count_rows_(A->counts, k, live);
#define STOPPED                    (*(const volatile u32 *)&A->common->cancel)

// ---- values that a later step needs: one per item -------------------------------------------------------------------
#define CARRY(type, name)          Values_<type> name = {};

// ---- joins ----------------------------------------------------------------------------------------------------------
#define BIT(table, at)             ((table)[(u64)(at) >> 3] >> ((u64)(at) & 7) & 1)
#define FLAG(table, at)            ((table)[at])
#define INSIDE(at, size)           ((u64)(at) < (u64)(size))

// Both words of a slot in one load.  __ldg reads global memory only, and the slots may be in shared memory.
DEVICE_ u32 slot_at_(const KernelSlot *slots, u64 at, u64 *key)
{
#if SHARED_TABLES_
    const uint4 slot = ((const uint4 *)slots)[at];
#else
    const uint4 slot = __ldg((const uint4 *)slots + at);
#endif
    *key = slot.x | (u64)slot.y << 32;
    return slot.z;
}

// found = row + 1 of the build side whose key is KEY_, or 0.  CONFIRM compares further key words of candidate row c_.
#define FIND(found, slots, mask, key_, confirm)                                                                        \
    { u64 s_ = HASH_SLOT(key_) & (mask), k_; for (;;) { const u32 c_ = slot_at_(slots, s_, &k_); if (!c_) { found = 0; \
      break; }                                                                                                         \
        if (k_ == (key_) && (confirm)) { found = c_; break; } s_ = (s_ + 1) & (mask); } }

// A row with several matches goes through the rest of the kernel once per match.  A warp makes as many passes as the
// longest chain among its rows needs: its lanes stay together, other warps do not wait.  So what is within speaks
// across lanes only (IN_MATCHES_).
static constexpr bool IN_MATCHES_ = false;
#define MATCHES(live, inner)       while (__any_sync(WARP_, live && !STOPPED)) { constexpr bool IN_MATCHES_ = true;    \
                                   u32 inner = live;
#define MATCHES_END(live, row, next) EACH(live) { row[i] = (next)[row[i] - 1]; if (!row[i]) live &= ~ITEM_(i); } }
// The same where rows without a match go on, too: a pass without a built row (row 0) for those whose chain ends while
// HIT is 0.
#define MATCHES_LEFT_END(live, row, next, hit) EACH(live) { \
                                       const u32 r_ = row[i], n_ = r_ ? (next)[r_ - 1] : 0; row[i] = n_; \
                                       if (!n_ && (!r_ || (hit))) live &= ~ITEM_(i); } }
// Along the chain of one row, within its block, while MORE.  Lanes of a warp walk chains of their own, and wait for the
// longest.
#define WALK(row, more)            while ((row) && (more) && !STOPPED)

// ---- accumulators ---------------------------------------------------------------------------------------------------
// How two of them become one: in a thread (join), and into memory that all blocks add to (merge).

DEVICE_ f64 nan_() { return __longlong_as_double(0x7ff8000000000000ll); }

// There is no atomic for this; most values change nothing and leave at once.
template <typename How> DEVICE_ void merge_f64_(f64 *cell, f64 value)
{
    u64 *const bits = (u64 *)cell;
    u64        before = *(volatile u64 *)bits;
    for (;;) {
        const u64 after = (u64)__double_as_longlong(How::join(__longlong_as_double((i64)before), value));
        if (after == before) return;
        const u64 found = atomicCAS(bits, before, after);
        if (found == before) return;
        before = found;
    }
}

struct sum_ {
    DEVICE_ i64  start(i64) { return 0; }
    DEVICE_ f64  start(f64) { return 0; }
    DEVICE_ i64  join(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
    DEVICE_ f64  join(f64 a, f64 b) { return a + b; }
    DEVICE_ void merge(i64 *cell, i64 value) { atomicAdd((u64 *)cell, (u64)value); }
    DEVICE_ void merge(f64 *cell, f64 value) { atomicAdd(cell, value); }
};

// NaN is the largest number, as in PostgreSQL.
struct least_ {
    DEVICE_ i64  start(i64) { return 0x7fffffffffffffffll; }
    DEVICE_ f64  start(f64) { return nan_(); }
    DEVICE_ i64  join(i64 a, i64 b) { return b < a ? b : a; }
    DEVICE_ f64  join(f64 a, f64 b) { return b < a || a != a ? b : a; }
    DEVICE_ void merge(i64 *cell, i64 value) { atomicMin(cell, value); }
    DEVICE_ void merge(f64 *cell, f64 value) { merge_f64_<least_>(cell, value); }
};

struct most_ {
    DEVICE_ i64  start(i64) { return -0x7fffffffffffffffll - 1; }
    DEVICE_ f64  start(f64) { return __longlong_as_double((i64)0xfff0000000000000ull); }
    DEVICE_ i64  join(i64 a, i64 b) { return b > a ? b : a; }
    DEVICE_ f64  join(f64 a, f64 b) { return b > a || b != b ? b : a; }
    DEVICE_ void merge(i64 *cell, i64 value) { atomicMax(cell, value); }
    DEVICE_ void merge(f64 *cell, f64 value) { merge_f64_<most_>(cell, value); }
};

// 128 bits: a low word without sign, a high word with it.  In memory each word is added to on its own; which addition
// carries depends on the order, how many do does not.
struct Wide_ {
    u64 low;
    i64 high;
};

DEVICE_ Wide_ widen_(i64 value) { return { (u64)value, value < 0 ? -1ll : 0ll }; }

DEVICE_ Wide_ join_wide_(Wide_ a, Wide_ b)
{
    const u64 low = a.low + b.low;
    return { low, a.high + b.high + (low < b.low) };
}

DEVICE_ void merge_wide_(i64 *low, i64 *high, Wide_ value)
{
    const u64 before = atomicAdd((u64 *)low, value.low);
    const i64 carried = value.high + (before + value.low < before);
    if (carried) atomicAdd((u64 *)high, (u64)carried);
}

// In shared memory 64 bits are added as two words: there is no atomic for more that does not try again.
DEVICE_ void add_shared_(i64 *cell, i64 value)
{
    u32 *const words = (u32 *)cell;
    const u32  before = atomicAdd(words, (u32)value);
    const u32  high = (u32)((u64)value >> 32) + (before + (u32)value < before);
    if (high) atomicAdd(words + 1, high);
}

// Into a group's cell.
template <typename How> struct Into_ {
    template <typename T> DEVICE_ void merge(T *cell, T value) { How::merge(cell, value); }
};

#if SHARED_GROUPS_
template <> struct Into_<sum_> {
    DEVICE_ void merge(i64 *cell, i64 value) { add_shared_(cell, value); }
    DEVICE_ void merge(f64 *cell, f64 value) { sum_::merge(cell, value); }
};

DEVICE_ void merge_wide_cell_(i64 *low, i64 *high, i64 value) { merge_wide_(low, high, widen_(value)); }
#else
// In memory that all blocks add to, what lanes of a warp have for one cell is added up first: additions to one place
// come one after the other there, and where most rows are of one group, or lie side by side by group, all others wait
// for them.
#if __CUDA_ARCH__ >= 800
#define TOGETHER_ 2                    // lanes at least

// Lanes that add to the cell of the first one here; 0: this is none of them, or they are few.
DEVICE_ u32 together_(const void *cell)
{
    const u32  here = __activemask();
    const bool is_same = (u64)cell == __shfl_sync(here, (u64)cell, __ffs(here) - 1);
    const u32  same = __ballot_sync(here, is_same);
    return is_same && __popc(same) >= TOGETHER_ ? same : 0;
}

// Of 27 bits each, what 32 lanes have fits a word.
DEVICE_ Wide_ sum_of_(u32 lanes, i64 value)
{
    const u64 bits = (u64)value, all = (1 << 27) - 1;
    const u64 low = __reduce_add_sync(lanes, (u32)(bits & all)),
              middle = __reduce_add_sync(lanes, (u32)(bits >> 27 & all)),
              top = __reduce_add_sync(lanes, (u32)(bits >> 54));
    const i64 n_negative = __popc(__ballot_sync(lanes, value < 0));
    return join_wide_({ low + (middle << 27), -n_negative }, { top << 54, (i64)(top >> 10) });
}

DEVICE_ bool is_first_of_(u32 lanes) { return threadIdx.x % 32 == (u32)__ffs(lanes) - 1; }
#else
DEVICE_ u32   together_(const void *) { return 0; }
DEVICE_ Wide_ sum_of_(u32, i64 value) { return widen_(value); }
DEVICE_ bool  is_first_of_(u32) { return true; }
#endif

template <> struct Into_<sum_> {
    DEVICE_ void merge(i64 *cell, i64 value)
    {
        const u32 lanes = together_(cell);
        const i64 sum = lanes ? (i64)sum_of_(lanes, value).low : value;
        if (!lanes || is_first_of_(lanes)) sum_::merge(cell, sum);
    }
    DEVICE_ void merge(f64 *cell, f64 value) { sum_::merge(cell, value); }
};

// Most values change nothing, and looking is not waited for by others.
template <> struct Into_<least_> {
    DEVICE_ void merge(i64 *cell, i64 value) { if (value < *(volatile i64 *)cell) least_::merge(cell, value); }
    DEVICE_ void merge(f64 *cell, f64 value) { least_::merge(cell, value); }
};

template <> struct Into_<most_> {
    DEVICE_ void merge(i64 *cell, i64 value) { if (value > *(volatile i64 *)cell) most_::merge(cell, value); }
    DEVICE_ void merge(f64 *cell, f64 value) { most_::merge(cell, value); }
};

DEVICE_ void merge_wide_cell_(i64 *low, i64 *high, i64 value)
{
    const u32   lanes = together_(low);
    const Wide_ sum = lanes ? sum_of_(lanes, value) : widen_(value);
    if (!lanes || is_first_of_(lanes)) merge_wide_(low, high, sum);
}
#endif

// A group's accumulator: a0[group] is not a number but a place.  So one word, ADD, is an addition in a register where
// it is given a total, and an atomic one where it is given a cell.
template <typename T> struct Cell_ { T *at; };

template <typename T> struct Cells_ {
    T *first;
    __device__ __forceinline__ Cell_<T> operator[](u64 group) const { return { first + group }; }
};

// One of the first groups of a hash table, or another.
template <typename T> struct NearCell_ {
    T   *at;
    bool is_near;
};

template <typename T> struct NearCells_ {
    T  *first, *near;
    u32 n_near;
    __device__ __forceinline__ NearCell_<T> operator[](u32 group) const
    {
        return { group < n_near ? near + group : first + group, group < n_near };
    }
};

template <typename How> struct Near_ {
    template <typename T> DEVICE_ void merge(T *cell, T value) { How::merge(cell, value); }
};

template <> struct Near_<sum_> {
    DEVICE_ void merge(i64 *cell, i64 value) { add_shared_(cell, value); }
    DEVICE_ void merge(f64 *cell, f64 value) { sum_::merge(cell, value); }
};

template <typename How> DEVICE_ void put_(i64 &total, i64 value) { total = How::join(total, value); }
template <typename How> DEVICE_ void put_(f64 &total, f64 value) { total = How::join(total, value); }
template <typename How> DEVICE_ void put_(Cell_<i64> cell, i64 value) { Into_<How>::merge(cell.at, value); }
template <typename How> DEVICE_ void put_(Cell_<f64> cell, f64 value) { Into_<How>::merge(cell.at, value); }

template <typename How> DEVICE_ void put_(NearCell_<i64> cell, i64 value)
{
    cell.is_near ? Near_<How>::merge(cell.at, value) : Into_<How>::merge(cell.at, value);
}

template <typename How> DEVICE_ void put_(NearCell_<f64> cell, f64 value)
{
    cell.is_near ? Near_<How>::merge(cell.at, value) : Into_<How>::merge(cell.at, value);
}

DEVICE_ void put_wide_(i64 &low, i64 &high, i64 value)
{
    const Wide_ sum = join_wide_({ (u64)low, high }, widen_(value));
    low = (i64)sum.low, high = sum.high;
}

DEVICE_ void put_wide_(Cell_<i64> low, Cell_<i64> high, i64 value) { merge_wide_cell_(low.at, high.at, value); }

DEVICE_ void put_wide_(NearCell_<i64> low, NearCell_<i64> high, i64 value)
{
    if (low.is_near) merge_wide_(low.at, high.at, widen_(value));
    else merge_wide_cell_(low.at, high.at, value);
}

// Extremes of 128 bits.  Two words cannot change at once here, so the host gives no kernel with LEAST_WIDE or MOST_WIDE
// to a GPU (Woven.is_for_cpu); what follows is right for one thread only.
DEVICE_ void put_extreme_wide_(i64 &cell_high, i64 &cell_low, i64 high, i64 low, bool is_least)
{
    const bool is_less = high < cell_high || (high == cell_high && (u64)low < (u64)cell_low),
               is_same = high == cell_high && low == cell_low;
    if (is_same || is_less != is_least) return;
    cell_high = high, cell_low = low;
}

template <typename Cell>
DEVICE_ void put_extreme_wide_(Cell cell_high, Cell cell_low, i64 high, i64 low, bool is_least)
{
    put_extreme_wide_(*cell_high.at, *cell_low.at, high, low, is_least);
}

// SPREAD: a float's digits, each into a slot of its own.  Integer additions: the sum does not depend on their order.
DEVICE_ void spread_(void *const *state, u64 group, f64 value, i64 unit, u32 log, u32 n)
{
    const u64 whole = (u64)__double_as_longlong(value), bits = 1ull << log, all = (1ull << bits) - 1;
    u64       digits = whole & 0xfffffffffffffull;
    i64       at = (i64)(whole >> 52 & 2047);
    if (at) digits |= 0x10000000000000ull;
    else at = 1;
    at -= 1075 + unit;
    if (at < 0) digits = at > -64 ? digits >> -at : 0, at = 0;
    const u64 up = (u64)at & (bits - 1);
    u64       digit = digits << up & all;
    digits >>= bits - up;
    for (u64 slot = (u64)at >> log; slot < n; slot++) {
        if (digit) atomicAdd((u64 *)state[slot] + group, whole >> 63 ? 0 - digit : digit);
        if (!digits) break;
        digit = digits & all;
        digits >>= bits;
    }
}

// ---- shared memory: before a block's first tile, and after its last -------------------------------------------------
DEVICE_ void fetch_table_(const KernelArgs *A, int k)
{
    const KernelSpot   spot = A->common->spots[k];
    const uint4 *const from = (const uint4 *)A->tables[k];
#pragma unroll 1
    for (u32 i = threadIdx.x; i < spot.bytes / 16; i += blockDim.x) shared_[spot.at / 16 + i] = __ldg(from + i);
}

DEVICE_ u8 *cells_(const KernelArgs *A, const KernelCells *cells) { return (u8 *)shared_ + A->shared_at + cells->at; }

DEVICE_ void clear_cells_(const KernelArgs *A)
{
    const KernelCommon *const common = A->common;
#pragma unroll 1
    for (u32 s = 0; s < common->n_state; s++) {
        const KernelCells cells = common->cells[s];
#pragma unroll 1
        for (u32 g = threadIdx.x; g < common->n_groups; g += blockDim.x) {
            if (cells.kind == CELLS_SEEN) cells_(A, &cells)[g] = 0;
            else ((u64 *)cells_(A, &cells))[g] = cells.init;
        }
    }
}

// Kinds that are not there cost a third of the time to compile a small kernel.
#define IS_KIND_(name)             ((CELLS_KINDS_ >> CELLS_##name & 1) && cells.kind == CELLS_##name)

DEVICE_ void merge_cells_(const KernelArgs *A, u32 s, u32 g)
{
    const KernelCells cells = A->common->cells[s];
    const u64         bits = cells.kind == CELLS_SEEN ? 0 : ((const u64 *)cells_(A, &cells))[g];
    i64 *const        to = (i64 *)A->state[s] + g;
    if (cells.kind != CELLS_SEEN && cells.kind != CELLS_WIDE_LOW && bits == cells.init) return;
    if (IS_KIND_(SEEN) && cells_(A, &cells)[g]) ((u8 *)A->state[s])[g] = 1;
    if (IS_KIND_(ADD)) sum_::merge(to, (i64)bits);
    if (IS_KIND_(MIN)) least_::merge(to, (i64)bits);
    if (IS_KIND_(MAX)) most_::merge(to, (i64)bits);
    if (IS_KIND_(MIN_F64)) least_::merge((f64 *)to, __longlong_as_double((i64)bits));
    if (IS_KIND_(MAX_F64)) most_::merge((f64 *)to, __longlong_as_double((i64)bits));
    if (IS_KIND_(WIDE_LOW)) {          // and the high word with it
        const i64 high = ((const i64 *)cells_(A, &A->common->cells[s + 1]))[g];
        if (bits || high) merge_wide_(to, (i64 *)A->state[s + 1] + g, { bits, high });
    }
}

DEVICE_ void merge_all_cells_(const KernelArgs *A)
{
#pragma unroll 1
    for (u32 s = 0; s < A->common->n_state; s++)
#pragma unroll 1
        for (u32 g = threadIdx.x; g < A->common->n_groups; g += blockDim.x) merge_cells_(A, s, g);
}

// A kernel serves one query, or several.
#define EACH_MEMBER_(m)            _Pragma("unroll 1") for (u32 m = 0; m < (A->n_members ? A->n_members : 1); m++)
DEVICE_ const KernelArgs *member_(const KernelArgs *A, u32 m) { return A->n_members ? A->members[m] : A; }

DEVICE_ void begin_(const KernelArgs *A)
{
#if SHARED_TABLES_
#pragma unroll 1
    for (int k = 0; k < 32; k++)
        if ((u32)SHARED_TABLES_ >> k & 1) fetch_table_(A, k);
#endif
#if CELLS_KINDS_
    EACH_MEMBER_(m) clear_cells_(member_(A, m));
#endif
    if (A->counts && threadIdx.x < STEPS_) steps_[threadIdx.x] = 0;
    if (SHARED_TABLES_ || CELLS_KINDS_ || A->counts) __syncthreads();
}

DEVICE_ void end_(const KernelArgs *A)
{
    if (CELLS_KINDS_ || A->counts) __syncthreads();
    if (A->counts && threadIdx.x < STEPS_ && steps_[threadIdx.x])
        atomicAdd(A->counts + threadIdx.x, (u64)steps_[threadIdx.x]);
#if CELLS_KINDS_
    EACH_MEMBER_(m) merge_all_cells_(member_(A, m));
#endif
}

// From the registers of a block to memory: lanes by shuffles, warps through shared memory, to the first warp.  The
// loops stay loops: unrolled, six totals took 300 ms to compile, so 140, and all of it runs once a block.
template <typename How, typename T> DEVICE_ T total_of_warp_(T total)
{
#pragma unroll 1
    for (u32 far = 16; far > 0; far /= 2) total = How::join(total, __shfl_down_sync(WARP_, total, far));
    return total;
}

template <typename How, typename T> DEVICE_ void total_end_(T total, T *cell)
{
    __shared__ T parts[32];
    total = total_of_warp_<How>(total);
    __syncthreads();                   // the total before may still be at it
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    total = total_of_warp_<How>(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : How::start((T)0));
    if (threadIdx.x == 0) How::merge(cell, total);
}

DEVICE_ Wide_ total_of_warp_(Wide_ total)
{
#pragma unroll 1
    for (u32 far = 16; far > 0; far /= 2)
        total =
            join_wide_(total, { __shfl_down_sync(WARP_, total.low, far), __shfl_down_sync(WARP_, total.high, far) });
    return total;
}

DEVICE_ void total_wide_end_(Wide_ total, i64 *low, i64 *high)
{
    __shared__ Wide_ parts[32];
    total = total_of_warp_(total);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    total = total_of_warp_(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : widen_(0));
    if (threadIdx.x == 0) merge_wide_(low, high, total);
}

// ---- sinks ----------------------------------------------------------------------------------------------------------
// One accumulator, in a register during the kernel.
#define TOTAL(how, type, name, k)     type name = how##_::start((type)0);
#define TOTAL_END(how, type, name, k) total_end_<how##_>(name, (type *)A->state[k]);
#define TOTAL_WIDE(low, high, k)      i64 low = 0, high = 0;                           // 128 bits: two words, two slots
#define TOTAL_WIDE_END(low, high, k)  total_wide_end_({ (u64)low, high }, (i64 *)A->state[k], (i64 *)A->state[(k) + 1]);
#if SHARED_GROUPS_
// One accumulator per group.
#define SUMS(type, name, k)        const Cells_<type> name = { (type *)cells_(A, &A->common->cells[k]) };
#elif NEAR_GROUPS_
#define SUMS(type, name, k)        const NearCells_<type> name = { (type *)A->state[k],                                \
                                   (type *)cells_(A, &A->common->cells[k]), A->common->n_groups };
#else
#define SUMS(type, name, k)        const Cells_<type> name = { (type *)A->state[k] };
#endif
#define ADD(cell, value)           put_<sum_>(cell, value);
#define ADD_WIDE(low, high, value) put_wide_(low, high, value);
#define PART(part, rest, radix)    i64 part; { union { f64 f; i64 i; } t_; t_.f = (rest) + 6755399441055744.0;         \
                                   part = t_.i - 0x4338000000000000ll;                                                 \
                                       rest = ((rest) - (t_.f - 6755399441055744.0)) * (radix); }
#define SPREAD(k, group, value, unit, log, n) spread_(A->state + (k), group, value, unit, (u32)(log), (u32)(n));
#define LEAST(cell, value)         put_<least_>(cell, value);
#define MOST(cell, value)          put_<most_>(cell, value);
#define LEAST_F64(cell, value)     put_<least_>(cell, value);
#define MOST_F64(cell, value)      put_<most_>(cell, value);
#define LEAST_WIDE(cell_high, cell_low, high, low) put_extreme_wide_(cell_high, cell_low, high, low, true);
#define MOST_WIDE(cell_high, cell_low, high, low)  put_extreme_wide_(cell_high, cell_low, high, low, false);
#define TOTAL_ROWS(cell, live)     cell += __popc(live);
// All threads write the same.  The L1 cache mostly knows that it was written, and each write goes to the L2 cache: 120
// M rows by 40,000 suppliers took 8.0 ms on an H200 with a write for each row, and 2.2 so; by 600,000 customers 3.5 and
// 2.9, by 1,000,000 parts 10.2 and 10.0.
#define SEEN(cell)                 { u8 *const at_ = (cell).at; if (!*at_) *at_ = 1; }

// ---- hash groups ----------------------------------------------------------------------------------------------------
// A slot is written once: its row goes from 0 to BUSY_, its key from 0 to the key, then its row to the group's number +
// 1.
#define BUSY_    0xffffffffu           // taken, its key is being written
#define NONE_    0xfffffffeu           // there was no room for its group

// One is enough: with an atomic of each thread that found no room 120 million rows took 11.5 ms on an H200, and 2.0 so.
DEVICE_ void no_room_(const KernelArgs *A)
{
    if (!*(const volatile i32 *)&A->common->failed) atomicCAS(&A->common->failed, 0, NO_ROOM);
}

// Acquire and release: who sees the row sees the key and the words written before it.
DEVICE_ u32 wait_for_row_(const KernelSlot *slot)
{
    u32 row;
    do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(row) : "l"(&slot->row) : "memory");
    while (row == BUSY_);
    return row;
}

DEVICE_ u32 publish_row_(KernelSlot *slot, u32 row)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(&slot->row), "r"(row) : "memory");
    return row;
}

// Each acquire empties L1.  A key that is its own only word does without, once key and row are both there, since they
// never change again (a key of 0 may be there or be yet to come).  Measured on an H200, 20 M rows, 10,000 groups: 0.9
// instead of 2.6 ms.
DEVICE_ bool is_settled_(const KernelSlot *slot, u64 *key, u32 *row, int)
{
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(*key) : "l"(&slot->key));
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(*row) : "l"(&slot->row));
    return *key != 0 && *row != 0 && *row < NONE_;
}

template <int N> DEVICE_ bool is_settled_(const KernelSlot *, u64 *, u32 *, const u64 (&)[N]) { return false; }

DEVICE_ void store_words_(const KernelArgs *A, u64 group, u64 key, int) { A->group_words[group] = key; }

template <int N> DEVICE_ void store_words_(const KernelArgs *A, u64 group, u64, const u64 (&words)[N])
{
    for (int k = 0; k < N; k++) A->group_words[group * N + k] = words[k];
}

// Takes an empty slot for a new group; the row that then is in it, which may be another thread's.
template <typename Words> DEVICE_ u32 take_slot_(const KernelArgs *A, KernelSlot *slot, u64 key, const Words &words)
{
    if (atomicCAS(&slot->row, 0u, BUSY_) != 0) return wait_for_row_(slot);
    const u64 group = atomicAdd(&A->common->n_used, 1ull);
    if (group >= A->common->n_room) {
        no_room_(A);
        return publish_row_(slot, NONE_);
    }
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(&slot->key), "l"(key) : "memory");
    store_words_(A, group, key, words);
    return publish_row_(slot, (u32)group + 1);
}

// The row of a slot that is made to hold one, and whether its key is KEY.
template <typename Words>
DEVICE_ u32 row_of_slot_(const KernelArgs *A, KernelSlot *slot, u64 key, const Words &words, bool *is_same)
{
    u64 found;
    u32 row;
    if (!is_settled_(slot, &found, &row, words)) {
        row = wait_for_row_(slot);
        if (!row) row = take_slot_(A, slot, key, words);
        found = slot->key;
    }
    *is_same = found == key;
    return row;
}

// group = number of the group with this key; a new one is made where there is room, else the host makes more and
// repeats.  WORDS_ is an array where a key takes several words, and 0 where it is its own.
#define GROUP(group, key_, words_, confirm)                                                                            \
    { u64 s_ = HASH_SLOT(key_) & A->groups_mask; for (;;) { bool same_;                                                \
      const u32 c_ = row_of_slot_(A, A->groups + s_, key_, words_, &same_);                                            \
        if (c_ == NONE_) { group = 0; break; }                                                                         \
        if (same_ && (confirm)) { group = c_ - 1; break; } s_ = (s_ + 1) & A->groups_mask; } }

// ---- rows: a block takes room for all live rows of a tile at once and writes them side by side, in their order ------
// Where rows have several matches (IN_MATCHES_), a warp does.  One thread takes the room, and says in a segment where
// the rows are from.
DEVICE_ u64 take_segment_(const KernelArgs *A, u32 row, u32 n_rows)
{
    KernelCommon *const common = A->common;
    const u64           taken = atomicAdd(&common->n_used, 1ull << 32 | n_rows);
    const u32           first = TAKEN_ROWS(taken), segment = TAKEN_SEGMENTS(taken);
    if (segment < common->segments_room) common->segments[segment] = { A->place + row, first, n_rows };
    else no_room_(A);
    return first;
}

// Live rows of the warp; BEFORE: those of the lanes before this one.
DEVICE_ u32 rows_of_warp_(u32 live, u32 &before)
{
    const u32 lane = threadIdx.x % 32;
    u32       n_rows = 0;
    before = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 lanes = __ballot_sync(WARP_, live & ITEM_(i));
        before += __popc(lanes & ((1u << lane) - 1));
        n_rows += __popc(lanes);
    }
    return n_rows;
}

DEVICE_ u64 take_by_warp_(const KernelArgs *A, u32 row, u32 n_rows)
{
    u64 first = 0;
    if (threadIdx.x % 32 == 0 && n_rows) first = take_segment_(A, row, n_rows);
    return __shfl_sync(WARP_, first, 0);
}

// The first warp adds up what all have: FIRST becomes where each warp's rows begin.
DEVICE_ void take_for_warps_(const KernelArgs *A, u32 row, const u32 *n_rows, u64 *first)
{
    const u32 lane = threadIdx.x % 32, n_warps = blockDim.x / 32, own = lane < n_warps ? n_rows[lane] : 0;
    const u32 until = sum_until_(own), all = __shfl_sync(WARP_, until, 31);
    u64       begin = 0;
    if (lane == 0) begin = take_segment_(A, row, all);
    begin = __shfl_sync(WARP_, begin, 0);
    if (lane < n_warps) first[lane] = begin + until - own;
}

// All threads come here for each tile.  The first barrier also says that nobody looks at the tile before any more.
DEVICE_ u64 take_by_block_(const KernelArgs *A, u32 row, u32 n_rows)
{
    static __shared__ u64 first[32];
    static __shared__ u32 n_rows_of[32];
    if (!__syncthreads_or((int)n_rows)) return 0;
    if (threadIdx.x % 32 == 0) n_rows_of[threadIdx.x / 32] = n_rows;
    __syncthreads();
    if (threadIdx.x < 32) take_for_warps_(A, row, n_rows_of, first);
    __syncthreads();
    return first[threadIdx.x / 32];
}

template <bool IS_BY_WARP> DEVICE_ u64 take_room_(const KernelArgs *A, u32 row, u32 &live, u32 &before)
{
    const u32 n_rows = rows_of_warp_(live, before);
    const u64 first = IS_BY_WARP ? take_by_warp_(A, row, n_rows) : take_by_block_(A, row, n_rows);
    if (first + n_rows > A->common->n_room) {
        no_room_(A);                   // n_used goes on counting: it ends as the room that is needed
        live = 0;
    }
    return first;
}

#define ROOM(live)                 u32 before_; const u64 out_ = take_room_<IN_MATCHES_>(A, ROW_(0), live, before_);   \
                                   const u32 put_live_ = live;
#define OUT(type, name, k)         type *const name = (type *)A->state[k] + out_ + before_;
#define PUT(name, value)           name[__popc(put_live_ & (ITEM_(i) - 1))] = (value);

// ---- join tables made where the rows are ----------------------------------------------------------------------------
// NOTE, MARK: what a table of these rows will have to hold, found out while they are put out.
struct Note_ {
    i64 low, high, n_nulls;
};

DEVICE_ void note_(Note_ &note, i64 value)
{
    note.low = least_::join(note.low, value);
    note.high = most_::join(note.high, value);
}

DEVICE_ void mark_(const KernelNote *notes, u32 k, i64 value)
{
    if (!notes) return;
    const u64 at = (u64)value - notes[k].first;
    if (at < notes[k].n_marks) notes[k].marks[at] = 1;
}

DEVICE_ void notes_end_(KernelNote *notes, u32 k, const Note_ &note)
{
    if (!notes) return;
    total_end_<least_>(note.low, &notes[k].low);
    total_end_<most_>(note.high, &notes[k].high);
    total_end_<sum_>(note.n_nulls, &notes[k].n_nulls);
}

#define NOTES(k)                   Note_ note##k##_ = { 0x7fffffffffffffffll, -0x7fffffffffffffffll - 1, 0 };
#define NOTE(k, value)             note_(note##k##_, value);
#define NOTE_NULL(k)               note##k##_.n_nulls++;
#define MARK(k, value)             mark_(A->common->notes, k, value);
#define NOTES_END(k)               notes_end_(A->common->notes, k, note##k##_);

// Two rows of one place: whoever comes last stays, and FRESH tells that there were two.
DEVICE_ void place_(u8 *places, u64 width, u64 at, u64 code)
{
    switch (width) {
        case 1: places[at] = (u8)code; break;
        case 2: ((u16 *)places)[at] = (u16)code; break;
        case 4: ((u32 *)places)[at] = (u32)code; break;
        default: ((u64 *)places)[at] = code; break;
    }
}

#define PLACES(name, k)            u8 *const name = (u8 *)A->state[k];
#define PLACE(name, width, at, code) place_(name, width, at, code);
#define FRESH(r, name, at)         i64 r; { const u64 at_ = (at); r = !(atomicOr((u32 *)(name) + (at_ >> 5),           \
                                   1u << (at_ & 31)) >> (at_ & 31) & 1); }

// Rows of equal key to a chain, by threads that all begin at once.  CHAIN: from a head by key.  CHAIN_HASHED: the first
// row of a key takes a slot, which stays its own until all are there, so that others compare with its key where that
// lies (CONFIRM, of row c_ - 1) and wait for nothing to be written; they are chained from the slot's spare word.
DEVICE_ u32 first_of_slot_(KernelSlot *slot, u32 row)
{
    const u32 found = *(const volatile u32 *)&slot->row;
    return found ? found : atomicCAS(&slot->row, 0u, row);
}

#define CHAIN(heads, next, at, row_) { ((u32 *)(next))[row_] = atomicExch((u32 *)(heads) + (at), (u32)(row_) + 1); }
#define CHAIN_HASHED(table, mask, key_, next, row_, confirm)                                                           \
    { KernelSlot *const slots_ = (KernelSlot *)(table); u64 s_ = HASH_SLOT(key_) & (mask); for (;;) {                  \
        const u32 c_ = first_of_slot_(slots_ + s_, (u32)(row_) + 1); if (!c_) { slots_[s_].key = (key_); break; }      \
        if (confirm) { ((u32 *)(next))[row_] = atomicExch(&slots_[s_].spare, (u32)(row_) + 1); break; }                \
        s_ = (s_ + 1) & (mask); } }
// PLACE_OF: where the row of this number is from; segments lie in the order of the rows.
#define PLACE_OF(r, segments, n, row_)                                                                                 \
    u64 r; { u64 from_ = 0, last_ = (n) - 1; while (from_ < last_) { const u64 middle_ = (from_ + last_ + 1) / 2;      \
        if ((segments)[middle_].first <= (row_)) from_ = middle_; else last_ = middle_ - 1; }                          \
        r = (segments)[from_].place; }

// ---- a radix sort, a pass at a time (weave/sorting.c) ---------------------------------------------------------------
// A part is one block (grid.x is 1), so that its rows, tile by tile, are neighbours in their order.  A warp takes 32
// neighbours at a time, ITEMS times: lane l, item i has row (warp * ITEMS + i) * 32 + l of the tile.
#define SORT_THREADS_ 512              // of a block, at most
#define SORT_WARPS_   (SORT_THREADS_ / 32)
#define DIGIT(key, shift)          ((u32)((key) >> (shift)) & 255u)
#define SORT_ROW_(i)               ((threadIdx.x / 32 * ITEMS + (i)) * 32 + threadIdx.x % 32)

DEVICE_ void clear_counts_(u32 *counts)
{
    for (u32 d = threadIdx.x; d < 256; d += blockDim.x) counts[d] = 0;
    __syncthreads();
}

// Rows that are sorted already have the same digit for long: then one lane counts for all.
template <typename T> DEVICE_ void count_digits_(const T *keys, u32 tile, u32 end, u32 shift, u32 *counts)
{
    const T *const from = keys + tile + SORT_ROW_(0);
    u32            digits[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) digits[i] = SORT_ROW_(i) < end - tile ? DIGIT(__ldg(from + i * 32), shift) : 256;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const bool is_same = __all_sync(WARP_, digits[i] == __shfl_sync(WARP_, digits[i], 0));
        if (digits[i] < 256 && (!is_same || threadIdx.x % 32 == 0)) atomicAdd(counts + digits[i], is_same ? 32 : 1);
    }
}

DEVICE_ void put_counts_(const u32 *counts, u32 *to, u64 n_parts, u64 part)
{
    __syncthreads();
    for (u32 d = threadIdx.x; d < 256; d += blockDim.x) to[d * n_parts + part] = counts[d];
}

// Of all threads before this one; *ALL: of the block.
DEVICE_ u32 sum_before_(u32 number, u32 *all)
{
    __shared__ u32 of_warps[32];
    const u32      until = sum_until_(number), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();                   // the sum before may still be at it
    if (lane == 31) of_warps[warp] = until;
    __syncthreads();
    const u32 of_warp = lane < blockDim.x / 32 ? of_warps[lane] : 0;
    *all = sum_of_warp_(of_warp);
    return sum_of_warp_(lane < warp ? of_warp : 0) + until - number;
}

DEVICE_ u32 run_up_(u32 *numbers, u32 tile, u32 end, u32 total)
{
    const u32 first = tile + threadIdx.x * ITEMS;
    u32       own[ITEMS], sum = 0, all;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) own[i] = first + i < end ? numbers[first + i] : 0, sum += own[i];
    u32 before = total + sum_before_(sum, &all);
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (first + i < end) numbers[first + i] = before;
        before += own[i];
    }
    return total + all;
}

// The sums before each of 256 numbers: by the first warp, eight for each lane.  *FROM may be TO.
DEVICE_ void sums_before_digits_(const u32 *from, u32 *to)
{
    if (threadIdx.x >= 32) return;
    u32 own[8], sum = 0;
#pragma unroll
    for (u32 i = 0; i < 8; i++) own[i] = from[threadIdx.x * 8 + i], sum += own[i];
    u32 before = sum_until_(sum) - sum;
#pragma unroll
    for (u32 i = 0; i < 8; i++) to[threadIdx.x * 8 + i] = before, before += own[i];
}

DEVICE_ void digit_starts_(u32 *starts, const u32 *counts, const u32 *totals, u64 n_parts, u64 part)
{
    sums_before_digits_(totals, starts);
    __syncthreads();
    for (u32 d = threadIdx.x; d < 256; d += blockDim.x) starts[d] += counts[d * n_parts + part];
    __syncthreads();
}

// Rows that have this lane's digit, in the lanes before it and in all.
DEVICE_ u32 lanes_of_digit_(u32 digit, u32 *before)
{
    const u32 lanes = __match_any_sync(WARP_, digit);
    *before = __popc(lanes & ((1u << threadIdx.x % 32) - 1));
    return __popc(lanes);
}

// Rows of a tile get a place each: by digit, and among equal ones in their order.  They are put there in shared memory,
// so that neighbours go to memory together.
template <typename T> struct Scatter_ {
    u16 counts[SORT_WARPS_][256];      // of each warp's rows; then how many the warps before it have
    u32 firsts[256];                   // place of a digit's first row in the tile
    u32 sizes[256];                    // rows of a digit in the tile
    u32 shifts[256];                   // from a place in the tile to one in the output
    T   moved[SORT_THREADS_ * ITEMS];
};

template <typename T> DEVICE_ void rank_rows_(Scatter_<T> &s, const u32 *digits, u32 *places)
{
    u16 *const counts = s.counts[threadIdx.x / 32];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        u32       before;
        const u32 n = lanes_of_digit_(digits[i], &before), digit = digits[i] & 255;
        const u32 so_far = counts[digit];
        __syncwarp();
        if (!before && digits[i] < 256) counts[digit] = (u16)(so_far + n);
        __syncwarp();
        places[i] = so_far + before;
    }
}

// STARTS go on behind the rows of this tile.
template <typename T> DEVICE_ void place_digits_(Scatter_<T> &s, u32 *starts)
{
#pragma unroll 1
    for (u32 d = threadIdx.x; d < 256; d += blockDim.x) {
        u32 sum = 0;
#pragma unroll 4
        for (u32 w = 0; w < blockDim.x / 32; w++) {
            const u32 n = s.counts[w][d];
            s.counts[w][d] = (u16)sum, sum += n;
        }
        s.sizes[d] = sum;
    }
    __syncthreads();
    sums_before_digits_(s.sizes, s.firsts);
    __syncthreads();
#pragma unroll 1
    for (u32 d = threadIdx.x; d < 256; d += blockDim.x) s.shifts[d] = starts[d] - s.firsts[d], starts[d] += s.sizes[d];
    __syncthreads();
}

template <typename T> DEVICE_ void scatter_(const T *key_all, const u32 *row_all, u32 tile, u32 end, u32 shift,
                                            u32 *starts, T *keys, u32 *rows, bool has_rows, bool has_keys)
{
    __shared__ Scatter_<T> s;
    const u32        n = end - tile < TILE ? end - tile : TILE;
    const T *const   key_from = key_all + tile + SORT_ROW_(0);
    const u32 *const row_from = row_all + tile + SORT_ROW_(0);
    T                key[ITEMS];
    u32              digits[ITEMS], places[ITEMS], targets[ITEMS];
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) key[i] = SORT_ROW_(i) < n ? __ldg(key_from + i * 32) : 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) digits[i] = SORT_ROW_(i) < n ? DIGIT(key[i], shift) : 256;
#pragma unroll 1
    for (u32 c = threadIdx.x; c < blockDim.x / 32 * 256; c += blockDim.x) s.counts[c / 256][c % 256] = 0;
    __syncthreads();                   // all threads are done with the keys of the tile before
    rank_rows_(s, digits, places);
    __syncthreads();
    place_digits_(s, starts);
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        if (digits[i] == 256) continue;
        places[i] += s.firsts[digits[i]] + s.counts[threadIdx.x / 32][digits[i]];
        s.moved[places[i]] = key[i];
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 at = i * blockDim.x + threadIdx.x;
        if (at >= n) continue;
        const T moved = s.moved[at];
        targets[i] = s.shifts[DIGIT(moved, shift)] + at;
        if (has_keys) keys[targets[i]] = moved;
    }
    __syncthreads();
    u32 *const moved_rows = (u32 *)s.moved;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++)
        if (digits[i] < 256) moved_rows[places[i]] = has_rows ? __ldg(row_from + i * 32) : tile + SORT_ROW_(i);
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++)
        if (i * blockDim.x + threadIdx.x < n) rows[targets[i]] = moved_rows[i * blockDim.x + threadIdx.x];
}

#define DIGIT_COUNTS(name)         __shared__ u32 name[256]; clear_counts_(name);
#define COUNT_DIGITS(type, key, shift, name) count_digits_(key##_all, t_, end_, (u32)(shift), name);
#define DIGIT_COUNTS_END(name, to, n_parts) put_counts_(name, (u32 *)(to), n_parts, A->place);
#define RUN_UP(total, numbers)     total = run_up_(numbers, t_, end_, total);
#define DIGIT_STARTS(name, counts, totals, n_parts)                                                                    \
    __shared__ u32 name[256]; digit_starts_(name, (const u32 *)(counts), (const u32 *)(totals), n_parts, A->place);
#define SCATTER(type, key, row, shift, starts, keys, rows, has_rows, has_keys)                                         \
    scatter_<type>(key##_all, row##_all, t_, end_, (u32)(shift), starts, (type *)(keys), (u32 *)(rows),                \
                   (has_rows) != 0, (has_keys) != 0);

// ---- arithmetic that can fail: the check's number tells the host what to say, and where -----------------------------
#define FAIL(check)                { atomicCAS(&A->common->failed, 0, (check) + 1); }
#define CHECK(condition, check)    if (!(condition)) FAIL(check)
#define ADD_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ + (u64)b_);               \
                                    if (((a_ ^ r) & (b_ ^ r)) < 0) FAIL(check) }
#define SUB_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ - (u64)b_);               \
                                    if (((a_ ^ b_) & (a_ ^ r)) < 0) FAIL(check) }
#define MUL_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ * (u64)b_);               \
                                    if (__mul64hi(a_, b_) != r >> 63) FAIL(check) }
#define DIV_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); if (b_ == 0) { FAIL(check) r = 0; }         \
                                    else r = b_ == -1 ? (i64)(0 - (u64)a_) : a_ / b_; }
#define MOD_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); if (b_ == 0) { FAIL(check) r = 0; }         \
                                    else r = b_ == -1 ? 0 : a_ % b_; }
#define DIV_F64_CHECKED(r, a, b, check)                                                                                \
    f64 r; { const f64 b_ = (b); if (b_ == 0) { FAIL(check) r = 0; } else r = (a) / b_; }
// Decimal to a smaller scale: half away from zero.
#define ROUND_DIV(r, a, b)         i64 r; { const i64 a_ = (a), b_ = (b), q_ = a_ / b_, m_ = a_ % b_;                  \
                                   const i64 h_ = m_ < 0 ? -m_ : m_;                                                   \
                                   r = q_ + (h_ >= b_ - h_ ? (a_ < 0 ? -1 : 1) : 0); }
// Double to an integer, half to even, within [low, high] or the check fails; NaN fails.
#define ROUND_F64(r, a, low, high, check) i64 r = 0; { const f64 a_ = (a); if (a_ >= (low) && a_ <= (high)) {          \
    r = (i64)a_; const f64 d_ = a_ - (f64)r; if (d_ > 0.5 || (d_ == 0.5 && (r & 1))) r++;                              \
    else if (d_ < -0.5 || (d_ == -0.5 && (r & 1))) r--; } else FAIL(check) }
// The bits of a double as a key: one pattern for both zeros, one for all NaNs.
#define F64_BITS(r, v)             u64 r; { union { f64 f; u64 u; } u_; u_.f = (v); if (u_.f == 0) u_.f = 0;           \
                                   if (u_.f != u_.f) u_.u = 0x7ff8000000000000ull; r = u_.u; }
#define FINITE(x)                  ((x) - (x) == 0)
#define SAME_F64(a, b)             ((a) == (b) || ((a) != (a) && (b) != (b)))
#define LESS_F64(a, b)             ((a) < (b) || ((b) != (b) && (a) == (a)))
// Whether VALUE is one of N constants in order, one at least: halves until one is left, the last that is not larger.
#define ONE_OF(r, value, constants, n) u8 r; { const i64 v_ = (value); u64 at_ = 0;                                    \
    for (u64 n_ = (u64)(n); n_ > 1;) { const u64 half_ = n_ >> 1; if ((constants)[at_ + half_] <= v_) at_ += half_;    \
    n_ -= half_; }                                                                                                     \
    r = (constants)[at_] == v_; }
#define ONE_OF_F64(r, value, constants, n) u8 r; { const f64 v_ = (value); u64 at_ = 0;                                \
    for (u64 n_ = (u64)(n); n_ > 1;) { const u64 half_ = n_ >> 1;                                                      \
    if (!LESS_F64(v_, (constants)[at_ + half_])) at_ += half_; n_ -= half_; }                                          \
    r = SAME_F64(v_, (constants)[at_]); }

// ---- numbers of 128 bits: two words, where ranges do not prove that one will do ------------------------------------
// A number is its high and its low word, two's complement; what is made is r_high and r.  Where a check fails both
// become 0, which is in the range that the text after it rests on.  Numbers have 38 digits at most.
#define WIDE_HIGH(low)             (-(i64)((i64)(low) < 0))                             // of a number of one word
#define WIDE_FITS(high, low)       ((high) == WIDE_HIGH(low))
#define WIDE_SAME(ah, al, bh, bl)  (((i64)(ah) == (i64)(bh)) & ((u64)(al) == (u64)(bl)))
#define WIDE_LESS(ah, al, bh, bl)  (((i64)(ah) < (i64)(bh)) | (((i64)(ah) == (i64)(bh)) & ((u64)(al) < (u64)(bl))))
#define WIDE_DIGITS(high, low)     (WIDE_LESS(high, low, 0x4b3b4ca85a86c47all, 0x098a224000000000ull) &                \
                                    WIDE_LESS(-0x4b3b4ca85a86c47bll, 0xf675ddc000000000ull, high, low))
#define WIDE_CHECK(r, condition, check) if (!(condition)) { FAIL(check) r = 0; r##_high = 0; }
#define WIDE_ADD(r, ah, al, bh, bl, check)                                                                             \
    i64 r, r##_high; { const i64 ah_ = (ah), bh_ = (bh); const u64 al_ = (u64)(al), l_ = al_ + (u64)(bl);              \
    r = (i64)l_; r##_high = (i64)((u64)ah_ + (u64)bh_ + (l_ < al_));                                                   \
    WIDE_CHECK(r, ((ah_ ^ r##_high) & (bh_ ^ r##_high)) >= 0, check) }
#define WIDE_SUB(r, ah, al, bh, bl, check)                                                                             \
    i64 r, r##_high; { const i64 ah_ = (ah), bh_ = (bh); const u64 al_ = (u64)(al), bl_ = (u64)(bl);                   \
    r = (i64)(al_ - bl_); r##_high = (i64)((u64)ah_ - (u64)bh_ - (al_ < bl_));                                         \
    WIDE_CHECK(r, ((ah_ ^ bh_) & (ah_ ^ r##_high)) >= 0, check) }
// To one word.
#define NARROW_CHECKED(r, high, low, check) i64 r = (low); if (!WIDE_FITS(high, r)) { FAIL(check) r = 0; }
// Whether a number is one of N constants in order, one at least: high, low, high, low, ...
#define WIDE_ONE_OF(r, high, low, constants, n) u8 r; { const i64 h_ = (high), v_ = (low); u64 at_ = 0;                \
    for (u64 n_ = (u64)(n); n_ > 1;) { const u64 half_ = n_ >> 1, c_ = 2 * (at_ + half_);                              \
    if (!WIDE_LESS(h_, v_, (constants)[c_], (constants)[c_ + 1])) at_ += half_; n_ -= half_; }                         \
    r = WIDE_SAME(h_, v_, (constants)[2 * at_], (constants)[2 * at_ + 1]); }
// These take functions (base/wide_text.h), which are put before a kernel that has one of the words.
#define WIDE_MULTIPLY_             wide_multiply_
#define WIDE_DIVIDE_               wide_divide_
#define WIDE_FROM_                 wide_from_f64_
#define WIDE_QUOTIENT_             wide_quotient_
#define WIDE_PRODUCT_              wide_rounded_product_
#define WIDE_F64(high, low)        wide_to_f64_(high, low)
#define WIDE_DECIMAL_F64(high, low, scale) wide_decimal_to_f64_(high, low, scale)
#define WIDE_MUL(r, ah, al, bh, bl, check) i64 r, r##_high;                                                            \
    WIDE_CHECK(r, WIDE_MULTIPLY_(ah, al, bh, bl, &r##_high, &r), check)
// To a smaller scale: half away from zero.
#define WIDE_ROUND(r, ah, al, bh, bl) i64 r, r##_high; WIDE_DIVIDE_(ah, al, bh, bl, 0, &r##_high, &r);
// A double to a decimal by its first N digits: base/wide_text.h.
#define WIDE_FROM_F64(r, a, n, scale, check) i64 r, r##_high;                                                          \
    WIDE_CHECK(r, WIDE_FROM_(a, n, scale, &r##_high, &r), check)
#define WIDE_MOD(r, ah, al, bh, bl, check) i64 r = 0, r##_high = 0; { const i64 bh_ = (bh), bl_ = (bl);                \
    if (bh_ | bl_) WIDE_DIVIDE_(ah, al, bh_, bl_, 1, &r##_high, &r); else FAIL(check) }
// A quotient of decimals, and a product with fewer digits: base/wide_text.h.
#define WIDE_DIV(r, ah, al, as, an, bh, bl, bs, bn, scale, zero, check) i64 r = 0, r##_high = 0;                       \
    { const i64 bh_ = (bh), bl_ = (bl); int n_; if (!(bh_ | bl_)) { FAIL(zero) } else                                  \
    WIDE_CHECK(r, WIDE_QUOTIENT_(ah, al, as, an, bh_, bl_, bs, bn, scale, &r##_high, &r, &n_), check) }
#define WIDE_MUL_ROUND(r, ah, al, bh, bl, down, check) i64 r, r##_high;                                                \
    WIDE_CHECK(r, WIDE_PRODUCT_(ah, al, bh, bl, down, &r##_high, &r), check)

// ---- functions of doubles: the same bits everywhere -----------------------------------------------------------------
// Their text (base/math_text.h) is put before a kernel that has one of these words.
#define SQRT_F64(x)                math_sqrt_(x)
#define EXP_F64(x)                 math_exp_(x)
#define LN_F64(x)                  math_ln_(x)
#define LOG10_F64(x)               math_log10_(x)
#define LOG2_F64(x)                math_log2_(x)
#define POWER_F64(x, y)            math_power_(x, y)
#define FLOOR_F64(x)               math_floor_(x)
#define CEIL_F64(x)                math_ceil_(x)
#define NEAREST_F64(x)             math_round_(x)                // half away from zero
#define TRUNC_F64(x)               math_trunc_(x)

// ---- dates: days since 1970-01-01 to the fields of the proleptic Gregorian calendar ---------------------------------
#define DATE_PARTS(p, days)        i64 p##_year, p##_month, p##_day; { const i64 z_ = (days) + 719468;                 \
                                   const i64 era_ = (z_ >= 0 ? z_ : z_ - 146096) / 146097;                             \
    const i64 doe_ = z_ - era_ * 146097, yoe_ = (doe_ - doe_ / 1460 + doe_ / 36524 - doe_ / 146096) / 365,             \
              doy_ = doe_ - (365 * yoe_ + yoe_ / 4 - yoe_ / 100), mp_ = (5 * doy_ + 2) / 153;                          \
    p##_day = doy_ - (153 * mp_ + 2) / 5 + 1; p##_month = mp_ < 10 ? mp_ + 3 : mp_ - 9;                                \
    p##_year = yoe_ + era_ * 400 + (p##_month <= 2); }
#define LEAP(year)                 (((year) % 4 == 0 && (year) % 100 != 0) || (year) % 400 == 0)
#define DAY_OF_YEAR(p)             ((153 * (p##_month > 2 ? p##_month - 3 : p##_month + 9) + 2) / 5 + p##_day +        \
                                   (p##_month > 2 ? 59 + LEAP(p##_year) : -306))
#define WEEKDAY(days)              ((((days) + 4) % 7 + 7) % 7)                         // 0: Sunday
#define DAY_OF_CIVIL(to, y, m, d)  { const i64 f_ = (y) - ((m) <= 2), e_ = (f_ >= 0 ? f_ : f_ - 399) / 400,            \
    o_ = f_ - e_ * 400; to = e_ * 146097 + o_ * 365 + o_ / 4 - o_ / 100 +                                              \
    (153 * ((m) > 2 ? (m) - 3 : (m) + 9) + 2) / 5 + (d) - 1 - 719468; }
#define MONTH_DAYS(y, m)           ((m) == 2 ? 28 + LEAP(y) : 30 + (((m) + ((m) >> 3)) & 1))
// p_later: the same day of another month, or its last.
#define SHIFT_MONTHS(p, days, months) i64 p##_later; { DATE_PARTS(q_, days)                                            \
    const i64 a_ = q__year * 12 + q__month - 1 + (months), y_ = (a_ >= 0 ? a_ : a_ - 11) / 12, m_ = a_ - y_ * 12 + 1,  \
              n_ = MONTH_DAYS(y_, m_), d_ = q__day < n_ ? q__day : n_; DAY_OF_CIVIL(p##_later, y_, m_, d_) }
