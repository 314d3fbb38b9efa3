// tcc.c - kernel text to code with libtcc, in memory and in well under a millisecond.
//
// No header and no library is read (-nostdinc -nostdlib).  Still, libtcc's code generator calls helpers for what its
// target cannot do inline: memmove and memset for structs, and on x86-64 conversions between unsigned 64-bit integers
// and floating point.  Those are put before the text as small functions that jump to our own, whose addresses are
// constants here.  Refused: tcc_add_symbol.  It makes a PLT, a second executable section that libtcc protects by
// itself assuming pages of 4 KiB; where pages have 64 KiB that fails, and libtcc then calls exit().
//
// Two more precautions against libtcc's exit(): the memory is ours, and whether the system allows it to become
// executable is tried first; and an error while relocating leaves by longjmp.  Code ends up readable and executable,
// never writable too: kernels have no writable statics (they could not have, several threads run them).
//
// libtcc keeps its state in globals, so one compile at a time in a process.  Its TCCState is not needed once relocated.
// Not done: long double (no kernel has it), which on arm64 would need some twenty helpers more.

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <libtcc.h>

#include "jit/jit_int.h"

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

// ---- helpers -------------------------------------------------------------------------------------------------------

#define HELPER(result, name, parameters, arguments, address) \
    text_add(text, result " " name parameters "{return((" result "(*)" parameters ")%#llxULL)" arguments ";}", \
             (unsigned long long)(uintptr_t)(address))

#if defined(__x86_64__)
// clang-format off
static float  float_from_u64(u64 value)     { return (float)value; }
static double double_from_u64(u64 value)    { return (double)value; }
static u64    u64_from_float(float value)   { return (u64)value; }
static u64    u64_from_double(double value) { return (u64)value; }
// clang-format on

static void add_helpers_of_target(Text *text)
{
    HELPER("float", "__floatundisf", "(unsigned long a)", "(a)", float_from_u64);
    HELPER("double", "__floatundidf", "(unsigned long a)", "(a)", double_from_u64);
    HELPER("unsigned long", "__fixunssfdi", "(float a)", "(a)", u64_from_float);
    HELPER("unsigned long", "__fixunsdfdi", "(double a)", "(a)", u64_from_double);
}
#else
static void add_helpers_of_target(Text *text)               // arm64 converts by instructions of its own
{
    (void)text;
}
#endif

// On one line, and the line after it is line 1, so that what libtcc complains about is where it says.
static void add_helpers(Text *text)
{
    HELPER("void*", "memcpy", "(void*a,const void*b,unsigned long n)", "(a,b,n)", memcpy);
    HELPER("void*", "memmove", "(void*a,const void*b,unsigned long n)", "(a,b,n)", memmove);
    HELPER("void*", "memset", "(void*a,int b,unsigned long n)", "(a,b,n)", memset);
    add_helpers_of_target(text);
    text_add(text, "\n#line 1\n");
}

// ---- compiling -----------------------------------------------------------------------------------------------------

typedef struct Attempt {
    TCCState *tcc;
    char      message[400];                                 // libtcc's first complaint
    bool      is_relocating;
    jmp_buf   out;
} Attempt;

static void take_message(void *context, const char *message)
{
    Attempt *attempt = context;
    if (strstr(message, "warning:"))
        return;
    if (!attempt->message[0])
        snprintf(attempt->message, sizeof(attempt->message), "%s", message);
    if (attempt->is_relocating)
        longjmp(attempt->out, 1);
}

static weft_status complain(const Attempt *attempt, Error *err)
{
    return fail(err, WEFT_KERNEL_BUILD, -1, "tcc: %s",
                attempt->message[0] ? attempt->message : "failed without a message");
}

static weft_status compile_text(Attempt *attempt, const KernelText *kernel, Error *err)
{
    Text whole = { 0 };
    add_helpers(&whole);
    text_add_bytes(&whole, kernel->prelude, strlen(kernel->prelude));
    text_add_bytes(&whole, kernel->text, strlen(kernel->text));
    int failed = tcc_compile_string(attempt->tcc, whole.bytes);
    text_free(&whole);
    return failed ? complain(attempt, err) : WEFT_OK;
}

// tcc_relocate, but its exit() becomes -1.
static int relocate(Attempt *attempt, void *memory)
{
    attempt->is_relocating = true;
    int bytes = setjmp(attempt->out) == 0 ? tcc_relocate(attempt->tcc, memory) : -1;
    attempt->is_relocating = false;
    return bytes;
}

static weft_status map_memory(TccCode *code, size_t bytes, Error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    code->bytes = (bytes + page - 1) / page * page;
    code->memory = mmap(NULL, code->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code->memory == MAP_FAILED) {
        code->memory = NULL;
        return fail(err, WEFT_KERNEL_BUILD, -1, "tcc: no memory for the code");
    }
    if (mprotect(code->memory, code->bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return fail(err, WEFT_KERNEL_BUILD, -1, "tcc: this system does not let memory become executable");
    return WEFT_OK;
}

static weft_status load(Attempt *attempt, const char *name, TccCode *code, Error *err)
{
    int bytes = relocate(attempt, NULL);
    if (bytes < 0)
        return complain(attempt, err);
    TRY(map_memory(code, (size_t)bytes, err));
    if (relocate(attempt, code->memory) < 0)
        return complain(attempt, err);
    void *symbol = tcc_get_symbol(attempt->tcc, name);
    if (!symbol)
        return fail(err, WEFT_KERNEL_BUILD, -1, "tcc: the text does not define %s", name);
    if (mprotect(code->memory, code->bytes, PROT_READ | PROT_EXEC) != 0)
        return fail(err, WEFT_KERNEL_BUILD, -1, "tcc: this system does not let memory become executable");
    // libtcc has done this for the address range it knows; once more costs nothing and does not rest on its version.
    __builtin___clear_cache((char *)code->memory, (char *)code->memory + code->bytes);
    code->function = (KernelFunction)(uintptr_t)symbol;
    return WEFT_OK;
}

static weft_status build(Attempt *attempt, const KernelText *kernel, TccCode *code, Error *err)
{
    ASSERT(mutex_is_held(&one_at_a_time));
    attempt->tcc = tcc_new();
    if (!attempt->tcc)
        return fail(err, WEFT_KERNEL_BUILD, -1, "tcc: no memory");
    tcc_set_error_func(attempt->tcc, attempt, take_message);
    tcc_set_options(attempt->tcc, "-nostdlib -nostdinc");
    tcc_set_output_type(attempt->tcc, TCC_OUTPUT_MEMORY);
    TRY(compile_text(attempt, kernel, err));
    return load(attempt, kernel->name, code, err);
}

weft_status tcc_build(const KernelText *kernel, TccCode *code, Error *err)
{
    *code = (TccCode){ 0 };
    Attempt attempt = { 0 };
    pthread_mutex_lock(&one_at_a_time);
    weft_status status = build(&attempt, kernel, code, err);
    if (attempt.tcc)
        tcc_delete(attempt.tcc);
    pthread_mutex_unlock(&one_at_a_time);
    if (status)
        tcc_unload(code);
    return status;
}

void tcc_unload(TccCode *code)
{
    if (code->memory)
        munmap(code->memory, code->bytes);
    *code = (TccCode){ 0 };
}
