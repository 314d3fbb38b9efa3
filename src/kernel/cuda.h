// cuda.h - the words of tile C on a GPU.  Put before every kernel text, after args.h; CUDA C++ for NVRTC and nvcc.
//
//     rows of a tile     t_ .. t_ + TILE, TILE = threads of the block x ITEMS
//     row of item i      t_ + i * blockDim.x + threadIdx.x: neighbouring threads read neighbouring values
//
// In every row block `i` is the item within the thread.  The loops over items are unrolled, so columns and carried values are
// registers, and live rows are bits in one register.  A dead row is neither loaded nor looked up, so a late load costs
// nothing for rows that are gone.
//
// Words at tile level (STEP, MATCHES, ROOM, TOTAL_END) are reached by all lanes of a warp together and may speak across
// lanes.  Words inside a row block are not, and never wait for another lane, but for GROUP, whose wait needs lanes that
// progress on their own: sm_70 or newer.  blockDim.x is a multiple of 32, and blockDim.y and blockDim.z are 1.
//
// The host: KernelArgs and all it points to are in device memory, state holds each slot's init, join slots are aligned to 16
// bytes.  Compile with --fmad=false: a * b + c rounds twice here, as on the CPU.
// Not yet: tables and sums of groups in shared memory.  They are read and added to where they are, through L1 and L2; placing
// them needs their sizes, which the launch knows and the text must not.
//
// Names here end in _ (no column's name does), and all are at file scope: a column may be called uint4.

#ifndef ITEMS
#define ITEMS 4                        // rows per thread, at most 32; a launch parameter like the size of a block
#endif
#undef TILE
#define TILE (blockDim.x * ITEMS)

#define WARP_      0xffffffffu
#define DEVICE_    static __device__ __forceinline__
#define ITEM_(i)   (1u << (i))
#define ROW_(i)    (t_ + (i) * blockDim.x + threadIdx.x)

#define KERNEL(name) extern "C" __global__ void name(KernelArgs *A)

// ---- parameters, tables, columns: declared once, before TILES ------------------------------------------------------
// What the host hands over is in global memory; saying so saves finding out at each load.
template <typename T> DEVICE_ const T *global_(const void *memory)
{
    __builtin_assume(__isGlobal(memory));
    return (const T *)memory;
}

#define PARAM(type, name, k)       const type name = (type)A->params[k];
#define PARAM_F64(name, k)         const f64 name = __longlong_as_double(A->params[k]);
#define TABLE(type, name, k)       const type *const __restrict__ name = global_<type>(A->tables[k]);
#define COLUMN(type, name, k)      const type *const __restrict__ name##_all = global_<type>(A->columns[k].data);                  \
                                   const i64 name##_base = A->columns[k].base;
#define COLUMN_ANY(name, k)        const KernelColumn name##_col = A->columns[k];
#define NULLS(name, k)             const u8 *const __restrict__ name##_valid_all = (const u8 *)A->columns[k].valid;

// Several queries in one kernel: A names the one whose lines follow (see weave/fuse.c).
#define MEMBER(name, k)            KernelArgs *const name = A->members[k];

// ---- tiles and their rows --------------------------------------------------------------------------------------------
DEVICE_ u32 rows_of_tile_(u64 tile, u32 row_end)
{
    u32 live = WARP_ >> (32 - ITEMS);
    if (tile + TILE <= row_end) return live;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++)
        if (tile + i * blockDim.x + threadIdx.x >= row_end) live &= ~ITEM_(i);
    return live;
}

#define TILES                      for (u64 t_ = A->row_first + (u64)blockIdx.x * TILE; t_ < A->row_end; t_ += (u64)gridDim.x * TILE)
#define ROWS(live)                 u32 live = rows_of_tile_(t_, A->row_end);
#define MASK(live)

#define EACH(live)                 _Pragma("unroll") for (u32 i = 0; i < ITEMS; i++) if (live & ITEM_(i))
#define EACH_ROW(live)             EACH(live)

