/* Both halves against each other: what goes in comes out, once and whole, whatever was negotiated.
 *
 * The driver offers chains of up to four pieces; each has a slot of the shared memory, whose first piece says which packet it
 * is.  The device checks that, holds chains back at will, un-pops some, answers into the writable pieces, and gives
 * back in any order.  Everything is decided by a generator with a fixed seed. */
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "scale.h"
#include "test.h"
#include "wire.h"

#define SLOT_BYTES 32 /* four pieces of eight bytes */
#define SLOTS      (WIRE_BUF_BYTES / SLOT_BYTES)

struct slot {
        uint64_t seq;
        unsigned n_out, n_in;
};

struct traffic {
        struct wire w;
        uint64_t rng;
        struct slot slot[SLOTS];
        uint32_t free[SLOTS];
        unsigned n_free;
        uint64_t added, popped, pushed, reaped;
        struct vq_chain *held; /* popped, not yet pushed */
        unsigned n_held;
};

static struct traffic *traffic_new(unsigned size, uint64_t features, uint16_t base)
{
        struct traffic *t = calloc(1, sizeof(*t));

        t->w = wire_new_at(size, features, base);
        t->rng = size * 77 + features + base + 1;
        t->held = calloc(size, sizeof(*t->held));
        for (t->n_free = 0; t->n_free < SLOTS; t->n_free++)
                t->free[t->n_free] = t->n_free;
        return t;
}

static void traffic_free(struct traffic *t)
{
        wire_free(&t->w);
        free(t->held);
        free(t);
}

/* ---- the driver ---- */

static bool add_one(struct traffic *t)
{
        unsigned most = MIN(4u, vq_driver_chain_max(&t->w.drv)), n = 1 + rng_below(&t->rng, most);
        uint32_t i = t->free[t->n_free - 1];
        uint64_t gpa = wire_gpa(&t->w, i * SLOT_BYTES);
        struct slot *slot = &t->slot[i];
        struct vq_piece pieces[4];
        int r;

        for (unsigned k = 0; k < n; k++)
                pieces[k] = (struct vq_piece){ gpa + 8 * k, 8 };
        slot->seq = t->added;
        slot->n_out = 1 + rng_below(&t->rng, n);
        slot->n_in = n - slot->n_out;
        memcpy(wire_drv_ptr(&t->w, gpa), &slot->seq, 8);
        r = vq_driver_add(&t->w.drv, pieces, slot->n_out, slot->n_in, slot);
        if (r == -ENOSPC)
                return false;
        EXPECT_EQ(r, 0);
        t->added++;
        t->n_free--;
        return true;
}

static void drive(struct traffic *t)
{
        struct vq_used used[VQ_BURST];
        int n;

        for (unsigned i = rng_below(&t->rng, 2 * VQ_BURST); i && t->n_free && add_one(t); i--)
                ;
        if (rng_below(&t->rng, 4))
                vq_driver_publish(&t->w.drv);
        n = vq_driver_reap(&t->w.drv, used, 1 + rng_below(&t->rng, VQ_BURST));
        EXPECT(n >= 0);
        for (int i = 0; i < n; i++) {
                struct slot *slot = used[i].cookie;
                uint32_t number = (uint32_t)(slot - t->slot);
                const uint8_t *data = wire_drv_ptr(&t->w, wire_gpa(&t->w, number * SLOT_BYTES));

                EXPECT_EQ(used[i].len, slot->n_in * 8);
                for (unsigned k = 0; k < slot->n_in * 8; k++)
                        EXPECT_EQ(data[slot->n_out * 8 + k], (uint8_t)slot->seq);
                t->free[t->n_free++] = number;
        }
        t->reaped += (unsigned)n;
}

/* ---- the device ---- */

static void answer(struct traffic *t, struct vq_chain *c)
{
        uint64_t seq;

        EXPECT_EQ(c->fault, 0);
        EXPECT(c->n_out >= 1);
        memcpy(&seq, c->iov[0].iov_base, 8);
        EXPECT_EQ(seq, t->popped);
        EXPECT_EQ(c->len_out, c->n_out * 8);
        EXPECT_EQ(c->len_in, c->n_in * 8);
        for (unsigned k = 0; k < c->n_in; k++)
                memset(c->iov[c->n_out + k].iov_base, (uint8_t)seq, 8);
        c->written = c->len_in;
        t->popped++;
}

static void serve(struct traffic *t)
{
        unsigned n_back;
        int n = wire_pop(&t->w, 1 + rng_below(&t->rng, VQ_BURST));

        EXPECT(n >= 0);
        n_back = rng_below(&t->rng, 4) ? 0 : rng_below(&t->rng, (unsigned)n + 1);
        vq_device_rewind(&t->w.dev, t->w.chains + n - n_back, n_back);
        for (unsigned i = 0; i < (unsigned)n - n_back; i++) {
                answer(t, &t->w.chains[i]);
                t->held[t->n_held++] = t->w.chains[i];
        }
        for (unsigned i = rng_below(&t->rng, 2 * VQ_BURST); i && t->n_held; i--) {
                struct vq_chain *c = &t->held[rng_below(&t->rng, rng_below(&t->rng, 2) ? t->n_held : 1)];

                vq_device_push(&t->w.dev, c, 1);
                *c = t->held[--t->n_held];
                t->pushed++;
        }
        if (rng_below(&t->rng, 4))
                vq_device_publish(&t->w.dev);
}

