// test_model_occupancy.c - the table of architectures, and the model of one kernel: equations 1 to 13 of paper 3.

#include "test.h"

#include "model_help.h"

// ---- architectures --------------------------------------------------------------------------------------------------

TEST(every_capability_is_in_the_table)
{
    const int known[][2] = { { 2, 0 }, { 3, 0 }, { 3, 5 }, { 3, 7 }, { 5, 0 }, { 5, 2 }, { 6, 0 }, { 6, 1 },
                             { 7, 0 }, { 7, 5 }, { 8, 0 }, { 8, 6 }, { 8, 9 }, { 9, 0 }, { 10, 0 } };
    for (int i = 0; i < COUNT_OF(known); i++) {
        const GpuLimits limits = capability(known[i][0], known[i][1]);
        CHECK_INT(limits.major, known[i][0]);
        CHECK_INT(limits.minor, known[i][1]);
        CHECK(limits.shared_per_block + limits.shared_reserved <= limits.shared);
        CHECK(limits.registers_per_block <= limits.registers);
        CHECK_INT(limits.warps % limits.n_partitions, 0);
        CHECK_INT(limits.registers % (limits.n_partitions * limits.register_unit), 0);
        CHECK_INT(limits.has_hyper_q, known[i][0] > 3 || known[i][1] == 5 || known[i][1] == 7);
    }
}

TEST(the_papers_cards_are_known_by_name)
{
    const struct {
        const char *name;
        int major, minor, n_multiprocessors;
    } papers[] = { { "Tesla C2070", 2, 0, 14 },          { "GTX 680", 3, 0, 8 },
                   { "Tesla K40", 3, 5, 15 },            { "GTX TITAN X (Maxwell)", 5, 2, 24 },
                   { "GTX TITAN X (Pascal)", 6, 1, 28 }, { "Tesla P40", 6, 1, 30 },
                   { "H100", 9, 0, 132 },                { "H200", 9, 0, 132 } };
    CHECK_INT(limits_card_count(), COUNT_OF(papers));
    for (int i = 0; i < COUNT_OF(papers); i++) {
        const GpuLimits limits = card(papers[i].name);
        CHECK_STR(limits.name, limits_card_name(i));
        CHECK_INT(limits.major * 10 + limits.minor, papers[i].major * 10 + papers[i].minor);
        CHECK_INT(limits.n_multiprocessors, papers[i].n_multiprocessors);
    }
}

TEST(limits_of_compute_capability_3_0_are_those_of_table_i)
{
    const GpuLimits limits = capability(3, 0);
    CHECK_INT(limits.blocks, 16);
    CHECK_INT(limits.warps, 64);
    CHECK_INT(limits.threads_per_warp, 32);
    CHECK_INT(limits.registers_per_thread, 63);             // the paper's 64 counts one that a program cannot use
    CHECK_INT(limits.registers, 65536);                     // the paper's 65535 is a misprint: see 1 C and 5 D
    CHECK_INT(limits.shared, 49152);
    CHECK_INT(limits.register_unit, 256);
    CHECK_INT(limits.n_partitions, 4);
    CHECK_INT(limits.shared_unit, 256);
}

TEST(unknown_cards_and_capabilities_are_refused)
{
    GpuLimits limits;
    error_clear(&err);
    CHECK_STATUS(limits_of_card("GTX 681", &limits, &err), WEFT_UNDEFINED_OBJECT);
    CHECK_HAS(err.message, "GTX 681");
    error_clear(&err);
    CHECK_STATUS(limits_of_capability(4, 0, 8, &limits, &err), WEFT_UNDEFINED_OBJECT);
    CHECK_HAS(err.message, "4.0");
    error_clear(&err);
    CHECK_STATUS(limits_of_capability(9, 0, 0, &limits, &err), WEFT_INVALID_PARAMETER);
}

static DriverReport report_of_h200(void)
{
    return (DriverReport){ .major = 9,
                           .minor = 0,
                           .n_multiprocessors = 132,
                           .threads_per_warp = 32,
                           .threads_per_block = 1024,
                           .threads_per_multiprocessor = 2048,
                           .blocks_per_multiprocessor = 32,
                           .registers_per_block = 65536,
                           .registers_per_multiprocessor = 65536,
                           .shared_per_block = 232448,
                           .shared_per_multiprocessor = 233472,
                           .shared_reserved = 1024 };
}

