/* A guest that lies on the control queue: what makes no sense is refused and changes nothing, where there is no place for the refusal
 * the queue breaks, and what the guest may set stays inside its bounds. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "invariants.h"
#include "scale.h"
#include "test.h"

#define CTRL                                                                                                 \
        (F(ctrl_vq) | F(ctrl_rx) | F(ctrl_rx_extra) | F(ctrl_vlan) | F(ctrl_mac_addr) | F(guest_announce) |  \
         F(status) | F(mq) | F(ctrl_guest_offloads) | F(notf_coal) | F(vq_notf_coal))
#define PAIRS 2
#define INDEX (2 * PAIRS) /* of the control queue */

static struct siege s;

static void begin(uint64_t features)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        config.pairs = PAIRS;
        config.workers = PAIRS;
        memcpy(config.mac, "\x02\0\0\0\0\x01", 6);
        siege_begin(&s, &config);
        siege_connect(&s, features, 64);
}

static void end(void)
{
        siege_end(&s, SIEGE_LIVES);
}

static int command(const void *bytes, uint32_t len)
{
        return front_command(&s.f, bytes, len, NULL, 0);
}

#define COMMAND(bytes) command(bytes, sizeof(bytes) - 1)

/* ---- what the device has been told, as far as it can be seen ---- */

struct state {
        uint8_t config[12];
        unsigned active;
        uint32_t rx_offloads;
        struct vw_queue_settings settings[2 * PAIRS];
};

static struct state look(void)
{
        struct state state = { .active = load_relaxed(&s.port.active),
                               .rx_offloads = load_relaxed(&s.port.rx_offloads) };

        EXPECT_EQ(vu_frontend_get_config(&s.f.fe, 0, sizeof(state.config), state.config), 0);
        for (unsigned i = 0; i < 2 * PAIRS; i++)
                state.settings[i] = front_stats(&s.f, i).settings;
        return state;
}

/* Whether a frame for somebody else's address and VLAN gets through, as it does before anybody filters. */
static bool unfiltered(void)
{
        static const uint8_t frame[60] = { 2, 9, 9, 9, 9, 9, 2, [12] = 0x81, 0, 0, 77 };
        uint64_t filtered = front_stats(&s.f, 0).drops[VW_DROP_FILTERED];
        unsigned got = 0;

        front_post(&s.f, 0, 2, 1600);
        front_kick(&s.f, 0);
        EXPECT(sport_put(&s.port, 0, frame, sizeof(frame), NULL));
        EXPECT_SOON((got += front_reap(&s.f, 0, NULL, 1)) > 0 ||
                    front_stats(&s.f, 0).drops[VW_DROP_FILTERED] > filtered);
        return got;
}

/* ---- refused ---- */

