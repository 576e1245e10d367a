/* Specs of ports: what is understood, and that every refusal says what to do. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "port/netns.h"
#include "port/spec.h"
#include "test.h"

static port_open_fn *open_fn;
static struct port_args args;
static const char *why;

static int parse(const char *spec)
{
        why = NULL;
        return port_spec_parse(spec, &open_fn, &args, &why);
}

TEST(spec, names_a_kind)
{
        EXPECT_EQ(parse("loop"), 0);
        EXPECT(open_fn == loop_open);
        EXPECT_EQ(parse("null"), 0);
        EXPECT(open_fn == null_open);
        EXPECT_EQ(parse("gen"), 0);
        EXPECT(open_fn == gen_open);
        EXPECT_EQ(args.size, 0);
}

TEST(spec, gives_numbers_to_the_generator)
{
        EXPECT_EQ(parse("gen:size=1500,rate=1000,count=3"), 0);
        EXPECT_EQ(args.size, 1500);
        EXPECT_EQ(args.rate, 1000);
        EXPECT_EQ(args.count, 3);
        EXPECT(!args.clone);
        EXPECT_EQ(parse("gen:clone"), 0);
        EXPECT(args.clone);
}

TEST(spec, describes_a_tap_by_name)
{
        EXPECT_EQ(parse("tap:tap0"), 0);
        EXPECT(open_fn == tap_open);
        EXPECT_STR(args.name, "tap0");
        EXPECT(!args.persist);
        EXPECT_EQ(parse("tap:eth0,netns=blue,bridge=br0,persist"), 0);
        EXPECT_STR(args.name, "eth0");
        EXPECT_STR(args.netns, "blue");
        EXPECT_STR(args.bridge, "br0");
        EXPECT(args.persist);
}

TEST(spec, takes_a_word_for_a_name_where_a_name_stands)
{
        EXPECT_EQ(parse("tap:persist"), 0);
        EXPECT_STR(args.name, "persist");
        EXPECT(!args.persist);
}

TEST(spec, describes_a_tap_by_fds)
{
        EXPECT_EQ(parse("tap:fd=7"), 0);
        EXPECT_EQ(args.n_fds, 1);
        EXPECT_EQ(args.fds[0], 7);
        EXPECT_EQ(parse("tap:fd=3+4+5"), 0);
        EXPECT_EQ(args.n_fds, 3);
        EXPECT_EQ(args.fds[2], 5);
}

TEST(spec, refuses_with_a_sentence_that_says_what_to_do)
{
        static const struct {
                const char *spec;
                int r;
                const char *why;
        } rows[] = {
                {"",                                -EINVAL, ": no such kind of port; there are: tap, loop, null, gen"        },
                { "tup:tap0",                       -EINVAL, "tup:tap0: no such kind of port; there are: tap, loop, null, gen"},
                { "packet:eth0",                    -EINVAL,
                 "packet:eth0: 'packet' ports are not built yet; there are: tap, loop, null, gen"                             },
                { "xdp:eth0",                       -EINVAL,
                 "xdp:eth0: 'xdp' ports are not built yet; there are: tap, loop, null, gen"                                   },
                { "pcap:f",                         -EINVAL,
                 "pcap:f: 'pcap' ports are not built yet; there are: tap, loop, null, gen"                                    },
                { "vhost-user:/s",                  -EINVAL,
                 "vhost-user:/s: 'vhost-user' ports are not built yet; there are: tap, loop, null, gen"                       },
                { "tap",                            -EINVAL, "tap: NAME is missing, as in tap:NAME"                           },
                { "tap:",                           -EINVAL, "tap:: NAME is empty"                                            },
                { "tap:netns=x",                    -EINVAL, "tap:netns=x: NAME is missing, as in tap:NAME"                   },
                { "tap:a,b",                        -EINVAL, "tap:a,b: 'b' is not an option of this port"                     },
                { "tap:a,persist=1",                -EINVAL, "tap:a,persist=1: persist takes no value"                        },
                { "tap:a,netns",                    -EINVAL, "tap:a,netns: netns needs a value"                               },
                { "tap:a,netns=",                   -EINVAL, "tap:a,netns=: netns is empty"                                   },
                { "tap:fd=",                        -EINVAL, "tap:fd=: fd= is not a number"                                   },
                { "tap:fd=3+",                      -EINVAL, "tap:fd=3+: fd= is not a number"                                 },
                { "tap:fd=-1",                      -EINVAL, "tap:fd=-1: fd=-1 is not a number"                               },
                { "tap:fd=4294967296",              -EINVAL,
                 "tap:fd=4294967296: fd=4294967296 is over the limit 2147483647"                                              },
                { "loop:x",                         -EINVAL, "loop:x: 'x' is not an option of this port"                      },
                { "null:x=1",                       -EINVAL, "null:x=1: 'x' is not an option of this port"                    },
                { "gen:size=59",                    -EINVAL, "gen:size=59: size=59 is under the limit 60"                     },
                { "gen:size=65550",                 -EINVAL, "gen:size=65550: size=65550 is over the limit 65549"             },
                { "gen:rate=0",                     -EINVAL, "gen:rate=0: rate=0 is under the limit 1"                        },
                { "gen:rate=1e3",                   -EINVAL, "gen:rate=1e3: rate=1e3 is not a number"                         },
                { "gen:count=99999999999999999999", -EINVAL,
                 "gen:count=99999999999999999999: count=99999999999999999999 is over the limit 18446744073709551615"          },
                { "gen:rate= 5",                    -EINVAL, "gen:rate= 5: rate= 5 is not a number"                           },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                EXPECT_EQ(parse(rows[i].spec), rows[i].r);
                EXPECT_STR(why, rows[i].why);
        }
}

TEST(spec, bounds_texts_of_any_length)
{
        char spec[1024] = "tap:";

        memset(spec + 4, 'x', 1000);
        EXPECT_EQ(parse(spec), -EINVAL);
        EXPECT(strstr(why, "over the limit of 256 characters"));
        spec[4 + 64] = '\0';
        EXPECT_EQ(parse(spec), -EINVAL);
        EXPECT(strstr(why, "NAME is over the limit of 63 characters"));
        spec[4 + 63] = '\0';
        EXPECT_EQ(parse(spec), 0);
}

TEST(spec, bounds_the_number_of_fds)
{
        char spec[256] = "tap:fd=0";

        for (unsigned i = 1; i < VW_QUEUE_PAIRS_MAX; i++)
                strcat(spec, "+0");
        EXPECT_EQ(parse(spec), 0);
        EXPECT_EQ(args.n_fds, VW_QUEUE_PAIRS_MAX);
        strcat(spec, "+0");
        EXPECT_EQ(parse(spec), -EINVAL);
        EXPECT(strstr(why, "fd= is over the limit of 64 numbers"));
}

TEST(spec, leaves_its_results_alone_on_failure)
{
        EXPECT_EQ(parse("gen:count=7"), 0);
        EXPECT_EQ(parse("gen:count=8,size=1"), -EINVAL);
        EXPECT_EQ(args.count, 7);
        EXPECT(open_fn == gen_open);
}

TEST(port_spec, a_namespace_has_a_name_and_no_path)
{
        EXPECT_EQ(netns_open("a/b"), -EINVAL);
        EXPECT_EQ(netns_open("/proc/self/ns/net"), -EINVAL);
        EXPECT_EQ(netns_open("."), -EINVAL);
        EXPECT_EQ(netns_open(".."), -EINVAL);
        EXPECT_EQ(netns_open("vwire-has-no-such-namespace"), -ENOENT);
}
