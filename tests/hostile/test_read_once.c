/* C26 and M09: the peer changes every word right after we have loaded it.
 *
 * This program has the ring's sources compiled in with the hook of ring/peer.h.  Each call of a half is made twice from the
 * same state: once plainly, once with every loaded word inverted in memory behind the load.  Both must give the same
 * results, and no byte may be loaded twice, through the hook or around it. */
#include <string.h>

#include "rng.h"
#include "scale.h"
#include "test.h"
#include "wire.h"

#define SIZE     8
#define INDIRECT VRING_DESC_F_INDIRECT

/* ---- the hook ---- */

static struct {
        bool armed;
        unsigned n, twice;
        struct load {
                uint8_t *at;
                size_t len;
        } load[4096];
} shim;

static void invert(const struct load *l)
{
        for (size_t i = 0; i < l->len; i++)
                l->at[i] ^= 0xFF;
}

void peer_loaded(const void *word, size_t len)
{
        struct load l = { (uint8_t *)word, len };

        if (!shim.armed)
                return;
        check(shim.n < ARRAY_SIZE(shim.load));
        for (unsigned i = 0; i < shim.n; i++)
                shim.twice += l.at < shim.load[i].at + shim.load[i].len && shim.load[i].at < l.at + l.len;
        invert(&l);
        shim.load[shim.n++] = l;
}

static void arm(void)
{
        shim.n = shim.twice = 0;
        shim.armed = true;
}

/* The number of loads that there were. */
static unsigned disarm(void)
{
        shim.armed = false;
        for (unsigned i = shim.n; i--;)
                invert(&shim.load[i]);
        EXPECT_EQ(shim.twice, 0);
        return shim.n;
}

/* Makes `call` twice from the same `state`, the second time under the hook; `result` is what to compare. */
#define TWICE(state, result, call)                                                                           \
        do {                                                                                                 \
                __typeof__(state) before_ = (state), plain_state_;                                           \
                __typeof__(result) plain_;                                                                   \
                (result) = (call);                                                                           \
                plain_ = (result);                                                                           \
                plain_state_ = (state);                                                                      \
                (state) = before_;                                                                           \
                arm();                                                                                       \
                (result) = (call);                                                                           \
                loads = disarm();                                                                            \
                EXPECT_EQ(plain_, (result));                                                                 \
                EXPECT_MEM(&plain_state_, &(state), sizeof(state));                                          \
        } while (0)

/* ---- the device half ---- */

struct popped {
        struct vq_device dev;
        struct vq_chain chains[VQ_BURST];
        struct iovec iov[256];
};

static int pop(struct wire *w, struct popped *ret)
{
        int n;

        memset(ret, 0, sizeof(*ret));
        memset(w->pool.iov, 0, w->pool.size * sizeof(*w->pool.iov));
        n = wire_pop(w, VQ_BURST);
        for (int i = 0; i < n; i++)
                ret->chains[i] = w->chains[i];
        memcpy(ret->iov, w->pool.iov, w->pool.size * sizeof(*w->pool.iov));
        memcpy(&ret->dev, &w->dev, sizeof(w->dev));
        return n;
}

/* Any descriptor for place i, sane more often than not.  Links lead forwards or out of the ring: a loop would come by again, which
 * is a load of another descriptor that happens to lie in the same place. */
static struct vring_desc any_desc(const struct wire *w, uint64_t *rng, unsigned i, uint64_t table)
{
        struct vring_desc d = {
                .addr = rng_below(rng, 8) ? wire_gpa(w, rng_below(rng, 4096)) : rng_next(rng),
                .len = rng_below(rng, 8) ? rng_below(rng, 100) : rng_next(rng),
                .flags = (uint16_t)(rng_below(rng, 4) ? rng_below(rng, 2) : rng_below(rng, 8)),
                .next = (uint16_t)(i + 1 + rng_below(rng, 3) + (rng_below(rng, 16) ? 0 : SIZE)),
        };

        if (d.flags & INDIRECT) {
                d.addr = table;
                d.len = rng_below(rng, 8) ? 16 * (1 + rng_below(rng, SIZE)) : rng_below(rng, 200);
        }
        return d;
}

