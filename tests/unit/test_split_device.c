/* The device half of the split ring; the test is the driver, by raw words. */
#include "ring/split.h"

#include <string.h>
#include <sys/mman.h>

#include "test.h"
#include "wire.h"

#define NEXT     VRING_DESC_F_NEXT
#define WRITE    VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT

/* Offers n readable chains of one piece each, with heads 0, 1, ... from `from` on. */
static void offer(struct wire *w, uint16_t from, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                unsigned id = (from + i) & (w->cfg.size - 1);

                wire_raw_desc(w, id, wire_gpa(w, id), 1, 0, 0);
                wire_raw_avail(w, (uint16_t)(from + i), (uint16_t)id);
        }
        wire_raw_avail_idx(w, (uint16_t)(from + n));
}

static void give_back(struct wire *w, unsigned n)
{
        vq_device_push(&w->dev, w->chains, n);
        vq_device_publish(&w->dev);
}

/* ---- set-up ---- */

/* hostile C01, C02 */
TEST(split_device, takes_powers_of_two_up_to_32768)
{
        static const uint32_t good[] = { 1, 2, 4, 256, 32768 },
                              bad[] = { 0, 3, 5, 32767, 32769, 65536, UINT32_MAX };
        struct wire w = wire_new(8, 0);
        const char *why;

        for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
                struct wire v = wire_new(good[i], F(event_idx));

                offer(&v, 0, 1);
                EXPECT_EQ(wire_pop(&v, 8), 1);
                wire_free(&v);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                struct vq_config cfg = w.cfg;
                struct vq_device dev;

                cfg.size = bad[i];
                why = NULL;
                EXPECT_EQ(vq_device_init(&dev, &cfg, w.map, &why), -EINVAL);
                EXPECT(strstr(why, "size"));
                EXPECT(!dev.mem.map);
        }
        wire_free(&w);
}

/* hostile C03 */
TEST(split_device, refuses_misaligned_parts)
{
        struct wire w = wire_new(8, 0);
        static const struct shift {
                unsigned desc, avail, used;
        } shifts[] = {
                {1,  0, 0},
                { 2, 0, 0},
                { 4, 0, 0},
                { 8, 0, 0},
                { 0, 1, 0},
                { 0, 0, 1},
                { 0, 0, 2}
        };

        for (unsigned i = 0; i < ARRAY_SIZE(shifts); i++) {
                struct vq_config cfg = w.cfg;
                struct vq_device dev;
                const char *why = NULL;

                cfg.desc += shifts[i].desc;
                cfg.avail += shifts[i].avail;
                cfg.used += shifts[i].used;
                EXPECT_EQ(vq_device_init(&dev, &cfg, w.map, &why), -EINVAL);
                EXPECT(strstr(why, "aligned"));
        }
        wire_free(&w);
}

/* hostile C04 */
TEST(split_device, refuses_parts_that_leave_their_region)
{
        struct wire w = wire_new(8, 0);
        uint64_t end = WIRE_GPA + w.bytes;

        for (unsigned part = 0; part < 3; part++) {
                const size_t bytes[] = { split_desc_bytes(8), split_avail_bytes(8), split_used_bytes(8) };
                struct vq_config cfg = w.cfg;
                uint64_t *addr = part == 0 ? &cfg.desc : part == 1 ? &cfg.avail : &cfg.used;
                uint64_t fits = (end - bytes[part]) & ~UINT64_C(15);
                struct vq_device dev;
                const char *why = NULL;

                *addr = fits;
                EXPECT_EQ(vq_device_init(&dev, &cfg, w.map, &why), 0);
                vq_device_done(&dev);
                *addr = fits + 16;
                EXPECT_EQ(vq_device_init(&dev, &cfg, w.map, &why), -EFAULT);
                EXPECT(strstr(why, "outside the memory"));
                *addr = 0;
                EXPECT_EQ(vq_device_init(&dev, &cfg, w.map, &why), -EFAULT);
                *addr = UINT64_MAX - 15;
                EXPECT_EQ(vq_device_init(&dev, &cfg, w.map, &why), -EFAULT);
        }
        wire_free(&w);
}

