/* The driver half of the split ring; the test is the device, by raw words. */
#include "ring/split.h"

#include <string.h>

#include "ring/event.h"
#include "scale.h"
#include "test.h"
#include "wire.h"

static int cookies[65536];

/* Adds n chains of one piece, publishes; the cookie says which. */
static void add(struct wire *w, unsigned first, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                EXPECT_EQ(vq_driver_add(&w->drv, &(struct vq_piece){ wire_gpa(w, i), 1 }, 1, 0,
                                        &cookies[(first + i) % ARRAY_SIZE(cookies)]),
                          0);
        vq_driver_publish(&w->drv);
}

static uint16_t head_at(const struct wire *w, uint16_t pos)
{
        const struct vring_split *r = &w->drv.split.ring;

        return le16_to_cpu(r->avail->ring[pos & r->mask]);
}

static struct vring_desc desc_at(const struct wire *w, unsigned i)
{
        return split_desc_load(&w->drv.split.ring.desc[i]);
}

/* Uses the next n chains in the order in which they were offered. */
static void use(struct wire *w, unsigned n)
{
        uint16_t idx = wire_used_idx(w);

        for (unsigned i = 0; i < n; i++, idx++)
                wire_raw_used(w, idx, head_at(w, idx), 0);
        wire_raw_used_idx(w, idx);
}

static void reap(struct wire *w, unsigned n)
{
        struct vq_used used[VQ_BURST];

        for (; n; n -= MIN(n, VQ_BURST))
                EXPECT_EQ(vq_driver_reap(&w->drv, used, VQ_BURST), (int)MIN(n, VQ_BURST));
}

/* ---- set-up ---- */

TEST(split_driver, refuses_sizes_that_no_ring_has)
{
        static const uint32_t bad[] = { 0, 3, 257, 32769, 65536, UINT32_MAX };
        struct wire w = wire_new(8, 0);

        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                struct vq_config cfg = { .size = bad[i] };
                struct vq_driver drv;

                EXPECT_EQ(vq_driver_init(&drv, VQ_SPLIT, &cfg, w.drv_va, WIRE_GPA), -EINVAL);
                EXPECT_EQ(drv.size, 0);
        }
        EXPECT_EQ(vq_driver_init(&(struct vq_driver){ 0 }, VQ_SPLIT, &(struct vq_config){ .size = 8 },
                                 w.drv_va + 16, 0),
                  -EINVAL);
        wire_free(&w);
}

/* 2.7 */
TEST(split_driver, lays_its_parts_out_aligned_and_apart)
{
        for (unsigned size = 1; size <= 32768; size *= 2) {
                struct wire w = wire_new(size, 0);
                struct vring_split *r = &w.drv.split.ring;

                EXPECT_EQ((uintptr_t)r->desc % 16, 0);
                EXPECT((uint8_t *)r->desc + split_desc_bytes(size) <= (uint8_t *)r->avail);
                EXPECT((uint8_t *)r->avail + split_avail_bytes(size) <= (uint8_t *)r->used);
                EXPECT((uint8_t *)r->used + split_used_bytes(size) <=
                       w.drv_va + vq_driver_bytes(VQ_SPLIT, size, 0));
                EXPECT((uintptr_t)split_used_event(r) / CACHE_LINE < (uintptr_t)r->used / CACHE_LINE);
                EXPECT_EQ(w.cfg.desc - WIRE_GPA, (uint8_t *)r->desc - w.drv_va);
                EXPECT_EQ(w.cfg.avail - WIRE_GPA, (uint8_t *)r->avail - w.drv_va);
                EXPECT_EQ(w.cfg.used - WIRE_GPA, (uint8_t *)r->used - w.drv_va);
                wire_free(&w);
        }
}

/* ---- offering ---- */

TEST(split_driver, links_the_pieces_of_a_chain)
{
        struct wire w = wire_new(8, 0);
        struct vq_piece pieces[] = {
                {0x1000,  10},
                { 0x2000, 20},
                { 0x3000, 30}
        };
        struct vring_desc d;

        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 1, 2, cookies), 0);
        EXPECT_EQ(wire_avail_idx(&w), 0);
        vq_driver_publish(&w.drv);
        EXPECT_EQ(wire_avail_idx(&w), 1);
        d = desc_at(&w, head_at(&w, 0));
        EXPECT_EQ(d.addr, 0x1000);
        EXPECT_EQ(d.len, 10);
        EXPECT_EQ(d.flags, VRING_DESC_F_NEXT);
        d = desc_at(&w, d.next);
        EXPECT_EQ(d.addr, 0x2000);
        EXPECT_EQ(d.flags, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE);
        d = desc_at(&w, d.next);
        EXPECT_EQ(d.addr, 0x3000);
        EXPECT_EQ(d.len, 30);
        EXPECT_EQ(d.flags, VRING_DESC_F_WRITE);
        EXPECT_EQ(vq_driver_free(&w.drv), 5);
        EXPECT_EQ(vq_driver_outstanding(&w.drv), 3);
        wire_free(&w);
}