#define LOAD(type, name, live)     type name[ITEMS]; EACH(live) name[i] = __ldg(name##_all + ROW_(i));
// Lists of rows are the CPU's way of sharing a scan.
#define LOAD_ROWS(type, name, live) LOAD(type, name, live)
#define LOAD_TEST(type, name, live) LOAD(type, name, live)
#define UNSURE
#define PICK_UNSURE(live)          PICK(live)
#define LOAD_NULLS(name, live)     u32 name##_valid = 0;                                                                            \
                                   EACH(live) if (!name##_valid_all || BIT(name##_valid_all, ROW_(i))) name##_valid |= ITEM_(i);
#define IS_NULL(name)              (!(name##_valid & ITEM_(i)))
#define VALUE(name)                ((i64)((u64)name##_base + (u64)name[i]))
// Where chunks store a column in different widths, all lanes take the same way through the switch.
#define WIDEN_(type, name, live)   EACH(live) name[i] = (i64)((u64)name##_col.base + __ldg((const type *)name##_col.data + ROW_(i)));
#define LOAD_ANY(name, live)       i64 name[ITEMS]; switch (name##_col.width) {                                                     \
                                       case 1: WIDEN_(u8, name, live) break; case 2: WIDEN_(u16, name, live) break;                 \
                                       case 4: WIDEN_(u32, name, live) break; default: WIDEN_(u64, name, live) break; }

// There is but one kind of live rows here: what the CPU tests on a mask and then picks is narrowed in place.
#define DROP_UNLESS_(live, condition) if (!(condition)) live &= ~ITEM_(i)
#define TEST(live)                 EACH(live)
#define PASS(live, condition)      DROP_UNLESS_(live, condition)
#define PASS_ALSO(live, condition) DROP_UNLESS_(live, condition)
#define BETWEEN(type, stored, low, span) ((type)((stored) - (low)) <= (span))
#define PICK(live)
#define FILTER(live)               EACH(live)
#define KEEP(live, condition)      DROP_UNLESS_(live, condition)

// The common tests on one stored column.  FILTER and TEST mean the same, as there is no mask; TYPE is the column's.
//   BETWEEN_TEST   low <= stored <= low + span           FLAG_ BIT_       the key's byte or bit in a table is set
//   LOOKUP_        the key's payload in a table is not 0; it is carried, less 1
#define HIT_(live, hit)                                  EACH(live) DROP_UNLESS_(live, hit);
#define BETWEEN_TEST(live, type, column, low, span)      HIT_(live, BETWEEN(type, (column)[i], low, span))
#define BETWEEN_TEST_ALSO(live, type, column, low, span) HIT_(live, BETWEEN(type, (column)[i], low, span))
#define FLAG_TEST(live, type, column, from, table)       HIT_(live, FLAG(table, (column)[i] + (from)))
#define FLAG_FILTER(live, type, column, from, table)     HIT_(live, FLAG(table, (column)[i] + (from)))
#define BIT_TEST(live, type, column, from, table)        HIT_(live, BIT(table, (column)[i] + (from)))
#define BIT_FILTER(live, type, column, from, table)      HIT_(live, BIT(table, (column)[i] + (from)))
#define LOOKUP_FILTER(live, type, column, from, ptype, table, carried)                                                             \
    EACH(live) { const ptype f_ = (table)[(column)[i] + (from)]; (carried)[i] = (ptype)(f_ - 1); DROP_UNLESS_(live, f_); }
#define LOOKUP_TEST(live, type, column, from, ptype, table, carried)   LOOKUP_FILTER(live, type, column, from, ptype, table, carried)

DEVICE_ u32 rows_of_warp_(u32 live)
{
    u32 n_rows = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) n_rows += __popc(__ballot_sync(WARP_, live & ITEM_(i)));
    return n_rows;
}

DEVICE_ void count_rows_(u64 *count, u32 live)
{
    const u32 n_rows = rows_of_warp_(live);
    if (threadIdx.x % 32 == 0 && n_rows) atomicAdd(count, (u64)n_rows);
}

// EXPLAIN ANALYZE: rows that left step k.  An atomic per warp and tile costs too much to be always on: counts may be 0.
#define STEP(k, live)              if (A->counts) count_rows_(A->counts + (k), live);
#define STOPPED                    (*(const volatile u32 *)A->cancel)

// ---- values that a later step needs: one per item --------------------------------------------------------------------------
#define CARRY(type, name)          type name[ITEMS];

// ---- joins ----------------------------------------------------------------------------------------------------------------
#define BIT(table, at)             ((table)[(u64)(at) >> 3] >> ((u64)(at) & 7) & 1)
#define FLAG(table, at)            ((table)[at])
#define INSIDE(at, size)           ((u64)(at) < (u64)(size))

// Both words of a slot in one load.
DEVICE_ u32 slot_at_(const KernelSlot *slots, u64 at, u64 *key)
{
    const uint4 slot = __ldg((const uint4 *)slots + at);
    *key = slot.x | (u64)slot.y << 32;
    return slot.z;
}

