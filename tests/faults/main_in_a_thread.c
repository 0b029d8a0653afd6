// Runs the main() of a program in another thread than its first, as what embeds Python may do.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

typedef int main_function(int, char**, char**);
typedef int start_function(main_function*, int, char**, void (*)(void), void (*)(void),
                           void (*)(void), void*);

static struct {
  main_function* run;
  int count;
  char** words;
  char** environment;
  int code;
} program;

static void* run(void* unused) {
  program.code = program.run(program.count, program.words, program.environment);
  return unused;
}

static int in_a_thread(int count, char** words, char** environment) {
  pthread_t thread;
  program.count = count;
  program.words = words;
  program.environment = environment;
  if (pthread_create(&thread, NULL, run, NULL) != 0 || pthread_join(thread, NULL) != 0) return 99;
  return program.code;
}

int __libc_start_main(main_function* main, int count, char** words, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void* stack_end) {
  start_function* const start = (start_function*)dlsym(RTLD_NEXT, "__libc_start_main");
  program.run = main;
  return start(in_a_thread, count, words, init, fini, loader_fini, stack_end);
}
