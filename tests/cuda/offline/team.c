// Plays the threads of a kernel, each on a thread of its own and one at a time: which goes on is drawn wherever one of them
// meets the others of its block or ends. This file is never translated for a sanitizer, and what hands the turn on is
// invisible to one: all that the thread sanitizer knows of the order of two threads is that they met.
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void __tsan_acquire(void*) __attribute__((weak));
extern void __tsan_release(void*) __attribute__((weak));

typedef void (*kernel)(void** given);
typedef void (*setter)(unsigned, unsigned, unsigned, unsigned, void (*)(int), void (*)(int, unsigned, const char*));
enum state { READY, MEETS, LEFT };

struct team;
struct block {
    kernel play;
    setter set;
    unsigned number, meeting, left, round;
    char order[2];  // where the sanitizer is told of a meeting: one in use, one for those who are not yet back
    char warp_order[32][2];  // the same for each warp
    unsigned warp_round[32];
};
struct member {
    struct team* team;
    struct block* block;
    pthread_t self;
    unsigned number;
    enum state state;
    int line, turn;
    unsigned mask;  // of the lanes that it waits for; 0: for its whole block
};
struct team {
    struct member* members;
    unsigned count, threads, blocks;
    unsigned long long drawn;
    void** given;
    char* wrong;
};
static __thread struct member* own;

static void nobody(int line) { abort(); }
static void no_lane(int line, unsigned mask, const char* wrong) { abort(); }

// Give the turn to one of those who can go on; whether that is the caller himself.
static int passed(struct team* team, struct member* from) {
    unsigned ready = 0;
    for (unsigned i = 0; i < team->count; i++) ready += team->members[i].state == READY;
    if (!ready) {  // all have left, or they wait for each other at barriers of a block and of a warp: let them go on
        for (unsigned i = 0; i < team->count; i++) {
            struct member* m = &team->members[i];
            if (m->state != MEETS) continue;
            if (!*team->wrong)
                sprintf(team->wrong, "a thread waits in line %d for threads of its %s that wait elsewhere", m->line,
                        m->mask ? "warp" : "block");
            if (!m->mask) m->block->meeting--;
            m->state = READY;
            ready++;
        }
        if (!ready) return 0;
    }
    team->drawn = team->drawn * 6364136223846793005ull + 1442695040888963407ull;
    unsigned skip = (team->drawn >> 33) % ready;
    struct member* to = team->members;
    while (to->state != READY || skip--) to++;
    if (to == from) return 1;
    __atomic_store_n(&to->turn, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &to->turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    return 0;
}
static void wait_for_turn(struct member* m) {
    while (!__atomic_load_n(&m->turn, __ATOMIC_ACQUIRE)) syscall(SYS_futex, &m->turn, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    m->turn = 0;
}

// Where all threads of a block that have not left are at a barrier, let them go on; it must be one barrier for all.
static void settle(struct team* team, struct block* block) {
    if (!block->meeting || block->meeting + block->left < team->threads) return;
    int line = 0;
    for (unsigned i = 0; i < team->count; i++) {
        struct member* m = &team->members[i];
        if (m->block != block || m->state != MEETS || m->mask) continue;
        if (line && line != m->line && !*team->wrong)
            sprintf(team->wrong, "threads of a block wait at different barriers, in lines %d and %d", line, m->line);
        line = m->line;
        m->state = READY;
    }
    if (block->left && !*team->wrong)
        sprintf(team->wrong, "%u threads of a block end while others wait at the barrier in line %d", block->left, line);
    block->meeting = 0;
    block->round++;
}

static void meet(int line) {
    struct member* m = own;
    struct block* block = m->block;
    char* order = &block->order[block->round & 1];
    if (__tsan_release) __tsan_release(order);
    m->line = line;
    m->state = MEETS;
    block->meeting++;
    settle(m->team, block);
    if (!passed(m->team, m)) wait_for_turn(m);
    if (__tsan_acquire) __tsan_acquire(order);
}

// Where all lanes of a warp that a mask names, and that have not left, are at one shuffle with this mask, let them go on.
static void settle_warp(struct team* team, struct member* one) {
    struct member* first = one - one->number % 32;
    unsigned lanes = team->threads - first->number < 32 ? team->threads - first->number : 32;
    for (unsigned k = 0; k < lanes; k++)
        if (one->mask >> k & 1 && first[k].state != LEFT &&
            (first[k].state != MEETS || first[k].mask != one->mask || first[k].line != one->line))
            return;
    unsigned mask = one->mask;
    int line = one->line;
    for (unsigned k = 0; k < lanes; k++)
        if (mask >> k & 1 && first[k].state == MEETS && first[k].mask == mask && first[k].line == line) first[k].state = READY;
    one->block->warp_round[one->number / 32]++;
}

static void meet_warp(int line, unsigned mask, const char* wrong) {
    struct member* m = own;
    unsigned warp = m->number / 32;
    char* order = &m->block->warp_order[warp][m->block->warp_round[warp] & 1];
    if (wrong && !*m->team->wrong) sprintf(m->team->wrong, "%s, in line %d", wrong, line);
    if (!mask) return;
    if (__tsan_release) __tsan_release(order);
    m->line = line;
    m->mask = mask;
    m->state = MEETS;
    settle_warp(m->team, m);
    if (!passed(m->team, m)) wait_for_turn(m);
    if (__tsan_acquire) __tsan_acquire(order);
    m->mask = 0;
}

static void* life(void* given) {
    struct member* m = own = given;
    wait_for_turn(m);
    m->block->set(m->number, m->block->number, m->team->threads, m->team->blocks, meet, meet_warp);
    m->block->play(m->team->given);
    m->state = LEFT;
    m->block->left++;
    settle(m->team, m->block);
    for (unsigned i = 0; i < m->team->count; i++) {  // lanes that wait for this one
        struct member* other = &m->team->members[i];
        if (other->block == m->block && other->number / 32 == m->number / 32 && other->state == MEETS && other->mask)
            settle_warp(m->team, other);
    }
    passed(m->team, m);
    return 0;
}

// Play ``count`` blocks of ``blocks``, from ``first`` on, all of them at once. ``wrong`` (200 bytes) says what should not be.
void team_play(unsigned first, unsigned count, unsigned blocks, unsigned threads, kernel* kernels, setter* setters,
               void** given, char* wrong) {
    struct team team = {calloc(count * threads, sizeof(struct member)), count * threads, threads, blocks, 1, given, wrong};
    struct block* each = calloc(count, sizeof(struct block));
    *wrong = 0;
    for (unsigned b = 0; b < count; b++) {
        each[b].play = kernels[b];
        each[b].set = setters[b];
        each[b].number = first + b;
    }
    for (unsigned i = 0; i < team.count; i++) {
        team.members[i].team = &team;
        team.members[i].block = &each[i / threads];
        team.members[i].number = i % threads;
        if (pthread_create(&team.members[i].self, 0, life, &team.members[i])) abort();
    }
    passed(&team, 0);
    for (unsigned i = 0; i < team.count; i++) pthread_join(team.members[i].self, 0);
    free(each);
    free(team.members);
}

// The same for a kernel without barriers, by the caller alone.
void team_alone(unsigned blocks, unsigned threads, kernel play, setter set, void** given) {
    for (unsigned b = 0; b < blocks; b++)
        for (unsigned t = 0; t < threads; t++) {
            set(t, b, threads, blocks, nobody, no_lane);
            play(given);
        }
}
