/* Structural lies told to a whole device, on each kind of its queues: that queue breaks for the right reason and says so once, the
 * others go on, and it can be set up again. */
#include <unistd.h>

#include "invariants.h"
#include "test.h"

#define SIZE     16
#define NEXT     VRING_DESC_F_NEXT
#define WRITE    VRING_DESC_F_WRITE
#define INDIRECT VRING_DESC_F_INDIRECT
#define FEATURES (F(ctrl_vq) | F(ctrl_rx) | F(mq))
#define RX       0
#define TX       1
#define CTRL     4 /* of two pairs */

static struct siege s;

/* ---- what is told ---- */

/* Descriptor i of the queue: a piece of its own buffer. */
static void desc(unsigned index, unsigned i, uint32_t len, uint16_t flags, uint16_t next)
{
        split_desc_store(&front_raw(&s.f, index)->desc[i], front_gpa(&s.f, index, i), len, flags, next);
}

/* Entry i of a table that stands in buffer 15. */
static void entry(unsigned index, unsigned i, uint32_t len, uint16_t flags, uint16_t next)
{
        struct vring_desc *table = (struct vring_desc *)front_slot(&s.f, index, 15);

        split_desc_store(&table[i], front_gpa(&s.f, index, i), len, flags, next);
        front_wrote(&s.f, &table[i], sizeof(table[i]));
}

static void table(unsigned index, uint32_t len, uint16_t flags)
{
        desc(index, 15, len, INDIRECT | flags, 0);
        front_raw_offer(&s.f, index, 15);
}

static void idx(unsigned index, uint16_t by)
{
        struct vring_avail *avail = front_raw(&s.f, index)->avail;

        __atomic_store_n(&avail->idx, (uint16_t)(avail->idx + by), __ATOMIC_RELEASE);
}

static void index_one_too_far(unsigned q)
{
        idx(q, SIZE + 1);
}
static void index_half_a_lap_on(unsigned q)
{
        idx(q, 0x8000);
}
static void index_back(unsigned q)
{
        idx(q, UINT16_MAX);
}

static void head_beyond(unsigned q)
{
        front_raw_offer(&s.f, q, SIZE);
}
static void head_far_beyond(unsigned q)
{
        front_raw_offer(&s.f, q, 0xffff);
}

static void link_beyond(unsigned q)
{
        desc(q, 0, 10, NEXT, SIZE);
        front_raw_offer(&s.f, q, 0);
}

static void link_far_beyond(unsigned q)
{
        desc(q, 0, 10, NEXT, 1);
        desc(q, 1, 10, NEXT, 0xffff);
        front_raw_offer(&s.f, q, 0);
}

static void loop_to_itself(unsigned q)
{
        desc(q, 0, 10, NEXT, 0);
        front_raw_offer(&s.f, q, 0);
}

static void empty_loop_to_the_head(unsigned q)
{
        desc(q, 0, 0, NEXT, 1);
        desc(q, 1, 0, NEXT, 0);
        front_raw_offer(&s.f, q, 0);
}

static void loop_to_the_middle(unsigned q)
{
        for (unsigned i = 0; i < SIZE; i++)
                desc(q, i, 1, NEXT, i + 1 < SIZE ? (uint16_t)(i + 1) : 7);
        front_raw_offer(&s.f, q, 0);
}

static void readable_after_writable(unsigned q)
{
        desc(q, 0, 10, NEXT, 1);
        desc(q, 1, 10, NEXT | WRITE, 2);
        desc(q, 2, 10, 0, 0);
        front_raw_offer(&s.f, q, 0);
}

static void table_unasked(unsigned q)
{
        entry(q, 0, 100, 0, 0);
        table(q, 16, 0);
}

static void table_of_nothing(unsigned q)
{
        table(q, 0, 0);
}
static void table_a_byte_short(unsigned q)
{
        table(q, 15, 0);
}
static void table_a_byte_long(unsigned q)
{
        table(q, 17, 0);
}
static void table_longer_than_the_ring(unsigned q)
{
        table(q, 16 * (SIZE + 1), 0);
}
static void table_with_a_successor(unsigned q)
{
        table(q, 16, NEXT);
}

static void table_in_a_table(unsigned q)
{
        entry(q, 0, 16, INDIRECT, 0);
        table(q, 16, 0);
}

static void loop_in_a_table(unsigned q)
{
        entry(q, 0, 10, NEXT, 1);
        entry(q, 1, 10, NEXT, 0);
        table(q, 32, 0);
}

static void link_out_of_a_table(unsigned q)
{
        entry(q, 0, 10, NEXT, 2);
        table(q, 32, 0);
}

