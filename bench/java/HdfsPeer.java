import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;

/**
 * Hadoop's own client, in a JVM that holds nothing else: the peer of the HDFS benchmarks.
 *
 * <p>Reads one order a line and answers it with one line; hdfs_contender.py describes both and
 * speaks the same for the other contenders. All work is done and timed in here. Arguments: the
 * file system's URI, then settings as key=value.
 */
public final class HdfsPeer {
  private static final byte[] MEBIBYTE = new byte[1 << 20];

  private final FileSystem fs;
  private final List<FSDataOutputStream> held = new ArrayList<>();
  private Log log;

  private HdfsPeer(FileSystem fs) {
    this.fs = fs;
  }

  public static void main(String[] arguments) throws Exception {
    new Random(4).nextBytes(MEBIBYTE);
    Configuration configuration = new Configuration(false);
    for (String setting : Arrays.asList(arguments).subList(1, arguments.length)) {
      String[] parts = setting.split("=", 2);
      configuration.set(parts[0], parts[1]);
    }
    try (FileSystem fs = FileSystem.newInstance(URI.create(arguments[0]), configuration)) {
      new HdfsPeer(fs).answerAll();
    }
  }

  private void answerAll() throws IOException {
    BufferedReader orders =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    System.out.println("ready");
    for (String order = orders.readLine(); order != null; order = orders.readLine()) {
      String answer;
      try {
        answer = carryOut(order.split(" "));
      } catch (Exception failure) {
        answer = "error " + failure.toString().replace('\n', ' ');
      }
      System.out.println(answer);
    }
  }

  private String carryOut(String[] order) throws Exception {
    String path = order.length > 1 ? order[1] : "";
    switch (order[0]) {
      case "write":
        return write(path, number(order[2]), Long.parseLong(order[3]), number(order[4]));
      case "sync":
        return sync(path, number(order[2]), number(order[3]), number(order[4]), order[5]);
      case "group":
        return group(path, number(order[2]), number(order[3]), number(order[4]), number(order[5]));
      case "files":
        return measured(() -> files(path, number(order[2]), number(order[3]), number(order[4])));
      case "read":
        return read(path, number(order[2]));
      case "hold":
        return hold(path, number(order[2]), number(order[3]), number(order[4]));
      case "put":
        return put(number(order[1]));
      case "flush":
        return flush();
      case "release":
        return release();
      case "log":
        log = new Log(create(path, number(order[2])), number(order[4]), order[5]);
        log.start(number(order[3]));
        return more(number(order[3]));
      case "more":
        return more(number(order[1]));
      case "end":
        return end();
      default:
        throw new IllegalArgumentException("no such order: " + order[0]);
    }
  }

  private FSDataOutputStream create(String path, int replication) throws IOException {
    return fs.create(
        new org.apache.hadoop.fs.Path(path),
        true,
        4096,
        (short) replication,
        fs.getDefaultBlockSize(new org.apache.hadoop.fs.Path(path)));
  }

  /** Until every byte is acknowledged; closing is not part of it. */
  private String write(String path, int replication, long total, int size) throws Exception {
    FSDataOutputStream[] out = new FSDataOutputStream[1];
    String all =
        measured(
            () -> {
              out[0] = create(path, replication);
              for (long written = 0; written < total; written += size) {
                out[0].write(MEBIBYTE, 0, size);
              }
              out[0].hsync();
            });
    out[0].close();
    return all;
  }

  /** Each record written and synced, one after the other. */
  private String sync(String path, int replication, int records, int size, String level)
      throws Exception {
    boolean durable = level.equals("hsync");
    try (FSDataOutputStream out = create(path, replication)) {
      syncRecord(out, size, durable);
      long[] nanos = new long[records];
      String all =
          measured(
              () -> {
                for (int i = 0; i < records; i++) {
                  long started = System.nanoTime();
                  syncRecord(out, size, durable);
                  nanos[i] = System.nanoTime() - started;
                }
              });
      Arrays.sort(nanos);
      return all + " p50=" + atRank(nanos, 0.50) + " p99=" + atRank(nanos, 0.99);
    }
  }

  private static void syncRecord(FSDataOutputStream out, int size, boolean durable)
      throws IOException {
    out.write(MEBIBYTE, 0, size);
    if (durable) {
      out.hsync();
    } else {
      out.hflush();
    }
  }

  private static double atRank(long[] sorted, double rank) {
    return sorted[(int) (rank * (sorted.length - 1))] / 1e9;
  }

  /** Several threads on one stream, each syncing its own records. */
  private String group(String path, int replication, int threads, int records, int size)
      throws Exception {
    try (FSDataOutputStream out = create(path, replication)) {
      syncRecord(out, size, true);
      return measured(
          () ->
              inThreads(
                  threads,
                  thread -> {
                    for (int i = 0; i < records; i++) {
                      syncRecord(out, size, true);
                    }
                  }));
    }
  }

  private void files(String directory, int replication, int count, int threads) throws Exception {
    inThreads(
        threads,
        thread -> {
          for (int i = thread; i < count; i += threads) {
            try (FSDataOutputStream out = create(directory + "/" + i, replication)) {
              out.write(MEBIBYTE, 0, 1024);
            }
          }
        });
  }