/* hostile C33 */
TEST(split_device, starts_at_the_base_and_refuses_an_impossible_one)
{
        struct wire w = wire_new_at(8, 0, 100);
        static const struct base {
                uint32_t base;
                int result;
        } bases[] = {
                {99,       -EPROTO},
                { 100,     0      },
                { 108,     0      },
                { 109,     -EPROTO},
                { 0xFFFF,  -EPROTO},
                { 0x10064, -EPROTO}
        };

        for (unsigned i = 0; i < ARRAY_SIZE(bases); i++) {
                struct vq_config cfg = w.cfg;
                struct vq_device dev;
                const char *why = NULL;

                cfg.base = bases[i].base;
                EXPECT_EQ(vq_device_init(&dev, &cfg, w.map, &why), bases[i].result);
                if (!bases[i].result) {
                        EXPECT_EQ(vq_device_base(&dev), bases[i].base);
                        vq_device_done(&dev);
                } else {
                        EXPECT(strstr(why, "base"));
                }
        }
        wire_free(&w);
}

TEST(split_device, holds_its_map_until_done)
{
        struct wire w = wire_new(8, 0);
        int refs = w.map->refs;

        vq_device_done(&w.dev);
        EXPECT_EQ(w.map->refs, refs - 1);
        vq_device_done(&w.dev);
        EXPECT_EQ(w.map->refs, refs - 1);
        wire_free(&w);
}

TEST(split_device, goes_on_with_another_map)
{
        struct wire w = wire_new(8, 0);
        struct mem_region region = { .gpa = WIRE_GPA, .uva = WIRE_GPA, .size = w.bytes, .va = w.drv_va };
        struct mem_map *map, *empty;
        const char *why = NULL;

        offer(&w, 0, 2);
        EXPECT_EQ(wire_pop(&w, 1), 1);
        give_back(&w, 1);

        EXPECT_EQ(mem_map_borrow(&region, 1, &map), 0);
        EXPECT_EQ(vq_device_remap(&w.dev, &w.cfg, map, &why), 0);
        EXPECT_EQ(w.map->refs, 1);
        EXPECT_EQ(wire_pop(&w, 8), 1);
        EXPECT(w.chains[0].iov[0].iov_base == wire_drv_ptr(&w, wire_gpa(&w, 1)));

        EXPECT_EQ(mem_map_borrow(NULL, 0, &empty), 0);
        EXPECT_EQ(vq_device_remap(&w.dev, &w.cfg, empty, &why), -EFAULT);
        EXPECT_STR(w.dev.broken, "ring-unmapped");
        EXPECT_EQ(map->refs, 1);
        EXPECT_EQ(wire_pop(&w, 8), -EPROTO);
        mem_map_put(map);
        mem_map_put(empty);
        wire_free(&w);
}

/* ---- taking ---- */

TEST(split_device, pops_in_order_up_to_what_was_asked)
{
        struct wire w = wire_new(256, 0);

        EXPECT_EQ(wire_pop(&w, 8), 0);
        offer(&w, 0, 200);
        EXPECT_EQ(wire_pop(&w, 3), 3);
        EXPECT_EQ(w.chains[0].id, 0);
        EXPECT_EQ(w.chains[2].id, 2);
        EXPECT_EQ(wire_pop(&w, VQ_BURST), VQ_BURST);
        EXPECT_EQ(w.chains[0].id, 3);
        EXPECT_EQ(wire_pop(&w, 1000), VQ_BURST);
        EXPECT_EQ(wire_pop(&w, VQ_BURST), VQ_BURST);
        EXPECT_EQ(wire_pop(&w, VQ_BURST), 5);
        EXPECT_EQ(wire_pop(&w, VQ_BURST), 0);
        wire_free(&w);
}

TEST(split_device, un_pops_and_pops_again)
{
        struct wire w = wire_new(8, 0);

        offer(&w, 0, 5);
        EXPECT_EQ(wire_pop(&w, 5), 5);
        vq_device_rewind(&w.dev, w.chains + 2, 3);
        give_back(&w, 2);
        EXPECT_EQ(vq_device_base(&w.dev), 2);
        EXPECT_EQ(wire_pop(&w, 8), 3);
        EXPECT_EQ(w.chains[0].id, 2);
        offer(&w, 5, 5);
        EXPECT_EQ(wire_pop(&w, 8), 5);
        EXPECT_EQ(w.chains[4].id, 1);
        wire_free(&w);
}

