// target_json.c - files of JSON lines.  The first byte of an input chooses the options.

#define _GNU_SOURCE                                         // memfd_create

#include "copy_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    copy_target_begin();
    if (size == 0 || size > COPY_INPUT_MOST) return 0;
    const CopyOptions options = { .json = true, .delimiter = '\t', .null_text = "\\N", .quote = '"', .escape = '"',
                                  .ignores_errors = data[0] & 1 };
    const int fd = file_of(data + 1, size - 1);
    read_both_ways(fd, data[0] & 2 ? "narrow" : "wide", &options);
    guess_it(fd, "json");
    close(fd);
    return 0;
}
