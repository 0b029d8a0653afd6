// fault_shim: a library for LD_PRELOAD that stands between a process and its file system.
//
// It follows the files and directories under one watched directory, logs every call on them in
// order, and lets rules make a call fail, transfer fewer bytes, wait at a gate, or kill the
// process. A test in the same process sets the rules and reads the log through ctypes (control.py);
// the code under test needs no hook. Calls elsewhere pass through untouched, and so do those on
// descriptors that were open before the watch began, or that dup() made. Thread-safe.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { kMaxFds = 65536, kMaxEvents = 131072, kMaxRules = 32, kMaxPath = 256, kMaxIov = 1024 };

// What a rule does to a call that it applies to. Mirrored in control.py.
enum Action { kFail = 0, kShort = 1, kBudget = 2, kGate = 3, kKill = 4 };

typedef struct {
  char operation[16];   // "write", "sync", ..., one function of them, or "*"
  char path[kMaxPath];  // fnmatch pattern
  int action;
  int error;      // kFail, kBudget, kGate: errno of the failure (kGate: 0 lets the call through)
  long argument;  // kShort: most bytes a call transfers; kBudget: bytes there is room for
  long skip;      // matching calls to let through first
  long every;     // then apply to one in so many
  long limit;     // at most so many times; 0: no limit
  long matched, applied, used, waiting;
  bool released;
} Rule;

// One finished call. Mirrored in control.py.
typedef struct {
  long began, ended;  // places in one order of all beginnings and ends
  long offset;        // of a write or read: where, or -1 for the file position
  long length;        // of a write or read: bytes asked for; of a truncate: the length
  long result;
  int error;  // errno when result is -1
  int fd;
  int is_directory;
  int thread;
  char operation[16];
  char function[24];
  char path[kMaxPath];
} Event;

typedef struct {
  const char* operation;
  const char* function;
  int fd;
  bool is_directory;
  long offset, length, began;
  char path[kMaxPath];
} Call;

typedef struct {
  int error;    // not 0: fail without performing
  long length;  // bytes the call may transfer
  Rule* budget;
} Verdict;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char watched[kMaxPath];
static Rule rules[kMaxRules];
static int rule_count;
static Event events[kMaxEvents];
static long event_count;
static long order;

// The one field read without the mutex: lets calls on other files pass at the cost of a load.
static _Atomic bool followed[kMaxFds];
static char fd_paths[kMaxFds][kMaxPath];
static bool fd_directories[kMaxFds];

#define REAL(function) ((__typeof__(&function))real(#function))

static void* real(const char* name) {
  void* address = dlsym(RTLD_NEXT, name);
  if (address == NULL) abort();
  return address;
}

// --- following paths and descriptors -----------------------------------------------------------

static bool is_watched(const char* path) {
  const size_t length = strlen(watched);
  return length > 0 && strncmp(path, watched, length) == 0 &&
         (path[length] == '/' || path[length] == '\0');
}

static bool is_followed(int fd) {
  return fd >= 0 && fd < kMaxFds && atomic_load_explicit(&followed[fd], memory_order_relaxed);
}

static bool descriptor_path(int fd, char* out) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, out, kMaxPath - 1);
  if (length < 0) return false;
  out[length] = '\0';
  return true;
}

static bool absolute_path(int directory, const char* path, char* out) {
  char base[kMaxPath];
  if (path[0] == '/') {
    snprintf(out, kMaxPath, "%s", path);
    return true;
  }
  if (directory == AT_FDCWD ? getcwd(base, sizeof base) == NULL
                            : !descriptor_path(directory, base)) {
    return false;
  }
  return snprintf(out, kMaxPath, "%s/%s", base, path) < kMaxPath;
}

static void follow(int fd) {
  char path[kMaxPath];
  struct stat status;
  if (fd < 0 || fd >= kMaxFds || !descriptor_path(fd, path) || fstat(fd, &status) != 0) return;
  pthread_mutex_lock(&mutex);
  if (is_watched(path)) {
    memcpy(fd_paths[fd], path, kMaxPath);
    fd_directories[fd] = S_ISDIR(status.st_mode);
    atomic_store(&followed[fd], true);
  }
  pthread_mutex_unlock(&mutex);
}

