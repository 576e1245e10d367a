/* The poll context of a pair (NAPI): one for both queues.
 *
 *      sleep -> interrupt -> interrupts off -> poll, poll, ... -> under budget -> interrupts on -> anything come meanwhile?
 *         ^                                      ^------------------------------------------------------- yes  |
 *         '------------------------------------------------------------------------------------------ no ------'
 *
 * A poll reaps tx without a budget and before rx is received, so that the refill may use what completions freed and a sender is
 * told early; then it receives up to its budget.  Asking for interrupts and looking once more (arm) closes the gap in
 * which work could arrive unseen.  All deadlines of the pair are data: the nearest is how long a sleep may last. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/driver.h"

/* orphaned packets without a later transmission are reaped by then */
#define ORPHAN_REAP  (10 * NSEC_PER_MSEC)
#define EVENTS_MAX   8                     /* of one sleep: five of ours, the rest the program's */
#define STORM_LENGTH 1000                  /* interrupts in a row that had nothing to say */
#define STORM_PAUSE  (100 * NSEC_PER_MSEC) /* how long a device that storms is only polled, */
#define STORM_TICK   (1 * NSEC_PER_MSEC)   /* and how often */

enum { EV_MAILBOX, EV_SEND, EV_TIMER, EV_RX_CALL, EV_TX_CALL, EV_PROGRAM };

static int watch(int epfd, int op, int fd, uint32_t events, uint32_t tag)
{
        struct epoll_event ev = { .events = events, .data.u32 = tag };

        return epoll_ctl(epfd, op, fd, &ev) < 0 ? -errno : 0;
}

int drv_napi_init(struct drv_pair *p)
{
        struct drv_napi *n = &p->napi;
        int r;

        n->epfd = epoll_create1(EPOLL_CLOEXEC);
        n->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (n->epfd < 0 || n->bell < 0)
                return -errno;
        r = timer_init(&n->timer);
        if (!r)
                r = watch(n->epfd, EPOLL_CTL_ADD, n->timer.fd, EPOLLIN | EPOLLET, EV_TIMER);
        if (!r)
                r = watch(n->epfd, EPOLL_CTL_ADD, p->mailbox.bell, EPOLLIN, EV_MAILBOX);
        return r ? r : watch(n->epfd, EPOLL_CTL_ADD, n->bell, EPOLLIN, EV_SEND);
}

void drv_napi_done(struct drv_pair *p)
{
        if (p->napi.epfd >= 0)
                close(p->napi.epfd);
        if (p->napi.bell >= 0)
                close(p->napi.bell);
        timer_done(&p->napi.timer);
}

/* The call fds of a new connection.  That of tx is quiet while the device signals that of rx for both. */
int drv_napi_start(struct drv_pair *p)
{
        struct drv_napi *n = &p->napi;
        int r = watch(n->epfd, EPOLL_CTL_ADD, p->rx_call, EPOLLIN, EV_RX_CALL);

        if (!r)
                r = watch(n->epfd, EPOLL_CTL_ADD, p->tx_call, EPOLLIN, EV_TX_CALL);
        n->armed = n->interrupted_rx = n->interrupted_tx = n->tx_due = false;
        n->storm_until = 0;
        n->spurious = 0;
        n->deaf = false;
        vq_driver_call_disable(&p->rx.vq); /* until somebody wants to sleep */
        vq_driver_call_disable(&p->tx.vq);
        return r;
}

void drv_napi_stop(struct drv_pair *p)
{
        epoll_ctl(p->napi.epfd, EPOLL_CTL_DEL, p->rx_call, NULL);
        epoll_ctl(p->napi.epfd, EPOLL_CTL_DEL, p->tx_call, NULL);
}

/* ---- poll ---- */

