// SPDX-License-Identifier: MIT
//
// How a lock in Redis goes from hand to hand: klock-protocol(7), exclusive holds. check.py looks at all that can happen to
// three processes that want one lock again and again, with FAULTS faults at any point, and proves
//   exclusion          two commands never run at once (the assertion);
//   no deadlock        there is no state in which somebody waits and nothing goes on (invalid end states);
//   no lost wake-up    whoever waits gets the lock, if he does not crash or give up (the formula `served`, weak fairness).
// With -DMUTATION it leaves out one thing that the protocol needs; check.py knows what must fail then.
//
// A d_step, or the atomic with acquire(), is one script of src/store/redis/scripts, since the server runs one at a time.
// Between two steps a process may be slow, or frozen, for as long as it likes. The faults:
//   crash    of a process, whose guard goes on, or of its host; the server may not notice that, nor a freeze for ever
//   late     a grant or a lease ends, and then its process goes on
//   cut      a connection breaks: what was sent over it is lost; whoever waits connects and asks again
//   leave    a waiter gives up; whoever leaves can't tell the server
//
// Left out, and why it may be:
//   Time. A lease lasts while its command runs, since the guard's deadline is counted from before the request was sent and
//   the server's end from after it, and a process looks at its deadline before it starts the command. Both are assumptions
//   here (NO_GUARD and NO_DEADLINE show what they are worth); other tests look after them.
//   The net. A waiter also looks again when the lease that it saw last would have ended, however it did end. The model
//   has that only for leases and grants that did expire: so nobody needs it after a release. (With one process more the
//   third waiter does, when both before it die within the life of one grant.)
//   A process comes again when nothing of its last run is left: tokens are never used twice.
//   Readers, slots, cooldown, forced release, other programs, and a server that forgets.

#ifndef FAULTS
#define FAULTS 2
#endif
#define N 3
#define NOBODY N

// The server: whose token is at K, and whether as a grant. The queue in the order of its numbers; whoever has a grant keeps
// his number, but stands in the queue no more.
byte owner = NOBODY;
bool is_grant;
byte order[N];
byte numbered;
bool queued[N];
bool listens[N];  // has a subscribed connection

// A waiter sleeps without a timer, or with one for what is at K now; that has ended; or a message says that he has a grant.
#define AWAKE 0
#define ASLEEP 1
#define TIMER 2
#define DUE 3
#define GRANTED 4
byte wake[N];

bool running[N];  // the command
bool absent[N];   // nothing more will be heard from it
bool crashed[N];  // its guard does not know yet
bool waits;       // the first process
byte faults = FAULTS;

byte i, j;  // within a step, 0 between two

#define FIND(p) \
  do \
  :: i < numbered && order[i] != p -> i++ \
  :: else -> break \
  od

inline leave_queue(p) {
  queued[p] = false;
  FIND(p);
  if
  :: i < numbered ->
     numbered--;
     do
     :: i < numbered -> order[i] = order[i + 1]; i++
     :: else -> order[i] = 0; break
     od
  :: else
  fi;
  i = 0
}

inline enqueue(p) {
  FIND(p);
  if
  :: i == numbered -> order[i] = p; numbered++
  :: else
  fi;
  queued[p] = true;
  i = 0
}

// What is at K ends: by itself (`expired`), so that timers for it do their work, or not.
inline retime(expired) {
  do
  :: i < N ->
     if
     :: wake[i] == TIMER -> wake[i] = (expired -> DUE : ASLEEP)
     :: else
     fi;
     i++
  :: else -> i = 0; break
  od
}

#define SKIP_DEAF(me) \
  do \
  :: j < numbered && order[j] != me && !(queued[order[j]] && listens[order[j]]) -> j++ \
  :: else -> break \
  od

// hand_over() of common.lua, for a free K: the first in the queue who still has his connection gets a grant, and the next
// one learns when that ends. Only those in front of `me`, who takes the lock himself if there is none (NOBODY: all).
inline hand_over(me) {
  SKIP_DEAF(me);
  if
  :: j < numbered && order[j] != me ->
     owner = order[j];
     is_grant = true;
     queued[owner] = false;
     wake[owner] = GRANTED;
#ifndef NO_NEXT
     SKIP_DEAF(NOBODY);
     if
     :: j < numbered -> wake[order[j]] = TIMER
     :: else
     fi
#endif
  :: else
  fi;
  j = 0
}

