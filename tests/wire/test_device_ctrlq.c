/* The control queue by its raw bytes, and what the commands do to traffic. */
#include <string.h>
#include <unistd.h>

#include "front.h"
#include "sport.h"
#include "test.h"

#define CTRL                                                                                                 \
        (F(ctrl_vq) | F(ctrl_rx) | F(ctrl_rx_extra) | F(ctrl_vlan) | F(ctrl_mac_addr) | F(guest_announce) |  \
         F(status))
#define COAL (F(notf_coal) | F(vq_notf_coal))

static struct front f;
static struct sport port;

static void begin(unsigned pairs, uint64_t features)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;

        sport_init(&port);
        config.port = port.port;
        config.pairs = pairs;
        config.workers = pairs; /* so that what the control queue says has to travel */
        config.nice = 0;
        config.tx_usecs = 40;
        config.tx_frames = 4;
        memcpy(config.mac, "\x02\x00\x00\x00\x00\x01", 6);
        front_open(&f, &config);
        front_connect(&f, features, 64);
}

static void end(void)
{
        front_close(&f);
        sport_free(&port);
}

#define COMMAND(bytes) front_command(&f, bytes, sizeof(bytes) - 1, NULL, 0)

/* Whether a frame for `dst` (with a tag, unless vid < 0) is delivered on queue 0. */
static bool delivered(const char *dst, int vid)
{
        uint8_t frame[60] = { 0 };
        struct vw_queue_stats before = front_stats(&f, 0), s;

        front_post(&f, 0, 4, 1600);
        front_kick(&f, 0);
        memcpy(frame, dst, 6);
        frame[12] = 0x88;
        if (vid >= 0) {
                frame[12] = 0x81;
                frame[14] = (uint8_t)(vid >> 8);
                frame[15] = (uint8_t)vid;
        }
        EXPECT(sport_put(&port, 0, frame, sizeof(frame), NULL));
        for (;;) {
                s = front_stats(&f, 0);
                if (s.drops[VW_DROP_FILTERED] > before.drops[VW_DROP_FILTERED])
                        return false;
                if (s.counters[VW_C_packets] > before.counters[VW_C_packets])
                        break;
        }
        front_reap(&f, 0, NULL, 64);
        return true;
}

#define OWN   "\x02\x00\x00\x00\x00\x01"
#define OTHER "\x02\x00\x00\x00\x00\x02"
#define GROUP "\x01\x00\x5e\x00\x00\x01"
#define ALL   "\xff\xff\xff\xff\xff\xff"

TEST(device_ctrlq, filters_only_once_it_is_used)
{
        begin(1, CTRL);
        EXPECT(delivered(OTHER, -1) && delivered(GROUP, -1) && delivered(OWN, 5));
        EXPECT_EQ(COMMAND("\0\0\0"), VIRTIO_NET_OK); /* promiscuous off */
        EXPECT(!delivered(OTHER, -1) && !delivered(GROUP, -1) && !delivered(OWN, 5));
        EXPECT(delivered(OWN, -1) && delivered(ALL, -1));
        end();
}

TEST(device_ctrlq, sets_modes_tables_addresses_and_vlans)
{
        begin(1, CTRL);
        EXPECT_EQ(COMMAND("\0\0\1"), VIRTIO_NET_OK);
        EXPECT(delivered(OTHER, 9));
        EXPECT_EQ(COMMAND("\0\0\0"), VIRTIO_NET_OK);
        EXPECT_EQ(COMMAND("\0\1\1"), VIRTIO_NET_OK); /* all multicast */
        EXPECT(delivered(GROUP, -1) && !delivered(OTHER, -1));
        EXPECT_EQ(COMMAND("\0\1\0"), VIRTIO_NET_OK);
        EXPECT_EQ(COMMAND("\1\0\1\0\0\0" OTHER "\1\0\0\0" GROUP), VIRTIO_NET_OK);
        EXPECT(delivered(GROUP, -1) && delivered(OTHER, -1));
        EXPECT_EQ(COMMAND("\1\0\0\0\0\0\0\0\0\0"), VIRTIO_NET_OK);
        EXPECT(!delivered(GROUP, -1) && !delivered(OTHER, -1));
        EXPECT_EQ(COMMAND("\1\1" OTHER), VIRTIO_NET_OK);
        EXPECT(delivered(OTHER, -1) && !delivered(OWN, -1));
        EXPECT_EQ(COMMAND("\2\0\7\0"), VIRTIO_NET_OK);
        EXPECT(delivered(OTHER, 7) && !delivered(OTHER, 8));
        EXPECT_EQ(COMMAND("\2\1\7\0"), VIRTIO_NET_OK);
        EXPECT(!delivered(OTHER, 7));
        EXPECT_EQ(COMMAND("\0\5\1"), VIRTIO_NET_OK); /* no broadcasts */
        EXPECT(!delivered(ALL, -1));
        end();
}

