/* Group C and the ring's part of group M of the hostile cases: one lie of the peer each.  Around every case: memory that nobody
 * posted keeps its pattern, a broken queue stays silent, and the queue can be set up again from its base. */
#include <string.h>

#include "test.h"
#include "wire.h"

#define NEXT     VRING_DESC_F_NEXT
#define WRITE    VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define CANARY   0xA5

static struct wire victim(unsigned size, uint64_t features)
{
        struct wire w = wire_new(size, features);

        memset(w.drv_va + w.buf, CANARY, WIRE_BUF_BYTES);
        return w;
}

static void expect_canary(const struct wire *w, size_t from)
{
        for (size_t i = from; i < WIRE_BUF_BYTES; i++)
                EXPECT_EQ(w->drv_va[w->buf + i], CANARY);
}

/* One readable piece in descriptor `i`. */
static void honest(struct wire *w, unsigned i)
{
        wire_raw_desc(w, i, wire_gpa(w, 0), 64, 0, 0);
}

/* The next pop breaks the queue for `reason`; after a new start an honest chain goes through. */
static void expect_broken(struct wire *w, const char *reason)
{
        uint16_t used = wire_used_idx(w);
        const char *why;

        EXPECT_EQ(wire_pop(w, 8), -EPROTO);
        EXPECT_STR(w->dev.broken, reason);
        EXPECT_EQ(wire_pop(w, 8), -EPROTO);
        vq_device_push(&w->dev, w->chains, 1);
        vq_device_publish(&w->dev);
        EXPECT_EQ(wire_used_idx(w), used);
        EXPECT(!vq_device_call_needed(&w->dev) && !vq_device_kick_enable(&w->dev) &&
               !vq_device_avail_pending(&w->dev));

        w->cfg.base = vq_device_base(&w->dev);
        vq_device_done(&w->dev);
        EXPECT_EQ(vq_device_init(&w->dev, &w->cfg, w->map, &why), 0);
        honest(w, 0);
        wire_raw_avail(w, (uint16_t)w->cfg.base, 0);
        wire_raw_avail_idx(w, (uint16_t)(w->cfg.base + 1));
        EXPECT_EQ(wire_pop(w, 8), 1);
        EXPECT_EQ(w->chains[0].fault, 0);
}

/* Offers the chain that begins at descriptor 0. */
static void offer_first(struct wire *w)
{
        wire_raw_avail(w, w->dev.split.last_avail, 0);
        wire_raw_avail_idx(w, (uint16_t)(w->dev.split.last_avail + 1));
}

/* ---- indices ---- */

/* hostile C06 */
TEST(hostile_ring, breaks_when_the_avail_index_jumps_or_goes_back)
{
        static const uint16_t jumps[] = { 9, 0x7FFF, 0x8000, 0xFFFF };

        for (unsigned i = 0; i < ARRAY_SIZE(jumps); i++) {
                struct wire w = victim(8, 0);

                wire_raw_avail_idx(&w, jumps[i]);
                expect_broken(&w, "bad-avail-idx");
                expect_canary(&w, 0);
                wire_free(&w);
        }
}

/* hostile C06: behind entries that were seen but not popped yet */
TEST(hostile_ring, breaks_when_the_avail_index_takes_entries_back)
{
        struct wire w = victim(8, 0);

        for (unsigned i = 0; i < 6; i++) {
                honest(&w, i);
                wire_raw_avail(&w, (uint16_t)i, (uint16_t)i);
        }
        wire_raw_avail_idx(&w, 6);
        EXPECT_EQ(wire_pop(&w, 2), 2);
        wire_raw_avail_idx(&w, 5);
        expect_broken(&w, "bad-avail-idx");
        wire_free(&w);
}

/* hostile C06: more chains out than the ring can hold */
TEST(hostile_ring, breaks_when_more_is_offered_than_the_ring_holds)
{
        struct wire w = victim(8, 0);

        for (unsigned i = 0; i < 8; i++) {
                honest(&w, i);
                wire_raw_avail(&w, (uint16_t)i, (uint16_t)i);
        }
        wire_raw_avail_idx(&w, 8);
        EXPECT_EQ(wire_pop(&w, 8), 8);
        wire_raw_avail_idx(&w, 9);
        EXPECT_EQ(wire_pop(&w, 8), -EPROTO);
        EXPECT_STR(w.dev.broken, "bad-avail-idx");
        wire_free(&w);
}