/* hostile G01, G04, G06, G07, G10, G11, G13, G15, H04 */
TEST(hostile_control, commands_that_make_no_sense_are_refused_and_change_nothing)
{
        static const struct {
                const char *bytes;
                unsigned len;
        } bad[] = {
#define BAD(bytes) { bytes, sizeof(bytes) - 1 }
                BAD(""),
                BAD("\0"),
                BAD("\1"),
                BAD("\0\0"),
                BAD("\0\0\2"),
                BAD("\0\1\xff"),
                BAD("\0\0\0\0"), /* two bytes of a switch */
                BAD("\0\6\0"),
                BAD("\0\7\1"),
                BAD("\1\0\xff\xff\xff\xff\0\0\0\0"), /* a table of 2^32 - 1 */
                BAD("\1\0\2\0\0\0\2\0\0\0\0\2\0\0\0\0"),
                BAD("\1\0\0\0\0\0\1\0\0\0"),
                BAD("\1\0\xab\xaa\xaa\x2a\0\0\0\0"), /* which times six is two */
                BAD("\1\0\0\0\0\0\0\0\0\0\0"),
                BAD("\1\1\1\0\0\0\0\1"), /* a group's address */
                BAD("\1\1\0\0\0\0\0"),
                BAD("\2\0\0\x10"), /* VLAN 4096 */
                BAD("\2\0\xff\xff"),
                BAD("\2\1\0\x10"),
                BAD("\2\2\1\0"),
                BAD("\3\1"),
                BAD("\3\0\0"),
                BAD("\4\0\0\0"), /* no pairs */
                BAD("\4\0\3\0"), /* more than there are */
                BAD("\4\0\0\x80"),
                BAD("\4\0\1"),
                BAD("\4\1\0\0\0\0"),
                BAD("\4\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), /* receive-side scaling */
                BAD("\4\2\0\0\0\0\0\0\0\0\xff"),
                BAD("\5\0\x80\0\0\0\0\0\0\0"), /* offloads that were not accepted */
                BAD("\5\0\xff\xff\xff\xff\xff\xff\xff\xff"),
                BAD("\5\0\0"),
                BAD("\6\0\0\0\0\0\0\0\0"),
                BAD("\6\2\4\0\0\0\1\0\0\0\1\0\0\0"), /* of the control queue */
                BAD("\6\2\5\0\0\0\1\0\0\0\1\0\0\0"),
                BAD("\6\2\xff\xff\0\0\1\0\0\0\1\0\0\0"),
                BAD("\6\3\1\0\0\0"), /* no room for the answer */
                BAD("\6\4\0\0\0\0\0\0\0\0"),
                BAD("\7\0\0"),
                BAD("\x09\0\0"),
                BAD("\xff\xff\xff"),
        };
        struct state before, after;
        struct vw_queue_stats q;

        begin(CTRL);
        before = look();
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
                int ack = command(bad[i].bytes, bad[i].len);

                if (ack != VIRTIO_NET_ERR)
                        print_error("command %u: %d\n", i, ack);
                EXPECT_EQ(ack, VIRTIO_NET_ERR);
        }
        after = look();
        EXPECT_MEM(&before, &after, sizeof(before));
        EXPECT(unfiltered());
        q = front_stats(&s.f, INDEX);
        EXPECT_EQ(q.counters[VW_C_commands], ARRAY_SIZE(bad));
        EXPECT_EQ(q.counters[VW_C_nacks], ARRAY_SIZE(bad));
        EXPECT(!q.broken);
        EXPECT_EQ(COMMAND("\4\0\2\0"), VIRTIO_NET_OK);
        end();
}

/* hostile G06, G07 */
TEST(hostile_control, a_command_longer_than_any_is_refused)
{
        struct vq_piece pieces[3] = { 0 };

        begin(CTRL);
        pieces[0] = (struct vq_piece){ front_gpa(&s.f, INDEX, 0), 2 };
        pieces[1] = (struct vq_piece){ FRONT_GPA, (uint32_t)s.f.bytes }; /* all of the memory */
        pieces[2] = (struct vq_piece){ front_gpa(&s.f, INDEX, 1), 1 };
        front_slot(&s.f, INDEX, 0)[0] = 1; /* a table of addresses */
        front_slot(&s.f, INDEX, 0)[1] = 0;
        front_wrote(&s.f, front_slot(&s.f, INDEX, 0), 2);
        EXPECT(front_add(&s.f, INDEX, pieces, 2, 1, 0));
        front_kick(&s.f, INDEX);
        EXPECT_SOON(front_reap(&s.f, INDEX, NULL, 1) == 1);
        EXPECT_EQ(front_slot(&s.f, INDEX, 1)[0], VIRTIO_NET_ERR);
        EXPECT(unfiltered());
        end();
}

/* hostile G08 */
TEST(hostile_control, more_addresses_than_are_kept_let_all_of_their_kind_through)
{
        static uint8_t table[2 + 4 + 6 * 200 + 4] = { 1, 0, 200 };

        begin(CTRL);
        for (unsigned i = 0; i < 200; i++)
                memcpy(table + 6 + 6 * i, "\x02\x11\0\0\0\0", 6);
        EXPECT_EQ(COMMAND("\2\0\x4d\0"), VIRTIO_NET_OK);
        EXPECT_EQ(COMMAND("\0\0\0"), VIRTIO_NET_OK);
        EXPECT(!unfiltered());
        EXPECT_EQ(command(table, sizeof(table)), VIRTIO_NET_OK);
        EXPECT(unfiltered());
        end();
}