TEST(device_ctrlq, shows_the_address_that_the_guest_set)
{
        uint8_t mac[6];

        begin(1, CTRL);
        EXPECT_EQ(vu_frontend_get_config(&f.fe, 0, 6, mac), 0);
        EXPECT_MEM(mac, OWN, 6);
        EXPECT_EQ(COMMAND("\1\1" OTHER), VIRTIO_NET_OK);
        EXPECT_EQ(vu_frontend_get_config(&f.fe, 0, 6, mac), 0);
        EXPECT_MEM(mac, OTHER, 6);
        end();
}

TEST(device_ctrlq, refuses_what_was_not_negotiated)
{
        begin(1, F(ctrl_vq));
        EXPECT_EQ(COMMAND("\0\0\1"), VIRTIO_NET_ERR);
        EXPECT_EQ(COMMAND("\2\0\7\0"), VIRTIO_NET_ERR);
        EXPECT_EQ(COMMAND("\6\0\1\0\0\0\1\0\0\0"), VIRTIO_NET_ERR);
        EXPECT(delivered(OTHER, 5)); /* nothing has changed */
        end();
}

/* hostile G02 */
TEST(device_ctrlq, breaks_where_there_is_no_room_for_an_answer)
{
        struct vq_piece pieces[2];
        uint8_t status;
        uint64_t err;

        for (unsigned k = 0; k < 3; k++) {
                begin(1, CTRL);
                memset(front_slot(&f, 2, 0), 0, 16);
                pieces[0] = (struct vq_piece){ front_gpa(&f, 2, 0), 3 };
                pieces[1] = (struct vq_piece){ k == 1 ? 0x1000 : front_gpa(&f, 2, 1), k != 2 };
                EXPECT(front_add(&f, 2, pieces, 1, k > 0, 0));
                front_kick(&f, 2);
                EXPECT_SOON(front_stats(&f, 2).broken);
                EXPECT_STR(front_stats(&f, 2).broken, "no-ack");
                EXPECT_EQ(read(f.q[2].err, &err, sizeof(err)), sizeof(err));
                EXPECT_EQ(err, 1);
                EXPECT_EQ(vu_frontend_get_status(&f.fe, &status), 0);
                EXPECT(status & VIRTIO_STATUS_NEEDS_RESET);
                EXPECT(delivered(OTHER, -1)); /* the others go on */
                end();
        }
}

/* hostile G08 */
TEST(device_ctrlq, a_table_too_long_lets_all_of_its_kind_through)
{
        static uint8_t command[2 + 4 + 70 * 6 + 4] = { 1, 0, 70 };

        begin(1, CTRL);
        for (unsigned i = 0; i < 70; i++)
                memcpy(command + 6 + 6 * i, "\x02\x11\x00\x00\x00\x00", 6);
        EXPECT_EQ(front_command(&f, command, sizeof(command), NULL, 0), VIRTIO_NET_OK);
        EXPECT(delivered(OTHER, -1) && !delivered(GROUP, -1));
        end();
}

/* T-MQ, hostile G11 */
TEST(device_ctrlq, tells_the_port_how_many_pairs_carry_frames)
{
        begin(4, CTRL | F(mq));
        /* before the command: the first pair */
        EXPECT_SOON(__atomic_load_n(&port.active, __ATOMIC_RELAXED) == 1);
        EXPECT_EQ(COMMAND("\4\0\3\0"), VIRTIO_NET_OK);
        EXPECT_EQ(__atomic_load_n(&port.active, __ATOMIC_RELAXED), 3);
        EXPECT_EQ(COMMAND("\4\0\5\0"), VIRTIO_NET_ERR);
        EXPECT_EQ(__atomic_load_n(&port.active, __ATOMIC_RELAXED), 3);
        end();

        begin(4, F(mq)); /* no control queue: what the front end enables */
        EXPECT_SOON(__atomic_load_n(&port.active, __ATOMIC_RELAXED) == 4);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 4, false), 0);
        EXPECT_SOON(__atomic_load_n(&port.active, __ATOMIC_RELAXED) == 2);
        end();
}