/* hostile C33 */
TEST(hostile_ring, breaks_when_the_index_does_not_go_with_the_base)
{
        struct wire w = wire_new_at(8, 0, 1000);

        wire_raw_avail_idx(&w, 20);
        expect_broken(&w, "bad-avail-idx");
        wire_free(&w);
}

/* hostile C08 */
TEST(hostile_ring, breaks_when_a_head_lies_outside_the_ring)
{
        static const uint16_t heads[] = { 8, 0x8000, 0xFFFF };

        for (unsigned i = 0; i < ARRAY_SIZE(heads); i++) {
                struct wire w = victim(8, 0);

                wire_raw_avail(&w, 0, heads[i]);
                wire_raw_avail_idx(&w, 1);
                expect_broken(&w, "bad-head");
                expect_canary(&w, 0);
                wire_free(&w);
        }
}

/* What comes before a lie is served, wherever in the burst it stands. */
TEST(hostile_ring, serves_the_honest_chains_before_a_lie)
{
        for (unsigned good = 1; good < 8; good++) {
                struct wire w = victim(8, 0);

                for (unsigned i = 0; i < good; i++) {
                        honest(&w, i);
                        wire_raw_avail(&w, (uint16_t)i, (uint16_t)i);
                }
                wire_raw_avail(&w, (uint16_t)good, 99);
                wire_raw_avail_idx(&w, (uint16_t)(good + 1));
                EXPECT_EQ(wire_pop(&w, 8), (int)good);
                EXPECT(!w.dev.broken);
                vq_device_push(&w.dev, w.chains, good);
                vq_device_publish(&w.dev);
                EXPECT_EQ(wire_used_idx(&w), good);
                EXPECT(vq_device_avail_pending(&w.dev));
                EXPECT(vq_device_kick_enable(&w.dev));
                expect_broken(&w, "bad-head");
                wire_free(&w);
        }
}

/* ---- links ---- */

/* hostile C10 */
TEST(hostile_ring, breaks_when_a_link_leaves_the_ring)
{
        static const uint16_t nexts[] = { 8, 9, 0x8000, 0xFFFF };

        for (unsigned i = 0; i < ARRAY_SIZE(nexts); i++) {
                struct wire w = victim(8, 0);

                wire_raw_desc(&w, 0, wire_gpa(&w, 0), 64, NEXT, nexts[i]);
                offer_first(&w);
                expect_broken(&w, "bad-next");
                expect_canary(&w, 0);
                wire_free(&w);
        }
}

/* hostile C11, C13 */
TEST(hostile_ring, breaks_when_a_chain_loops)
{
        static const unsigned sizes[] = { 1, 2, 8, 32768 };

        for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
                for (uint32_t len = 0; len < 2; len++) {
                        for (unsigned back = 0; back < MIN(sizes[s], 4u); back++) {
                                struct wire w = victim(sizes[s], 0);

                                for (unsigned i = 0; i < sizes[s]; i++)
                                        wire_raw_desc(&w, i, wire_gpa(&w, 0), len, NEXT,
                                                      (uint16_t)(i + 1 < sizes[s] ? i + 1 : back));
                                offer_first(&w);
                                expect_broken(&w, "chain-loop");
                                wire_free(&w);
                        }
                }
        }
}

/* hostile C11: to itself, in the first or a later descriptor */
TEST(hostile_ring, breaks_when_a_descriptor_links_to_itself)
{
        for (unsigned at = 0; at < 8; at++) {
                struct wire w = victim(8, 0);

                for (unsigned i = 0; i < at; i++)
                        wire_raw_desc(&w, i, wire_gpa(&w, 0), 1, NEXT, (uint16_t)(i + 1));
                wire_raw_desc(&w, at, wire_gpa(&w, 0), 1, NEXT, (uint16_t)at);
                offer_first(&w);
                expect_broken(&w, "chain-loop");
                wire_free(&w);
        }
}

/* hostile C18, T-VH-25 */
TEST(hostile_ring, breaks_when_readable_follows_writable)
{
        for (uint32_t len = 0; len < 2; len++) {
                struct wire w = victim(8, F(indirect_desc));
                uint64_t table = wire_gpa(&w, 0x1000);

                wire_raw_desc(&w, 0, wire_gpa(&w, 0), 64, NEXT | WRITE, 1);
                wire_raw_desc(&w, 1, wire_gpa(&w, 64), len, 0, 0);
                offer_first(&w);
                expect_broken(&w, "order");

                /* across the border into an indirect table, too */
                vq_device_rewind(&w.dev, w.chains, 1);
                wire_raw_table(&w, table, 0, wire_gpa(&w, 0), len, 0, 0);
                wire_raw_desc(&w, 0, wire_gpa(&w, 0), 64, NEXT | WRITE, 1);
                wire_raw_desc(&w, 1, table, 16, INDIRECT, 0);
                offer_first(&w);
                expect_broken(&w, "order");
                wire_free(&w);
        }
}

