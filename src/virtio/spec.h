/* The vocabulary of the virtio standard (1.3) and of the vhost-user protocol: numbers and layouts as they stand
 * in shared memory.  No state, no I/O. */
#pragma once
#include <assert.h>
#include <endian.h>
#include <stdint.h>

/* Shared memory is little-endian (2.4: VERSION_1); these read as what they are where they are used. */
#define cpu_to_le16 htole16
#define cpu_to_le32 htole32
#define cpu_to_le64 htole64
#define le16_to_cpu le16toh
#define le32_to_cpu le32toh
#define le64_to_cpu le64toh

/* ---- split virtqueue (2.7) ---- */
struct vring_desc {
        uint64_t addr; /* guest-physical */
        uint32_t len;
        uint16_t flags;
        uint16_t next;
};

struct vring_avail {
        uint16_t flags;
        uint16_t idx;
        uint16_t ring[]; /* then uint16_t used_event */
};

struct vring_used_elem {
        uint32_t id;
        uint32_t len;
};

struct vring_used {
        uint16_t flags;
        uint16_t idx;
        struct vring_used_elem ring[]; /* then uint16_t avail_event */
};

static_assert(sizeof(struct vring_desc) == 16, "2.7.5");
static_assert(sizeof(struct vring_used_elem) == 8, "2.7.8");

enum { VRING_DESC_F_NEXT = 1, VRING_DESC_F_WRITE = 2, VRING_DESC_F_INDIRECT = 4 };
enum { VRING_AVAIL_F_NO_INTERRUPT = 1 };
enum { VRING_USED_F_NO_NOTIFY = 1 };

/* ---- virtio-net (5.1) ---- */
struct virtio_net_hdr {
        uint8_t flags;
        uint8_t gso_type;
        uint16_t hdr_len;
        uint16_t gso_size;
        uint16_t csum_start;
        uint16_t csum_offset;
        uint16_t num_buffers; /* always there under VERSION_1; before it only with MRG_RXBUF */
};

static_assert(sizeof(struct virtio_net_hdr) == 12, "5.1.6");
#define NET_HDR_LEN_LEGACY 10 /* without num_buffers */

struct virtio_net_config {
        uint8_t mac[6];
        uint16_t status;
        uint16_t max_virtqueue_pairs;
        uint16_t mtu;
        uint32_t speed; /* Mbit/s; 0xffffffff unknown */
        uint8_t duplex; /* 0x01 full, as Linux has it (5.1.4 contradicts itself), 0x00 half, 0xff unknown */
        uint8_t rss_max_key_size;
        uint16_t rss_max_indirection_table_length;
        uint32_t supported_hash_types;
} __attribute__((packed));

static_assert(sizeof(struct virtio_net_config) == 24, "5.1.4");
enum { VIRTIO_NET_S_LINK_UP = 1, VIRTIO_NET_S_ANNOUNCE = 2 };
enum { VIRTIO_NET_MTU_MIN = 68, VIRTIO_NET_MTU_MAX = 65535 }; /* 5.1.4.1 */

/* Device status (2.1) */
enum {
        VIRTIO_STATUS_ACKNOWLEDGE = 1,
        VIRTIO_STATUS_DRIVER = 2,
        VIRTIO_STATUS_DRIVER_OK = 4,
        VIRTIO_STATUS_FEATURES_OK = 8,
        VIRTIO_STATUS_NEEDS_RESET = 64,
        VIRTIO_STATUS_FAILED = 128,
};

/* ---- control queue (5.1.6.5) ---- */
struct virtio_net_ctrl_hdr {
        uint8_t class_id;
        uint8_t command;
};

enum { VIRTIO_NET_OK = 0, VIRTIO_NET_ERR = 1 };
enum {
        VIRTIO_NET_CTRL_RX = 0,
        VIRTIO_NET_CTRL_MAC = 1,
        VIRTIO_NET_CTRL_VLAN = 2,
        VIRTIO_NET_CTRL_ANNOUNCE = 3,
        VIRTIO_NET_CTRL_MQ = 4,
        VIRTIO_NET_CTRL_GUEST_OFFLOADS = 5,
        VIRTIO_NET_CTRL_NOTF_COAL = 6,
};
enum {
        VIRTIO_NET_CTRL_RX_PROMISC = 0,
        VIRTIO_NET_CTRL_RX_ALLMULTI = 1,
        VIRTIO_NET_CTRL_RX_ALLUNI = 2,
        VIRTIO_NET_CTRL_RX_NOMULTI = 3,
        VIRTIO_NET_CTRL_RX_NOUNI = 4,
        VIRTIO_NET_CTRL_RX_NOBCAST = 5,
};
enum { VIRTIO_NET_CTRL_MAC_TABLE_SET = 0, VIRTIO_NET_CTRL_MAC_ADDR_SET = 1 };
enum { VIRTIO_NET_CTRL_VLAN_ADD = 0, VIRTIO_NET_CTRL_VLAN_DEL = 1 };
enum { VIRTIO_NET_CTRL_ANNOUNCE_ACK = 0 };
enum { VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET = 0 };
enum { VIRTIO_NET_CTRL_GUEST_OFFLOADS_SET = 0 };
enum {
        VIRTIO_NET_CTRL_NOTF_COAL_TX_SET = 0,
        VIRTIO_NET_CTRL_NOTF_COAL_RX_SET = 1,
        VIRTIO_NET_CTRL_NOTF_COAL_VQ_SET = 2,
        VIRTIO_NET_CTRL_NOTF_COAL_VQ_GET = 3,
};

struct virtio_net_ctrl_coal {
        uint32_t max_packets; /* packets first */
        uint32_t max_usecs;
};

struct virtio_net_ctrl_coal_vq {
        uint16_t vq_index;
        uint16_t reserved;
        struct virtio_net_ctrl_coal coal;
};

/* ---- vhost-user: the size that a memory slot table may have ---- */
#define VHOST_USER_REGIONS_MAX 509 /* CONFIGURE_MEM_SLOTS; a SET_MEM_TABLE holds at most 8 */