/* 5.1.6.5.5: what the port hands over for a pair that the driver did not ask for is no frame of its */
TEST(device_ctrlq, nothing_is_received_on_a_pair_that_was_not_asked_for)
{
        static const struct {
                const char *command;
                unsigned pairs;
        } rounds[] = {
                {NULL,        1},
                { "\4\0\3\0", 3},
                { "\4\0\2\0", 2},
                { "\4\0\4\0", 4},
                { "\4\0\1\0", 1},
        };
        static const uint8_t frame[60] = { 2, [12] = 0x88, 0xb5 };
        uint64_t packets[4] = { 0 }, dropped[4] = { 0 };

        begin(4, CTRL | F(mq));
        for (unsigned pair = 0; pair < 4; pair++) {
                front_post(&f, pair, 8, 1600);
                front_kick(&f, 2 * pair);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(rounds); i++) {
                if (rounds[i].command)
                        EXPECT_EQ(front_command(&f, rounds[i].command, 4, NULL, 0), VIRTIO_NET_OK);
                for (unsigned pair = 0; pair < 4; pair++) {
                        bool mine = pair < rounds[i].pairs;

                        packets[pair] += mine;
                        dropped[pair] += !mine;
                        EXPECT(sport_put(&port, pair, frame, sizeof(frame), NULL));
                        EXPECT_SOON(front_stats(&f, 2 * pair).counters[VW_C_packets] == packets[pair] &&
                                    front_stats(&f, 2 * pair).drops[VW_DROP_DISABLED] == dropped[pair]);
                }
        }
        end();
}

TEST(device_ctrlq, a_port_that_makes_frames_makes_them_for_the_pairs_asked_for)
{
        struct vw_device_config config = VW_DEVICE_CONFIG_INIT;
        const char *why = NULL;

        EXPECT_EQ(vw_port_open("gen:count=6", &(struct vw_port_config){ .pairs = 2 }, &config.port, &why), 0);
        config.pairs = config.workers = 2;
        config.nice = 0;
        front_open(&f, &config);
        front_connect(&f, CTRL | F(mq), 64);
        for (unsigned pair = 0; pair < 2; pair++) {
                front_post(&f, pair, 8, 1600);
                front_kick(&f, 2 * pair);
        }
        EXPECT_SOON(front_stats(&f, 0).counters[VW_C_packets] == 6);
        EXPECT_EQ(front_stats(&f, 2).counters[VW_C_packets], 0);
        EXPECT_EQ(COMMAND("\4\0\2\0"), VIRTIO_NET_OK);
        EXPECT_SOON(front_stats(&f, 2).counters[VW_C_packets] == 6);
        front_close(&f);
        vw_port_close(config.port);
}

/* hostile G15 */
TEST(device_ctrlq, switches_the_guests_offloads)
{
        begin(1, CTRL | F(ctrl_guest_offloads) | F(guest_csum) | F(guest_tso4));
        EXPECT_EQ(__atomic_load_n(&port.rx_offloads, __ATOMIC_RELAXED), VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4);
        EXPECT_EQ(COMMAND("\5\0\2\0\0\0\0\0\0\0"), VIRTIO_NET_OK);
        EXPECT_EQ(__atomic_load_n(&port.rx_offloads, __ATOMIC_RELAXED), VW_OFFLOAD_CSUM);
        EXPECT_EQ(COMMAND("\5\0\0\0\0\0\0\0\0\0"), VIRTIO_NET_OK);
        EXPECT_EQ(__atomic_load_n(&port.rx_offloads, __ATOMIC_RELAXED), 0);
        EXPECT_EQ(COMMAND("\5\0\x02\1\0\0\0\0\0\0"), VIRTIO_NET_ERR); /* TSO6 was not taken */
        EXPECT_EQ(COMMAND("\5\0\x82\0\0\0\0\0\0\0"), VIRTIO_NET_OK);
        EXPECT_EQ(__atomic_load_n(&port.rx_offloads, __ATOMIC_RELAXED), VW_OFFLOAD_CSUM | VW_OFFLOAD_TSO4);
        end();
}

