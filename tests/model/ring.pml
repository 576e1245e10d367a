/* The split ring's publish, suppress, sleep and re-arm, both ends, on a machine with store buffers (TSO, as x86 is).
 *
 * Checked in the whole state space: no state in which both ends sleep (or one sleeps and the other has nothing to do) while
 * there is work, which spin reports as an invalid end state; and nobody reads an entry before it was written (the
 * assertions).  The names are those of src/ring/split_driver.c and split_device.c.
 *
 *      -DEVENT_IDX     suppression by event index, else by flag
 *      -DRESTARTS=n    the device half is stopped and started again n times, at any burst's edge
 *      -DNO_x          leaves one thing out; each must make the model fail:
 *              A_DRIVER, B_DEVICE      the release: the index is stored before the entry
 *              A_DEVICE, B_DRIVER      the acquire: the entry is loaded before the index
 *              C_DRIVER, C_DEVICE, D_DEVICE, D_DRIVER  the full fence between a store and the look
 *              C_LOOK, D_LOOK          the second look after asking to be woken
 *
 * A ring of two entries.  Indices count modulo four, as the real ones do modulo 2^16: more than the ring holds, so that a full one
 * and an empty one differ.  What may happen at any time, may happen here: bursts of any length, a notification held
 * back (coalescing), delayed requests, spurious wake-ups. */

#define SIZE  2
#define MOD   4
#define DEPTH 5 /* stores that a buffer can hold back: an entry, an index, a wish, and then some */

#define ADD(a, b) (((a) + (b)) % MOD)
#define SUB(a, b) (((a) + MOD - (b)) % MOD)

/* ---- memory with store buffers ---- */

#define AVAIL_IDX   0
#define KICK_HINT   1 /* avail_event, or used->flags */
#define USED_IDX    2
#define CALL_HINT   3 /* used_event, or avail->flags */
#define AVAIL_ENTRY 4 /* SIZE of them */
#define USED_ENTRY  6

byte memory[8];

#define DRIVER 0
#define DEVICE 1

typedef buffer {
	byte n;
	byte at[DEPTH];
	byte value[DEPTH];
};
buffer pending[2];

/* Blocks while the buffer is full. */
inline store(who, where, what)
{
	atomic {
		pending[who].n < DEPTH;
		pending[who].at[pending[who].n] = where;
		pending[who].value[pending[who].n] = what;
		pending[who].n++;
	}
}

/* A thread sees its own latest store. */
inline load(who, where, to)
{
	atomic {
		to = memory[where];
		k = 0;
		do
		:: k < pending[who].n ->
			if
			:: pending[who].at[k] == where -> to = pending[who].value[k]
			:: else
			fi;
			k++
		:: else -> break
		od;
		k = 0
	}
}

#define fence(who) pending[who].n == 0

/* The oldest store reaches memory at some time. */
proctype drain(byte who)
{
	byte k;
end:
	do
	:: atomic {
		pending[who].n > 0;
		memory[pending[who].at[0]] = pending[who].value[0];
		k = 1;
		do
		:: k < pending[who].n ->
			pending[who].at[k - 1] = pending[who].at[k];
			pending[who].value[k - 1] = pending[who].value[k];
			k++
		:: else -> break
		od;
		pending[who].n--;
		pending[who].at[pending[who].n] = 0;
		pending[who].value[pending[who].n] = 0;
		k = 0
	}
	od
}

/* ---- the eventfds ---- */
bool kick, call;

#ifndef RESTARTS
#define RESTARTS 0
#endif
byte restarts = RESTARTS;

/* What the entry with index i says; never what its place says otherwise. */
#define TOKEN(i) ((i) + 1)

/* event_wants(): `since` entries up to `new` were published since the last look. */
#define WANTS(event, new, since) (since >= MOD || SUB(SUB(new, event), 1) < since)

#define DISABLED 1