TEST(split_device, ends_a_burst_when_the_pool_is_full_and_goes_on_with_an_empty_one)
{
        struct wire w = wire_new(8, 0);
        unsigned size = w.pool.size;

        for (unsigned i = 0; i < 6; i++)
                wire_raw_desc(&w, i, wire_gpa(&w, i), 1, i & 1 ? 0 : NEXT, (uint16_t)(i + 1));
        for (unsigned i = 0; i < 3; i++)
                wire_raw_avail(&w, (uint16_t)i, (uint16_t)(2 * i));
        wire_raw_avail_idx(&w, 3);

        w.pool.size = 8; /* two chains of a spare slot and two pieces, and a bit */
        EXPECT_EQ(wire_pop(&w, 8), 2);
        EXPECT_EQ(w.pool.used, 6);
        EXPECT_EQ(vq_device_pop(&w.dev, &w.pool, w.chains, 8), 0);
        EXPECT_EQ(wire_pop(&w, 8), 1);
        EXPECT_EQ(w.chains[0].id, 4);
        EXPECT_EQ(w.chains[0].fault, 0);

        vq_device_rewind(&w.dev, w.chains, 1);
        w.pool.size = 2; /* never enough */
        EXPECT_EQ(wire_pop(&w, 8), 1);
        EXPECT_EQ(w.chains[0].fault, -E2BIG);
        w.pool.size = size;
        wire_free(&w);
}

/* hostile C13 */
TEST(split_device, takes_a_chain_as_long_as_the_ring)
{
        static const unsigned sizes[] = { 1, 2, 8, 32768 };

        for (unsigned k = 0; k < ARRAY_SIZE(sizes); k++) {
                struct wire w = wire_new(sizes[k], 0);

                for (unsigned i = 0; i < sizes[k]; i++)
                        wire_raw_desc(&w, i, wire_gpa(&w, i), 1, i + 1 < sizes[k] ? NEXT : 0,
                                      (uint16_t)(i + 1));
                wire_raw_avail_idx(&w, 1);
                EXPECT_EQ(wire_pop(&w, 8), 1);
                EXPECT_EQ(w.chains[0].fault, 0);
                EXPECT_EQ(w.chains[0].n_out, sizes[k]);
                EXPECT_EQ(w.chains[0].ndesc, sizes[k]);
                wire_free(&w);
        }
}

/* ---- indirect tables ---- */

static void offer_table(struct wire *w, uint64_t table, unsigned entries)
{
        wire_raw_desc(w, 0, table, entries * 16, INDIRECT, 0);
        wire_raw_avail(w, 0, 0);
        wire_raw_avail_idx(w, 1);
}

TEST(split_device, follows_an_indirect_table)
{
        struct wire w = wire_new(8, F(indirect_desc));
        uint64_t table = wire_gpa(&w, 0x1000);

        wire_raw_table(&w, table, 0, wire_gpa(&w, 0), 10, NEXT, 2);
        wire_raw_table(&w, table, 2, wire_gpa(&w, 100), 20, NEXT | WRITE, 1);
        wire_raw_table(&w, table, 1, wire_gpa(&w, 200), 30, WRITE, 0);
        offer_table(&w, table, 3);
        EXPECT_EQ(wire_pop(&w, 8), 1);
        EXPECT_EQ(w.chains[0].fault, 0);
        EXPECT_EQ(w.chains[0].ndesc, 1);
        EXPECT_EQ(w.chains[0].n_out, 1);
        EXPECT_EQ(w.chains[0].n_in, 2);
        EXPECT(w.chains[0].iov[2].iov_base == wire_dev_ptr(&w, wire_gpa(&w, 200)));
        wire_free(&w);
}