/* ---- lengths and addresses: lies about content, which cost their packet only ---- */

/* hostile C14 */
TEST(hostile_ring, skips_empty_pieces)
{
        for (unsigned empty = 0; empty < 8; empty++) {
                struct wire w = victim(8, 0);

                for (unsigned i = 0; i < 3; i++)
                        wire_raw_desc(&w, i, empty & 1u << i ? UINT64_MAX : wire_gpa(&w, i),
                                      empty & 1u << i ? 0 : 1, i < 2 ? NEXT : 0, (uint16_t)(i + 1));
                offer_first(&w);
                EXPECT_EQ(wire_pop(&w, 8), 1);
                EXPECT_EQ(w.chains[0].fault, 0);
                EXPECT_EQ(w.chains[0].ndesc, 3);
                EXPECT_EQ(w.chains[0].n_out, 3 - __builtin_popcount(empty));
                EXPECT_EQ(w.chains[0].len_out, 3 - __builtin_popcount(empty));
                wire_free(&w);
        }
}

/* hostile B24, C16, T-VH-25 */
TEST(hostile_ring, marks_a_chain_with_unmapped_bytes_and_goes_on)
{
        struct wire w = victim(8, 0);
        const struct {
                uint64_t addr;
                uint32_t len;
        } lies[] = {
                {0,                1              },
                { WIRE_GPA - 1,    2              },
                { wire_gpa(&w,     0),              UINT32_MAX },
                { wire_gpa(&w,               WIRE_BUF_BYTES - 1),                   2 },
                { wire_gpa(&w,               WIRE_BUF_BYTES),           1 },
                { UINT64_MAX,UINT32_MAX},
                { UINT64_MAX - 63,      64                        },
        };

        for (unsigned i = 0; i < ARRAY_SIZE(lies); i++) {
                wire_raw_desc(&w, 0, lies[i].addr, lies[i].len, 0, 0);
                offer_first(&w);
                EXPECT_EQ(wire_pop(&w, 8), 1);
                EXPECT_EQ(w.chains[0].fault, -EFAULT);
                vq_device_push(&w.dev, w.chains, 1);
                vq_device_publish(&w.dev);
        }
        EXPECT(!w.dev.broken);
        EXPECT_EQ(wire_used_idx(&w), ARRAY_SIZE(lies));
        expect_canary(&w, 0);
        wire_free(&w);
}

/* ---- indirect tables ---- */

/* hostile C19 */
TEST(hostile_ring, breaks_on_indirect_that_was_not_negotiated)
{
        struct wire w = victim(8, 0);

        wire_raw_desc(&w, 0, wire_gpa(&w, 0), 16, INDIRECT, 0);
        offer_first(&w);
        expect_broken(&w, "bad-indirect");
        expect_canary(&w, 0);
        wire_free(&w);
}

/* hostile C20: what stands in the table is honest, only its length is not */
TEST(hostile_ring, breaks_on_tables_of_impossible_length)
{
        static const uint32_t lengths[] = { 0, 1, 15, 17, 16 * 9, 16 * 8 + 1, UINT32_MAX, UINT32_MAX - 15 };

        for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
                struct wire w = victim(8, F(indirect_desc));

                wire_raw_table(&w, wire_gpa(&w, 0), 0, wire_gpa(&w, 0), 64, 0, 0);
                wire_raw_desc(&w, 0, wire_gpa(&w, 0), lengths[i], INDIRECT, 0);
                offer_first(&w);
                expect_broken(&w, "bad-indirect");
                expect_canary(&w, 16);
                wire_free(&w);
        }
}