TEST(split_driver, puts_several_pieces_into_a_table)
{
        struct wire w = wire_new(8, F(indirect_desc));
        struct vq_piece pieces[] = {
                {0x1000,  10},
                { 0x2000, 20},
                { 0x3000, 30}
        };
        struct vring_desc d, e;

        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 2, 1, cookies), 0);
        d = desc_at(&w, 0);
        EXPECT_EQ(d.flags, VRING_DESC_F_INDIRECT);
        EXPECT_EQ(d.len, 48);
        for (unsigned i = 0; i < 3; i++) {
                memcpy(&e, wire_drv_ptr(&w, d.addr + 16 * i), 16);
                EXPECT_EQ(le64_to_cpu(e.addr), pieces[i].gpa);
                EXPECT_EQ(le32_to_cpu(e.len), pieces[i].len);
                EXPECT_EQ(le16_to_cpu(e.flags), (i < 2 ? VRING_DESC_F_NEXT : VRING_DESC_F_WRITE));
                EXPECT_EQ(le16_to_cpu(e.next), i < 2 ? i + 1 : 0);
        }
        EXPECT_EQ(vq_driver_outstanding(&w.drv), 1);

        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 0, 1, cookies), 0);
        d = desc_at(&w, 1);
        EXPECT_EQ(d.flags, VRING_DESC_F_WRITE);
        EXPECT_EQ(d.addr, 0x1000);
        wire_free(&w);
}

TEST(split_driver, refuses_what_does_not_fit_and_changes_nothing)
{
        struct wire w = wire_new(4, 0);
        struct vq_piece pieces[5] = {
                {0x1000, 10}
        };

        EXPECT_EQ(vq_driver_chain_max(&w.drv), 4);
        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 5, 0, cookies), -E2BIG);
        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 2, 0, cookies), 0);
        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 3, 0, cookies), -ENOSPC);
        EXPECT_EQ(vq_driver_free(&w.drv), 2);
        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 0, 2, cookies), 0);
        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 1, 0, cookies), -ENOSPC);
        vq_driver_publish(&w.drv);
        EXPECT_EQ(wire_avail_idx(&w), 2);
        wire_free(&w);
}

/* 2.7.5.3.1: a table is no longer than the ring */
TEST(split_driver, makes_no_table_longer_than_the_ring)
{
        struct wire w = wire_new(2, F(indirect_desc)), v = wire_new(256, F(indirect_desc));
        struct vq_piece pieces[VQ_INDIRECT_MAX + 1] = {
                {0x1000, 10}
        };

        EXPECT_EQ(vq_driver_chain_max(&w.drv), 2);
        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 3, 0, cookies), -E2BIG);
        EXPECT_EQ(vq_driver_add(&w.drv, pieces, 2, 0, cookies), 0);
        EXPECT_EQ(vq_driver_add(&v.drv, pieces, VQ_INDIRECT_MAX + 1, 0, cookies), -E2BIG);
        EXPECT_EQ(vq_driver_add(&v.drv, pieces, VQ_INDIRECT_MAX, 0, cookies), 0);
        wire_free(&w);
        wire_free(&v);
}

/* The avail entries of a device that keeps order say the same lap after lap and are not written again. */
TEST(split_driver, writes_an_avail_entry_only_when_it_changes)
{
        static const uint16_t after[] = { 3, 4, 5, 6, 7, 2, 0, 1 };
        struct wire w = wire_new(8, 0);

        for (unsigned lap = 0; lap < 3; lap++) {
                add(&w, 0, 8);
                for (unsigned i = 0; i < 8; i++)
                        EXPECT_EQ(head_at(&w, (uint16_t)i), i);
                use(&w, 8);
                reap(&w, 8);
        }
        add(&w, 0, 3);
        wire_raw_used(&w, 24, 2, 0);
        wire_raw_used(&w, 25, 0, 0);
        wire_raw_used(&w, 26, 1, 0);
        wire_raw_used_idx(&w, 27);
        reap(&w, 3);
        wire_raw_avail(&w, 27, 99);
        add(&w, 0, 8);
        EXPECT_EQ(head_at(&w, 27), 99);
        wire_raw_avail(&w, 27, 3);
        for (unsigned i = 0; i < 8; i++)
                EXPECT_EQ(head_at(&w, (uint16_t)(27 + i)), after[i]);
        wire_free(&w);
}