static const struct {
        void (*tell)(unsigned queue);
        const char *reason;
} lies[] = {
        {index_one_too_far,        "bad-avail-idx"},
        { index_half_a_lap_on,     "bad-avail-idx"},
        { index_back,              "bad-avail-idx"},
        { head_beyond,             "bad-head"     },
        { head_far_beyond,         "bad-head"     },
        { link_beyond,             "bad-next"     },
        { link_far_beyond,         "bad-next"     },
        { loop_to_itself,          "chain-loop"   },
        { empty_loop_to_the_head,  "chain-loop"   },
        { loop_to_the_middle,      "chain-loop"   },
        { readable_after_writable, "order"        },
        { table_unasked,           "bad-indirect" },
}, table_lies[] = {
        {table_of_nothing,            "bad-indirect"},
        { table_a_byte_short,         "bad-indirect"},
        { table_a_byte_long,          "bad-indirect"},
        { table_longer_than_the_ring, "bad-indirect"},
        { table_with_a_successor,     "bad-indirect"},
        { table_in_a_table,           "bad-indirect"},
        { loop_in_a_table,            "chain-loop"  },
        { link_out_of_a_table,        "bad-next"    },
};

/* ---- what comes of it ---- */

static uint64_t signals(int fd)
{
        uint64_t n = 0;

        return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static bool needs_reset(void)
{
        uint8_t status = 0;

        EXPECT_EQ(vu_frontend_get_status(&s.f.fe, &status), 0);
        return status & VIRTIO_STATUS_NEEDS_RESET;
}

/* The queue does what it is for. */
static void use(unsigned index)
{
        static const uint8_t frame[60] = { 2, [6] = 2, [12] = 0x88, 0xb5 };
        uint8_t got[100];

        switch (index) {
        case RX:
                EXPECT(front_post(&s.f, 0, SIZE, 128));
                front_kick(&s.f, RX);
                EXPECT(sport_put(&s.port, 0, frame, sizeof(frame), NULL));
                EXPECT_SOON(front_reap(&s.f, RX, NULL, 64) > 0);
                break;
        case TX:
                EXPECT(front_send(&s.f, 0, frame, sizeof(frame), NULL));
                front_kick(&s.f, TX);
                EXPECT_SOON(front_reap(&s.f, TX, NULL, 64) == 1);
                EXPECT_EQ(sport_get(&s.port, 0, got, sizeof(got), NULL), sizeof(frame));
                break;
        case CTRL:
                EXPECT_EQ(front_command(&s.f, "\0\0\1", 3, NULL, 0), VIRTIO_NET_OK);
                break;
        }
}

static void use_others(unsigned index)
{
        static const unsigned all[] = { RX, TX, CTRL };

        for (unsigned i = 0; i < 3; i++)
                if (all[i] != index) {
                        front_renew(&s.f, all[i]); /* so that all of its entries are free */
                        use(all[i]);
                }
}

static void tell(unsigned index, void (*lie)(unsigned), const char *reason)
{
        uint8_t frame[60] = { 2 };
        uint64_t packets = front_stats(&s.f, index).counters[VW_C_packets];

        front_renew(&s.f, index); /* an empty ring, so that the lie is what the device looks at next */
        lie(index);
        front_kick_raw(&s.f, index);
        if (index == RX) /* an rx queue is looked at when a frame waits */
                EXPECT(sport_put(&s.port, 0, frame, sizeof(frame), NULL));
        EXPECT_SOON(front_stats(&s.f, index).broken);
        EXPECT_STR(front_stats(&s.f, index).broken, reason);
        EXPECT_EQ(front_stats(&s.f, index).counters[VW_C_packets], packets);
        EXPECT_SOON(signals(s.f.q[index].err) == 1);
        EXPECT(needs_reset());
        for (unsigned i = 0; i < 20; i++)
                front_kick_raw(&s.f, index);
        EXPECT(siege_idle(&s, 50));
        EXPECT_EQ(signals(s.f.q[index].err), 0);
        use_others(index);
        EXPECT_STR(front_stats(&s.f, index).broken, reason);

        front_renew(&s.f, index);
        use(index);
        EXPECT(!front_stats(&s.f, index).broken);
        EXPECT(!needs_reset());
}

static void lie_to(unsigned index)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        config.pairs = 2;
        siege_begin(&s, &config);
        siege_connect(&s, FEATURES, SIZE);
        for (unsigned i = 0; i < ARRAY_SIZE(lies); i++)
                tell(index, lies[i].tell, lies[i].reason);
        siege_disconnect(&s);
        siege_connect(&s, FEATURES | F(indirect_desc), SIZE);
        for (unsigned i = 0; i < ARRAY_SIZE(table_lies); i++)
                tell(index, table_lies[i].tell, table_lies[i].reason);
        siege_end(&s, SIEGE_LIVES);
}

/* hostile C06, C08, C10, C11, C18, C19, C20, C22, C25 */
TEST(hostile_device, structural_lies_break_the_tx_queue_alone)
{
        lie_to(TX);
}

/* hostile C06, C08, C10, C11, C18, C19, C20, C22, C25 */
TEST(hostile_device, structural_lies_break_the_rx_queue_alone)
{
        lie_to(RX);
}

/* hostile C06, C08, C10, C11, C18, C19, C20, C22, C25 */
TEST(hostile_device, structural_lies_break_the_control_queue_alone)
{
        lie_to(CTRL);
}