// --- rules and log -----------------------------------------------------------------------------

static Rule* applying_rule(const Call* call) {
  for (int i = 0; i < rule_count; ++i) {
    Rule* rule = &rules[i];
    if (strcmp(rule->operation, "*") != 0 && strcmp(rule->operation, call->operation) != 0 &&
        strcmp(rule->operation, call->function) != 0)
      continue;
    if (fnmatch(rule->path, call->path, 0) != 0) continue;
    const long place = rule->matched++ - rule->skip;
    if (place < 0 || place % rule->every != 0) continue;
    if (rule->limit != 0 && rule->applied >= rule->limit) continue;
    ++rule->applied;
    return rule;
  }
  return NULL;
}

static void wait_at_gate(Rule* rule) {
  ++rule->waiting;
  pthread_cond_broadcast(&changed);
  while (!rule->released) pthread_cond_wait(&changed, &mutex);
  --rule->waiting;
  pthread_cond_broadcast(&changed);
}

static Verdict judge(Call* call) {
  Verdict verdict = {0, call->length, NULL};
  pthread_mutex_lock(&mutex);
  call->began = order++;
  Rule* rule = applying_rule(call);
  if (rule != NULL) {
    const long room = rule->argument - rule->used;
    switch (rule->action) {
      case kFail:
        verdict.error = rule->error;
        break;
      case kShort:
        if (rule->argument < verdict.length) verdict.length = rule->argument;
        break;
      case kBudget:
        if (room <= 0 && call->length > 0) verdict.error = rule->error;
        if (room < verdict.length) verdict.length = room;
        verdict.budget = rule;
        break;
      case kGate:
        wait_at_gate(rule);
        verdict.error = rule->error;
        break;
      case kKill:
        raise(SIGKILL);
        break;
    }
  }
  pthread_mutex_unlock(&mutex);
  return verdict;
}

// Logs the call; sets errno to `error` and returns `result` as the intercepted function does.
static long finish(const Call* call, const Verdict* verdict, long result, int error) {
  pthread_mutex_lock(&mutex);
  if (verdict->budget != NULL && result > 0) verdict->budget->used += result;
  if (event_count < kMaxEvents) {
    Event* event = &events[event_count];
    event->began = call->began;
    event->ended = order++;
    event->offset = call->offset;
    event->length = call->length;
    event->result = result;
    event->error = result < 0 ? error : 0;
    event->fd = call->fd;
    event->is_directory = call->is_directory;
    event->thread = (int)syscall(SYS_gettid);
    snprintf(event->operation, sizeof event->operation, "%s", call->operation);
    snprintf(event->function, sizeof event->function, "%s", call->function);
    memcpy(event->path, call->path, kMaxPath);
  }
  ++event_count;
  pthread_mutex_unlock(&mutex);
  errno = error;
  return result;
}

static Call call_on_fd(const char* operation, const char* function, int fd, long offset,
                       long length) {
  Call call = {
      .operation = operation, .function = function, .fd = fd, .offset = offset, .length = length};
  pthread_mutex_lock(&mutex);
  memcpy(call.path, fd_paths[fd], kMaxPath);
  call.is_directory = fd_directories[fd];
  pthread_mutex_unlock(&mutex);
  return call;
}

// True if `path` is watched; fills `call`.
static bool call_on_path(Call* call, const char* operation, const char* function, int directory,
                         const char* path) {
  *call = (Call){.operation = operation, .function = function, .fd = -1, .offset = -1};
  return path != NULL && absolute_path(directory, path, call->path) && is_watched(call->path);
}

// The bodies of the intercepted functions. `perform` may use `allowed`, the bytes it may transfer.
#define ON_FD(kind, name, fd, where, bytes, perform)                           \
  do {                                                                         \
    Call call = call_on_fd(kind, name, fd, where, bytes);                      \
    const Verdict verdict = judge(&call);                                      \
    if (verdict.error != 0) return finish(&call, &verdict, -1, verdict.error); \
    const long allowed = verdict.length;                                       \
    (void)allowed;                                                             \
    const long outcome = perform;                                              \
    return finish(&call, &verdict, outcome, errno);                            \
  } while (false)

