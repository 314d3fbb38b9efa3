// arch.c - the limits of NVIDIA's architectures and of some cards.
//
// The figures are those of the table "Technical Specifications per Compute Capability" in NVIDIA's CUDA C++ Programming
// Guide (of version 4.2 to 13, since each version drops old capabilities) and of the sheet "GPU Data" in NVIDIA's CUDA
// Occupancy Calculator.  Where the two differ, the guide holds: see README.md.

#include "model/model.h"

enum { KIB = 1024 };

// ---- the table ------------------------------------------------------------------------------------------------------

typedef struct Capability {
    int major, minor;
    int blocks, warps;
    int registers, registers_per_block, registers_per_thread;
    int shared, shared_per_block, shared_reserved;
    int n_partitions, register_unit, shared_unit;
    int grids;
} Capability;

// clang-format off
static const Capability capabilities[] = {                                   // ascending
    //       blocks warps  registers: mp  block thread  shared: mp     block  reserved  parts units     grids
    { 2, 0,     8,   48,      32768,  32768,   63,   48 * KIB,  48 * KIB,    0,      2,   64, 128,     16 },
    { 3, 0,    16,   64,      65536,  65536,   63,   48 * KIB,  48 * KIB,    0,      4,  256, 256,     16 },
    { 3, 5,    16,   64,      65536,  65536,  255,   48 * KIB,  48 * KIB,    0,      4,  256, 256,     32 },
    { 3, 7,    16,   64,     131072,  65536,  255,  112 * KIB,  48 * KIB,    0,      4,  256, 256,     32 },
    { 5, 0,    32,   64,      65536,  65536,  255,   64 * KIB,  48 * KIB,    0,      4,  256, 256,     32 },
    { 5, 2,    32,   64,      65536,  65536,  255,   96 * KIB,  48 * KIB,    0,      4,  256, 256,     32 },
    { 6, 0,    32,   64,      65536,  65536,  255,   64 * KIB,  48 * KIB,    0,      2,  256, 256,    128 },
    { 6, 1,    32,   64,      65536,  65536,  255,   96 * KIB,  48 * KIB,    0,      4,  256, 256,     32 },
    { 7, 0,    32,   64,      65536,  65536,  255,   96 * KIB,  96 * KIB,    0,      4,  256, 256,    128 },
    { 7, 5,    16,   32,      65536,  65536,  255,   64 * KIB,  64 * KIB,    0,      4,  256, 256,    128 },
    { 8, 0,    32,   64,      65536,  65536,  255,  164 * KIB, 163 * KIB,  KIB,      4,  256, 128,    128 },
    { 8, 6,    16,   48,      65536,  65536,  255,  100 * KIB,  99 * KIB,  KIB,      4,  256, 128,    128 },
    { 8, 9,    24,   48,      65536,  65536,  255,  100 * KIB,  99 * KIB,  KIB,      4,  256, 128,    128 },
    { 9, 0,    32,   64,      65536,  65536,  255,  228 * KIB, 227 * KIB,  KIB,      4,  256, 128,    128 },
    { 10, 0,   32,   64,      65536,  65536,  255,  228 * KIB, 227 * KIB,  KIB,      4,  256, 128,    128 },
};
// clang-format on

typedef struct Card {
    const char *name;
    int major, minor;
    int n_multiprocessors;
} Card;

static const Card cards[] = {
    { "Tesla C2070", 2, 0, 14 },
    { "GTX 680", 3, 0, 8 },
    { "Tesla K40", 3, 5, 15 },
    { "GTX TITAN X (Maxwell)", 5, 2, 24 },
    { "GTX TITAN X (Pascal)", 6, 1, 28 },
    { "Tesla P40", 6, 1, 30 },
    { "H100", 9, 0, 132 },                                  // SXM5; the PCIe card has 114
    { "H200", 9, 0, 132 },
};

int limits_card_count(void)
{
    return COUNT_OF(cards);
}

const char *limits_card_name(int card)
{
    ASSERT(card >= 0 && card < COUNT_OF(cards));
    return cards[card].name;
}

static int order_of(int major, int minor)
{
    return major * 1000 + minor;
}

static const Capability *find_capability(int major, int minor)
{
    for (int i = 0; i < COUNT_OF(capabilities); i++)
        if (capabilities[i].major == major && capabilities[i].minor == minor)
            return &capabilities[i];
    return NULL;
}

// The newest that is not newer; the oldest where all are.
static const Capability *nearest_capability(int major, int minor)
{
    const Capability *nearest = &capabilities[0];
    for (int i = 1; i < COUNT_OF(capabilities); i++)
        if (order_of(capabilities[i].major, capabilities[i].minor) <= order_of(major, minor))
            nearest = &capabilities[i];
    return nearest;
}

static bool capability_has_hyper_q(int major, int minor)
{
    return order_of(major, minor) >= order_of(3, 5);
}