/* A device that takes nothing for watchdog_ms, although something is out, hangs: senders are told. */
static void watch_progress(struct drv_pair *p)
{
        struct drv_txq *q = &p->tx;
        uint64_t limit = p->drv->config.watchdog_ms * NSEC_PER_MSEC, now = p->napi.now;

        if (!q->inflight) {
                q->progress_at = NEVER;
        } else if (q->progress_at == NEVER || q->reaped != q->seen_reaped) {
                q->seen_reaped = q->reaped;
                q->progress_at = now;
        } else if (!q->hung && !q->vq.broken && now >= q->progress_at + limit) {
                q->hung = true;
                COUNT(q, watchdogs, 1);
                log_warn("driver", "the device completes nothing queue=%u outstanding=%u for_ms=%u", q->index,
                         q->inflight, p->drv->config.watchdog_ms);
        }
}

/* Whether this poll looks at the tx ring: always in napi mode with reaping from rx; else when completions are what it is about. */
static bool reaping_due(const struct drv_pair *p)
{
        const struct drv_txq *q = &p->tx;

        if (q->clean_from_rx || p->napi.tx_due || q->stopped || p->napi.now >= q->reap_at)
                return true;
        return q->mode == VW_TX_NAPI && !p->napi.armed;
}

/* Interrupts that had nothing to say cost a poll each; a device that sends nothing else is polled by the clock for a while. */
static void note_interrupts(struct drv_pair *p, bool worked)
{
        struct drv_napi *n = &p->napi;

        if (worked) {
                n->spurious = 0;
        } else if (n->interrupted_rx || n->interrupted_tx) {
                counter_add(&(n->interrupted_rx ? &p->rx.stat : &p->tx.stat)->c[VW_C_spurious_interrupts],
                            UINT64_C(1));
                if (++n->spurious >= STORM_LENGTH) {
                        n->spurious = 0;
                        n->storm_until = n->now + STORM_PAUSE;
                }
        }
        n->interrupted_rx = n->interrupted_tx = false;
}

int drv_napi_poll(struct drv_pair *p, unsigned budget, uint64_t now)
{
        struct drv_napi *n = &p->napi;
        bool timed = now >= p->tx.reap_at;
        unsigned reaped = 0;
        int received = 0;

        n->now = now;
        mailbox_serve(&p->mailbox);
        if (!p->up)
                return 0;
        n->in_poll = true;
        VW_TRACE(poll_start, p->index, budget, 0);
        COUNT(&p->rx, polls, 1);
        if (reaping_due(p))
                reaped = drv_tx_reap(p, n->tx_due || p->tx.stopped ? VW_C_reaped_by_poll : VW_C_reaped_by_rx);
        p->tx.overdue |= timed && !reaped && p->tx.inflight;
        n->tx_due = false;
        n->armed = false;
        drv_tx_wake(p);
        drv_send_drain(p);
        drv_send_wake(p);
        watch_progress(p);
        if (budget) {
                received = drv_rx_poll(p, budget);
                drv_rx_refill(p, budget);
        }
        n->worked |= reaped || received > 0;
        note_interrupts(p, reaped || received > 0);
        VW_TRACE(poll_end, p->index, reaped, received);
        n->in_poll = false;
        return received;
}

/* ---- sleep ---- */

/* In a storm the call fds are not listened to; the deadline of a tick takes their place. */
static void listen_to_calls(struct drv_pair *p, bool on)
{
        uint32_t events = on ? EPOLLIN : 0;

        watch(p->napi.epfd, EPOLL_CTL_MOD, p->rx_call, events, EV_RX_CALL);
        watch(p->napi.epfd, EPOLL_CTL_MOD, p->tx_call, events, EV_TX_CALL);
        p->napi.deaf = !on;
}

/* How long completions that nobody waits for may lie. */
static uint64_t reap_delay(const struct drv_pair *p)
{
        return p->tx.mode == VW_TX_ORPHAN ? ORPHAN_REAP : p->drv->config.tx_lazy_us * NSEC_PER_USEC;
}