#define ON_PATH(kind, name, base, path, perform)                                    \
  do {                                                                              \
    Call call;                                                                      \
    if (!call_on_path(&call, kind, name, base, path)) return perform;               \
    const Verdict verdict = judge(&call);                                           \
    if (verdict.error != 0) return (int)finish(&call, &verdict, -1, verdict.error); \
    const int outcome = perform;                                                    \
    return (int)finish(&call, &verdict, outcome, errno);                            \
  } while (false)

// --- the intercepted functions -----------------------------------------------------------------

static int open_through(int (*perform)(int, const char*, int, ...), const char* function,
                        int directory, const char* path, int flags, mode_t mode) {
  Call call;
  Verdict verdict = {0, 0, NULL};
  const bool logged = call_on_path(&call, "open", function, directory, path);
  if (logged) {
    verdict = judge(&call);
    if (verdict.error != 0) return (int)finish(&call, &verdict, -1, verdict.error);
  }
  const int fd = perform(directory, path, flags, mode);
  const int error = errno;
  if (!logged) {
    errno = error;
    return fd;
  }
  follow(fd);
  call.fd = fd;
  call.is_directory = is_followed(fd) && fd_directories[fd];
  return (int)finish(&call, &verdict, fd, error);
}

static mode_t mode_argument(int flags, va_list arguments) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