TEST(split_driver, kicks_unless_the_device_said_no)
{
        struct wire w = wire_new(8, 0);

        EXPECT(!vq_driver_kick_needed(&w.drv));
        add(&w, 0, 1);
        EXPECT(vq_driver_kick_needed(&w.drv));
        EXPECT(!vq_driver_kick_needed(&w.drv));
        wire_raw_used_flags(&w, VRING_USED_F_NO_NOTIFY);
        add(&w, 0, 1);
        EXPECT(!vq_driver_kick_needed(&w.drv));
        wire_free(&w);
}

/* 2.7.10.2 */
TEST(split_driver, kicks_when_the_named_entry_was_offered)
{
        struct wire w = wire_new(8, F(event_idx));

        wire_raw_used_flags(&w, VRING_USED_F_NO_NOTIFY);
        wire_raw_avail_event(&w, 2);
        add(&w, 0, 2);
        EXPECT(!vq_driver_kick_needed(&w.drv));
        add(&w, 0, 1);
        EXPECT(vq_driver_kick_needed(&w.drv));
        add(&w, 0, 5);
        EXPECT(!vq_driver_kick_needed(&w.drv));
        wire_free(&w);
}

TEST(split_driver, remembers_a_passed_event_until_it_is_asked)
{
        static const unsigned more[] = { 0, 1, 1000, 65533, 65534, 65535, 65536, 65537, 200000 };

        for (unsigned i = 0; i < ARRAY_SIZE(more); i++) {
                struct wire w = wire_new(64, F(event_idx));

                wire_raw_avail_event(&w, 1);
                for (unsigned n = 2 + more[i]; n; n -= MIN(n, 64)) {
                        add(&w, 0, MIN(n, 64));
                        use(&w, MIN(n, 64));
                        reap(&w, MIN(n, 64));
                }
                EXPECT(vq_driver_kick_needed(&w.drv));
                EXPECT(!vq_driver_kick_needed(&w.drv));
                wire_free(&w);
        }
}

/* hostile C28 */
TEST(split_driver, kicks_exactly_once_for_each_named_entry_through_ten_wraps)
{
        struct wire w = wire_new(8, F(event_idx));
        unsigned kicks = 0, rounds = 0;

        for (unsigned avail = 0; avail < 10 * 65536; rounds++) {
                unsigned step = 1 + rounds % 8;

                wire_raw_avail_event(&w, (uint16_t)(avail + step - 1));
                for (unsigned k = 0; k < step; k++) {
                        add(&w, 0, 1);
                        kicks += vq_driver_kick_needed(&w.drv);
                }
                use(&w, step);
                reap(&w, step);
                avail += step;
        }
        EXPECT_EQ(kicks, rounds);
        wire_free(&w);
}

/* ---- taking back ---- */

TEST(split_driver, reaps_in_any_order_with_lengths_and_cookies)
{
        struct wire w = wire_new(8, 0);
        struct vq_used used[8];

        add(&w, 0, 4);
        wire_raw_used(&w, 0, 2, 100);
        wire_raw_used(&w, 1, 0, UINT32_MAX);
        wire_raw_used(&w, 2, 3, 0);
        wire_raw_used_idx(&w, 3);
        EXPECT(vq_driver_used_pending(&w.drv));
        EXPECT_EQ(vq_driver_reap(&w.drv, used, 2), 2);
        EXPECT(used[0].cookie == &cookies[2]);
        EXPECT_EQ(used[0].len, 100);
        EXPECT_EQ(used[0].id, 2);
        EXPECT(used[1].cookie == &cookies[0]);
        EXPECT_EQ(used[1].len, UINT32_MAX);
        EXPECT(vq_driver_used_pending(&w.drv));
        EXPECT_EQ(vq_driver_reap(&w.drv, used, 8), 1);
        EXPECT(used[0].cookie == &cookies[3]);
        EXPECT(!vq_driver_used_pending(&w.drv));
        EXPECT_EQ(vq_driver_reap(&w.drv, used, 8), 0);
        EXPECT_EQ(vq_driver_outstanding(&w.drv), 1);
        wire_free(&w);
}