/* hostile G20 */
TEST(device_ctrlq, acknowledges_announcements_and_takes_superfluous_ones)
{
        uint16_t status;

        begin(1, CTRL);
        EXPECT_EQ(COMMAND("\3\0"), VIRTIO_NET_OK);
        pthread_mutex_lock(&f.lock);
        vw_device_link(f.dev, false);
        vw_device_link(f.dev, true);
        pthread_mutex_unlock(&f.lock);
        EXPECT_EQ(vu_frontend_get_config(&f.fe, 6, 2, &status), 0);
        EXPECT_EQ(status, VIRTIO_NET_S_LINK_UP | VIRTIO_NET_S_ANNOUNCE);
        EXPECT_EQ(COMMAND("\3\0"), VIRTIO_NET_OK);
        EXPECT_EQ(COMMAND("\3\0"), VIRTIO_NET_OK);
        EXPECT_EQ(vu_frontend_get_config(&f.fe, 6, 2, &status), 0);
        EXPECT_EQ(status, VIRTIO_NET_S_LINK_UP);
        end();
}

static bool coal_is(unsigned queue, uint32_t usecs, uint32_t frames)
{
        uint8_t get[6] = { 6, 3, (uint8_t)queue };
        uint32_t got[2];
        struct vw_queue_settings s = front_stats(&f, queue).settings;

        EXPECT_EQ(front_command(&f, get, sizeof(get), got, sizeof(got)), VIRTIO_NET_OK);
        return got[0] == frames && got[1] == usecs && s.usecs == usecs && s.frames == frames;
}

/* T-COAL-05, T-COAL-06 */
TEST(device_ctrlq, the_last_set_of_coalescing_wins_and_resets_return_to_the_operators)
{
        begin(2, CTRL | F(mq) | COAL);
        EXPECT(coal_is(1, 40, 4) && coal_is(3, 40, 4) && coal_is(0, 0, 0));
        EXPECT_EQ(COMMAND("\6\2\1\0\0\0\7\0\0\0\x14\0\0\0"),
                  VIRTIO_NET_OK); /* VQ_SET 1, and nothing before */
        EXPECT(coal_is(1, 20, 7));
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, false), 0);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, true), 0);
        EXPECT(coal_is(1, 40, 4));
        EXPECT_EQ(COMMAND("\6\0\5\0\0\0\x0a\0\0\0"), VIRTIO_NET_OK); /* TX_SET 5 frames, 10 us */
        EXPECT_SOON(coal_is(1, 10, 5) && coal_is(3, 10, 5));
        EXPECT(coal_is(0, 0, 0) && coal_is(2, 0, 0));
        EXPECT_EQ(COMMAND("\6\2\1\0\0\0\7\0\0\0\x14\0\0\0"), VIRTIO_NET_OK); /* VQ_SET 1 */
        EXPECT(coal_is(1, 20, 7) && coal_is(3, 10, 5));
        EXPECT_EQ(COMMAND("\6\0\6\0\0\0\x1e\0\0\0"), VIRTIO_NET_OK);
        EXPECT_SOON(coal_is(1, 30, 6) && coal_is(3, 30, 6));
        EXPECT_EQ(COMMAND("\6\1\2\0\0\0\x32\0\0\0"), VIRTIO_NET_OK); /* RX_SET */
        EXPECT_SOON(coal_is(0, 50, 2) && coal_is(2, 50, 2));
        EXPECT(coal_is(1, 30, 6));
        /* a queue of its own loses its value when it is disabled and enabled */
        EXPECT_EQ(COMMAND("\6\2\1\0\xff\xff\7\0\0\0\x14\0\0\0"), VIRTIO_NET_OK); /* reserved is ignored */
        EXPECT(coal_is(1, 20, 7));
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, false), 0);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 1, true), 0);
        EXPECT(coal_is(1, 30, 6));
        /* and when it is stopped and set up again */
        EXPECT_EQ(COMMAND("\6\2\1\0\0\0\7\0\0\0\x14\0\0\0"), VIRTIO_NET_OK);
        front_stop(&f, 1);
        front_ring(&f, 1);
        front_start(&f, 1);
        EXPECT(coal_is(1, 30, 6));
        /* the operator's word is the last now */
        pthread_mutex_lock(&f.lock);
        EXPECT_EQ(vw_device_set(f.dev,
                                (struct vw_setting[]){
                                        {-1,  VW_KEY_TX_USECS,  9},
                                        { -1, VW_KEY_TX_FRAMES, 8}
        },
                                2, &(const char *){ NULL }),
                  0);
        pthread_mutex_unlock(&f.lock);
        EXPECT(coal_is(1, 9, 8) && coal_is(3, 9, 8) && coal_is(0, 50, 2));
        EXPECT_EQ(COMMAND("\6\0\6\0\0\0\x1e\0\0\0"), VIRTIO_NET_OK);
        EXPECT_EQ(vu_frontend_set_status(&f.fe, 0), 0); /* a reset of the device */
        EXPECT_SOON(front_stats(&f, 1).settings.usecs == 9 && front_stats(&f, 1).settings.frames == 8);
        EXPECT_EQ(front_stats(&f, 0).settings.usecs, 0);
        front_disconnect(&f);
        front_connect(&f, CTRL | F(mq) | COAL, 64);
        EXPECT(coal_is(1, 9, 8) && coal_is(0, 0, 0));
        EXPECT_EQ(COMMAND("\6\0\6\0\0\0\x1e\0\0\0"), VIRTIO_NET_OK);
        front_disconnect(&f);
        front_connect(&f, CTRL | F(mq) | COAL, 64);
        EXPECT(coal_is(1, 9, 8));
        end();
}