/* hostile C22 */
TEST(hostile_ring, breaks_on_nested_tables_and_on_indirect_with_next)
{
        struct wire w = victim(8, F(indirect_desc));
        uint64_t table = wire_gpa(&w, 0x1000);

        wire_raw_table(&w, table, 0, wire_gpa(&w, 0), 16, INDIRECT, 0);
        wire_raw_desc(&w, 0, table, 16, INDIRECT, 0);
        offer_first(&w);
        expect_broken(&w, "bad-indirect");

        vq_device_rewind(&w.dev, w.chains, 1);
        wire_raw_table(&w, table, 0, wire_gpa(&w, 0), 16, 0, 0);
        wire_raw_desc(&w, 0, table, 16, INDIRECT | NEXT, 1);
        honest(&w, 1);
        offer_first(&w);
        expect_broken(&w, "bad-indirect");
        wire_free(&w);
}

/* hostile C25 */
TEST(hostile_ring, breaks_on_loops_and_wild_links_inside_a_table)
{
        static const struct {
                uint16_t next;
                const char *reason;
        } lies[] = {
                {0,       "chain-loop"},
                { 1,      "chain-loop"},
                { 2,      "chain-loop"},
                { 3,      "bad-next"  },
                { 7,      "bad-next"  },
                { 0xFFFF, "bad-next"  }
        };

        for (unsigned i = 0; i < ARRAY_SIZE(lies); i++) {
                struct wire w = victim(8, F(indirect_desc));
                uint64_t table = wire_gpa(&w, 0x1000);

                wire_raw_table(&w, table, 0, wire_gpa(&w, 0), 1, NEXT, 1);
                wire_raw_table(&w, table, 1, wire_gpa(&w, 0), 1, NEXT, 2);
                wire_raw_table(&w, table, 2, wire_gpa(&w, 0), 1, NEXT, lies[i].next);
                wire_raw_desc(&w, 0, table, 48, INDIRECT, 0);
                offer_first(&w);
                expect_broken(&w, lies[i].reason);
                wire_free(&w);
        }
}

/* 2.7.4.1, 2.7.5.3.1: the chain as a whole is no longer than the ring, table included */
TEST(hostile_ring, breaks_when_direct_descriptors_and_table_exceed_the_ring)
{
        for (unsigned direct = 0; direct < 8; direct++) {
                struct wire w = victim(8, F(indirect_desc));
                uint64_t table = wire_gpa(&w, 0x1000);

                for (unsigned i = 0; i < 8; i++)
                        wire_raw_table(&w, table, i, wire_gpa(&w, 0), 1, i < 7 ? NEXT : 0, (uint16_t)(i + 1));
                for (unsigned i = 0; i < direct; i++)
                        wire_raw_desc(&w, i, wire_gpa(&w, 0), 1, NEXT, (uint16_t)(i + 1));
                wire_raw_desc(&w, direct, table, 8 * 16, INDIRECT, 0);
                offer_first(&w);
                if (!direct) {
                        EXPECT_EQ(wire_pop(&w, 8), 1);
                        EXPECT_EQ(w.chains[0].n_out, 8);
                } else {
                        expect_broken(&w, "chain-loop");
                }
                wire_free(&w);
        }
}

/* ---- the driver against its device ---- */

static int cookies[8];

static struct wire driver_with(unsigned n)
{
        struct wire w = wire_new(8, 0);

        for (unsigned i = 0; i < n; i++)
                EXPECT_EQ(vq_driver_add(&w.drv, &(struct vq_piece){ wire_gpa(&w, 0), 64 }, 1, 0, &cookies[i]),
                          0);
        vq_driver_publish(&w.drv);
        return w;
}

static void expect_driver_broken(struct wire *w, const char *reason, unsigned still_out)
{
        struct vq_used used[8];
        unsigned n = 0;

        EXPECT_EQ(vq_driver_reap(&w->drv, used, 8), -EPROTO);
        EXPECT_STR(w->drv.broken, reason);
        EXPECT_EQ(vq_driver_reap(&w->drv, used, 8), -EPROTO);
        EXPECT_EQ(vq_driver_add(&w->drv, &(struct vq_piece){ 0, 1 }, 1, 0, w), -EPROTO);
        /* and remains so when the memory has become honest */
        wire_raw_used(w, w->drv.split.last_used, w->drv.split.slot[0].cookie ? 0 : 2, 0);
        wire_raw_used_idx(w, (uint16_t)(w->drv.split.last_used + 1));
        EXPECT_EQ(vq_driver_reap(&w->drv, used, 8), -EPROTO);
        EXPECT(!vq_driver_used_pending(&w->drv) && !vq_driver_kick_needed(&w->drv));
        EXPECT(!vq_driver_call_enable(&w->drv) && !vq_driver_call_enable_delayed(&w->drv));
        while (vq_driver_drain(&w->drv))
                n++;
        EXPECT_EQ(n, still_out);
}