TEST(split_driver, gives_back_what_is_still_out)
{
        struct wire w = wire_new(8, 0);
        struct vq_piece pieces[3] = {
                {0x1000, 10}
        };
        bool seen[3] = { 0 };
        int *cookie;

        for (unsigned turn = 0; turn < 2; turn++) {
                EXPECT_EQ(vq_driver_add(&w.drv, pieces, 3, 0, &cookies[0]), 0);
                EXPECT_EQ(vq_driver_add(&w.drv, pieces, 1, 0, &cookies[1]), 0);
                EXPECT_EQ(vq_driver_add(&w.drv, pieces, 2, 1, &cookies[2]), 0);
                memset(seen, 0, sizeof(seen));
                while ((cookie = vq_driver_drain(&w.drv)))
                        seen[cookie - cookies] = true;
                EXPECT(seen[0] && seen[1] && seen[2]);
                EXPECT_EQ(vq_driver_outstanding(&w.drv), 0);
        }
        vq_driver_break(&w.drv, "bad-id", 5);
        EXPECT(!vq_driver_drain(&w.drv));
        wire_free(&w);
}

/* ---- being woken ---- */

TEST(split_driver, asks_for_calls_by_flag)
{
        struct wire w = wire_new(8, 0);

        EXPECT_EQ(wire_avail_flags(&w), 0);
        vq_driver_call_disable(&w.drv);
        EXPECT_EQ(wire_avail_flags(&w), VRING_AVAIL_F_NO_INTERRUPT);
        add(&w, 0, 2);
        EXPECT(!vq_driver_call_enable(&w.drv));
        EXPECT_EQ(wire_avail_flags(&w), 0);
        use(&w, 1);
        EXPECT(vq_driver_call_enable(&w.drv));
        wire_free(&w);
}

/* 2.7.7.1: with event indices the flag stays 0 */
TEST(split_driver, leaves_the_flag_alone_with_event_indices)
{
        struct wire w = wire_new(8, F(event_idx));

        vq_driver_call_disable(&w.drv);
        EXPECT_EQ(wire_avail_flags(&w), 0);
        add(&w, 0, 2);
        EXPECT(!vq_driver_call_enable(&w.drv));
        EXPECT_EQ(wire_avail_flags(&w), 0);
        wire_free(&w);
}

/* T-TX-18 */
TEST(split_driver, delays_the_call_to_three_quarters_of_what_is_out)
{
        static const struct point {
                unsigned at, out, event;
        } points[] = {
                {0,      100, 75},
                { 65500, 100, 39},
                { 10,    0,   10},
                { 10,    1,   10},
                { 10,    2,   11},
                { 10,    3,   12},
                { 10,    4,   13},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(points); i++) {
                struct wire w = wire_new_at(128, F(event_idx), (uint16_t)points[i].at);

                add(&w, 0, points[i].out);
                EXPECT(!vq_driver_call_enable_delayed(&w.drv));
                EXPECT_EQ(wire_used_event(&w), points[i].event);
                wire_free(&w);
        }
}

/* behaviours section 2 */
TEST(split_driver, says_so_when_the_delayed_point_has_passed)
{
        static const uint64_t features[] = { 0, F(event_idx) };

        for (unsigned i = 0; i < 2; i++) {
                struct wire w = wire_new(128, features[i]);

                add(&w, 0, 100);
                use(&w, 75);
                EXPECT(!vq_driver_call_enable_delayed(&w.drv));
                use(&w, 1);
                EXPECT(vq_driver_call_enable_delayed(&w.drv));
                wire_free(&w);
        }
}

/* The entry that was named stays named until it is used: an earlier point would be a step back. */
TEST(split_driver, never_moves_the_event_back)
{
        struct wire w = wire_new_at(128, F(event_idx), 65500);
        uint16_t event;

        add(&w, 0, 100);
        EXPECT(!vq_driver_call_enable_delayed(&w.drv));
        use(&w, 10);
        EXPECT(vq_driver_call_enable(&w.drv));
        reap(&w, 10);
        EXPECT(!vq_driver_call_enable(&w.drv));
        EXPECT_EQ(wire_used_event(&w), 39);
        EXPECT(!vq_driver_call_enable_delayed(&w.drv));
        event = wire_used_event(&w);
        EXPECT_EQ(event, (uint16_t)(65510 + 90 * 3 / 4));
        use(&w, 90);
        reap(&w, 90);
        EXPECT(!vq_driver_call_enable(&w.drv));
        EXPECT_EQ(wire_used_event(&w), (uint16_t)(65500 + 100));
        wire_free(&w);
}