// found = row + 1 of the build side whose key is KEY_, or 0.  CONFIRM compares further key words of candidate row c_.
#define FIND(found, slots, mask, key_, confirm)                                                                                    \
    { u64 s_ = HASH_SLOT(key_) & (mask), k_; for (;;) { const u32 c_ = slot_at_(slots, s_, &k_); if (!c_) { found = 0; break; }     \
        if (k_ == (key_) && (confirm)) { found = c_; break; } s_ = (s_ + 1) & (mask); } }

// A row with several matches goes through the rest of the kernel once per match.  A warp makes as many passes as the longest
// chain among its rows needs: its lanes stay together, other warps do not wait.
#define MATCHES(live, inner)       while (__any_sync(WARP_, live && !STOPPED)) { u32 inner = live;
#define MATCHES_END(live, row, next) EACH(live) { row[i] = (next)[row[i] - 1]; if (!row[i]) live &= ~ITEM_(i); } }

// ---- accumulators -----------------------------------------------------------------------------------------------------------
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

// 128 bits: a low word without sign, a high word with it.  In memory each word is added to on its own; which addition carries
// depends on the order, how many do does not.
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

// A group's accumulator: a0[group] is not a number but a place.  So one word, ADD, is an addition in a register where it is
// given a total, and an atomic one where it is given a cell.
template <typename T> struct Cell_ { T *at; };

template <typename T> struct Cells_ {
    T *first;
    __device__ __forceinline__ Cell_<T> operator[](u64 group) const { return { first + group }; }
};

template <typename How> DEVICE_ void put_(i64 &total, i64 value) { total = How::join(total, value); }
template <typename How> DEVICE_ void put_(f64 &total, f64 value) { total = How::join(total, value); }
template <typename How> DEVICE_ void put_(Cell_<i64> cell, i64 value) { How::merge(cell.at, value); }
template <typename How> DEVICE_ void put_(Cell_<f64> cell, f64 value) { How::merge(cell.at, value); }

DEVICE_ void put_wide_(i64 &low, i64 &high, i64 value)
{
    const Wide_ sum = join_wide_({ (u64)low, high }, widen_(value));
    low = (i64)sum.low, high = sum.high;
}

DEVICE_ void put_wide_(Cell_<i64> low, Cell_<i64> high, i64 value) { merge_wide_(low.at, high.at, widen_(value)); }

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

// From the registers of a block to memory: lanes by shuffles, warps through shared memory, then one thread for all.
template <typename How, typename T> DEVICE_ void total_end_(T total, T *cell)
{
    __shared__ T parts[32];
    for (u32 far = 16; far > 0; far /= 2) total = How::join(total, __shfl_down_sync(WARP_, total, far));
    __syncthreads();                   // the total before may still be at it
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 warp = 1; warp < blockDim.x / 32; warp++) total = How::join(total, parts[warp]);
    How::merge(cell, total);
}

DEVICE_ void total_wide_end_(Wide_ total, i64 *low, i64 *high)
{
    __shared__ Wide_ parts[32];
    for (u32 far = 16; far > 0; far /= 2)
        total = join_wide_(total, { __shfl_down_sync(WARP_, total.low, far), __shfl_down_sync(WARP_, total.high, far) });
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (u32 warp = 1; warp < blockDim.x / 32; warp++) total = join_wide_(total, parts[warp]);
    merge_wide_(low, high, total);
}

// ---- sinks ----------------------------------------------------------------------------------------------------------------
#define TOTAL(how, type, name, k)     type name = how##_::start((type)0);              // one accumulator, in a register during the kernel
#define TOTAL_END(how, type, name, k) total_end_<how##_>(name, (type *)A->state[k]);
#define TOTAL_WIDE(low, high, k)      i64 low = 0, high = 0;                           // 128 bits: two words, two slots
#define TOTAL_WIDE_END(low, high, k)  total_wide_end_({ (u64)low, high }, (i64 *)A->state[k], (i64 *)A->state[(k) + 1]);
#define SUMS(type, name, k)        const Cells_<type> name = { (type *)A->state[k] };  // one accumulator per group
#define ADD(cell, value)           put_<sum_>(cell, value);
#define ADD_WIDE(low, high, value) put_wide_(low, high, value);
#define PART(part, rest, radix)    i64 part; { union { f64 f; i64 i; } t_; t_.f = (rest) + 6755399441055744.0; part = t_.i - 0x4338000000000000ll; \
                                       rest = ((rest) - (t_.f - 6755399441055744.0)) * (radix); }