TEST(a_drivers_numbers_give_the_limits_of_the_table)
{
    const DriverReport report = report_of_h200();
    GpuLimits limits, table = card("H200");
    error_clear(&err);
    CHECK_OK(limits_of_driver(&report, &limits, &err), err);
    const size_t first = offsetof(GpuLimits, major), end = offsetof(GpuLimits, has_hyper_q);    // all of them int
    CHECK_BYTES((char *)&limits + first, (char *)&table + first, end - first);
    CHECK_INT(limits.has_hyper_q, table.has_hyper_q);
}

TEST(a_newer_card_takes_the_allocation_units_of_the_newest_known)
{
    DriverReport report = report_of_h200();
    GpuLimits limits;
    report.major = 12;
    report.blocks_per_multiprocessor = 24;
    error_clear(&err);
    CHECK_OK(limits_of_driver(&report, &limits, &err), err);
    CHECK_INT(limits.major, 12);
    CHECK_INT(limits.blocks, 24);
    CHECK_INT(limits.shared_unit, 128);
    CHECK_INT(limits.n_partitions, 4);
    CHECK(limits.has_hyper_q);
}

TEST(impossible_numbers_of_a_driver_are_refused)
{
    for (int field = 0; field < (int)(sizeof(DriverReport) / sizeof(int)); field++)
        for (int times = 0; times < 2; times++) {
            DriverReport report = report_of_h200();
            GpuLimits limits;
            ((int *)&report)[field] = times ? -1 : INT32_MAX;
            error_clear(&err);
            CHECK_STATUS(limits_of_driver(&report, &limits, &err), WEFT_NO_DEVICE);
        }
}

// ---- equations 2 to 9 -----------------------------------------------------------------------------------------------

TEST(equation_3_counts_blocks_by_shared_memory)
{
    const GpuLimits limits = capability(3, 0);
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .shared = 0 }, 32).blocks_by_shared, 16);
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .shared = 24576 }, 32).blocks_by_shared, 2);
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .shared = 24577 }, 32).blocks_by_shared, 1);
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .shared = 9800 }, 32).blocks_by_shared, 4);    // 9984 with units
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .shared = 49153 }, 32).blocks, 0);
}

TEST(equation_4_counts_the_warps_of_a_block)
{
    const GpuLimits limits = capability(3, 0);
    CHECK_INT(block_cost(&limits, &kernel_a, 1).warps, 1);
    CHECK_INT(block_cost(&limits, &kernel_a, 32).warps, 1);
    CHECK_INT(block_cost(&limits, &kernel_a, 33).warps, 2);
    CHECK_INT(block_cost(&limits, &kernel_a, 1024).warps, 32);
}

TEST(equations_5_and_6_count_blocks_by_registers)
{
    const GpuLimits limits = capability(3, 0);
    // 48 registers of 32 threads are 1536; each of four partitions has 16384 and takes 10 warps: 40 warps.
    CHECK_INT(occupancy_of(&limits, &kernel_d, 256).blocks_by_registers, 5);
    CHECK_INT(occupancy_of(&limits, &kernel_d, 32).blocks_by_registers, 40);
    // 65536 / 1536 would be 42 warps, but no partition has room for an eleventh.
    CHECK_INT(occupancy_of(&limits, &kernel_d, 96).blocks_by_registers, 13);
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .registers = 63 }, 1024).blocks_by_registers, 1);
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .registers = 64 }, 32).blocks, 0);
    CHECK_INT(occupancy_of(&limits, &(KernelNeeds){ .registers = 0 }, 32).blocks_by_registers, 16);
}