/* Asks for interrupts and looks again.  True: there is work, interrupts do not matter, poll. */
bool drv_napi_arm(struct drv_pair *p, uint64_t now)
{
        struct drv_napi *n = &p->napi;
        struct drv_txq *tx = &p->tx;
        struct drv_rxq *rx = &p->rx;
        bool work = false;

        n->now = now;
        n->worked = false;
        __atomic_store_n(&n->asleep, 1, __ATOMIC_SEQ_CST);
        fence_full(); /* pairs with vw_driver_send(): it publishes, fences, and looks whether we sleep */
        if (p->up) {
                drv_tx_flush(p);
                watch_progress(p);
                if (unlikely(n->deaf != (now < n->storm_until)))
                        listen_to_calls(p, n->deaf);
                if (drv_tx_ready(p) && mpmc_pending(&tx->cells_full))
                        work = true;
                /* what the program did not take must go first; until it polls for that, rx is not asked for */
                if (rx->first == rx->n_pkts)
                        work |= drv_rx_pending(rx) || vq_driver_call_enable(&rx->vq);
                if (tx->inflight && !tx->vq.broken) {
                        if (drv_tx_completion_wanted(p)) {
                                n->tx_due |= tx->eager ? vq_driver_call_enable(&tx->vq)
                                                       : vq_driver_call_enable_delayed(&tx->vq);
                                work |= n->tx_due;
                        } else if (tx->reap_at == NEVER) {
                                tx->reap_at = now + reap_delay(p);
                        }
                }
        }
        work |= mailbox_pending(&p->mailbox);
        if (work) {
                drv_napi_disarm(p);
                return true;
        }
        if (p->up) {
                COUNT(rx, poll_rearms, 1);
                n->armed = true;
        }
        return false;
}

void drv_napi_disarm(struct drv_pair *p)
{
        store_relaxed(&p->napi.asleep, 0);
        if (!p->up)
                return;
        vq_driver_call_disable(&p->rx.vq);
        vq_driver_call_disable(&p->tx.vq);
}

/* When the pair wants to be polled although no interrupt came. */
uint64_t drv_napi_deadline(const struct drv_pair *p)
{
        const struct drv_txq *q = &p->tx;
        uint64_t at = NEVER;

        if (!p->up)
                return NEVER;
        if (q->inflight && !q->vq.broken) {
                if (!q->hung && q->progress_at != NEVER)
                        at = q->progress_at + p->drv->config.watchdog_ms * NSEC_PER_MSEC;
                at = MIN(at, q->reap_at);
        }
        if (p->napi.now < p->napi.storm_until)
                at = MIN(at, p->napi.now + STORM_TICK);
        if (p->rx.first == p->rx.n_pkts) /* else the program comes first */
                at = MIN(at, p->rx.refill_at);
        return at;
}

/* What woke us; returns VW_WAIT_*. */
static int note_event(struct drv_pair *p, const struct epoll_event *ev)
{
        struct drv_napi *n = &p->napi;

        switch (ev->data.u32) {
        case EV_RX_CALL:
                COUNT(&p->rx, interrupts, drv_read_bell(p->rx_call));
                VW_TRACE(interrupt, p->rx.index, 0, 0);
                n->interrupted_rx = true;
                n->tx_due |= n->shared_call;
                return VW_WAIT_QUEUE;
        case EV_TX_CALL:
                COUNT(&p->tx, interrupts, drv_read_bell(p->tx_call));
                VW_TRACE(interrupt, p->tx.index, 0, 0);
                n->interrupted_tx = n->tx_due = true;
                return VW_WAIT_QUEUE;
        case EV_SEND:
                drv_read_bell(n->bell);
                return VW_WAIT_QUEUE;
        case EV_TIMER:
                return VW_WAIT_TIMEOUT;
        case EV_MAILBOX:
                return VW_WAIT_QUEUE;
        default:
                return ev->events & (EPOLLERR | EPOLLHUP) ? VW_WAIT_FD | VW_WAIT_FD_ERROR : VW_WAIT_FD;
        }
}

