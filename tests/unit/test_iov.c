/* Copies into and out of pieces. */
#include <string.h>

#include "base/check.h"
#include "base/iov.h"
#include "rng.h"
#include "scale.h"
#include "test.h"

enum { BYTES = 500, PIECES = 12 };

/* `buf` cut into pieces of random length, some of them empty; returns the length of all. */
static size_t cut(uint64_t *rng, uint8_t *buf, struct iovec *iov, unsigned n)
{
        size_t at = 0;

        for (unsigned i = 0; i < n; i++) {
                size_t len = rng_below(rng, 3) ? rng_below(rng, BYTES / PIECES) : 0;

                iov[i] = (struct iovec){ buf + at, len };
                at += len;
        }
        return at;
}

TEST(iov, copies_out_any_part)
{
        uint8_t buf[BYTES], out[BYTES];
        uint64_t rng = 1;

        for (unsigned i = 0; i < BYTES; i++)
                buf[i] = (uint8_t)rng_next(&rng);
        for (uint64_t round = 0; round < test_scale(5000, 500000); round++) {
                struct iovec iov[PIECES];
                size_t total = cut(&rng, buf, iov, PIECES), off = rng_below(&rng, BYTES),
                       len = rng_below(&rng, BYTES);
                size_t want = off < total ? MIN(len, total - off) : 0;

                EXPECT_EQ(iov_length(iov, PIECES), total);
                EXPECT_EQ(iov_to_buf(iov, PIECES, off, out, len), want);
                EXPECT_MEM(out, buf + off, want);
        }
}

TEST(iov, copies_in_any_part_and_nothing_beside_it)
{
        uint64_t rng = 2;

        for (uint64_t round = 0; round < test_scale(5000, 500000); round++) {
                uint8_t buf[BYTES] = { 0 }, want[BYTES] = { 0 }, in[BYTES];
                struct iovec iov[PIECES];
                size_t total = cut(&rng, buf, iov, PIECES), off = rng_below(&rng, BYTES),
                       len = rng_below(&rng, BYTES);
                size_t fits = off < total ? MIN(len, total - off) : 0;

                memset(in, 1 + (int)(round % 255), len);
                memcpy(want + off, in, fits);
                EXPECT_EQ(iov_from_buf(iov, PIECES, off, in, len), fits);
                EXPECT_MEM(buf, want, BYTES);
        }
}

TEST(iov, skips_the_front)
{
        uint64_t rng = 3;

        for (uint64_t round = 0; round < test_scale(5000, 500000); round++) {
                uint8_t buf[BYTES];
                struct iovec iov[PIECES];
                size_t total = cut(&rng, buf, iov, PIECES), skip = rng_below(&rng, (uint32_t)total + 1);
                unsigned first = iov_skip(iov, PIECES, skip);

                EXPECT_EQ(iov_length(iov + first, PIECES - first), total - skip);
                if (first < PIECES && iov[first].iov_len)
                        EXPECT(iov[first].iov_base == buf + skip);
        }
}

TEST(iov, skipping_more_than_there_is_leaves_nothing)
{
        uint8_t buf[10];
        struct iovec iov[] = {
                {buf,      4},
                { buf + 4, 6}
        };

        EXPECT_EQ(iov_skip(iov, 2, 11), 2);
        EXPECT_EQ(iov_skip(iov, 0, 1), 0);
}
