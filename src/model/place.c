// place.c - blocks of several kernels on one multiprocessor, and on which multiprocessor the next one goes.
//
// A block takes one block slot, its shared memory, and for each warp a warp slot and registers in one partition.  Warps
// go to the partition with the most registers left.  With one kernel that gives exactly the blocks of occupancy_of;
// with several it lets a small warp use what is too little for a large one, which is how 1 C and 5 D of paper 3 share a
// multiprocessor.  How the hardware deals warps to partitions is not published; it may do worse than this.

#include "model/model_int.h"

// The partition for one more warp, or -1.
static int find_partition(const GpuLimits *limits, const Load *load, int registers_per_warp)
{
    const int warps_most = ceil_div(limits->warps, limits->n_partitions);
    const int registers_most = limits->registers / limits->n_partitions;
    int best = -1;
    for (int i = 0; i < limits->n_partitions; i++) {
        const Partition *part = &load->partitions[i];
        if (part->warps == warps_most || part->registers + registers_per_warp > registers_most)
            continue;
        const Partition *other = best < 0 ? NULL : &load->partitions[best];
        if (!other || part->registers < other->registers ||
            (part->registers == other->registers && part->warps < other->warps))
            best = i;
    }
    return best;
}

static void add_to_partition(Load *load, const BlockCost *cost, BlockPlace *place, int i, int n)
{
    load->partitions[i].warps += n;
    load->partitions[i].registers += n * cost->registers_per_warp;
    place->warps[i] += (u16)n;
}

// How many warps every partition can take, if one by one they would go round all partitions: that is so while none is
// ahead of another by as much as a warp takes.  0: it is not so.
static int count_rounds(const GpuLimits *limits, const Load *load, int registers_per_warp, int n_warps)
{
    const int warps_most = ceil_div(limits->warps, limits->n_partitions);
    const int registers_most = limits->registers / limits->n_partitions;
    const int n_rounds = n_warps / limits->n_partitions;
    int least = INT32_MAX, most = 0, warps = 0;
    for (int i = 0; n_rounds > 0 && i < limits->n_partitions; i++) {
        least = MIN_OF(least, load->partitions[i].registers);
        most = MAX_OF(most, load->partitions[i].registers);
        warps = MAX_OF(warps, load->partitions[i].warps);
    }
    if (most - least >= registers_per_warp || warps + n_rounds > warps_most ||
        most + n_rounds * registers_per_warp > registers_most)
        return 0;
    return n_rounds;
}

static bool add_warps(const GpuLimits *limits, Load *load, const BlockCost *cost, BlockPlace *place)
{
    for (int left = cost->warps; left > 0;) {
        const int n_rounds = count_rounds(limits, load, cost->registers_per_warp, left);
        for (int i = 0; n_rounds > 0 && i < limits->n_partitions; i++)
            add_to_partition(load, cost, place, i, n_rounds);
        left -= n_rounds * limits->n_partitions;
        if (n_rounds > 0)
            continue;
        const int i = find_partition(limits, load, cost->registers_per_warp);
        if (i < 0)
            return false;
        add_to_partition(load, cost, place, i, 1);
        left--;
    }
    return true;
}

static bool has_slots(const GpuLimits *limits, const Load *load, const BlockCost *cost)
{
    return load->blocks < limits->blocks && load->warps + cost->warps <= limits->warps &&
           load->shared + cost->shared <= limits->shared;
}

bool load_add(const GpuLimits *limits, Load *load, const BlockCost *cost, BlockPlace *place)
{
    if (!has_slots(limits, load, cost))
        return false;
    memset(place, 0, sizeof(*place));
    load->blocks++;
    load->warps += cost->warps;
    load->shared += cost->shared;
    if (add_warps(limits, load, cost, place))
        return true;
    load_remove(load, cost, place);
    return false;
}

void load_remove(Load *load, const BlockCost *cost, const BlockPlace *place)
{
    load->blocks--;
    load->warps -= cost->warps;
    load->shared -= cost->shared;
    ASSERT(load->blocks >= 0 && load->warps >= 0 && load->shared >= 0);
    for (int i = 0; i < PARTITIONS_MAX; i++) {
        load->partitions[i].warps -= place->warps[i];
        load->partitions[i].registers -= place->warps[i] * cost->registers_per_warp;
    }
}

int loads_spread(const GpuLimits *limits, Load *loads, const int *own, int n_loads, const BlockCost *cost,
                 BlockPlace *place)
{
    Load with;
    int best = -1;
    if (n_loads == 1)                                       // stage two asks so most of the time
        return load_add(limits, loads, cost, place) ? 0 : -1;
    for (int i = 0; i < n_loads; i++) {
        const bool is_better =
            best < 0 || own[i] < own[best] || (own[i] == own[best] && loads[i].warps < loads[best].warps);
        if (!is_better || !has_slots(limits, &loads[i], cost))
            continue;
        Load tried = loads[i];
        BlockPlace tried_place;
        if (!load_add(limits, &tried, cost, &tried_place))
            continue;
        best = i;
        with = tried;
        *place = tried_place;
    }
    if (best >= 0)
        loads[best] = with;
    return best;
}