/* T-COAL-07, hostile H01, H03, H04 */
TEST(device_ctrlq, clamps_coalescing_and_refuses_queues_that_are_not_there)
{
        uint32_t got[2];

        begin(2, CTRL | F(mq) | COAL);
        EXPECT_EQ(COMMAND("\6\0\xff\xff\xff\xff\xff\xff\xff\xff"), VIRTIO_NET_OK);
        EXPECT_SOON(coal_is(1, VW_USECS_MAX, VW_FRAMES_MAX));
        EXPECT_EQ(COMMAND("\6\0\0\0\0\0\0\0\0\0"), VIRTIO_NET_OK);
        EXPECT_SOON(coal_is(1, 0, 0));
        EXPECT_EQ(COMMAND("\6\2\4\0\0\0\7\0\0\0\x14\0\0\0"), VIRTIO_NET_ERR); /* the control queue */
        EXPECT_EQ(COMMAND("\6\2\5\0\0\0\7\0\0\0\x14\0\0\0"), VIRTIO_NET_ERR);
        EXPECT_EQ(COMMAND("\6\2\xff\xff\0\0\7\0\0\0\x14\0\0\0"), VIRTIO_NET_ERR);
        EXPECT_EQ(front_command(&f, "\6\3\4\0\0\0", 6, got, sizeof(got)), VIRTIO_NET_ERR);
        for (uint32_t room = 0; room < sizeof(got);
             room++) /* too little for the pair: the ack is behind it all the same */
                EXPECT_EQ(front_command(&f, "\6\3\1\0\0\0", 6, got, room), VIRTIO_NET_ERR);
        EXPECT_EQ(vu_frontend_vring_enable(&f.fe, 3, false), 0);
        EXPECT_EQ(COMMAND("\6\2\3\0\0\0\7\0\0\0\x14\0\0\0"), VIRTIO_NET_ERR);
        end();
}

/* A guest that answers itself knows better */
TEST(device_ctrlq, the_guests_word_ends_adaptive_moderation)
{
        struct vw_setting on = { -1, VW_KEY_ADAPTIVE, VW_ADAPTIVE_BOTH };

        begin(1, CTRL | COAL);
        pthread_mutex_lock(&f.lock);
        EXPECT_EQ(vw_device_set(f.dev, &on, 1, &(const char *){ NULL }), 0);
        pthread_mutex_unlock(&f.lock);
        EXPECT(front_stats(&f, 0).settings.adaptive && front_stats(&f, 1).settings.adaptive);
        EXPECT_EQ(COMMAND("\6\0\5\0\0\0\x0a\0\0\0"), VIRTIO_NET_OK);
        EXPECT(front_stats(&f, 0).settings.adaptive && !front_stats(&f, 1).settings.adaptive);
        end();
}