/* hostile M01, T-TX-16 */
TEST(hostile_ring, driver_breaks_on_an_id_that_is_not_out)
{
        static const uint32_t ids[] = { 3, 7, 8, 0xFFFF, 0x10000, UINT32_MAX };

        for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
                struct wire w = driver_with(3);

                wire_raw_used(&w, 0, ids[i], 0);
                wire_raw_used_idx(&w, 1);
                expect_driver_broken(&w, "bad-id", 3);
                wire_free(&w);
        }
}

/* hostile M01: the middle of a chain is no head */
TEST(hostile_ring, driver_breaks_on_the_middle_of_a_chain)
{
        struct wire w = wire_new(8, 0);
        struct vq_piece pieces[3] = {
                {0, 1}
        };

        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 3, 0, cookies), 0);
        vq_driver_publish(&w.drv);
        wire_raw_used(&w, 0, 1, 0);
        wire_raw_used_idx(&w, 1);
        expect_driver_broken(&w, "bad-id", 1);
        wire_free(&w);
}

/* hostile M02, T-TX-16 */
TEST(hostile_ring, driver_breaks_on_an_id_that_comes_twice)
{
        struct wire w = driver_with(3);
        struct vq_used used[8];

        wire_raw_used(&w, 0, 1, 0);
        wire_raw_used(&w, 1, 1, 0);
        wire_raw_used_idx(&w, 2);
        EXPECT_EQ(vq_driver_reap(&w.drv, used, 8), 1);
        EXPECT(used[0].cookie == &cookies[1]);
        expect_driver_broken(&w, "bad-id", 2);
        wire_free(&w);
}

/* hostile M03, T-TX-17 */
TEST(hostile_ring, driver_breaks_when_the_used_index_jumps_or_goes_back)
{
        static const uint16_t jumps[] = { 4, 9, 0x8000, 0xFFFF };

        for (unsigned i = 0; i < ARRAY_SIZE(jumps); i++) {
                struct wire w = driver_with(3);

                wire_raw_used_idx(&w, jumps[i]);
                expect_driver_broken(&w, "bad-used", 3);
                wire_free(&w);
        }
}

/* hostile M03: behind entries that were seen but not reaped yet */
TEST(hostile_ring, driver_breaks_when_the_used_index_takes_entries_back)
{
        struct wire w = driver_with(3);
        struct vq_used used[8];

        for (unsigned i = 0; i < 3; i++)
                wire_raw_used(&w, (uint16_t)i, i, 0);
        wire_raw_used_idx(&w, 3);
        EXPECT_EQ(vq_driver_reap(&w.drv, used, 1), 1);
        wire_raw_used_idx(&w, 2);
        expect_driver_broken(&w, "bad-used", 2);
        wire_free(&w);
}

/* hostile M10, T-RX-32 */
TEST(hostile_ring, driver_does_not_care_what_happens_to_its_table_and_ring)
{
        static const uint64_t features[] = { 0, F(indirect_desc) };

        for (unsigned f = 0; f < 2; f++) {
                struct wire w = wire_new(8, features[f]);
                struct vq_piece pieces[2] = {
                        {0x1000,  1},
                        { 0x2000, 1}
                };
                unsigned each = features[f] ? 1 : 2;

                for (unsigned round = 0; round < 1000; round++) {
                        struct vq_used used[8];

                        for (unsigned i = 0; i < 4; i++)
                                EXPECT_EQ(vq_driver_add(&w.drv, pieces, 1, 1, &cookies[i]), 0);
                        EXPECT_EQ(vq_driver_free(&w.drv), 8 - 4 * each);
                        vq_driver_publish(&w.drv);
                        for (unsigned i = 0; i < 4; i++)
                                wire_raw_used(&w, (uint16_t)(round * 4 + i),
                                              w.drv.split.slot[(round * 4 + i) % 8].offered, 0);
                        memset(w.drv.split.ring.desc, 0xFF, split_desc_bytes(8));
                        memset(w.drv.split.ring.avail->ring, 0xFF, 16);
                        wire_raw_used_idx(&w, (uint16_t)(round * 4 + 4));
                        EXPECT_EQ(vq_driver_reap(&w.drv, used, 8), 4);
                        for (unsigned i = 0; i < 4; i++)
                                EXPECT(used[i].cookie == &cookies[i]);
                        EXPECT_EQ(vq_driver_outstanding(&w.drv), 0);
                }
                wire_free(&w);
        }
}