/* hostile G20 */
TEST(hostile_control, announcements_are_acknowledged_without_need_and_twice)
{
        struct state before, after;

        begin(CTRL);
        before = look();
        EXPECT_EQ(COMMAND("\3\0"), VIRTIO_NET_OK);
        EXPECT_EQ(COMMAND("\3\0"), VIRTIO_NET_OK);
        after = look();
        EXPECT_MEM(&before, &after, sizeof(before));
        end();
}

/* ---- no place for an answer ---- */

static void expect_broken(const char *reason)
{
        uint64_t n = 0;

        front_kick_raw(&s.f, INDEX);
        EXPECT_SOON(front_stats(&s.f, INDEX).broken);
        EXPECT_STR(front_stats(&s.f, INDEX).broken, reason);
        EXPECT_SOON(read(s.f.q[INDEX].err, &n, sizeof(n)) == sizeof(n));
        EXPECT_EQ(n, 1);
        EXPECT_EQ(front_stats(&s.f, INDEX).counters[VW_C_commands], 0);
        EXPECT(unfiltered()); /* the others go on */
        front_renew(&s.f, INDEX);
        EXPECT(!front_stats(&s.f, INDEX).broken);
}

/* Descriptors 0 and 1, as one chain; with NEXT in the second it goes on with descriptor 2. */
static void chain(uint64_t first, uint32_t first_len, uint16_t first_flags, uint64_t second,
                  uint32_t second_len, uint16_t second_flags)
{
        struct vring_split *ring = front_raw(&s.f, INDEX);

        split_desc_store(&ring->desc[0], first, first_len, first_flags | VRING_DESC_F_NEXT, 1);
        split_desc_store(&ring->desc[1], second, second_len, second_flags, 2);
        front_raw_offer(&s.f, INDEX, 0);
}

/* hostile G01, G02, G03 */
TEST(hostile_control, breaks_where_an_answer_has_no_place_or_the_wrong_one)
{
        uint64_t data, ack;

        begin(CTRL);
        data = front_gpa(&s.f, INDEX, 0);
        ack = front_gpa(&s.f, INDEX, 1);
        memcpy(front_slot(&s.f, INDEX, 0), "\0\0\0", 3); /* would end the promiscuous mode */
        front_wrote(&s.f, front_slot(&s.f, INDEX, 0), 3);
        chain(data, 3, 0, ack, 1, 0); /* not writable */
        expect_broken("no-ack");
        chain(data, 3, 0, ack, 0, VRING_DESC_F_WRITE);
        expect_broken("no-ack");
        chain(data, 3, 0, 0x1000, 1, VRING_DESC_F_WRITE); /* in a hole */
        expect_broken("no-ack");
        chain(data, 3, 0, FRONT_GPA + s.f.bytes, 1, VRING_DESC_F_WRITE);
        expect_broken("no-ack");
        chain(0x1000, 3, 0, ack, 1, VRING_DESC_F_WRITE); /* the command in a hole */
        expect_broken("no-ack");
        split_desc_store(&front_raw(&s.f, INDEX)->desc[2], 0x1000, 1, VRING_DESC_F_WRITE, 0);
        chain(data, 3, 0, ack, 1, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT); /* its last byte in a hole */
        expect_broken("no-ack");
        chain(ack, 1, VRING_DESC_F_WRITE, data, 3, 0); /* the answer first */
        expect_broken("order");
        EXPECT_EQ(COMMAND("\4\0\1\0"), VIRTIO_NET_OK);
        end();
}

/* ---- changed while it is read ---- */