static GpuLimits limits_from_row(const Capability *row, int n_multiprocessors)
{
    return (GpuLimits){ .major = row->major,
                        .minor = row->minor,
                        .n_multiprocessors = n_multiprocessors,
                        .threads_per_warp = 32,
                        .registers_per_thread = row->registers_per_thread,
                        .threads_per_block = 1024,
                        .registers_per_block = row->registers_per_block,
                        .shared_per_block = row->shared_per_block,
                        .blocks = row->blocks,
                        .warps = row->warps,
                        .registers = row->registers,
                        .shared = row->shared,
                        .n_partitions = row->n_partitions,
                        .register_unit = row->register_unit,
                        .shared_unit = row->shared_unit,
                        .shared_reserved = row->shared_reserved,
                        .grids = row->grids,
                        .has_hyper_q = capability_has_hyper_q(row->major, row->minor) };
}

weft_status limits_of_capability(int major, int minor, int n_multiprocessors, GpuLimits *limits, Error *err)
{
    const Capability *row = find_capability(major, minor);
    if (!row)
        return fail(err, WEFT_UNDEFINED_OBJECT, -1, "limits of compute capability %d.%d are not known", major, minor);
    if (n_multiprocessors < 1)
        return fail(err, WEFT_INVALID_PARAMETER, -1, "a GPU cannot have %d multiprocessors", n_multiprocessors);
    *limits = limits_from_row(row, n_multiprocessors);
    return WEFT_OK;
}

weft_status limits_of_card(const char *name, GpuLimits *limits, Error *err)
{
    for (int i = 0; i < COUNT_OF(cards); i++) {
        if (strcmp(cards[i].name, name) != 0)
            continue;
        TRY(limits_of_capability(cards[i].major, cards[i].minor, cards[i].n_multiprocessors, limits, err));
        limits->name = cards[i].name;
        return WEFT_OK;
    }
    return fail(err, WEFT_UNDEFINED_OBJECT, -1, "limits of card \"%s\" are not known", name);
}

// ---- a driver's numbers ---------------------------------------------------------------------------------------------

// Wide enough for GPUs to come, narrow enough that no sum in this folder overflows and no table in it gets large.
static weft_status check_report(const DriverReport *report, Error *err)
{
    const struct {
        const char *what;
        int number, least, most;
    } checks[] = {
        { "compute capability", report->major, 1, 1000 },
        { "minor compute capability", report->minor, 0, 999 },
        { "multiprocessors", report->n_multiprocessors, 1, 1 << 16 },
        { "threads per warp", report->threads_per_warp, 32, 128 },
        { "threads per block", report->threads_per_block, 1, 1 << 13 },
        { "threads per multiprocessor", report->threads_per_multiprocessor, 1, 1 << 13 },
        { "blocks per multiprocessor", report->blocks_per_multiprocessor, 1, 1 << 8 },
        { "registers per block", report->registers_per_block, 1, 1 << 24 },
        { "registers per multiprocessor", report->registers_per_multiprocessor, 1, 1 << 24 },
        { "bytes of shared memory per block", report->shared_per_block, 0, 1 << 26 },
        { "bytes of shared memory per multiprocessor", report->shared_per_multiprocessor, 0, 1 << 26 },
        { "reserved bytes of shared memory", report->shared_reserved, 0, 1 << 20 },
    };
    for (int i = 0; i < COUNT_OF(checks); i++)
        if (checks[i].number < checks[i].least || checks[i].number > checks[i].most)
            return fail(err, WEFT_NO_DEVICE, -1, "the driver reports %d as %s, which cannot be", checks[i].number,
                        checks[i].what);
    if (report->threads_per_multiprocessor < report->threads_per_warp)
        return fail(err, WEFT_NO_DEVICE, -1, "the driver reports a multiprocessor that cannot hold a warp");
    return WEFT_OK;
}

weft_status limits_of_driver(const DriverReport *report, GpuLimits *limits, Error *err)
{
    TRY(check_report(report, err));
    *limits = limits_from_row(nearest_capability(report->major, report->minor), report->n_multiprocessors);
    limits->major = report->major;
    limits->minor = report->minor;
    limits->threads_per_warp = report->threads_per_warp;
    limits->threads_per_block = report->threads_per_block;
    limits->registers_per_block = report->registers_per_block;
    limits->shared_per_block = report->shared_per_block;
    limits->blocks = report->blocks_per_multiprocessor;
    limits->warps = report->threads_per_multiprocessor / report->threads_per_warp;
    limits->registers = report->registers_per_multiprocessor;
    limits->shared = report->shared_per_multiprocessor;
    limits->shared_reserved = report->shared_reserved;
    limits->has_hyper_q = capability_has_hyper_q(report->major, report->minor);
    return WEFT_OK;
}