/* 2.7.5.3.2: the pointing descriptor's WRITE is ignored, and direct descriptors may come before it */
TEST(split_device, follows_direct_descriptors_and_then_a_table)
{
        struct wire w = wire_new(8, F(indirect_desc));
        uint64_t table = wire_gpa(&w, 0x1000);

        wire_raw_desc(&w, 0, wire_gpa(&w, 0), 10, NEXT, 3);
        wire_raw_desc(&w, 3, wire_gpa(&w, 50), 10, NEXT, 5);
        wire_raw_desc(&w, 5, table, 32, INDIRECT | WRITE, 0);
        wire_raw_table(&w, table, 0, wire_gpa(&w, 100), 20, NEXT, 1);
        wire_raw_table(&w, table, 1, wire_gpa(&w, 200), 30, WRITE, 0);
        wire_raw_avail_idx(&w, 1);
        EXPECT_EQ(wire_pop(&w, 8), 1);
        EXPECT_EQ(w.chains[0].ndesc, 3);
        EXPECT_EQ(w.chains[0].n_out, 3);
        EXPECT_EQ(w.chains[0].n_in, 1);
        EXPECT_EQ(w.chains[0].len_out, 40);
        wire_free(&w);
}

/* A table that cannot be read in place: at odd addresses, and cut by the border of two regions that lie apart for us. */
TEST(split_device, gathers_a_table_that_is_crooked_or_crosses_regions)
{
        struct wire w = wire_new(8, F(indirect_desc));
        size_t half = w.buf + 0x1000;
        uint8_t *apart = mmap(NULL, w.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w.fd, 0);
        struct mem_region regions[] = {
                {.gpa = WIRE_GPA,         .uva = WIRE_GPA, .size = half, .va = w.dev_va},
                { .gpa = WIRE_GPA + half,
                 .uva = WIRE_GPA + half,
                 .size = w.bytes - half,
                 .va = apart + half                                                    },
        };
        struct mem_map *map;
        const char *why;

        EXPECT(apart != MAP_FAILED);
        EXPECT_EQ(mem_map_borrow(regions, 2, &map), 0);
        EXPECT_EQ(vq_device_remap(&w.dev, &w.cfg, map, &why), 0);
        for (unsigned off = 0; off <= 48; off++) {
                uint64_t table = WIRE_GPA + half - off;

                for (unsigned i = 0; i < 3; i++)
                        wire_raw_table(&w, table, i, wire_gpa(&w, 0x4000 * i), 10 + i, i < 2 ? NEXT : 0,
                                       (uint16_t)(i + 1));
                offer_table(&w, table, 3);
                EXPECT_EQ(wire_pop(&w, 8), 1);
                EXPECT_EQ(w.chains[0].fault, 0);
                EXPECT_EQ(w.chains[0].n_out, 3);
                EXPECT_EQ(w.chains[0].len_out, 33);
                EXPECT(w.chains[0].iov[2].iov_base == apart + w.buf + 0x8000);
                vq_device_rewind(&w.dev, w.chains, 1);
        }
        vq_device_done(&w.dev);
        mem_map_put(map);
        munmap(apart, w.bytes);
        wire_free(&w);
}

TEST(split_device, faults_when_a_table_lies_in_a_hole)
{
        struct wire w = wire_new(8, F(indirect_desc));
        uint64_t end = WIRE_GPA + w.bytes;

        offer_table(&w, end - 16, 2);
        wire_raw_table(&w, end - 16, 0, wire_gpa(&w, 0), 10, NEXT, 1);
        EXPECT_EQ(wire_pop(&w, 8), 1);
        EXPECT_EQ(w.chains[0].fault, -EFAULT);
        give_back(&w, 1);
        wire_raw_desc(&w, 0, UINT64_MAX - 15, 32, INDIRECT, 0);
        wire_raw_avail_idx(&w, 2);
        EXPECT_EQ(wire_pop(&w, 8), 1);
        EXPECT_EQ(w.chains[0].fault, -EFAULT);
        EXPECT(!w.dev.broken);
        wire_free(&w);
}

/* ---- giving back ---- */