active proctype driver()
{
	byte avail, since, last_used; /* since: entries since the last look at the hint */
	byte call_event;
	byte hint, used, entry, later, k;

	run drain(DRIVER);
	do
	:: SUB(avail, last_used) < SIZE -> /* add and publish */
#ifdef NO_A_DRIVER
		store(DRIVER, AVAIL_IDX, ADD(avail, 1));
		store(DRIVER, AVAIL_ENTRY + avail % SIZE, TOKEN(avail));
#else
		store(DRIVER, AVAIL_ENTRY + avail % SIZE, TOKEN(avail));
		store(DRIVER, AVAIL_IDX, ADD(avail, 1)); /* pair A */
#endif
		avail = ADD(avail, 1);
		since = (since < MOD -> since + 1 : MOD)
	:: since > 0 -> /* kick_needed */
#ifndef NO_C_DRIVER
		fence(DRIVER); /* pair C */
#endif
		load(DRIVER, KICK_HINT, hint);
		if
#ifdef EVENT_IDX
		:: WANTS(hint, avail, since) -> kick = true
#else
		:: hint != DISABLED -> kick = true
#endif
		:: else
		fi;
		hint = 0;
		since = 0
	:: /* reap */
#ifdef NO_B_DRIVER
		load(DRIVER, USED_ENTRY + last_used % SIZE, entry);
		load(DRIVER, USED_IDX, used);
#else
		load(DRIVER, USED_IDX, used); /* pair B */
		load(DRIVER, USED_ENTRY + last_used % SIZE, entry);
#endif
		if
		:: used != last_used ->
			assert(entry == TOKEN(last_used));
			last_used = ADD(last_used, 1)
		:: else
		fi;
		entry = 0;
		used = 0
	:: avail != last_used && since == 0 -> /* nothing more to do before something comes back */
		later = 0;
		if
		:: skip
		:: later = (SUB(avail, last_used) * 3) / 4
		fi;
#ifdef EVENT_IDX
		if /* ask(): not earlier than was asked before, while that entry is out */
		:: SUB(call_event, last_used) >= SUB(avail, last_used) || later > SUB(call_event, last_used) ->
			call_event = ADD(last_used, later);
			store(DRIVER, CALL_HINT, call_event)
		:: else
		fi;
#else
		store(DRIVER, CALL_HINT, 0);
#endif
#ifndef NO_D_DRIVER
		fence(DRIVER); /* pair D */
#endif
#ifndef NO_D_LOOK
		load(DRIVER, USED_IDX, used);
		if
		:: SUB(used, last_used) > later -> used = 0; later = 0; goto awake
		:: else -> used = 0
		fi;
#endif
		later = 0;
		atomic { call; call = false };
awake:
#ifdef EVENT_IDX
		skip
#else
		if
		:: store(DRIVER, CALL_HINT, DISABLED)
		:: skip
		fi
#endif
	od
}

active proctype device()
{
	byte last_avail, used, since;
	byte hint, avail, entry, k;

	run drain(DEVICE);
	do
	:: /* pop */
#ifdef NO_A_DEVICE
		load(DEVICE, AVAIL_ENTRY + last_avail % SIZE, entry);
		load(DEVICE, AVAIL_IDX, avail);
#else
		load(DEVICE, AVAIL_IDX, avail); /* pair A */
		load(DEVICE, AVAIL_ENTRY + last_avail % SIZE, entry);
#endif
		if
		:: avail != last_avail ->
			assert(entry == TOKEN(last_avail));
			last_avail = ADD(last_avail, 1)
		:: else
		fi;
		entry = 0;
		avail = 0
	:: used != last_avail -> /* push and publish */
#ifdef NO_B_DEVICE
		store(DEVICE, USED_IDX, ADD(used, 1));
		store(DEVICE, USED_ENTRY + used % SIZE, TOKEN(used));
#else
		store(DEVICE, USED_ENTRY + used % SIZE, TOKEN(used));
		store(DEVICE, USED_IDX, ADD(used, 1)); /* pair B */
#endif
		used = ADD(used, 1);
		since = (since < MOD -> since + 1 : MOD)
	:: since > 0 -> /* call_needed */
#ifndef NO_D_DEVICE
		fence(DEVICE); /* pair D */
#endif
		load(DEVICE, CALL_HINT, hint);
		if
#ifdef EVENT_IDX
		:: WANTS(hint, used, since) -> call = true
#else
		:: hint != DISABLED -> call = true
#endif
		:: else
		fi;
		hint = 0;
		since = 0
	:: restarts > 0 && used == last_avail -> /* from the same base; starting looks at the ring and rings the call once */
restart:
		restarts--;
		since = 0;
#ifdef EVENT_IDX
		store(DEVICE, KICK_HINT, last_avail);
#else
		store(DEVICE, KICK_HINT, 0);
#endif
		fence(DEVICE); /* by the messages that stop and start it */
		call = true
	:: used == last_avail && since == 0 -> /* kick_enable, when all is done and told */
#ifdef EVENT_IDX
		store(DEVICE, KICK_HINT, last_avail);
#else
		store(DEVICE, KICK_HINT, 0);
#endif
#ifndef NO_C_DEVICE
		fence(DEVICE); /* pair C */
#endif
#ifndef NO_C_LOOK
		load(DEVICE, AVAIL_IDX, avail);
		if
		:: avail != last_avail -> avail = 0; goto awake
		:: else -> avail = 0
		fi;
#endif
		if
		:: atomic { kick; kick = false }
		:: restarts > 0 -> goto restart
		fi;
awake:
#ifdef EVENT_IDX
		skip
#else
		if
		:: store(DEVICE, KICK_HINT, DISABLED)
		:: skip
		fi
#endif
	od
}
