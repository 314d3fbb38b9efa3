// gpu_notes.c - what a kernel notes about rows that stay on the device: ranges, NULLs, which values occur.
//
// They lie in the block of its launch.  The host asks for them before the rows become a join table or a chunk.

#include "device/gpu_int.h"

static void *pointer(GpuAddress address) { return (void *)(uintptr_t)address; }

u64 notes_bytes(const Launch *launch) { return aligned((u64)launch->n_facts * sizeof(KernelNote)); }

u64 marks_bytes(const Launch *launch)
{
    u64 bytes = 0;
    for (int f = 0; f < launch->n_facts; f++) bytes += launch->facts[f].n_marks;
    return aligned(bytes);
}

void notes_write(const GpuRun *run, u8 *head)
{
    KernelNote *notes = (KernelNote *)(void *)(head + run->notes_at);
    u64         marks_at = run->marks_at;
    for (int f = 0; f < run->launch->n_facts; f++) {
        const RowFacts *facts = &run->launch->facts[f];
        notes[f] = (KernelNote){ .low = INT64_MAX,
                                 .high = INT64_MIN,
                                 .marks = pointer(in_block(run, marks_at)),
                                 .first = (u64)facts->marks_low,
                                 .n_marks = facts->n_marks };
        marks_at += facts->n_marks;
    }
}

void notes_read(const GpuRun *run)
{
    const KernelNote *notes = (const KernelNote *)(const void *)(run->back + run->notes_at);
    const u8         *marks = run->back + run->marks_at;
    for (int f = 0; f < run->launch->n_facts; f++) {
        RowFacts *facts = &run->launch->facts[f];
        facts->low = notes[f].low, facts->high = notes[f].high, facts->has_null = notes[f].n_nulls != 0;
        if (facts->n_marks) memcpy(facts->marks, marks, facts->n_marks);
        marks += facts->n_marks;
    }
}
