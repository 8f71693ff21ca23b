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
typedef void (*setter)(unsigned, unsigned, unsigned, unsigned, void (*)(int));
enum state { READY, MEETS, LEFT };

struct team;
struct block {
    kernel play;
    setter set;
    unsigned number, meeting, left, round;
    char order[2];  // where the sanitizer is told of a meeting: one in use, one for those who are not yet back
};
struct member {
    struct team* team;
    struct block* block;
    pthread_t self;
    unsigned number;
    enum state state;
    int line, turn;
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

// Give the turn to one of those who can go on; whether that is the caller himself.
static int passed(struct team* team, struct member* from) {
    unsigned ready = 0;
    for (unsigned i = 0; i < team->count; i++) ready += team->members[i].state == READY;
    if (!ready) return 0;
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
        if (m->block != block || m->state != MEETS) continue;
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

static void* life(void* given) {
    struct member* m = own = given;
    wait_for_turn(m);
    m->block->set(m->number, m->block->number, m->team->threads, m->team->blocks, meet);
    m->block->play(m->team->given);
    m->state = LEFT;
    m->block->left++;
    settle(m->team, m->block);
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
            set(t, b, threads, blocks, nobody);
            play(given);
        }
}
