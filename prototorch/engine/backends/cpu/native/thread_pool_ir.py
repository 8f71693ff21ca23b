"""The native code of the thread team, as LLVM assembly. What it does is told in `team.py`.

The team's memory is a row of 64-bit words, each on a line of 128 bytes of its own (word 16 * i):
0 ticket, 1 pieces done, 2 the record, 3 sleepers, 4 quit, 5 local scratch, 6 its bytes a thread, 7 mutex, 8 condition.

A ticket's upper half is the record's number; its lower half counts the pieces that were taken from the front (lower 16
bits) and from the back. Threads of an even number take from the front, the others from the back: so a thread gets about
the same pieces of each record, and finds what it wrote in the record before, and what it read in the run before, in its
own caches.

Workers read the team's copy of a record, never the record itself: one that was asleep may look when the program is
long over and its memory gone. The copy is written while the ticket is closed (its lower half all ones), and a ticket's
number is never used for two records, so that a worker that read a mixture of two records cannot take a piece.
"""

from __future__ import annotations

import platform

RECORD = 7  # words of a record: code, arguments, end of the items, items of a piece, pieces, shared scratch, first item
SHARED = 5  # the word with the address of the shared scratch memory
MAX_PIECES = 65535  # of a record: what half a ticket's lower half can count
TICKET, DONE, COPY, SLEEPERS, QUIT, LOCAL, STRIDE, MUTEX, CONDITION = (i * 16 for i in range(9))
WORDS = 10 * 16
SPINS = 4000  # of a worker before it sleeps: some hundred microseconds