/* Notes what has happened; if it may sleep, what happens next.  VW_WAIT_*; TIMEOUT: the timer has rung, for whatever deadline. */
static int collect(struct drv_pair *p, bool sleep)
{
        struct epoll_event ev[EVENTS_MAX];
        int n = epoll_wait(p->napi.epfd, ev, EVENTS_MAX, sleep ? -1 : 0), mask = 0;

        for (int i = 0; i < n; i++)
                mask |= note_event(p, &ev[i]);
        return mask;
}

/* Looks at the rings for up to poll_us before giving the CPU away, but only after work: an idle pair sleeps at once. */
static bool busy_poll(struct drv_pair *p, uint64_t *now)
{
        struct drv_napi *n = &p->napi;
        uint64_t begin = *now, until = begin + n->poll_us * NSEC_PER_USEC;
        bool found = false;

        if (!n->poll_us || !n->worked || !p->up)
                return false;
        n->worked = false;
        do {
                struct epoll_event ev;

                found = (p->rx.first == p->rx.n_pkts && drv_rx_pending(&p->rx)) ||
                        (p->tx.mode == VW_TX_NAPI && p->tx.inflight && vq_driver_used_pending(&p->tx.vq)) ||
                        mpmc_pending(&p->tx.cells_full) || epoll_wait(n->epfd, &ev, 1, 0) > 0;
                *now = clock_now();
        } while (!found && *now < until);
        COUNT(&p->rx, poll_ns, *now - begin);
        if (found)
                COUNT(&p->rx, poll_hits, 1);
        else
                COUNT(&p->rx, poll_misses, 1);
        return found;
}

static int napi_wait(struct drv_pair *p, uint64_t deadline)
{
        uint64_t now = clock_now();
        int mask;

        if (busy_poll(p, &now))
                return collect(p, false) | VW_WAIT_QUEUE;
        if (drv_napi_arm(p, now))
                return VW_WAIT_QUEUE;
        timer_set(&p->napi.timer, MIN(deadline, drv_napi_deadline(p)), now);
        mask = collect(p, deadline > now);
        drv_napi_disarm(p);
        mask &= ~VW_WAIT_TIMEOUT;
        if (mask)
                return mask;
        return clock_now() < deadline ? VW_WAIT_QUEUE : VW_WAIT_TIMEOUT;
}

/* ---- the owner's calls ---- */

VW_API int vw_driver_poll(struct vw_driver *drv, unsigned pair, unsigned budget)
{
        drv_claim(&drv->pairs[pair]);
        return drv_napi_poll(&drv->pairs[pair], budget, clock_now());
}

VW_API int vw_driver_wait(struct vw_driver *drv, unsigned pair, uint64_t deadline)
{
        drv_claim(&drv->pairs[pair]);
        return napi_wait(&drv->pairs[pair], deadline);
}

VW_API bool vw_driver_arm(struct vw_driver *drv, unsigned pair)
{
        struct drv_pair *p = &drv->pairs[pair];

        uint64_t now = clock_now();

        drv_claim(p);
        if (drv_napi_arm(p, now))
                return true;
        timer_set(&p->napi.timer, drv_napi_deadline(p), now);
        return false;
}

VW_API int vw_driver_poll_fd(const struct vw_driver *drv, unsigned pair)
{
        return drv->pairs[pair].napi.epfd;
}

VW_API int vw_driver_woken(struct vw_driver *drv, unsigned pair)
{
        int mask = collect(&drv->pairs[pair], false);

        drv_napi_disarm(&drv->pairs[pair]);
        return mask & ~VW_WAIT_TIMEOUT;
}

VW_API int vw_driver_watch(struct vw_driver *drv, unsigned pair, int fd, uint32_t events)
{
        int epfd = drv->pairs[pair].napi.epfd, r;

        if (!events)
                return epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL) < 0 ? -errno : 0;
        r = watch(epfd, EPOLL_CTL_MOD, fd, events, EV_PROGRAM);
        return r == -ENOENT ? watch(epfd, EPOLL_CTL_ADD, fd, events, EV_PROGRAM) : r;
}