/* A request of a lap ago happens to name the entry behind the last one that is out: nothing would come of it. */
TEST(split_driver, forgets_a_request_of_a_lap_ago)
{
        for (unsigned at = 65536 - 10; at <= 65536; at++) {
                struct wire w = wire_new(128, F(event_idx));
                uint16_t out = (uint16_t)(65536 - at);

                EXPECT(!vq_driver_call_enable(&w.drv));
                EXPECT_EQ(wire_used_event(&w), 0);
                vq_driver_call_disable(&w.drv);
                for (unsigned n = at; n; n -= MIN(n, 64)) {
                        add(&w, 0, MIN(n, 64));
                        use(&w, MIN(n, 64));
                        reap(&w, MIN(n, 64));
                }
                add(&w, 0, out);
                EXPECT(!vq_driver_call_enable(&w.drv));
                EXPECT_EQ(wire_used_event(&w), at == 65536 ? 0 : at);
                wire_free(&w);
        }
}

/* What the device half would decide after each used entry. */
static unsigned interrupts(const struct wire *w, uint16_t old)
{
        return (unsigned)event_wants(wire_used_event(w), wire_used_idx(w), old);
}

/* T-TX-20 */
TEST(split_driver, is_called_at_most_once_a_lap_of_the_index_while_calls_are_off)
{
        struct wire w = wire_new(64, F(event_idx));
        unsigned n = (unsigned)test_scale(200000, 1000000), calls = 0;

        vq_driver_call_disable(&w.drv);
        for (unsigned i = 0; i < n; i++) {
                add(&w, 0, 1);
                use(&w, 1);
                calls += interrupts(&w, (uint16_t)i);
                reap(&w, 1);
        }
        EXPECT(calls <= n / 65536 + 1);
        wire_free(&w);
}

/* T-TX-21 */
TEST(split_driver, is_called_for_each_entry_when_it_asks_each_time)
{
        struct wire w = wire_new(64, F(event_idx));
        unsigned calls = 0;

        for (unsigned i = 0; i < 70000; i++) {
                add(&w, 0, 1);
                use(&w, 1);
                calls += interrupts(&w, (uint16_t)i);
                reap(&w, 1);
                EXPECT(!vq_driver_call_enable(&w.drv));
        }
        EXPECT_EQ(calls, 70000);
        wire_free(&w);
}

/* T-RX-26 */
TEST(split_driver, sees_what_came_between_the_last_reap_and_enabling)
{
        static const uint64_t features[] = { 0, F(event_idx) };

        for (unsigned i = 0; i < 2; i++) {
                struct wire w = wire_new(8, features[i]);
                struct vq_used used[1];

                add(&w, 0, 2);
                EXPECT_EQ(vq_driver_reap(&w.drv, used, 1), 0);
                use(&w, 1);
                EXPECT(vq_driver_call_enable(&w.drv));
                EXPECT_EQ(vq_driver_reap(&w.drv, used, 1), 1);
                EXPECT(!vq_driver_call_enable(&w.drv));
                wire_free(&w);
        }
}

TEST(split_driver, tells_its_state)
{
        struct wire w = wire_new_at(8, F(event_idx), 10);
        struct vq_state s;
        char text[256];

        add(&w, 0, 4);
        EXPECT_EQ(vq_driver_add(&w.drv, &(struct vq_piece){ 0, 1 }, 1, 0, cookies), 0);
        use(&w, 3);
        reap(&w, 3);
        use(&w, 1);
        wire_raw_avail_event(&w, 12);
        vq_driver_state(&w.drv, &s);
        EXPECT_EQ(s.avail, 14);
        EXPECT_EQ(s.used, 14);
        EXPECT_EQ(s.event_ours, 10);
        EXPECT_EQ(s.event_peer, 12);
        EXPECT_EQ(s.last_avail, 15);
        EXPECT_EQ(s.last_used, 13);
        vq_driver_break(&w.drv, "bad-id", 77);
        vq_driver_dump(&w.drv, text, sizeof(text));
        EXPECT(strstr(text, "last_used=13"));
        EXPECT(strstr(text, "broken=bad-id at=77"));
        wire_free(&w);
}