TEST(split_device, shows_nothing_before_publish)
{
        struct wire w = wire_new(8, 0);

        offer(&w, 0, 3);
        EXPECT_EQ(wire_pop(&w, 8), 3);
        w.chains[1].written = 77;
        vq_device_push(&w.dev, w.chains, 3);
        EXPECT_EQ(wire_used_idx(&w), 0);
        vq_device_publish(&w.dev);
        EXPECT_EQ(wire_used_idx(&w), 3);
        EXPECT_EQ(w.drv.split.ring.used->ring[1].id, cpu_to_le32(1));
        EXPECT_EQ(w.drv.split.ring.used->ring[1].len, cpu_to_le32(77));
        wire_free(&w);
}

/* Publishes n entries in bursts, as if the driver kept up. */
static void turn_over(struct wire *w, unsigned n)
{
        while (n) {
                unsigned k = MIN(n, w->cfg.size);

                k = MIN(k, VQ_BURST);
                offer(w, w->dev.split.last_avail, k);
                EXPECT_EQ(wire_pop(w, k), (int)k);
                give_back(w, k);
                n -= k;
        }
}

TEST(split_device, calls_unless_the_driver_said_no)
{
        struct wire w = wire_new(8, 0);

        EXPECT(!vq_device_call_needed(&w.dev));
        turn_over(&w, 1);
        EXPECT(vq_device_call_needed(&w.dev));
        EXPECT(!vq_device_call_needed(&w.dev));
        wire_raw_avail_flags(&w, VRING_AVAIL_F_NO_INTERRUPT);
        turn_over(&w, 1);
        EXPECT(!vq_device_call_needed(&w.dev));
        wire_raw_avail_flags(&w, 0xFFFE);
        turn_over(&w, 1);
        EXPECT(vq_device_call_needed(&w.dev));
        wire_free(&w);
}

/* 2.7.7.2: with event indices the flag's low bit is ignored */
TEST(split_device, calls_when_the_named_entry_was_used)
{
        struct wire w = wire_new(8, F(event_idx));

        wire_raw_avail_flags(&w, VRING_AVAIL_F_NO_INTERRUPT);
        wire_raw_used_event(&w, 2);
        turn_over(&w, 2);
        EXPECT(!vq_device_call_needed(&w.dev));
        turn_over(&w, 1);
        EXPECT(vq_device_call_needed(&w.dev));
        turn_over(&w, 5);
        EXPECT(!vq_device_call_needed(&w.dev));
        wire_free(&w);
}

/* Coalescing asks late: the answer is about everything since the last look. */
TEST(split_device, remembers_a_passed_event_until_it_is_asked)
{
        static const unsigned more[] = { 0, 1, 1000, 65533, 65534, 65535, 65536, 65537, 200000 };

        for (unsigned i = 0; i < ARRAY_SIZE(more); i++) {
                struct wire w = wire_new(64, F(event_idx));

                wire_raw_used_event(&w, 1);
                turn_over(&w, 2 + more[i]);
                EXPECT(vq_device_call_needed(&w.dev));
                EXPECT(!vq_device_call_needed(&w.dev));
                wire_free(&w);
        }
}

/* hostile C28 */
TEST(split_device, calls_exactly_once_for_each_named_entry_through_ten_wraps)
{
        struct wire w = wire_new(8, F(event_idx));
        unsigned calls = 0, rounds = 0;

        for (unsigned used = 0; used < 10 * 65536; rounds++) {
                unsigned step = 1 + rounds % 8;

                wire_raw_used_event(&w, (uint16_t)(used + step - 1));
                for (unsigned k = 0; k < step; k++) {
                        turn_over(&w, 1);
                        calls += vq_device_call_needed(&w.dev);
                }
                used += step;
        }
        EXPECT_EQ(calls, rounds);
        wire_free(&w);
}

/* ---- being woken ---- */

TEST(split_device, asks_for_kicks_by_flag)
{
        struct wire w = wire_new(8, 0);

        EXPECT_EQ(wire_used_flags(&w), 0);
        vq_device_kick_disable(&w.dev);
        EXPECT_EQ(wire_used_flags(&w), VRING_USED_F_NO_NOTIFY);
        EXPECT(!vq_device_kick_enable(&w.dev));
        EXPECT_EQ(wire_used_flags(&w), 0);
        wire_free(&w);
}