struct flipper {
        volatile uint8_t *byte;
        uint8_t a, b;
        bool stop;
};

static void *flip(void *arg)
{
        struct flipper *f = arg;

        while (!load_relaxed(&f->stop)) {
                *f->byte = f->a;
                *f->byte = f->b;
        }
        return NULL;
}

/* Sends the command again and again while one of its bytes changes all the time. */
static void send_flipping(const void *bytes, uint32_t len, unsigned at, uint8_t a, uint8_t b, unsigned rounds,
                          bool (*holds)(void))
{
        struct flipper f = { .byte = front_slot(&s.f, INDEX, 0) + at, .a = a, .b = b };
        struct vq_piece pieces[2] = {
                {front_gpa(&s.f,  INDEX, 0), len},
                { front_gpa(&s.f, INDEX, 1), 1  }
        };
        pthread_t thread;

        memcpy(front_slot(&s.f, INDEX, 0), bytes, len);
        front_wrote(&s.f, front_slot(&s.f, INDEX, 0), len);
        front_may_write(&s.f, front_gpa(&s.f, INDEX, 0) + at, 1);
        EXPECT_EQ(pthread_create(&thread, NULL, flip, &f), 0);
        for (unsigned i = 0; i < rounds; i++) {
                EXPECT(front_add(&s.f, INDEX, pieces, 1, 1, 0));
                front_kick(&s.f, INDEX);
                EXPECT_SOON(front_reap(&s.f, INDEX, NULL, 1) == 1);
                EXPECT(front_slot(&s.f, INDEX, 1)[0] <= VIRTIO_NET_ERR);
                EXPECT(holds());
        }
        store_relaxed(&f.stop, true);
        pthread_join(thread, NULL);
}

static bool pairs_are_possible(void)
{
        unsigned active = load_relaxed(&s.port.active);

        return active == 1 || active == 2;
}

static bool address_is_possible(void)
{
        uint8_t mac[6];

        return vu_frontend_get_config(&s.f.fe, 0, 6, mac) == 0 && (mac[0] == 2 || mac[0] == 6);
}

static bool always(void)
{
        return true;
}

/* hostile G18 */
TEST(hostile_control, what_changes_while_it_is_read_is_taken_as_it_was_read)
{
        const unsigned n = (unsigned)test_scale(2000, 200000);
        uint8_t table[2 + 4 + 6 + 4] = { 1, 0, 1, 0, 0, 0, 2 };

        begin(CTRL);
        send_flipping("\4\0\2\0", 4, 2, 2, 200, n, pairs_are_possible);
        send_flipping("\1\1\2\0\0\0\0\1", 8, 2, 6, 7, n, address_is_possible); /* 7 is a group's */
        send_flipping(table, sizeof(table), 2, 1, 255, n, always);
        send_flipping(table, sizeof(table), 5, 0, 255, n, always);
        end();
}

/* ---- switched in mid-traffic ---- */

/* hostile G15 */
TEST(hostile_control, offloads_are_switched_between_two_frames)
{
        const unsigned n = (unsigned)test_scale(300, 20000);
        static const uint8_t frame[60] = { 2, [6] = 2, [12] = 0x88, 0xb5 };
        uint64_t sent = 0, got = 0;

        begin(CTRL | F(guest_csum) | F(guest_tso4));
        front_post(&s.f, 0, 64, 1600);
        front_kick(&s.f, 0);
        for (unsigned i = 0; i < n; i++) {
                unsigned k;

                sent += sport_put(&s.port, 0, frame, sizeof(frame), NULL);
                EXPECT_EQ(i % 2 ? COMMAND("\5\0\x82\0\0\0\0\0\0\0") : COMMAND("\5\0\0\0\0\0\0\0\0\0"),
                          VIRTIO_NET_OK);
                EXPECT_EQ(load_relaxed(&s.port.rx_offloads), i % 2 ? VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4 : 0u);
                got += k = front_reap(&s.f, 0, NULL, 64);
                if (front_post(&s.f, 0, k, 1600))
                        front_kick(&s.f, 0);
        }
        EXPECT_SOON((got += front_reap(&s.f, 0, NULL, 64)) == sent);
        end();
}