  private String read(String path, int size) throws Exception {
    byte[] buffer = new byte[size];
    long[] total = new long[1];
    String all =
        measured(
            () -> {
              try (FSDataInputStream in = fs.open(new org.apache.hadoop.fs.Path(path))) {
                for (int got = in.read(buffer); got >= 0; got = in.read(buffer)) {
                  total[0] += got;
                }
              }
            });
    return all + " bytes=" + total[0];
  }

  /** Opens streams that then wait; with `size` > 0 each has written and hflushed so much. */
  private String hold(String directory, int count, int size, int replication)
      throws IOException {
    long before = residentBytes();
    for (int i = 0; i < count; i++) {
      FSDataOutputStream out = create(directory + "/" + i, replication);
      held.add(out);
      if (size > 0) {
        syncRecord(out, size, false);
      }
    }
    return "threads=" + threadCount() + " bytes=" + (residentBytes() - before);
  }

  /** So much more on each stream that is held, sent and not waited for. */
  private String put(int size) throws IOException {
    for (FSDataOutputStream out : held) {
      out.write(MEBIBYTE, 0, size);
      out.flush();
    }
    return at();
  }

  private String flush() throws IOException {
    int threads = threadCount();
    for (FSDataOutputStream out : held) {
      out.hflush();
    }
    return at() + " threads=" + Math.max(threads, threadCount());
  }

  private String release() throws IOException {
    for (FSDataOutputStream out : held) {
      out.close();
    }
    held.clear();
    return at();
  }

  private String more(int records) throws Exception {
    log.waitFor(records);
    return at();
  }

  private String end() throws Exception {
    Log ended = log;
    log = null;
    return ended.end();
  }

  /** Now, on the machine's monotonic clock, which System.nanoTime reads. */
  private static String at() {
    return "at=" + System.nanoTime() / 1e9;
  }

  private static int threadCount() {
    return ManagementFactory.getThreadMXBean().getThreadCount();
  }

  /** Threads that write records to one stream and sync each, until they are stopped. */
  private static final class Log {
    private static final long PATIENCE_NANOS = 120_000_000_000L;
    private static final int POLL_MILLIS = 2;

    private final FSDataOutputStream out;
    private final int size;
    private final boolean durable;
    private final List<Thread> threads = new ArrayList<>();
    private final List<Long> acknowledged = new ArrayList<>(); // guarded by itself
    private volatile boolean stopping;
    private volatile Exception failure;

    Log(FSDataOutputStream out, int size, String level) {
      this.out = out;
      this.size = size;
      this.durable = level.equals("hsync");
    }

    void start(int count) {
      for (int i = 0; i < count; i++) {
        threads.add(new Thread(this::run));
        threads.get(i).start();
      }
    }

    private void run() {
      try {
        while (!stopping) {
          syncRecord(out, size, durable);
          synchronized (acknowledged) {
            acknowledged.add(System.nanoTime());
          }
        }
      } catch (Exception caught) { // reported to the sender of the order
        failure = caught;
      }
    }

    private int records() {
      synchronized (acknowledged) {
        return acknowledged.size();
      }
    }

    void waitFor(int more) throws Exception {
      int wanted = records() + more;
      long end = System.nanoTime() + PATIENCE_NANOS;
      while (records() < wanted) {
        if (failure != null) {
          throw failure;
        }
        if (System.nanoTime() > end) {
          throw new IOException("not acknowledged in time");
        }
        Thread.sleep(POLL_MILLIS);
      }
    }

    String end() throws Exception {
      stopping = true;
      for (Thread thread : threads) {
        thread.join();
      }
      if (failure != null) {
        throw failure;
      }
      out.close();
      int records = acknowledged.size();
      long stall = 0;
      for (int i = 1; i < records; i++) {
        stall = Math.max(stall, acknowledged.get(i) - acknowledged.get(i - 1));
      }
      long nanos = acknowledged.get(records - 1) - acknowledged.get(0);
      return "records=" + records + " seconds=" + nanos / 1e9 + " stall=" + stall / 1e9;
    }
  }

  private static long residentBytes() throws IOException {
    return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
  }

  private interface Work {
    void run() throws Exception;
  }

  private interface ThreadWork {
    void run(int thread) throws Exception;
  }

  private static void inThreads(int threads, ThreadWork work) throws Exception {
    if (threads == 1) {
      work.run(0);
      return;
    }
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List<Callable<Void>> tasks = new ArrayList<>();
      for (int i = 0; i < threads; i++) {
        int thread = i;
        tasks.add(
            () -> {
              work.run(thread);
              return null;
            });
      }
      for (Future<Void> done : pool.invokeAll(tasks)) {
        done.get();
      }
    } finally {
      pool.shutdown();
    }
  }

  /** Wall clock and the CPU of the whole process: collector and compiler threads are part of it. */
  private static String measured(Work work) throws Exception {
    com.sun.management.OperatingSystemMXBean process =
        (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = process.getProcessCpuTime();
    long started = System.nanoTime();
    work.run();
    long elapsed = System.nanoTime() - started;
    return "seconds=" + elapsed / 1e9 + " cpu=" + (process.getProcessCpuTime() - cpu) / 1e9;
  }

  private static int number(String text) {
    return Integer.parseInt(text);
  }
}