_TEXT = """
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
{declare_pause}

; Do pieces of the record with this number until none is left.
define internal void @pieces(ptr %team, i64 %me, i64 %number) {{
entry:
  %copy = getelementptr i64, ptr %team, i64 {COPY}
  %code = load atomic ptr, ptr %copy acquire, align 8
  %p1 = getelementptr i64, ptr %copy, i64 1
  %arguments = load atomic ptr, ptr %p1 acquire, align 8
  %p2 = getelementptr i64, ptr %copy, i64 2
  %items = load atomic i64, ptr %p2 acquire, align 8
  %p3 = getelementptr i64, ptr %copy, i64 3
  %grain = load atomic i64, ptr %p3 acquire, align 8
  %p4 = getelementptr i64, ptr %copy, i64 4
  %count = load atomic i64, ptr %p4 acquire, align 8
  %p5 = getelementptr i64, ptr %copy, i64 5
  %shared = load atomic ptr, ptr %p5 acquire, align 8
  %p6 = getelementptr i64, ptr %copy, i64 6
  %begin = load atomic i64, ptr %p6 acquire, align 8
  %odd = and i64 %me, 1
  %behind = icmp ne i64 %odd, 0
  %step = select i1 %behind, i64 65536, i64 1
  %final = sub i64 %count, 1
  %done = getelementptr i64, ptr %team, i64 {DONE}
  %pl = getelementptr i64, ptr %team, i64 {LOCAL}
  %base = load atomic ptr, ptr %pl acquire, align 8
  %ps = getelementptr i64, ptr %team, i64 {STRIDE}
  %stride = load atomic i64, ptr %ps acquire, align 8
  %offset = mul i64 %me, %stride
  %local = getelementptr i8, ptr %base, i64 %offset
  br label %look
look:
  %ticket = load atomic i64, ptr %team seq_cst, align 8
  %of = lshr i64 %ticket, 32
  %same = icmp eq i64 %of, %number
  br i1 %same, label %have, label %out
have:
  %front = and i64 %ticket, 65535
  %low = and i64 %ticket, 4294967295
  %back = lshr i64 %low, 16
  %taken = add i64 %front, %back
  %left = icmp ult i64 %taken, %count
  br i1 %left, label %take, label %out
take:
  %next = add i64 %ticket, %step
  %swap = cmpxchg ptr %team, i64 %ticket, i64 %next seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %won, label %work, label %look
work:
  %from = sub i64 %final, %back
  %piece = select i1 %behind, i64 %from, i64 %front
  %away = mul i64 %piece, %grain
  %first = add i64 %begin, %away
  %end = add i64 %first, %grain
  %short = icmp slt i64 %end, %items
  %last = select i1 %short, i64 %end, i64 %items
  call void %code(ptr %arguments, i64 %first, i64 %last, ptr %local, ptr %shared)
  %old = atomicrmw add ptr %done, i64 1 seq_cst
  br label %look
out:
  ret void
}}

; A worker: waits for records, does pieces, ends when told to.
define void @worker(ptr %team, i64 %me) {{
entry:
  %sleepers = getelementptr i64, ptr %team, i64 {SLEEPERS}
  %quit = getelementptr i64, ptr %team, i64 {QUIT}
  %mutex = getelementptr i64, ptr %team, i64 {MUTEX}
  %condition = getelementptr i64, ptr %team, i64 {CONDITION}
  br label %begin
begin:
  %seen = phi i64 [ 0, %entry ], [ %number, %work ]
  br label %spin
spin:
  %turn = phi i64 [ 0, %begin ], [ %turned, %again ], [ 0, %woken ]
  %ticket = load atomic i64, ptr %team seq_cst, align 8
  %number = lshr i64 %ticket, 32
  %fresh = icmp ne i64 %number, %seen
  br i1 %fresh, label %work, label %idle
idle:
  %stop = load atomic i64, ptr %quit seq_cst, align 8
  %over = icmp ne i64 %stop, 0
  br i1 %over, label %out, label %waiting
waiting:
  {pause}
  %turned = add i64 %turn, 1
  %tired = icmp ugt i64 %turned, {SPINS}
  br i1 %tired, label %sleep, label %again
again:
  br label %spin
sleep:
  %r1 = call i32 @pthread_mutex_lock(ptr %mutex)
  %s1 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %dream
dream:
  %ticket2 = load atomic i64, ptr %team seq_cst, align 8
  %number2 = lshr i64 %ticket2, 32
  %fresh2 = icmp ne i64 %number2, %seen
  %stop2 = load atomic i64, ptr %quit seq_cst, align 8
  %over2 = icmp ne i64 %stop2, 0
  %up = or i1 %fresh2, %over2
  br i1 %up, label %woken, label %deeper
deeper:
  %r2 = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %dream
woken:
  %s2 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  %r3 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %spin
work:
  call void @pieces(ptr %team, i64 %me, i64 %number)
  br label %begin
out:
  ret void
}}

define internal void @wake(ptr %team) {{
entry:
  %sleepers = getelementptr i64, ptr %team, i64 {SLEEPERS}
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  br i1 %any, label %call, label %out
call:
  %mutex = getelementptr i64, ptr %team, i64 {MUTEX}
  %condition = getelementptr i64, ptr %team, i64 {CONDITION}
  %r1 = call i32 @pthread_mutex_lock(ptr %mutex)
  %r2 = call i32 @pthread_cond_broadcast(ptr %condition)
  %r3 = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %out
out:
  ret void
}}

; Tell the workers to end.
define void @dismiss(ptr %team) {{
entry:
  %quit = getelementptr i64, ptr %team, i64 {QUIT}
  store atomic i64 1, ptr %quit seq_cst, align 8
  call void @wake(ptr %team)
  ret void
}}

; Run records in order; %threads 1 does all pieces here.
define void @run(ptr %team, ptr %records, i64 %count, i64 %threads) {{
entry:
  %done = getelementptr i64, ptr %team, i64 {DONE}
  %copy = getelementptr i64, ptr %team, i64 {COPY}
  %pl = getelementptr i64, ptr %team, i64 {LOCAL}
  %local = load ptr, ptr %pl
  %alone = icmp sle i64 %threads, 1
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %out
one:
  %at = mul i64 %i, {RECORD}
  %record = getelementptr i64, ptr %records, i64 %at
  %p4 = getelementptr i64, ptr %record, i64 4
  %pieces = load i64, ptr %p4
  %single = icmp sle i64 %pieces, 1
  %here = or i1 %single, %alone
  br i1 %here, label %serial, label %together
serial:
  %code = load ptr, ptr %record
  %p1 = getelementptr i64, ptr %record, i64 1
  %arguments = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %record, i64 2
  %items = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %record, i64 3
  %grain = load i64, ptr %p3
  %p5 = getelementptr i64, ptr %record, i64 5
  %shared = load ptr, ptr %p5
  %p6 = getelementptr i64, ptr %record, i64 6
  %begin = load i64, ptr %p6
  br label %shead
shead:
  %first = phi i64 [ %begin, %serial ], [ %end, %sbody ]
  %some = icmp slt i64 %first, %items
  br i1 %some, label %sbody, label %next
sbody:
  %end = add i64 %first, %grain
  %short = icmp slt i64 %end, %items
  %last = select i1 %short, i64 %end, i64 %items
  call void %code(ptr %arguments, i64 %first, i64 %last, ptr %local, ptr %shared)
  br label %shead
together:
  %ticket = load atomic i64, ptr %team seq_cst, align 8
  %old = lshr i64 %ticket, 32
  %between = add i64 %old, 1
  %high = shl i64 %between, 32
  %closed = or i64 %high, 4294967295
  store atomic i64 %closed, ptr %team seq_cst, align 8
  store atomic i64 0, ptr %done seq_cst, align 8
  br label %copying
copying:
  %w = phi i64 [ 0, %together ], [ %w1, %copying ]
  %source = getelementptr i64, ptr %record, i64 %w
  %target = getelementptr i64, ptr %copy, i64 %w
  %word = load i64, ptr %source
  store atomic i64 %word, ptr %target release, align 8
  %w1 = add i64 %w, 1
  %whole = icmp eq i64 %w1, {RECORD}
  br i1 %whole, label %open, label %copying
open:
  %new = add i64 %between, 1
  %number = and i64 %new, 4294967295
  %fresh = shl i64 %number, 32
  store atomic i64 %fresh, ptr %team seq_cst, align 8
  call void @wake(ptr %team)
  call void @pieces(ptr %team, i64 0, i64 %number)
  br label %wait
wait:
  %turn = phi i64 [ 0, %open ], [ %turned, %waiting ], [ 0, %give ]
  %got = load atomic i64, ptr %done seq_cst, align 8
  %all = icmp uge i64 %got, %pieces
  br i1 %all, label %next, label %hold
hold:
  {pause}
  %turned = add i64 %turn, 1
  %long = icmp ugt i64 %turned, {SPINS}
  br i1 %long, label %give, label %waiting
waiting:
  br label %wait
give:
  %ry = call i32 @sched_yield()
  br label %wait
next:
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}}
"""


def thread_pool_ir() -> str:
    """The assembly for this machine."""
    pause = {"x86_64": "llvm.x86.sse2.pause", "amd64": "llvm.x86.sse2.pause"}.get(platform.machine().lower())
    return _TEXT.format(
        RECORD=RECORD,
        DONE=DONE,
        COPY=COPY,
        SLEEPERS=SLEEPERS,
        QUIT=QUIT,
        LOCAL=LOCAL,
        STRIDE=STRIDE,
        MUTEX=MUTEX,
        CONDITION=CONDITION,
        SPINS=SPINS,
        pause=f"call void @{pause}()" if pause else "",
        declare_pause=f"declare void @{pause}()" if pause else "",
    )