static const uint64_t combinations[] = { 0, F(event_idx), F(indirect_desc), F(event_idx) | F(indirect_desc) };

/* hostile C02, C28: ten wraps of the index for the small rings in the full run */
TEST(traffic, every_chain_comes_back_once_and_whole_through_any_ring)
{
        static const unsigned sizes[] = { 1, 2, 4, 64, 256, 32768 };
        uint64_t chains = test_scale(70000, 700000);

        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                for (unsigned k = 0; k < ARRAY_SIZE(combinations); k++) {
                        struct traffic *t = traffic_new(sizes[i], combinations[k], (uint16_t)(k * 21845));

                        while (t->reaped < chains) {
                                drive(t);
                                serve(t);
                        }
                        EXPECT(t->added >= t->popped && t->popped >= t->pushed && t->pushed >= t->reaped);
                        EXPECT(!t->w.dev.broken && !t->w.drv.broken);
                        traffic_free(t);
                }
        }
}

/* hostile C32: stop, the driver goes on offering, start again from the base without a kick */
TEST(traffic, a_stopped_ring_goes_on_where_it_was)
{
        for (unsigned k = 0; k < ARRAY_SIZE(combinations); k++) {
                struct traffic *t = traffic_new(256, combinations[k], 65500);
                const char *why;

                for (unsigned stop = 0; stop < 1000; stop++) {
                        for (unsigned i = rng_below(&t->rng, 10); i; i--) {
                                drive(t);
                                serve(t);
                        }
                        vq_device_push(&t->w.dev, t->held, t->n_held);
                        t->pushed += t->n_held;
                        t->n_held = 0;
                        vq_device_publish(&t->w.dev);
                        t->w.cfg.base = vq_device_base(&t->w.dev);
                        vq_device_done(&t->w.dev);
                        while (t->added - t->reaped < 100 && vq_driver_free(&t->w.drv) >= 4)
                                add_one(t);
                        vq_driver_publish(&t->w.drv);
                        EXPECT_EQ(vq_device_init(&t->w.dev, &t->w.cfg, t->w.map, &why), 0);
                        EXPECT(vq_device_avail_pending(&t->w.dev) == (t->added > t->popped));
                }
                EXPECT(t->reaped > 10000);
                traffic_free(t);
        }
}

/* ---- many buffers, one packet ---- */

#define BUFFER 64 /* bytes */

/* Posts writable buffers until the ring is full; the cookie is the buffer's place. */
static void post(struct wire *w, uint8_t *places)
{
        while (vq_driver_free(&w->drv)) {
                uint16_t i = w->drv.split.free_head;

                EXPECT_EQ(vq_driver_add(&w->drv, &(struct vq_piece){ wire_gpa(w, i * BUFFER), BUFFER }, 0, 1,
                                        &places[i]),
                          0);
        }
        vq_driver_publish(&w->drv);
}

/* One packet of n buffers: each names the packet, the first its number of buffers, too. */
static bool fill(struct wire *w, unsigned n, uint8_t packet)
{
        int got = wire_pop(w, n);

        EXPECT(got >= 0);
        if ((unsigned)got < n) {
                vq_device_rewind(&w->dev, w->chains, (unsigned)got);
                return false;
        }
        for (unsigned i = 0; i < n; i++) {
                uint8_t *data = w->chains[i].iov[0].iov_base;

                memset(data, packet, BUFFER);
                w->chains[i].written = BUFFER;
        }
        *(uint8_t *)w->chains[0].iov[0].iov_base = (uint8_t)n;
        vq_device_push(&w->dev, w->chains, n);
        vq_device_publish(&w->dev);
        return true;
}

TEST(traffic, the_buffers_of_a_packet_come_together)
{
        static const unsigned sizes[] = { 4, 256, 16384 };
        static uint8_t places[16384];
        uint64_t rng = 1;

        for (unsigned s = 0; s < ARRAY_SIZE(sizes); s++) {
                for (unsigned k = 0; k < ARRAY_SIZE(combinations); k++) {
                        struct wire w = wire_new(sizes[s], combinations[k]);
                        unsigned sent = 0, waits = 0;

                        for (uint8_t packet = 0; sent < 20000; packet++) {
                                unsigned n = 1 + rng_below(&rng, MIN(sizes[s], 40u));
                                struct vq_used used[VQ_BURST];

                                while (!fill(&w, n, packet)) {
                                        post(&w, places);
                                        waits++;
                                }
                                EXPECT_EQ(vq_driver_reap(&w.drv, used, VQ_BURST), (int)n);
                                for (unsigned i = 0; i < n; i++) {
                                        const uint8_t *data =
                                                wire_drv_ptr(&w, wire_gpa(&w, used[i].id * BUFFER));

                                        EXPECT(used[i].cookie == &places[used[i].id]);
                                        EXPECT_EQ(data[0], i ? packet : n);
                                        EXPECT_EQ(data[BUFFER - 1], packet);
                                }
                                sent += n;
                        }
                        EXPECT(waits > 0);
                        wire_free(&w);
                }
        }
}