/* ---- coalescing ---- */

/* hostile H01, H03 */
TEST(hostile_control, the_longest_coalescing_is_bounded_and_none_is_none)
{
        static const uint8_t frame[60] = { 2 };
        uint64_t calls, begun, most = VW_USECS_MAX * UINT64_C(1000);

        begin(CTRL);
        EXPECT_EQ(COMMAND("\6\0\xff\xff\xff\xff\xff\xff\xff\xff"), VIRTIO_NET_OK);
        EXPECT_SOON(front_stats(&s.f, 1).settings.usecs == VW_USECS_MAX);
        EXPECT_EQ(front_stats(&s.f, 1).settings.frames, VW_FRAMES_MAX);
        for (unsigned i = 0; i < 20; i++) {
                calls = front_calls(&s.f, 1);
                EXPECT(front_send(&s.f, 0, frame, sizeof(frame), NULL));
                begun = front_now();
                front_kick(&s.f, 1);
                EXPECT_SOON(front_calls(&s.f, 1) > calls);
                EXPECT(front_now() - begun < most + UINT64_C(900000000)); /* what a loaded machine adds */
                EXPECT_EQ(front_reap(&s.f, 1, NULL, 64), 1);
        }
        EXPECT_EQ(COMMAND("\6\0\0\0\0\0\0\0\0\0"), VIRTIO_NET_OK);
        EXPECT_SOON(front_stats(&s.f, 1).settings.usecs == 0);
        for (unsigned i = 0; i < 20; i++) {
                calls = front_stats(&s.f, 1).counters[VW_C_calls];
                EXPECT(front_send(&s.f, 0, frame, sizeof(frame), NULL));
                front_kick(&s.f, 1);
                EXPECT_SOON(front_reap(&s.f, 1, NULL, 64) == 1);
                EXPECT_SOON(front_stats(&s.f, 1).counters[VW_C_calls] == calls + 1);
        }
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_coalesce_timer], 20);
        end();
}

static int by_value(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

/* hostile H07 */
TEST(hostile_control, the_last_frame_of_a_burst_is_told_when_its_time_is_up)
{
        enum { USECS = 300, MOST = 10000 };
        static const uint8_t frame[60] = { 2 };
        static uint64_t delay[MOST];
        const unsigned n = (unsigned)test_scale(300, MOST);

        begin(CTRL);
        EXPECT_EQ(COMMAND("\6\0\x40\0\0\0\x2c\1\0\0"), VIRTIO_NET_OK); /* 64 frames, 300 us */
        EXPECT_SOON(front_stats(&s.f, 1).settings.usecs == USECS);
        for (unsigned i = 0; i < n; i++) {
                unsigned burst = 1 + i % 20, back = 0;
                uint64_t calls = front_calls(&s.f, 1), begun;

                for (unsigned k = 0; k < burst; k++)
                        EXPECT(front_send(&s.f, 0, frame, sizeof(frame), NULL));
                begun = front_now();
                front_kick(&s.f, 1);
                while (front_calls(&s.f, 1) == calls)
                        EXPECT(front_now() - begun < UINT64_C(5000000000));
                delay[i] = front_now() - begun;
                EXPECT_SOON((back += front_reap(&s.f, 1, NULL, 64)) == burst);
                while (sport_get(&s.port, 0, &(uint8_t[64]){ 0 }, 64, NULL) >= 0)
                        continue;
        }
        /* one call a burst, by its deadline */
        EXPECT_EQ(front_stats(&s.f, 1).counters[VW_C_coalesce_timer], n);
        qsort(delay, n, sizeof(delay[0]), by_value);
        EXPECT(delay[0] >= USECS * 1000);
        EXPECT(delay[n / 10] < 2 * USECS * 1000); /* the rest is the machine's load */
        end();
}