/* hostile C26 */
TEST(read_once, pop_takes_each_word_once_whatever_is_in_the_ring)
{
        uint64_t rng = 5, n = test_scale(100000, 2000000), broken = 0, fine = 0, indirect = 0;
        struct popped plain, hooked;
        struct wire w = wire_new(SIZE, F(indirect_desc) | F(event_idx));
        struct vq_device fresh = w.dev;

        for (uint64_t i = 0; i < n; i++) {
                uint64_t table = wire_gpa(&w, 0x2000) + (rng_below(&rng, 4) ? 0 : rng_below(&rng, 16));
                int r;

                for (unsigned k = 0; k < SIZE; k++) {
                        struct vring_desc d = any_desc(&w, &rng, k, table);

                        wire_raw_desc(&w, k, d.addr, d.len, d.flags, d.next);
                        d = any_desc(&w, &rng, k, table);
                        wire_raw_table(&w, table, k, d.addr, d.len, d.flags & ~INDIRECT, d.next);
                        wire_raw_avail(&w, (uint16_t)k, (uint16_t)rng_below(&rng, SIZE));
                }
                /* one chain: of several the same descriptor could be part, and then is loaded for each */
                wire_raw_avail_idx(&w, (uint16_t)(rng_below(&rng, 64) ? 1 : rng_next(&rng)));
                w.dev = fresh;
                r = pop(&w, &plain);
                w.dev = fresh;
                arm();
                EXPECT_EQ(pop(&w, &hooked), r);
                EXPECT(disarm() > 0);
                EXPECT_MEM(&plain, &hooked, sizeof(plain));
                broken += r < 0;
                fine += r > 0 && !w.chains[0].fault;
                indirect += r > 0 && w.chains[0].n_out + w.chains[0].n_in > w.chains[0].ndesc;
        }
        EXPECT(broken && fine && indirect);
        w.dev = fresh;
        wire_free(&w);
}

TEST(read_once, a_burst_takes_each_word_once)
{
        struct wire w = wire_new(SIZE, 0);
        struct popped plain, hooked;
        struct vq_device before;

        for (unsigned k = 0; k < SIZE; k++) {
                wire_raw_desc(&w, k, wire_gpa(&w, k), 1, 0, 0);
                wire_raw_avail(&w, (uint16_t)k, (uint16_t)k);
        }
        wire_raw_avail_idx(&w, SIZE);
        before = w.dev;
        EXPECT_EQ(pop(&w, &plain), SIZE);
        w.dev = before;
        arm();
        EXPECT_EQ(pop(&w, &hooked), SIZE);
        EXPECT_EQ(disarm(), 1 + SIZE + 2 * SIZE);
        EXPECT_MEM(&plain, &hooked, sizeof(plain));

        arm();
        vq_device_push(&w.dev, w.chains, SIZE);
        vq_device_publish(&w.dev);
        EXPECT_EQ(disarm(), 0);
        wire_free(&w);
}

TEST(read_once, the_device_takes_the_drivers_wishes_once)
{
        static const uint64_t features[] = { 0, F(event_idx) };

        for (unsigned f = 0; f < 2; f++) {
                uint64_t rng = 7;
                unsigned yes = 0, loads;

                for (unsigned i = 0; i < 20000; i++) {
                        struct wire w = wire_new_at(SIZE, features[f], (uint16_t)rng_next(&rng));
                        uint16_t base = (uint16_t)w.cfg.base;
                        bool r;

                        wire_raw_desc(&w, 0, wire_gpa(&w, 0), 1, 0, 0);
                        wire_raw_avail_idx(&w, (uint16_t)(base + 1));
                        EXPECT_EQ(wire_pop(&w, 1), 1);
                        vq_device_push(&w.dev, w.chains, 1);
                        vq_device_publish(&w.dev);
                        wire_raw_used_event(&w, (uint16_t)(base + rng_below(&rng, 3) - 1));
                        wire_raw_avail_flags(&w, (uint16_t)rng_below(&rng, 2));
                        wire_raw_avail_idx(&w, (uint16_t)(base + 1 + rng_below(&rng, 2)));
                        TWICE(w.dev, r, vq_device_call_needed(&w.dev));
                        EXPECT_EQ(loads, 1);
                        yes += r;
                        TWICE(w.dev, r, vq_device_kick_enable(&w.dev));
                        EXPECT_EQ(loads, 1);
                        TWICE(w.dev, r, vq_device_avail_pending(&w.dev));
                        EXPECT_EQ(loads, 1);
                        yes += r;
                        i += 19; /* a wire is not cheap to make */
                        wire_free(&w);
                }
                EXPECT(yes > 0 && yes < 2000);
        }
}