#define SPREAD(k, group, value, unit, log, n) spread_(A->state + (k), group, value, unit, (u32)(log), (u32)(n));
#define LEAST(cell, value)         put_<least_>(cell, value);
#define MOST(cell, value)          put_<most_>(cell, value);
#define LEAST_F64(cell, value)     put_<least_>(cell, value);
#define MOST_F64(cell, value)      put_<most_>(cell, value);
#define TOTAL_ROWS(cell, live)     cell += __popc(live);
#define SEEN(cell)                 *(cell).at = 1;                                     // whoever writes, writes the same

// ---- hash groups -----------------------------------------------------------------------------------------------------------
// A slot is written once: its row goes from 0 to BUSY_, its key from 0 to the key, then its row to the group's number + 1.
#define BUSY_    0xffffffffu           // taken, its key is being written
#define NONE_    0xfffffffeu           // there was no room for its group

DEVICE_ void no_room_(KernelArgs *A) { atomicCAS(&A->failed, 0, NO_ROOM); }

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

// Each acquire empties L1.  A key that is its own only word does without, once key and row are both there, since they never
// change again (a key of 0 may be there or be yet to come).  Measured on an H200, 20 M rows, 10,000 groups: 0.9 instead of 2.6 ms.
DEVICE_ bool is_settled_(const KernelSlot *slot, u64 *key, u32 *row, int)
{
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(*key) : "l"(&slot->key));
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(*row) : "l"(&slot->row));
    return *key != 0 && *row != 0 && *row < NONE_;
}

template <int N> DEVICE_ bool is_settled_(const KernelSlot *, u64 *, u32 *, const u64 (&)[N]) { return false; }

DEVICE_ void store_words_(KernelArgs *, u64, int) {}

template <int N> DEVICE_ void store_words_(KernelArgs *A, u64 group, const u64 (&words)[N])
{
    for (int k = 0; k < N; k++) A->group_words[group * N + k] = words[k];
}

// Takes an empty slot for a new group; the row that then is in it, which may be another thread's.
template <typename Words> DEVICE_ u32 take_slot_(KernelArgs *A, KernelSlot *slot, u64 key, const Words &words)
{
    if (atomicCAS(&slot->row, 0u, BUSY_) != 0) return wait_for_row_(slot);
    const u64 group = atomicAdd(&A->n_used, 1ull);
    if (group >= A->n_room) {
        no_room_(A);
        return publish_row_(slot, NONE_);
    }
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(&slot->key), "l"(key) : "memory");
    store_words_(A, group, words);
    return publish_row_(slot, (u32)group + 1);
}

// The row of a slot that is made to hold one, and whether its key is KEY.
template <typename Words> DEVICE_ u32 row_of_slot_(KernelArgs *A, KernelSlot *slot, u64 key, const Words &words, bool *is_same)
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

// group = number of the group with this key; a new one is made where there is room, else the host makes more and repeats.
// WORDS_ is an array where a key takes several words, and 0 where it is its own.
#define GROUP(group, key_, words_, confirm)                                                                                        \
    { u64 s_ = HASH_SLOT(key_) & A->groups_mask; for (;;) { bool same_; const u32 c_ = row_of_slot_(A, A->groups + s_, key_, words_, &same_); \
        if (c_ == NONE_) { group = 0; break; }                                                                                      \
        if (same_ && (confirm)) { group = c_ - 1; break; } s_ = (s_ + 1) & A->groups_mask; } }

// ---- rows: a warp takes room for all of its live rows at once and writes them side by side, item by item ---------------------
DEVICE_ u64 take_room_(KernelArgs *A, u32 &live, u32 (&at)[ITEMS])
{
    const u32 lane = threadIdx.x % 32;
    u32       n_rows = 0;
#pragma unroll
    for (u32 i = 0; i < ITEMS; i++) {
        const u32 lanes = __ballot_sync(WARP_, live & ITEM_(i));
        at[i] = n_rows + __popc(lanes & ((1u << lane) - 1));
        n_rows += __popc(lanes);
    }
    u64 first = 0;
    if (lane == 0 && n_rows) first = atomicAdd(&A->n_used, (u64)n_rows);
    first = __shfl_sync(WARP_, first, 0);
    if (first + n_rows > A->n_room) {
        no_room_(A);                   // n_used goes on counting: it ends as the room that is needed
        live = 0;
    }
    return first;
}