TEST(equation_7_rounds_the_registers_of_a_warp)
{
    const GpuLimits kepler = capability(3, 0), fermi = capability(2, 0);
    CHECK_INT(block_cost(&kepler, &kernel_a, 1024).registers_per_warp, 16 * 32);
    CHECK_INT(block_cost(&kepler, &kernel_b, 1024).registers_per_warp, 40 * 32);
    CHECK_INT(block_cost(&kepler, &kernel_d, 1024).registers_per_warp, 48 * 32);
    CHECK_INT(block_cost(&fermi, &kernel_a, 1024).registers_per_warp, 12 * 32);
}

TEST(equation_8_counts_blocks_by_warps)
{
    const GpuLimits limits = capability(3, 0);
    CHECK_INT(occupancy_of(&limits, &kernel_a, 1024).blocks_by_warps, 2);
    CHECK_INT(occupancy_of(&limits, &kernel_a, 96).blocks_by_warps, 16);    // 64 / 3 is 21, the limit of blocks 16
    CHECK_INT(occupancy_of(&limits, &kernel_a, 288).blocks_by_warps, 7);
}

TEST(equations_2_and_9_take_the_scarcest_resource)
{
    const GpuLimits limits = capability(3, 0);
    const Occupancy by_blocks = occupancy_of(&limits, &kernel_a, 32);
    CHECK_INT(by_blocks.blocks, 16);
    CHECK_INT(by_blocks.threads, 512);
    CHECK_DOUBLE(by_blocks.share, 0.25, 0);
    CHECK_INT(by_blocks.limit, LIMIT_BLOCKS);
    CHECK_INT(occupancy_of(&limits, &kernel_a, 1024).limit, LIMIT_WARPS);
    CHECK_INT(occupancy_of(&limits, &kernel_d, 256).limit, LIMIT_REGISTERS);
    CHECK_INT(occupancy_of(&limits, &kernel_e, 256).limit, LIMIT_SHARED);
    CHECK_INT(occupancy_of(&limits, &kernel_a, 1025).limit, LIMIT_BLOCK);
}

// Table III says 100 % and 63 % for E and F, as for C and D: it forgets their 24,576 bytes of shared memory.  Two such
// blocks fill the 49,152 bytes of a multiprocessor: 2 * 8 of 64 warps are 25 %.
TEST(occupancies_of_table_iii)
{
    const GpuLimits limits = card("GTX 680");
    CHECK_DOUBLE(occupancy_of(&limits, &kernel_a, 1024).share, 1, 0);
    CHECK_DOUBLE(occupancy_of(&limits, &kernel_b, 1024).share, 0.5, 0);
    CHECK_DOUBLE(occupancy_of(&limits, &kernel_c, 256).share, 1, 0);
    CHECK_DOUBLE(occupancy_of(&limits, &kernel_d, 256).share, 0.625, 0);
    CHECK_DOUBLE(occupancy_of(&limits, &kernel_e, 256).share, 0.25, 0);
    CHECK_DOUBLE(occupancy_of(&limits, &kernel_f, 256).share, 0.25, 0);
}

// 1 C takes 4,096 registers and 5 D take 61,440, together 65,536: one more than Table I has.
TEST(one_c_and_five_d_need_the_65536th_register)
{
    const GpuLimits limits = card("GTX 680");
    const BlockCost c = block_cost(&limits, &kernel_c, 256), d = block_cost(&limits, &kernel_d, 256);
    const int together = c.registers + 5 * d.registers;
    CHECK_INT(together, 65536);
    CHECK_INT(together, limits.registers);
}

