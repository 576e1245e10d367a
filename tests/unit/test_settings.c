/* Settings as text, and the names in the statistics contract. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "vwire/stats.h"

static int parse(const char *text, struct vw_setting *s, const char **why)
{
        *why = "";
        *s = (struct vw_setting){ .queue = 77, .key = VW_KEY_COUNT, .value = 77 };
        return vw_setting_parse(text, s, why);
}

TEST(settings, parse_numbers_and_words)
{
        static const struct {
                const char *text;
                int queue;
                enum vw_key key;
                int64_t value;
        } good[] = {
                {"poll-us=50",              -1,  VW_KEY_POLL_US,          50              },
                { "tx-usecs=0",             -1,  VW_KEY_TX_USECS,         0               },
                { "tx-usecs=10000",         -1,  VW_KEY_TX_USECS,         10000           },
                { "q3.tx-usecs=64",         3,   VW_KEY_TX_USECS,         64              },
                { "q128.rx-frames=1024",    128, VW_KEY_RX_FRAMES,        1024            },
                { "queues=64",              -1,  VW_KEY_QUEUES,           64              },
                { "adaptive=off",           -1,  VW_KEY_ADAPTIVE,         VW_ADAPTIVE_OFF },
                { "adaptive=rx",            -1,  VW_KEY_ADAPTIVE,         VW_ADAPTIVE_RX  },
                { "adaptive=tx",            -1,  VW_KEY_ADAPTIVE,         VW_ADAPTIVE_TX  },
                { "adaptive=both",          -1,  VW_KEY_ADAPTIVE,         VW_ADAPTIVE_BOTH},
                { "tx-mode=napi",           -1,  VW_KEY_TX_MODE,          VW_TX_NAPI      },
                { "q1.tx-mode=orphan",      1,   VW_KEY_TX_MODE,          VW_TX_ORPHAN    },
                { "clean-tx-from-rx=on",    -1,  VW_KEY_CLEAN_TX_FROM_RX, 1               },
                { "clean-tx-from-rx=off",   -1,  VW_KEY_CLEAN_TX_FROM_RX, 0               },
                { "q3.shared-interrupt=on", 3,   VW_KEY_SHARED_INTERRUPT, 1               },
                { "tx-interrupts=eager",    -1,  VW_KEY_TX_INTERRUPTS,    1               },
                { "kick=burst",             -1,  VW_KEY_KICK,             VW_KICK_BURST   },
                { "kick=each",              -1,  VW_KEY_KICK,             VW_KICK_EACH    },
                { "bql=on",                 -1,  VW_KEY_BQL,              1               },
                { "bql=off",                -1,  VW_KEY_BQL,              0               },
                { "rx-buffers=auto",        -1,  VW_KEY_RX_BUFFERS,       VW_BUFFERS_AUTO },
                { "rx-buffers=mtu",         -1,  VW_KEY_RX_BUFFERS,       VW_BUFFERS_MTU  },
                { "rx-buffers=page",        -1,  VW_KEY_RX_BUFFERS,       VW_BUFFERS_PAGE },
        };
        struct vw_setting s;
        const char *why;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                EXPECT_EQ(parse(good[i].text, &s, &why), 0);
                EXPECT_EQ(s.queue, good[i].queue);
                EXPECT_EQ(s.key, good[i].key);
                EXPECT_EQ(s.value, good[i].value);
        }
}

TEST(settings, refusals_name_key_value_and_limit)
{
        static const struct {
                const char *text;
                int error;
                const char *why;
        } bad[] = {
                {"tx-usecs=20000",                 -ERANGE, "tx-usecs=20000 is over the limit 10000"               },
                { "poll-us=100001",                -ERANGE, "poll-us=100001 is over the limit 100000"              },
                { "rx-frames=1025",                -ERANGE, "rx-frames=1025 is over the limit 1024"                },
                { "rx-usecs=-1",                   -ERANGE, "rx-usecs=-1 is under the limit 0"                     },
                { "queues=0",                      -ERANGE, "queues=0 is under the limit 1"                        },
                { "queues=65",                     -ERANGE, "queues=65 is over the limit 64"                       },
                { "tx-usecs=18446744073709551680", -ERANGE,
                 "tx-usecs=18446744073709551680 is over the limit 10000"                                           },
                { "tx-usecs=64us",                 -EINVAL, "tx-usecs=64us is not a number of 0..10000"            },
                { "tx-usecs=",                     -EINVAL, "tx-usecs= is not a number of 0..10000"                },
                { "tx-usecs=-",                    -EINVAL, "tx-usecs=- is not a number of 0..10000"               },
                { "tx-usecs= 6",                   -EINVAL, "tx-usecs= 6 is not a number of 0..10000"              },
                { "tx-usecs",                      -EINVAL, "tx-usecs needs a value, as in tx-usecs=64"            },
                { "adaptive",                      -EINVAL, "adaptive needs a value, as in adaptive=off|rx|tx|both"},
                { "adaptive=on",                   -EINVAL, "adaptive=on is not one of off|rx|tx|both"             },
                { "kick=",                         -EINVAL, "kick= is not one of burst|each"                       },
                { "kick=burst|each",               -EINVAL, "kick=burst|each is not one of burst|each"             },
                { "tx-mode=nap",                   -EINVAL, "tx-mode=nap is not one of napi|orphan"                },
                { "tx-usec=1",                     -ENOENT, "there is no setting tx-usec"                          },
                { "",                              -ENOENT, "there is no setting "                                 },
                { "=1",                            -ENOENT, "there is no setting "                                 },
                { "q.tx-usecs=1",                  -ENOENT, "there is no setting q.tx-usecs"                       },
                { "q1.=1",                         -ENOENT, "there is no setting "                                 },
                { "q1x.tx-usecs=1",                -ENOENT, "there is no setting q1x.tx-usecs"                     },
                { "q129.tx-usecs=1",               -ERANGE, "q129.tx-usecs=1: the queue is not within q0..q128"    },
                { "q-1.tx-usecs=1",                -ERANGE, "q-1.tx-usecs=1: the queue is not within q0..q128"     },
                { "q99999999999999999999.bql=on",  -ERANGE,
                 "q99999999999999999999.bql=on: the queue is not within q0..q128"                                  },
                { "bad\nname=1",                   -ENOENT, "there is no setting bad?name"                         },
                { "bql=\x1b\xff",                  -EINVAL, "bql=?? is not one of off|on"                          },
        };
        struct vw_setting s;
        const char *why;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                EXPECT_EQ(parse(bad[i].text, &s, &why), bad[i].error);
                EXPECT_STR(why, bad[i].why);
                EXPECT_EQ(s.value, 77);
        }
}

TEST(settings, a_key_alone_is_no_more_than_a_key)
{
        struct vw_setting s = { .queue = 77 };
        const char *why = "";

        EXPECT_EQ(vw_key_parse("tx-usecs=1", &s, &why), -EINVAL);
        EXPECT_STR(why, "tx-usecs=1 is more than a key");
        EXPECT_EQ(vw_key_parse("tx-usecs=", &s, &why), -EINVAL);
        EXPECT_EQ(s.queue, 77);
        EXPECT_EQ(vw_key_parse("q3.tx-usecs", &s, &why), 0);
        EXPECT_EQ(s.queue, 3);
        EXPECT_EQ(s.key, VW_KEY_TX_USECS);
}

TEST(settings, every_value_survives_format_and_parse)
{
        for (enum vw_key key = 0; key < VW_KEY_COUNT; key++) {
                for (int64_t value = key == VW_KEY_QUEUES; value < 2; value++) {
                        char word[32], text[64];
                        struct vw_setting s;
                        const char *why;

                        vw_setting_format(key, value, word, sizeof(word));
                        snprintf(text, sizeof(text), "%s=%s", vw_key_name(key), word);
                        EXPECT_EQ(parse(text, &s, &why), 0);
                        EXPECT_EQ(s.key, key);
                        EXPECT_EQ(s.value, value);
                }
        }
}

TEST(settings, format_truncates_like_snprintf)
{
        char buf[4];

        vw_setting_format(VW_KEY_RX_BUFFERS, VW_BUFFERS_PAGE, buf, sizeof(buf));
        EXPECT_STR(buf, "pag");
        vw_setting_format(VW_KEY_POLL_US, 100000, buf, sizeof(buf));
        EXPECT_STR(buf, "100");
}

TEST(settings, keys_fit_queues_of_their_direction)
{
        for (int driver = 0; driver < 2; driver++) {
                EXPECT(vw_key_fits(VW_KEY_POLL_US, driver, VW_RX) &&
                       vw_key_fits(VW_KEY_POLL_US, driver, VW_TX));
                EXPECT(vw_key_fits(VW_KEY_TX_USECS, driver, VW_TX) &&
                       !vw_key_fits(VW_KEY_TX_USECS, driver, VW_RX));
                EXPECT(vw_key_fits(VW_KEY_RX_FRAMES, driver, VW_RX) &&
                       !vw_key_fits(VW_KEY_RX_FRAMES, driver, VW_TX));
                for (enum vw_key key = 0; key < VW_KEY_COUNT; key++)
                        EXPECT(!vw_key_fits(key, driver, VW_CTRL));
        }
        for (enum vw_key key = 0; key < VW_KEY_COUNT; key++) {
                EXPECT(vw_key_known(key, true));
                EXPECT_EQ(vw_key_known(key, false), key <= VW_KEY_ADAPTIVE);
        }
        EXPECT(!vw_key_fits(VW_KEY_QUEUES, true, VW_RX) && !vw_key_fits(VW_KEY_QUEUES, true, VW_TX));
}

static bool listed(const char *list, const char *name)
{
        size_t len = strlen(name);

        for (const char *p = strstr(list, name); p; p = strstr(p + 1, name))
                if (p[-1] == ' ' && p[len] == ' ')
                        return true;
        return false;
}

TEST(stats, counters_shown_are_those_of_the_contract)
{
        static const char device[] = " packets bytes bursts kicks calls calls_suppressed calls_coalesced"
                                     " coalesce_frames coalesce_timer poll_hits poll_misses poll_ns naps"
                                     " no_buffers port_full call_errors ";
        static const char driver[] = " packets bytes kicks kicks_suppressed interrupts spurious_interrupts"
                                     " polls poll_rearms poll_hits poll_misses poll_ns ";
        static const char tx[] = " reaped_by_poll reaped_by_rx reaped_by_xmit stops wakes bql_limit"
                                 " bql_inflight watchdogs ";
        static const char rx[] = " buffer_size average_length refills refill_failures merged_packets"
                                 " coalesced_frags truesize holes ";
        static const char ctrl[] = " commands nacks ";

        for (enum vw_counter c = 0; c < VW_C_COUNT; c++) {
                const char *name = vw_counter_name(c);

                EXPECT_EQ(vw_counter_shown(c, false, VW_RX), listed(device, name));
                EXPECT_EQ(vw_counter_shown(c, false, VW_TX), listed(device, name));
                EXPECT_EQ(vw_counter_shown(c, false, VW_CTRL), listed(device, name) || listed(ctrl, name));
                EXPECT_EQ(vw_counter_shown(c, true, VW_RX), listed(driver, name) || listed(rx, name));
                EXPECT_EQ(vw_counter_shown(c, true, VW_TX), listed(driver, name) || listed(tx, name));
                EXPECT_EQ(vw_counter_shown(c, true, VW_CTRL), listed(driver, name) || listed(ctrl, name));
        }
}

TEST(stats, drop_reasons_have_the_names_of_the_contract)
{
        static const char names[] =
                " none short too-long direction unmapped bad-gso bad-csum not-negotiated mtu"
                " bad-len bad-hdr missing-buffers no-buffers port-down port-error disabled"
                " filtered ";

        for (enum vw_drop d = 0; d < VW_DROP_COUNT; d++)
                EXPECT(listed(names, vw_drop_name(d)));
        EXPECT_STR(vw_drop_name(VW_DROP_BAD_GSO), "bad-gso");
        EXPECT_STR(vw_drop_name(VW_DROP_MISSING_BUFFERS), "missing-buffers");
}

TEST(stats, protocol_features_have_names)
{
        EXPECT_STR(vw_protocol_feature_name(0), "mq");
        EXPECT_STR(vw_protocol_feature_name(3), "reply_ack");
        EXPECT_STR(vw_protocol_feature_name(5), "backend_req");
        EXPECT_STR(vw_protocol_feature_name(9), "config");
        EXPECT_STR(vw_protocol_feature_name(12), "inflight_shmfd");
        EXPECT_STR(vw_protocol_feature_name(15), "configure_mem_slots");
        EXPECT_STR(vw_protocol_feature_name(16), "status");
        EXPECT(!vw_protocol_feature_name(63));
}