/* ---- the driver half ---- */

static int cookies[SIZE];

static void offer(struct wire *w, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                EXPECT_EQ(vq_driver_add(&w->drv, &(struct vq_piece){ wire_gpa(w, 0), 1 }, 1, 0, &cookies[i]),
                          0);
        vq_driver_publish(&w->drv);
}

/* The slots are behind a pointer, so that a call is made twice on two wires instead. */
static int reap(const uint32_t id[4], uint16_t idx, bool hooked, struct vq_used used[4],
                const char **ret_broken)
{
        struct wire w = wire_new(SIZE, 0);
        int r;

        offer(&w, 4);
        for (unsigned i = 0; i < 4; i++)
                wire_raw_used(&w, (uint16_t)i, id[i], id[i] + 100);
        wire_raw_used_idx(&w, idx);
        if (hooked)
                arm();
        r = vq_driver_reap(&w.drv, used, 4);
        if (hooked)
                disarm();
        *ret_broken = w.drv.broken;
        wire_free(&w);
        return r;
}

/* hostile M09 */
TEST(read_once, reap_takes_each_word_once_whatever_the_device_says)
{
        uint64_t rng = 11;
        unsigned broken = 0, fine = 0;

        for (unsigned i = 0; i < 2000; i++) {
                struct vq_used plain[4] = { 0 }, hooked[4] = { 0 };
                const char *why_plain, *why_hooked;
                uint32_t id[4];
                uint16_t idx = (uint16_t)rng_below(&rng, rng_below(&rng, 8) ? 5 : UINT16_MAX);
                int r;

                for (unsigned k = 0; k < 4; k++)
                        id[k] = rng_below(&rng, 8) ? rng_below(&rng, 4) : rng_next(&rng);
                r = reap(id, idx, false, plain, &why_plain);
                EXPECT_EQ(reap(id, idx, true, hooked, &why_hooked), r);
                EXPECT(why_plain == why_hooked);
                EXPECT_MEM(plain, hooked, sizeof(plain));
                broken += r < 0;
                fine += r > 0;
        }
        EXPECT(broken && fine);
}

TEST(read_once, the_driver_takes_the_devices_wishes_once)
{
        static const uint64_t features[] = { 0, F(event_idx) };

        for (unsigned f = 0; f < 2; f++) {
                uint64_t rng = 13;

                for (unsigned i = 0; i < 1000; i++) {
                        struct wire w = wire_new_at(SIZE, features[f], (uint16_t)rng_next(&rng));
                        uint16_t base = (uint16_t)w.cfg.base;
                        unsigned loads;
                        bool r;

                        arm();
                        offer(&w, 4);
                        EXPECT_EQ(disarm(), 0);
                        wire_raw_avail_event(&w, (uint16_t)(base + rng_below(&rng, 6) - 1));
                        wire_raw_used_flags(&w, (uint16_t)rng_below(&rng, 2));
                        wire_raw_used_idx(&w, (uint16_t)(base + rng_below(&rng, 5)));
                        TWICE(w.drv, r, vq_driver_kick_needed(&w.drv));
                        EXPECT_EQ(loads, 1);
                        TWICE(w.drv, r, vq_driver_call_enable(&w.drv));
                        EXPECT_EQ(loads, 1);
                        TWICE(w.drv, r, vq_driver_call_enable_delayed(&w.drv));
                        EXPECT_EQ(loads, 1);
                        TWICE(w.drv, r, vq_driver_used_pending(&w.drv));
                        EXPECT_EQ(loads, 1);
                        (void)r;
                        wire_free(&w);
                }
        }
}