TEST(a_block_has_limits_of_its_own)
{
    const GpuLimits k80 = capability(3, 7), h200 = card("H200");
    // 131,072 registers per multiprocessor, but 65,536 per block: 8 warps of 255 (256) registers.
    CHECK(block_is_allowed(&k80, &(KernelNeeds){ .registers = 255 }, 256));
    CHECK(!block_is_allowed(&k80, &(KernelNeeds){ .registers = 255 }, 257));
    CHECK_INT(occupancy_of(&k80, &(KernelNeeds){ .registers = 255 }, 256).blocks, 2);
    // 228 KiB per multiprocessor: 227 KiB for the kernel and 1 KiB for the system.
    CHECK(block_is_allowed(&h200, &(KernelNeeds){ .shared = 227 * 1024 }, 32));
    CHECK(!block_is_allowed(&h200, &(KernelNeeds){ .shared = 227 * 1024 + 1 }, 32));
    CHECK_INT(occupancy_of(&h200, &(KernelNeeds){ .shared = 113 * 1024 }, 32).blocks, 2);
    CHECK_INT(occupancy_of(&h200, &(KernelNeeds){ .shared = 113 * 1024 + 1 }, 32).blocks, 1);
    CHECK(!block_is_allowed(&h200, &(KernelNeeds){ .threads_per_block_max = 128 }, 129));
    CHECK(block_is_allowed(&h200, &(KernelNeeds){ .threads_per_block_max = 48 }, 48));
    CHECK_INT(block_warps_max(&h200, &(KernelNeeds){ .registers = -1 }), 0);
    CHECK_INT(block_warps_max(&h200, &(KernelNeeds){ .shared = INT32_MAX }), 0);
}

// ---- equation 1 and equations 10 to 13 ------------------------------------------------------------------------------

TEST(equation_1_rounds_up_to_whole_rounds)
{
    const GpuLimits limits = card("GTX 680");               // 8 multiprocessors with 2 blocks of A each
    CHECK_INT(running_rounds(&limits, &kernel_a, 1024, 1), 1);
    CHECK_INT(running_rounds(&limits, &kernel_a, 1024, 16), 1);
    CHECK_INT(running_rounds(&limits, &kernel_a, 1024, 17), 2);
    CHECK_INT(running_rounds(&limits, &kernel_b, 1024, 17), 3);
    CHECK_INT(running_rounds(&limits, &kernel_a, 1024, 0), 0);
    CHECK_INT(running_rounds(&limits, &(KernelNeeds){ .registers = 64 }, 1024, 1), 0);
}

static void check_best(const GpuLimits *limits, const KernelNeeds *needs, i64 n_threads)
{
    BlockSize best = { 0 };
    i64 fewest_rounds = INT64_MAX, fewest_threads = INT64_MAX;
    bool can_run = best_block_size(limits, needs, n_threads, &best);
    for (int threads = 1; threads <= limits->threads_per_block; threads++) {    // every size, not only whole warps
        const i64 n_blocks = (n_threads + threads - 1) / threads;
        const i64 rounds = running_rounds(limits, needs, threads, n_blocks);
        if (rounds == 0 || rounds > fewest_rounds)
            continue;
        if (rounds < fewest_rounds)
            fewest_threads = INT64_MAX;
        fewest_rounds = rounds;
        if (threads % 32 == 0)
            fewest_threads = MIN_OF(fewest_threads, n_blocks * threads);
    }
    CHECK_INT(can_run, fewest_rounds != INT64_MAX);
    if (!can_run)
        return;
    CHECK_INT(best.rounds, fewest_rounds);
    CHECK_INT(best.rounds, running_rounds(limits, needs, best.threads_per_block, best.n_blocks));
    CHECK_INT(best.n_blocks * best.threads_per_block, fewest_threads);
    CHECK(best.n_blocks * best.threads_per_block >= n_threads);
}

TEST(equations_10_to_13_find_the_block_size_with_the_fewest_rounds)
{
    u64 state = 1;
    for (int i = 0; i < 400; i++) {
        const GpuLimits limits = card(limits_card_name(draw(&state, limits_card_count())));
        const KernelNeeds needs = { .registers = draw(&state, 140), .shared = draw(&state, 4) * draw(&state, 14000) };
        check_best(&limits, &needs, 1 + draw(&state, 2000000));
    }
}

TEST(the_best_block_size_of_kernel_d)
{
    const GpuLimits limits = card("GTX 680");
    BlockSize best;
    // Registers allow 40 warps per multiprocessor, 320 on the card.  Blocks of 4, 5, 8, 10 and 20 warps divide 40
    // into at most 16 blocks; the smallest of them is taken.
    CHECK(best_block_size(&limits, &kernel_d, 320 * 32, &best));
    CHECK_INT(best.rounds, 1);
    CHECK_INT(best.threads_per_block, 128);
    CHECK_INT(best.n_blocks, 80);
}
