// machine.c - how much memory this process may use: the machine's, or less in a control group.

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define UNLIMITED INT64_MAX

// A file with one number in it; "max", a file that is not there or anything else: no limit.
static i64 read_limit(const char *path)
{
    char  line[64], *end;
    FILE *file = fopen(path, "re");
    if (!file) return UNLIMITED;
    const bool      has_line = fgets(line, sizeof line, file) != NULL;
    const long long bytes = has_line ? strtoll(line, &end, 10) : 0;
    fclose(file);
    return has_line && end != line && bytes > 0 ? (i64)bytes : UNLIMITED;
}

// The limits of the control group and of those above it; PATH is its name below ROOT, and is cut down on the way.
static i64 group_limit(const char *root, char *path, const char *file)
{
    i64 least = UNLIMITED;
    for (;;) {
        char name[1024];
        snprintf(name, sizeof name, "%s%s/%s", root, path, file);
        const i64 limit = read_limit(name);
        least = MIN_OF(least, limit);
        char *slash = strrchr(path, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

// Lines of /proc/self/cgroup: "0::/user/me" (version 2), "9:memory:/docker/1f" (version 1).
static i64 groups_limit(void)
{
    char  line[768];
    i64   least = UNLIMITED;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        char *path = strrchr(line, ':');
        line[strcspn(line, "\n")] = 0;
        if (!path) continue;
        const bool is_second = strncmp(line, "0::", 3) == 0, is_memory = strstr(line, ":memory:") != NULL;
        const i64 limit = is_second   ? group_limit("/sys/fs/cgroup", path + 1, "memory.max")
                          : is_memory ? group_limit("/sys/fs/cgroup/memory", path + 1, "memory.limit_in_bytes")
                                      : UNLIMITED;
        least = MIN_OF(least, limit);
    }
    if (file) fclose(file);
    return least;
}

i64 machine_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    const i64  all = pages > 0 && page > 0 ? (i64)pages * page : UNLIMITED, group = groups_limit();
    const i64  least = MIN_OF(all, group);
    return least == UNLIMITED ? 0 : least;
}
