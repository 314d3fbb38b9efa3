// base.h - what every layer stands on: status, arenas, text, maps, files, memory, threads.  Knows no database.
//
// Everything that can fail for a reason outside the program (files, large memory) goes through this folder, and each
// such call asks fault_now() first, so a test can make the Nth of them fail.

#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weft.h"

typedef int8_t   i8;
typedef int16_t  i16;
typedef int32_t  i32;
typedef int64_t  i64;
typedef uint8_t  u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
__extension__ typedef __int128          i128;
__extension__ typedef unsigned __int128 u128;

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define MIN_OF(a, b)    ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b)    ((a) > (b) ? (a) : (b))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

// ---- asserts: what the program itself guarantees --------------------------------------------------------------------
// ASSERT(condition) is for locks held, counts, bounds and the order of enums.  When the condition is false it prints
// file, line and condition, and aborts.  Never assert what a user, a file or a device can cause: that is a weft_status.
// `make` switches asserts on (-DWEFT_ASSERTS); `make ASSERTS=0` leaves them out, and then the condition is not
// evaluated.

_Noreturn void assert_failed(const char *file, int line, const char *condition);
// Whether the calling thread has locked the mutex.  For asserts only: without glibc it is always true.
bool           mutex_is_held(const pthread_mutex_t *mutex);

#ifdef WEFT_ASSERTS
#define ASSERT(condition) ((condition) ? (void)0 : assert_failed(__FILE__, __LINE__, #condition))
#else
#define ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

// ---- errors: the first one wins and keeps its place -----------------------------------------------------------------

typedef weft_error Error;

// Leave when a step fails.  The step that failed has already filled in the Error.
#define TRY(step) do { weft_status try_status_ = (step); if (try_status_) return try_status_; } while (0)

// Fills ERR unless it holds an error already.  AT is a 0-based byte offset in the SQL text, or -1 for "no place"
// (weft_query turns it into the public 1-based character position).  Returns STATUS, or the earlier error's.
weft_status fail(Error *err, weft_status status, int at, const char *format, ...) PRINTF_LIKE(4, 5);
// IO_ERROR, DISK_FULL, ... by errno; WHAT is a verb and a noun: could not open file "x": No such file or directory
weft_status fail_errno(Error *err, const char *what, const char *path);
void        error_hint(Error *err, const char *format, ...) PRINTF_LIKE(2, 3); // adds the hint, unless there is one
void        error_clear(Error *err);

// ---- arenas: memory with a named lifetime ---------------------------------------------------------------------------
// Small allocations never fail: out of memory here ends the process.  Not thread-safe: one arena, one thread at a time.

typedef struct Arena Arena;

Arena *arena_new(Arena *parent, const char *name);          // freed with its parent at the latest; parent may be NULL
void   arena_free(Arena *arena);                            // runs deferred calls newest first, then frees children
void  *arena_alloc(Arena *arena, size_t bytes);             // zeroed, 16-byte aligned
char  *arena_strdup(Arena *arena, const char *text);
char  *arena_strndup(Arena *arena, const char *text, size_t length);
char  *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
void   arena_defer(Arena *arena, void (*undo)(void *), void *context);
#define arena_make(arena, Type)         ((Type *)arena_alloc((arena), sizeof(Type)))
#define arena_array(arena, Type, count) ((Type *)arena_alloc((arena), sizeof(Type) * (size_t)(count)))

// ---- growing arrays in an arena: Type *items; int n_items; ----------------------------------------------------------
// LIST_PUSH(arena, items, n_items) makes room for one more and returns a pointer to it (zeroed).  Capacity is implied
// by the count (powers of two from 4), so no third field is needed; the count must only ever grow through LIST_PUSH.
void *list_grow(Arena *arena, void *items, int count, size_t item_size);
void *list_grow_by(Arena *arena, void *items, int count, int more, size_t item_size);
#define LIST_PUSH(arena, items, count) \
    ((items) = list_grow((arena), (items), (count), sizeof(*(items))), &(items)[(count)++])