/* conformance section 2: with event indices the flag stays 0 */
TEST(split_device, asks_for_kicks_by_event_and_never_moves_it_back)
{
        struct wire w = wire_new_at(8, F(event_idx), 65530);
        uint16_t event = wire_avail_event(&w);

        EXPECT_EQ(event, 65530);
        for (unsigned i = 0; i < 1000; i++) {
                uint16_t now;

                vq_device_kick_disable(&w.dev);
                EXPECT_EQ(wire_used_flags(&w), 0);
                turn_over(&w, 1 + i % 5);
                EXPECT(!vq_device_kick_enable(&w.dev));
                now = wire_avail_event(&w);
                EXPECT_EQ(now, wire_avail_idx(&w));
                EXPECT((uint16_t)(now - event) < 8);
                event = now;
        }
        wire_free(&w);
}

/* T-VH-13 */
TEST(split_device, sees_what_came_between_the_last_pop_and_enabling)
{
        static const uint64_t features[] = { 0, F(event_idx) };

        for (unsigned i = 0; i < 2; i++) {
                struct wire w = wire_new(8, features[i]);

                EXPECT_EQ(wire_pop(&w, 8), 0);
                offer(&w, 0, 1);
                EXPECT(vq_device_kick_enable(&w.dev));
                EXPECT(vq_device_avail_pending(&w.dev));
                EXPECT_EQ(wire_pop(&w, 8), 1);
                EXPECT(!vq_device_avail_pending(&w.dev));
                EXPECT(!vq_device_kick_enable(&w.dev));
                wire_free(&w);
        }
}

/* behaviours section 6: the worker sleeps when buffers exist but are too few */
TEST(split_device, waits_for_more_than_it_has_put_back)
{
        struct wire w = wire_new(8, F(event_idx));

        offer(&w, 0, 3);
        EXPECT_EQ(wire_pop(&w, 8), 3);
        vq_device_rewind(&w.dev, w.chains, 3);
        EXPECT(!vq_device_avail_pending(&w.dev));
        EXPECT(!vq_device_kick_enable(&w.dev));
        EXPECT_EQ(wire_avail_event(&w), 3);

        offer(&w, 3, 1);
        EXPECT(vq_device_avail_pending(&w.dev));
        EXPECT(vq_device_kick_enable(&w.dev));
        EXPECT_EQ(wire_pop(&w, 8), 4);
        EXPECT(!vq_device_kick_enable(&w.dev));
        EXPECT_EQ(wire_avail_event(&w), 4);
        wire_free(&w);
}

TEST(split_device, does_not_wait_when_it_has_not_looked_at_all_there_is)
{
        struct wire w = wire_new(8, F(event_idx));

        offer(&w, 0, 5);
        EXPECT_EQ(wire_pop(&w, 3), 3);
        EXPECT(vq_device_kick_enable(&w.dev));
        vq_device_rewind(&w.dev, w.chains, 2);
        EXPECT(vq_device_kick_enable(&w.dev));
        EXPECT_EQ(wire_pop(&w, 3), 3);
        EXPECT(vq_device_kick_enable(&w.dev));
        EXPECT_EQ(wire_pop(&w, 3), 1);
        EXPECT(!vq_device_kick_enable(&w.dev));
        wire_free(&w);
}

TEST(split_device, tells_its_state)
{
        struct wire w = wire_new_at(8, F(event_idx), 10);
        struct vq_state s;
        char text[256];

        offer(&w, 10, 4);
        wire_raw_used_event(&w, 11);
        EXPECT_EQ(wire_pop(&w, 3), 3);
        vq_device_push(&w.dev, w.chains, 2);
        vq_device_publish(&w.dev);
        vq_device_state(&w.dev, &s);
        EXPECT_EQ(s.avail, 14);
        EXPECT_EQ(s.used, 12);
        EXPECT_EQ(s.event_ours, 10);
        EXPECT_EQ(s.event_peer, 11);
        EXPECT_EQ(s.last_avail, 13);
        EXPECT_EQ(s.last_used, 12);
        vq_device_break(&w.dev, "bad-head", 77);
        vq_device_break(&w.dev, "order", 78);
        vq_device_dump(&w.dev, text, sizeof(text));
        EXPECT(strstr(text, "last_avail=13"));
        EXPECT(strstr(text, "broken=bad-head at=77"));
        wire_free(&w);
}
