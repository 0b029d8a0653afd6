// Names for clang's -Wthread-safety attributes; empty under other compilers.
//
// The `tidy` preset builds with clang and makes every violation an error. Without acquired_before:
// no function takes two locks, so clang could not check their order (docs/threading.md).
#pragma once

#if defined(__clang__)
#define HFLUSH_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HFLUSH_THREAD_ATTRIBUTE(x)
#endif

#define HFLUSH_CAPABILITY(name) HFLUSH_THREAD_ATTRIBUTE(capability(name))
#define HFLUSH_SCOPED_CAPABILITY HFLUSH_THREAD_ATTRIBUTE(scoped_lockable)
#define HFLUSH_GUARDED_BY(x) HFLUSH_THREAD_ATTRIBUTE(guarded_by(x))
#define HFLUSH_PT_GUARDED_BY(x) HFLUSH_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define HFLUSH_REQUIRES(...) HFLUSH_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define HFLUSH_EXCLUDES(...) HFLUSH_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define HFLUSH_ACQUIRE(...) HFLUSH_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HFLUSH_TRY_ACQUIRE(...) HFLUSH_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define HFLUSH_RELEASE(...) HFLUSH_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define HFLUSH_NO_THREAD_SAFETY_ANALYSIS HFLUSH_THREAD_ATTRIBUTE(no_thread_safety_analysis)