// The same for MORE items at once; a pointer to the first of them.
#define LIST_PUSH_SOME(arena, items, count, more)                                                \
    ((items) = list_grow_by((arena), (items), (count), (more), sizeof(*(items))), (count) += (more), \
     &(items)[(count) - (more)])

// ---- text builder: grows; out of memory ends the process, as in arenas, so there is nothing to check ----------------

typedef struct Text {
    char  *bytes;                                           // NUL-terminated once anything was added
    size_t length, capacity;
} Text;

void  text_add(Text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void  text_add_args(Text *text, const char *format, va_list args) PRINTF_LIKE(2, 0);
void  text_add_bytes(Text *text, const char *bytes, size_t length);
void  text_add_blanks(Text *text, size_t count);
void  text_clear(Text *text);                               // keeps the memory
void  text_free(Text *text);
char *text_keep(Arena *arena, Text *text);                  // a copy in the arena; frees the builder.  Never NULL.

// vsnprintf, quick for %s, %d and the like.  Writes at most ROOM bytes with the NUL; the length of the whole is
// returned.
size_t format_args(char *buffer, size_t room, const char *format, va_list args) PRINTF_LIKE(3, 0);

// ---- map from bytes to a pointer or number --------------------------------------------------------------------------

typedef struct Map Map;

Map  *map_new(Arena *arena);                                // keys are copied into the arena
bool  map_get(const Map *map, const void *key, size_t length, u64 *value);
void  map_set(Map *map, const void *key, size_t length, u64 value);
int   map_count(const Map *map);

u64   hash_bytes(const void *bytes, size_t length);         // xxh3, 64 bits

// ---- a text in many bytes -------------------------------------------------------------------------------------------

typedef struct Needle {                                     // prepared for many searches
    const char *bytes;                                      // not owned
    size_t      length;
    size_t      first, second;                              // places of two bytes that are rare in texts
} Needle;

Needle      needle_of(const char *bytes, size_t length);
const char *needle_find(const Needle *needle, const char *bytes, size_t length);    // the first one; NULL: none

// ---- faults: make the Nth call fail ---------------------------------------------------------------------------------
// WEFT_FAULT="file:12" in the environment does the same for a whole process; "file:12+" fails all calls from the 12th.

// FAULT_SPACE: the disk is full where a temporary file wants its space.  FAULT_THREAD: the system refuses a thread to a
// submitted query.
typedef enum FaultKind { FAULT_FILE, FAULT_MEMORY, FAULT_COMPILE, FAULT_SOLVE, FAULT_SPACE,
                         FAULT_THREAD, FAULT_N } FaultKind;

void fault_set(FaultKind kind, i64 nth, bool and_all_after); // nth counts from 1; 0 switches faults of that kind off
bool fault_now(FaultKind kind);                              // counts one call; true when it must fail
i64  fault_count(FaultKind kind);                            // calls since fault_set

// ---- large memory: counted against a budget, may fail ---------------------------------------------------------------

typedef struct Budget {
    _Atomic i64 used;
    _Atomic i64 limit;                                      // 0: no limit
    _Atomic i64 most;                                       // that was ever in use
    struct Budget *parent;                                  // what counts here counts there, too; NULL: none
    struct TempSpace *temp;                                 // large memory that the limit refuses is there; NULL: it
                                                            // fails
    _Atomic i64  temp_bytes, n_temp_files;                  // that ever went there
    _Atomic bool was_refused;                               // the limit refused something, here or above
} Budget;

// Zeroed, 64-byte aligned, fresh pages from the system when large.  Fails with OUT_OF_MEMORY, naming the setting
// memory_limit when the budget is the reason.  Thread-safe.
weft_status mem_alloc(Budget *budget, size_t bytes, void **out, Error *err);
void        mem_free(Budget *budget, void *memory, size_t bytes);           // NULL is fine; BYTES as allocated
weft_status counted_alloc(Arena *arena, Budget *budget, size_t bytes, void **out, Error *err);  // freed with the arena
weft_status mem_alloc_in_file(Budget *budget, size_t bytes, void **out, Error *err);    // in budget->temp, at any rate
bool        mem_fits(const Budget *budget, i64 bytes);                      // as things are, within all limits
i64 machine_memory(void);  // bytes this process may use, by machine and control group; 0: not known
bool        mem_has_own_pages(size_t bytes);                                // memory of this size is whole pages
// "512MB", "1.5 GiB", "2g", "1000": units are powers of 1024, in any case.  False, and nothing written, for anything
// else, as for half a byte.
bool        mem_parse_size(const char *text, i64 *bytes);
typedef struct SizeText { char text[24]; } SizeText;
SizeText    mem_size_text(u64 bytes);                                       // "512 MiB", "1.5 GiB", "1000 B"

// ---- files ----------------------------------------------------------------------------------------------------------

typedef struct File { int fd; char path[4096]; } File;
typedef struct Mapping { const u8 *bytes; size_t length; } Mapping;         // bytes is NULL when length is 0

weft_status file_create(const char *path, File *file, Error *err);          // truncates; mode 0666 & ~umask
weft_status file_open_over(const char *path, File *file, Error *err);       // creates when missing; keeps what is there
weft_status file_open_read(const char *path, File *file, Error *err);       // UNDEFINED_FILE when it is not there
weft_status file_open_append(const char *path, File *file, Error *err);     // creates when missing; no file_write_at
weft_status file_write(File *file, const void *bytes, size_t length, Error *err);
weft_status file_write_at(File *file, const void *bytes, size_t length, u64 offset, Error *err);
// *GOT is less than LENGTH only at the end of the file.
weft_status file_read_at(File *file, void *bytes, size_t length, u64 offset, size_t *got, Error *err);
weft_status file_truncate(File *file, u64 length, Error *err);
weft_status file_size(File *file, u64 *size, Error *err);
weft_status file_sync(File *file, Error *err);
void        file_close(File *file);                                         // safe to call twice
weft_status file_map(const char *path, Mapping *mapping, Error *err);       // read-only
void        file_ask(const Mapping *mapping, u64 at, u64 bytes);            // that part of it will be read soon
// Whether the system is to read no more than what is touched.
void        file_read_little(const Mapping *mapping, bool is_little);
void        file_unmap(Mapping *mapping);
weft_status file_read_all(const char *path, Text *text, Error *err);
weft_status file_rename(const char *from, const char *to, Error *err);
weft_status file_remove(const char *path, Error *err);                      // missing is fine
bool        file_exists(const char *path);
weft_status dir_make(const char *path, Error *err);                         // an existing directory is fine
weft_status dir_sync(const char *path, Error *err);
weft_status dir_list(Arena *arena, const char *path, char ***names, int *n_names, Error *err);  // without . and ..
weft_status file_lock(const char *path, File *file, Error *err);            // exclusive flock; OBJECT_IN_USE when taken
weft_status file_lock_shared(const char *path, File *file, Error *err);     // beside other readers; the file must exist

// ---- memory in temporary files (temp.c) -----------------------------------------------------------------------------
// A space has a directory and a limit for all blocks together.  It must outlive its blocks.  Any thread.

typedef struct TempSpace TempSpace;
#define TEMP_LIMIT_AUTO (-1)                                // half of what the disk has free

TempSpace  *temp_new(const char *directory);
void        temp_free(TempSpace *space);                    // NULL is fine
bool        temp_set_directory(TempSpace *space, const char *directory);    // false: the name is too long
void        temp_get_directory(TempSpace *space, Text *text);
void        temp_set_limit(TempSpace *space, i64 bytes);    // or TEMP_LIMIT_AUTO; 0: nothing may go there
i64         temp_limit(const TempSpace *space);
i64         temp_most(TempSpace *space);                // bytes that all blocks together may have now
i64         temp_used(const TempSpace *space);
// Zeroed, whole pages.  TEMP_LIMIT when that is reached, DISK_FULL, or why the file could not be made.
weft_status temp_alloc(TempSpace *space, size_t bytes, void **out, Error *err);
bool        temp_give_back(void *memory);                   // false: it is no such block

// A file without a name in DIRECTORY, which messages name; space for its bytes; all of them, to be written.
weft_status file_open_temporary(const char *directory, File *file, Error *err);
weft_status file_reserve(File *file, u64 length, Error *err);
weft_status file_map_to_write(File *file, size_t length, void **memory, Error *err);

// ---- libraries opened while running: what is there is used, what is not is named ------------------------------------

typedef struct LibrarySymbol {
    const char *name;
    size_t      offset;                                     // of the function pointer in the caller's table
    bool        is_optional;                                // NULL in the table when the library has none
} LibrarySymbol;

// Opens the first of NAMES (NULL ends them; one without '/' is searched for by the system) that has all symbols, fills
// TABLE and returns its handle, which is never closed: libraries of drivers do not survive it.  PATH becomes the file.
// Else NULL, and WHY gets a line per name.
void *library_open(const char *const names[], const LibrarySymbol symbols[], int n_symbols, void *table, Text *path,
                   Text *why);
// What VARIABLE of the environment names; NULL: it is not set, or empty.
const char *library_named(const char *variable);
// The same as library_open with what VARIABLE names, which must be set.  Else PROBLEM is NO_DEVICE, and names the
// variable.  KIND is "NVIDIA's driver": what has not even the first of the symbols is none.
void *library_open_named(const char *variable, const char *kind, const LibrarySymbol symbols[], int n_symbols,
                         void *table, Text *path, Error *problem);

// ---- threads --------------------------------------------------------------------------------------------------------

int cpu_count(void);                                                       // cores this process may use

// pthread_create for threads that leave signals to the program's own, except those that a thread brings on itself.
int thread_start(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *context);

// What the calling thread does from here on can wait: where cores are short, others go first.  There is no way back, so
// it is a small step: beside a thread that never rests, Linux leaves it a quarter of a core.
enum { STEP_BACK = 5 };                                     // of nice's 19
void thread_step_back(void);

// A pool runs the same function on every worker: work(context, worker) for worker 0 .. n-1.  The caller's thread is
// worker 0 and pool_run returns when all have returned.  One run at a time; a second caller waits its turn.  A thread
// may serve several workers one after the other (a pool has at most pool_size threads, and some may wake up late), so
// workers must not wait for each other.  From inside a worker of the same pool, pool_run works on the calling thread.
typedef struct Pool Pool;
Pool *pool_new(int n_workers);                              // with fewer when the system refuses threads: see pool_size
void  pool_free(Pool *pool);
int   pool_size(const Pool *pool);
void  pool_run(Pool *pool, int n_workers, void (*work)(void *context, int worker), void *context);

// Idle threads that take parts of another thread's work (team.c).  WAKE makes up to N_THREADS of them call
// helpers_help.  It is called without a lock, and any number of times.
typedef struct Helpers Helpers;
Helpers *helpers_new(void (*wake)(void *context, int n_threads), void *context);
void     helpers_free(Helpers *helpers);                    // no run is open
bool     helpers_are_wanted(Helpers *helpers);              // any thread; a helper asks before it goes to sleep
bool     helpers_help(Helpers *helpers);                    // does one part of somebody's run; false: there was none
// work(context, part) for part 0 .. n-1, on the calling thread and on helpers, N_THREADS at most; returns when all have
// returned.  Parts must not wait for each other, but may begin runs themselves.  HELPERS may be NULL: the caller alone.
void     helpers_run(Helpers *helpers, int n_threads, int n_parts, void (*work)(void *context, int part),
                     void *context);

// What a query works with.  Parts have no way to fail: memory is taken before, and a query that is stopped just does
// not finish them, which the functions below tell.
typedef struct Team {
    Helpers           *helpers;                             // NULL: none
    int                n_threads;                           // at most, the caller's own included
    const _Atomic u32 *stop;                                // not 0: leave soon; NULL: never
} Team;

typedef struct RowParts { u64 n_rows, part_rows; int n_parts; } RowParts;  // part p begins at row p * part_rows

bool     team_is_stopped(const Team *team);
RowParts team_split(const Team *team, u64 n_rows);          // one part where rows are few; it begins at multiples of 64
// False: it was stopped, and some parts, or rows of parts, were left out.
bool     team_parts(const Team *team, int n_parts, void (*work)(void *context, int part), void *context);
// The rows of a part come in order and in several calls, by one thread.
bool     team_rows(const Team *team, const RowParts *parts, void (*work)(void *context, int part, u64 first, u64 end),
                   void *context);

// Runs WORK on a thread with a stack of at least STACK_BYTES (less when the system refuses; the size had is passed on)
// and waits for it.  For code that recurses on user input.
weft_status run_with_stack(size_t stack_bytes, void (*work)(void *context, size_t stack_bytes), void *context,
                           Error *err);

double time_now_ms(void);                                                   // monotonic

// ---- numbers: functions of doubles, the same bits here and in kernels (math_text.h) ---------------------------------
// NaN gives NaN, and results out of range are infinite or 0, as in C: errors are the caller's.

double math_sqrt(double x);
double math_exp(double x);
double math_ln(double x);                                   // of 0: -infinity; of less: NaN
double math_log10(double x);
double math_log2(double x);
double math_power(double x, double y);  // as C's pow: 1 for y = 0 and for x = 1, whatever the other is
double math_floor(double x);
double math_ceil(double x);
double math_round(double x);                                // half away from zero
double math_trunc(double x);

extern const char math_text[];                              // math_text.h, for the compilers of kernels

// ---- numbers of 128 bits as two words (wide_text.h) -----------------------------------------------------------------

int    wide_multiply(i64 a_high, i64 a_low, i64 b_high, i64 b_low, i64 *high, i64 *low);       // 0: beyond 128 bits
// A / B rounded half away from zero, or (IS_REST) what is left when it is cut towards zero.  B is not 0.
void   wide_divide(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int is_rest, i64 *high, i64 *low);
double wide_to_f64(i64 high, i64 low);                      // the nearest double
// X as a decimal of SCALE, 0 to 38, by its first N_DIGITS digits: 15 of a double, 6 of a real.  0: beyond 128 bits,
// infinite, or NaN.
int    wide_from_f64(double x, int n_digits, int scale, i64 *high, i64 *low);
double wide_decimal_to_f64(i64 high, i64 low, int scale);   // the nearest double to the number / 10^scale
// A / B with the digits that PostgreSQL gives a quotient, at SCALE, which is no less than what the operands show.
// A_SHOWN, B_SHOWN: how many digits behind the point they show, -1: as many as a quotient of that size.  B is not 0.
// *SHOWN: what the quotient shows.  0: beyond 38 digits, or digits would be lost at a SCALE below 16.
int    wide_quotient(i64 a_high, i64 a_low, int a_scale, int a_shown, i64 b_high, i64 b_low, int b_scale, int b_shown,
                     int scale, i64 *high, i64 *low, int *shown);
int    wide_shown(i64 high, i64 low, int scale);            // by a quotient of that size, no digit but 0 left out
// A * B / 10^DOWN, half away from zero.  0: beyond 38 digits.
int    wide_rounded_product(i64 a_high, i64 a_low, i64 b_high, i64 b_low, int down, i64 *high, i64 *low);

extern const char wide_text[], math_wide_text[];            // wide_text.h; both headers

// ---- log: WEFT_LOG=debug|info|warn in the environment, to standard error --------------------------------------------

void log_debug(const char *format, ...) PRINTF_LIKE(1, 2);
void log_info(const char *format, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
