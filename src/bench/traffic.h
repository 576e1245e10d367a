/* What the two sides of a measurement say to each other.  The side with the load connects; each TCP connection begins
 * with a hello of five big-endian words that tells the server what to do on it:
 *
 *      ECHO        take messages of `request` bytes, answer each with `response` bytes
 *      SINK        take everything
 *      SOURCE      send messages of `request` bytes until the connection closes
 *      UDP_SOURCE  send datagrams of `request` bytes to UDP port `response` of the peer until the connection closes
 *      COUNT       answer each byte with two big-endian 64-bit words: datagrams and bytes that reached the UDP sink
 *
 * Datagrams to the port itself come back as they are; those to the port above it are counted and forgotten. */
#pragma once
#include <netinet/in.h>
#include <stdint.h>

#define TRAFFIC_PORT  5210
#define TRAFFIC_MAGIC 0x76776265u /* "vwbe" */

enum traffic_mode { TRAFFIC_ECHO, TRAFFIC_SINK, TRAFFIC_SOURCE, TRAFFIC_UDP_SOURCE, TRAFFIC_COUNT };

struct traffic_hello {
        uint32_t magic, mode;
        uint32_t thread; /* of the server: connections of one number share one */
        uint32_t request, response;
};

#define TRAFFIC_MESSAGE_MAX 65536 /* bytes */