// acquire.lua, which also claims a grant; and in the same transaction the subscription.
inline acquire(me) {
  if
  :: owner == NOBODY -> hand_over(me)
  :: else
  fi;
  if
  :: owner == NOBODY || owner == me ->
     if
     :: owner == me -> retime(true)  // the lease is another one now, but nobody tells those who have a timer
     :: else
     fi;
     owner = me;
     is_grant = false;
     leave_queue(me)
  :: else ->
     enqueue(me);
     wake[me] = TIMER;
#ifndef SUBSCRIBE_LATER
     listens[me] = true
#endif
  fi
}

// release.lua: the end of a hold, a grant or a place in the queue.
inline release(me) {
  leave_queue(me);
  if
#ifdef NO_COMPARE
  :: true ->
#else
  :: owner == me || owner == NOBODY ->
#endif
     retime(false);
     owner = NOBODY;
     is_grant = false;
#ifndef NO_GRANT
     hand_over(NOBODY)
#endif
  :: else
  fi
}

#define SERVED if :: me == 0 -> waits = false :: else fi

proctype Klock(byte me) {
  do
  :: break  // it never comes again
  :: true ->
     {
       if
       :: me == 0 -> waits = true
       :: else
       fi;
ask:   // UNSUBSCRIBE is in front in the same write, which the server reads at once. If it does not, that is like a cut; if it
       // never did, whoever came in between each time would be served first, for ever.
       atomic { listens[me] = false; wake[me] = AWAKE; acquire(me) };
#ifdef SUBSCRIBE_LATER
       listens[me] = (wake[me] != AWAKE);
#endif
       if
       :: atomic { faults > 0 -> faults--; listens[me] = false; wake[me] = AWAKE; goto ask }  // cut
       :: wake[me] == AWAKE -> goto start  // the answer was `held`
#ifdef NO_CLAIM
       :: wake[me] == GRANTED -> goto start
#else
       :: wake[me] == GRANTED -> goto ask
#endif
       :: wake[me] == DUE -> goto ask
       :: atomic { faults > 0 -> faults--; goto leave }
       fi;
start: // Who has not claimed knows no deadline.
       if
       :: d_step {
#if !defined(NO_DEADLINE) && !defined(NO_CLAIM)
            owner == me && !is_grant ->
#endif
            assert(!running[0] && !running[1] && !running[2]);
            running[me] = true;
            SERVED
          }
#if !defined(NO_DEADLINE) && !defined(NO_CLAIM)
       :: atomic { owner != me -> goto ask }
#endif
       fi;
       running[me] = false;  // it has ended, or the guard has stopped it at the deadline
leave: if
       :: d_step { SERVED; release(me) }
       :: d_step { faults > 0 -> faults--; SERVED; absent[me] = true }
       fi
     } unless {
       crashed[me];
       // The guard stops the command, and then releases, if it is still there and so is the server.
       d_step { SERVED; running[me] = false };
       if
       :: d_step { !listens[me] -> release(me) }
       :: true
       fi;
       absent[me] = true
     };
     // Until nothing of it is left.
     d_step {
       owner != me && !queued[me] ->
       leave_queue(me);
       listens[me] = false;
       wake[me] = AWAKE;
       absent[me] = false;
       crashed[me] = false
     }
  od
}

// What ends by itself on the server: a grant, a lease that nobody renews, the entry of a waiter that is gone.
proctype Clock() {
end:
  do
  :: d_step {
       (owner != NOBODY
#ifndef NO_GUARD
        && !running[owner]
#endif
#ifdef NO_GRANT_EXPIRY
        && !is_grant
#endif
        && (absent[owner] || faults > 0)) ->
       faults = (absent[owner] -> faults : faults - 1);
       retime(true);
       owner = NOBODY;
       is_grant = false
     }
  :: d_step { absent[0] && queued[0] -> leave_queue(0) }
  :: d_step { absent[1] && queued[1] -> leave_queue(1) }
  :: d_step { absent[2] && queued[2] -> leave_queue(2) }
  od
}

inline crash(p) {
  atomic {
    faults > 0 && !absent[p] && !crashed[p] ->
    faults--;
    crashed[p] = true;
    if
    :: d_step { listens[p] -> listens[p] = false; wake[p] = AWAKE }
    :: true
    fi
  }
}

proctype Fate() {
end:
  do
  :: crash(0)
  :: crash(1)
  :: crash(2)
  od
}

init {
  atomic {
    run Klock(0);
    run Klock(1);
    run Klock(2);
    run Clock();
    run Fate()
  }
}

ltl served { [] (waits -> <> !waits) }