#define INTERCEPT_OPEN(name)                                               \
  int name(const char* path, int flags, ...) {                             \
    va_list arguments;                                                     \
    va_start(arguments, flags);                                            \
    const mode_t mode = mode_argument(flags, arguments);                   \
    va_end(arguments);                                                     \
    return open_through(REAL(openat), #name, AT_FDCWD, path, flags, mode); \
  }
INTERCEPT_OPEN(open)
INTERCEPT_OPEN(open64)

#define INTERCEPT_OPENAT(name)                                              \
  int name(int directory, const char* path, int flags, ...) {               \
    va_list arguments;                                                      \
    va_start(arguments, flags);                                             \
    const mode_t mode = mode_argument(flags, arguments);                    \
    va_end(arguments);                                                      \
    return open_through(REAL(openat), #name, directory, path, flags, mode); \
  }
INTERCEPT_OPENAT(openat)
INTERCEPT_OPENAT(openat64)

int creat(const char* path, mode_t mode) {
  return open_through(REAL(openat), "creat", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

// As Linux does, a failing close still gives the descriptor up.
int close(int fd) {
  if (!is_followed(fd)) return REAL(close)(fd);
  Call call = call_on_fd("close", "close", fd, -1, 0);
  const Verdict verdict = judge(&call);
  atomic_store(&followed[fd], false);
  const int result = REAL(close)(fd);
  if (verdict.error != 0) return (int)finish(&call, &verdict, -1, verdict.error);
  return (int)finish(&call, &verdict, result, errno);
}

ssize_t write(int fd, const void* data, size_t length) {
  if (!is_followed(fd)) return REAL(write)(fd, data, length);
  ON_FD("write", "write", fd, -1, (long)length, REAL(write)(fd, data, (size_t)allowed));
}

ssize_t pwrite(int fd, const void* data, size_t length, off_t offset) {
  if (!is_followed(fd)) return REAL(pwrite)(fd, data, length, offset);
  ON_FD("write", "pwrite", fd, offset, (long)length,
        REAL(pwrite)(fd, data, (size_t)allowed, offset));
}

ssize_t pwrite64(int fd, const void* data, size_t length, off64_t offset) {
  return pwrite(fd, data, length, offset);
}

ssize_t read(int fd, void* data, size_t length) {
  if (!is_followed(fd)) return REAL(read)(fd, data, length);
  ON_FD("read", "read", fd, -1, (long)length, REAL(read)(fd, data, (size_t)allowed));
}

ssize_t pread(int fd, void* data, size_t length, off_t offset) {
  if (!is_followed(fd)) return REAL(pread)(fd, data, length, offset);
  ON_FD("read", "pread", fd, offset, (long)length, REAL(pread)(fd, data, (size_t)allowed, offset));
}

ssize_t pread64(int fd, void* data, size_t length, off64_t offset) {
  return pread(fd, data, length, offset);
}

static long total_length(const struct iovec* parts, int count) {
  long total = 0;
  for (int i = 0; i < count; ++i) total += (long)parts[i].iov_len;
  return total;
}

// The first `allowed` bytes of `parts`, in `out`; returns how many parts that takes.
static int first_parts(const struct iovec* parts, int count, long allowed, struct iovec* out) {
  int kept = 0;
  for (; kept < count && kept < kMaxIov && allowed > 0; ++kept) {
    out[kept] = parts[kept];
    if ((long)out[kept].iov_len > allowed) out[kept].iov_len = (size_t)allowed;
    allowed -= (long)out[kept].iov_len;
  }
  return kept;
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (!is_followed(fd)) return REAL(writev)(fd, parts, count);
  struct iovec kept[kMaxIov];
  ON_FD("write", "writev", fd, -1, total_length(parts, count),
        REAL(writev)(fd, kept, first_parts(parts, count, allowed, kept)));
}

ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  if (!is_followed(fd)) return REAL(pwritev)(fd, parts, count, offset);
  struct iovec kept[kMaxIov];
  ON_FD("write", "pwritev", fd, offset, total_length(parts, count),
        REAL(pwritev)(fd, kept, first_parts(parts, count, allowed, kept), offset));
}

ssize_t pwritev2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  if (!is_followed(fd)) return REAL(pwritev2)(fd, parts, count, offset, flags);
  struct iovec kept[kMaxIov];
  ON_FD("write", "pwritev2", fd, offset, total_length(parts, count),
        REAL(pwritev2)(fd, kept, first_parts(parts, count, allowed, kept), offset, flags));
}

ssize_t pwritev64v2(int fd, const struct iovec* parts, int count, off64_t offset, int flags) {
  return pwritev2(fd, parts, count, offset, flags);
}

ssize_t pwritev64(int fd, const struct iovec* parts, int count, off64_t offset) {
  return pwritev(fd, parts, count, offset);
}

int fsync(int fd) {
  if (!is_followed(fd)) return REAL(fsync)(fd);
  ON_FD("sync", "fsync", fd, -1, 0, REAL(fsync)(fd));
}

int fdatasync(int fd) {
  if (!is_followed(fd)) return REAL(fdatasync)(fd);
  ON_FD("sync", "fdatasync", fd, -1, 0, REAL(fdatasync)(fd));
}

int ftruncate(int fd, off_t length) {
  if (!is_followed(fd)) return REAL(ftruncate)(fd, length);
  ON_FD("truncate", "ftruncate", fd, -1, length, REAL(ftruncate)(fd, length));
}

int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int rename(const char* from, const char* to) {
  ON_PATH("rename", "rename", AT_FDCWD, from, REAL(rename)(from, to));
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) {
  ON_PATH("rename", "renameat", from_directory, from,
          REAL(renameat)(from_directory, from, to_directory, to));
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) {
  ON_PATH("rename", "renameat2", from_directory, from,
          REAL(renameat2)(from_directory, from, to_directory, to, flags));
}

int link(const char* from, const char* to) {
  ON_PATH("link", "link", AT_FDCWD, to, REAL(link)(from, to));
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  ON_PATH("link", "linkat", to_directory, to,
          REAL(linkat)(from_directory, from, to_directory, to, flags));
}

int unlink(const char* path) { ON_PATH("unlink", "unlink", AT_FDCWD, path, REAL(unlink)(path)); }

int unlinkat(int directory, const char* path, int flags) {
  ON_PATH("unlink", "unlinkat", directory, path, REAL(unlinkat)(directory, path, flags));
}

int rmdir(const char* path) { ON_PATH("unlink", "rmdir", AT_FDCWD, path, REAL(rmdir)(path)); }

int mkdir(const char* path, mode_t mode) {
  ON_PATH("mkdir", "mkdir", AT_FDCWD, path, REAL(mkdir)(path, mode));
}

int mkdirat(int directory, const char* path, mode_t mode) {
  ON_PATH("mkdir", "mkdirat", directory, path, REAL(mkdirat)(directory, path, mode));
}

int chmod(const char* path, mode_t mode) {
  ON_PATH("chmod", "chmod", AT_FDCWD, path, REAL(chmod)(path, mode));
}

int fchmod(int fd, mode_t mode) {
  if (!is_followed(fd)) return REAL(fchmod)(fd, mode);
  ON_FD("chmod", "fchmod", fd, -1, 0, REAL(fchmod)(fd, mode));
}

int flock(int fd, int operation) {
  if (!is_followed(fd)) return REAL(flock)(fd, operation);
  ON_FD("lock", "flock", fd, -1, 0, REAL(flock)(fd, operation));
}

// Of fcntl: the locks of open files.
static int control(int fd, int command, void* argument, const char* function) {
  if (command != F_OFD_SETLK || !is_followed(fd)) return REAL(fcntl)(fd, command, argument);
  ON_FD("lock", function, fd, -1, 0, REAL(fcntl)(fd, command, argument));
}

#define INTERCEPT_FCNTL(name)                        \
  int name(int fd, int command, ...) {               \
    va_list arguments;                               \
    va_start(arguments, command);                    \
    void* const argument = va_arg(arguments, void*); \
    va_end(arguments);                               \
    return control(fd, command, argument, #name);    \
  }
INTERCEPT_FCNTL(fcntl)
INTERCEPT_FCNTL(fcntl64)

// --- control: called by the test through ctypes ------------------------------------------------

// Starts to watch `directory` ("" for nothing) with no rules and an empty log; opens every gate.
void fault_watch(const char* directory) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < rule_count; ++i) rules[i].released = true;
  pthread_cond_broadcast(&changed);
  for (int i = 0; i < rule_count; ++i) {
    while (rules[i].waiting > 0) pthread_cond_wait(&changed, &mutex);
  }
  snprintf(watched, sizeof watched, "%s", directory);
  for (int fd = 0; fd < kMaxFds; ++fd) atomic_store(&followed[fd], false);
  rule_count = 0;
  event_count = 0;
  order = 0;
  pthread_mutex_unlock(&mutex);
}

// Adds a rule, after those there are; the first that applies decides. Returns its number, or -1.
int fault_rule(const char* operation, const char* path, int action, int error, long argument,
               long skip, long every, long limit) {
  pthread_mutex_lock(&mutex);
  const int number = rule_count < kMaxRules ? rule_count++ : -1;
  if (number >= 0) {
    rules[number] = (Rule){.action = action,
                           .error = error,
                           .argument = argument,
                           .skip = skip,
                           .every = every,
                           .limit = limit};
    snprintf(rules[number].operation, sizeof rules[number].operation, "%s", operation);
    snprintf(rules[number].path, sizeof rules[number].path, "%s", path);
  }
  pthread_mutex_unlock(&mutex);
  return number;
}

// Calls that the rule was applied to.
long fault_applied(int number) {
  pthread_mutex_lock(&mutex);
  const long applied = rules[number].applied;
  pthread_mutex_unlock(&mutex);
  return applied;
}

// Opens a gate, for good.
void fault_release(int number) {
  pthread_mutex_lock(&mutex);
  rules[number].released = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

// Waits until `count` threads stand at the gate; returns how many do, fewer after the deadline.
long fault_await(int number, long count, long timeout_ms) {
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += timeout_ms / 1000;
  pthread_mutex_lock(&mutex);
  while (rules[number].waiting < count &&
         pthread_cond_timedwait(&changed, &mutex, &deadline) != ETIMEDOUT) {
  }
  const long waiting = rules[number].waiting;
  pthread_mutex_unlock(&mutex);
  return waiting;
}

// Calls finished since the watch began; those past kMaxEvents were counted and not kept.
long fault_event_count(void) {
  pthread_mutex_lock(&mutex);
  const long count = event_count;
  pthread_mutex_unlock(&mutex);
  return count;
}

// Copies up to `count` events from `first` on; returns how many.
long fault_events(long first, long count, Event* out) {
  pthread_mutex_lock(&mutex);
  const long kept = event_count < kMaxEvents ? event_count : kMaxEvents;
  if (first > kept) first = kept;
  if (count > kept - first) count = kept - first;
  memcpy(out, events + first, (size_t)count * sizeof *out);
  pthread_mutex_unlock(&mutex);
  return count;
}

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void survive_fork(void) {
  pthread_atfork(before_fork, after_fork, after_fork);
}