#define ROOM(live)                 u32 at_[ITEMS]; const u64 out_ = take_room_(A, live, at_);
#define OUT(type, name, k)         type *const name = (type *)A->state[k] + out_;
#define PUT(name, value)           name[at_[i]] = (value);

// ---- arithmetic that can fail: the check's number tells the host what to say, and where ------------------------------------
#define FAIL(check)                { atomicCAS(&A->failed, 0, (check) + 1); }
#define CHECK(condition, check)    if (!(condition)) FAIL(check)
#define ADD_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ + (u64)b_); if (((a_ ^ r) & (b_ ^ r)) < 0) FAIL(check) }
#define SUB_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ - (u64)b_); if (((a_ ^ b_) & (a_ ^ r)) < 0) FAIL(check) }
#define MUL_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); r = (i64)((u64)a_ * (u64)b_); if (__mul64hi(a_, b_) != r >> 63) FAIL(check) }
#define DIV_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); if (b_ == 0) { FAIL(check) r = 0; } else r = b_ == -1 ? (i64)(0 - (u64)a_) : a_ / b_; }
#define MOD_CHECKED(r, a, b, check) i64 r; { const i64 a_ = (a), b_ = (b); if (b_ == 0) { FAIL(check) r = 0; } else r = b_ == -1 ? 0 : a_ % b_; }
#define DIV_F64_CHECKED(r, a, b, check) f64 r; { const f64 b_ = (b); if (b_ == 0) { FAIL(check) r = 0; } else r = (a) / b_; }
// Decimal to a smaller scale: half away from zero.
#define ROUND_DIV(r, a, b)         i64 r; { const i64 a_ = (a), b_ = (b), q_ = a_ / b_, m_ = a_ % b_; const i64 h_ = m_ < 0 ? -m_ : m_; r = q_ + (h_ >= b_ - h_ ? (a_ < 0 ? -1 : 1) : 0); }
// Double to an integer, half to even, within [low, high] or the check fails; NaN fails.
#define ROUND_F64(r, a, low, high, check) i64 r = 0; { const f64 a_ = (a); if (a_ >= (low) && a_ <= (high)) {                        \
    r = (i64)a_; const f64 d_ = a_ - (f64)r; if (d_ > 0.5 || (d_ == 0.5 && (r & 1))) r++; else if (d_ < -0.5 || (d_ == -0.5 && (r & 1))) r--; } else FAIL(check) }
// The bits of a double as a key: one pattern for both zeros, one for all NaNs.
#define F64_BITS(r, v)             u64 r; { union { f64 f; u64 u; } u_; u_.f = (v); if (u_.f == 0) u_.f = 0; if (u_.f != u_.f) u_.u = 0x7ff8000000000000ull; r = u_.u; }
#define FINITE(x)                  ((x) - (x) == 0)
#define SAME_F64(a, b)             ((a) == (b) || ((a) != (a) && (b) != (b)))
#define LESS_F64(a, b)             ((a) < (b) || ((b) != (b) && (a) == (a)))

// ---- dates: days since 1970-01-01 to the fields of the proleptic Gregorian calendar ------------------------------------------
#define DATE_PARTS(p, days)        i64 p##_year, p##_month, p##_day; { const i64 z_ = (days) + 719468; const i64 era_ = (z_ >= 0 ? z_ : z_ - 146096) / 146097; \
    const i64 doe_ = z_ - era_ * 146097, yoe_ = (doe_ - doe_ / 1460 + doe_ / 36524 - doe_ / 146096) / 365,                           \
              doy_ = doe_ - (365 * yoe_ + yoe_ / 4 - yoe_ / 100), mp_ = (5 * doy_ + 2) / 153;                                        \
    p##_day = doy_ - (153 * mp_ + 2) / 5 + 1; p##_month = mp_ < 10 ? mp_ + 3 : mp_ - 9; p##_year = yoe_ + era_ * 400 + (p##_month <= 2); }
#define LEAP(year)                 (((year) % 4 == 0 && (year) % 100 != 0) || (year) % 400 == 0)
#define DAY_OF_YEAR(p)             ((153 * (p##_month > 2 ? p##_month - 3 : p##_month + 9) + 2) / 5 + p##_day + (p##_month > 2 ? 59 + LEAP(p##_year) : -306))
#define WEEKDAY(days)              ((((days) + 4) % 7 + 7) % 7)                         // 0: Sunday
