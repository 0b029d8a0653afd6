import java.io.BufferedReader;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * Hadoop's own client under load: writer.py describes the orders, journal.py the lines that it
 * notes, records.py what it writes. Arguments: the journal, the pool, the file system's URI, then
 * settings as key=value.
 */
public final class LoadWriter {
  private static final long WORD = 0xffffffffL;
  private static final int HEADER = 20;
  private static final int MOST = 96 << 10;
  private static final int LARGE = 64 << 10;
  private static final long RECOVERY_NANOS = 10_000_000_000L;
  private static final long PAUSE_MILLIS = 1000;
  private static final int HSYNC_EVERY = 8;

  private final DistributedFileSystem fs;
  private final FileChannel journal;
  private final byte[] pool;
  private final CountDownLatch finish = new CountDownLatch(1);
  private final List<Thread> streams = new ArrayList<>();

  private LoadWriter(DistributedFileSystem fs, FileChannel journal, byte[] pool) {
    this.fs = fs;
    this.journal = journal;
    this.pool = pool;
  }

  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration(false);
    for (String setting : Arrays.asList(arguments).subList(3, arguments.length)) {
      String[] parts = setting.split("=", 2);
      configuration.set(parts[0], parts[1]);
    }
    FileChannel journal =
        FileChannel.open(
            java.nio.file.Path.of(arguments[0]),
            StandardOpenOption.CREATE,
            StandardOpenOption.APPEND);
    byte[] pool = Files.readAllBytes(java.nio.file.Path.of(arguments[1]));
    FileSystem fs = FileSystem.newInstance(URI.create(arguments[2]), configuration);
    LoadWriter writer = new LoadWriter((DistributedFileSystem) fs, journal, pool);
    BufferedReader orders =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String order = orders.readLine(); order != null; order = orders.readLine()) {
      String[] words = order.split(" ");
      if (words[0].equals("start")) {
        writer.start(words);
      } else {
        writer.finishAll();
      }
    }
    System.exit(0);
  }

  private void start(String[] order) {
    streams.add(started(() -> run(order)));
  }

  private static Thread started(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private void finishAll() throws InterruptedException {
    finish.countDown();
    for (Thread stream : streams) {
      stream.join();
    }
  }

  private boolean isFinishing() {
    return finish.getCount() == 0;
  }

  private void waitForFinish(double seconds) {
    try {
      finish.await((long) (seconds * 1e9), TimeUnit.NANOSECONDS);
    } catch (InterruptedException interruption) {
      throw new IllegalStateException(interruption);
    }
  }

  private void run(String[] order) {
    long stream = Long.parseLong(order[1]);
    long generation = Long.parseLong(order[2]);
    double pace = Double.parseDouble(order[7]);
    FSDataOutputStream out = open(order);
    if (out == null) {
      return;
    }
    AtomicBoolean failed = new AtomicBoolean();
    List<Thread> writing = new ArrayList<>();
    for (int i = 0; i < Integer.parseInt(order[6]); i++) {
      int thread = i;
      writing.add(started(() -> write(out, stream, generation, thread, pace, failed)));
    }
    try {
      for (Thread each : writing) {
        each.join();
      }
    } catch (InterruptedException interruption) {
      throw new IllegalStateException(interruption);
    }
    long began = System.nanoTime();
    try {
      out.close();
    } catch (IOException | RuntimeException failure) {
      if (!failed.get()) {
        note("failed", stream, generation, 0, "close", micros(began), text(failure));
      }
      return;
    }
    if (!failed.get()) {
      note("closed", stream, generation, micros(began));
    }
  }

  private FSDataOutputStream open(String[] order) {
    Path path = new Path(order[3]);
    while (!isFinishing()) {
      try {
        FSDataOutputStream out = null;
        if (!order[8].equals("create")) {
          out = takenOver(path);
        }
        if (out == null) {
          short replication = Short.parseShort(order[4]);
          out = fs.create(path, true, 4096, replication, Long.parseLong(order[5]));
        }
        note("opened", order[1], order[2], out.getPos());
        return out;
      } catch (IOException | RuntimeException | TimeoutException refusal) {
        note("refused", order[1], order[2], text(refusal));
        waitForFinish(PAUSE_MILLIS / 1e3);
      }
    }
    return null;
  }

  /** A stream at the end of a file that was recovered; null if there is no file. */
  private FSDataOutputStream takenOver(Path path) throws IOException, TimeoutException {
    long end = System.nanoTime() + RECOVERY_NANOS;
    try {
      boolean isClosed = fs.recoverLease(path);
      while (!isClosed) {
        if (System.nanoTime() > end) {
          throw new TimeoutException(path + " is not closed yet");
        }
        waitForFinish(PAUSE_MILLIS / 1e3);
        isClosed = fs.isFileClosed(path);
      }
    } catch (FileNotFoundException missing) {
      return null;
    }
    return fs.append(path);
  }

  private void write(
      FSDataOutputStream out,
      long stream,
      long generation,
      int thread,
      double pace,
      AtomicBoolean failed) {
    for (int number = 0; !isFinishing() && !failed.get(); ) {
      boolean isDurable = number % HSYNC_EVERY == HSYNC_EVERY - 1;
      byte[] data = record(stream, generation, thread, number);
      long began = System.nanoTime();
      String call = "write";
      try {
        out.write(data, 0, data.length);
        call = isDurable ? "hsync" : "hflush";
        if (isDurable) {
          syncOrFlush(out);
        } else {
          out.hflush();
        }
      } catch (IOException | RuntimeException failure) {
        failed.set(true);
        note("failed", stream, generation, thread, call, micros(began), text(failure));
        return;
      }
      number++;
      note("ack", stream, generation, thread, number, micros(began));
      waitForFinish(pace);
    }
  }

  /** A stream may live whose hsync failed; then what is written is acknowledged by hflush. */
  private static void syncOrFlush(FSDataOutputStream out) throws IOException {
    try {
      out.hsync();
    } catch (IOException | RuntimeException failure) {
      try {
        out.hflush();
      } catch (IOException | RuntimeException second) {
        throw failure;
      }
    }
  }

  private byte[] record(long stream, long generation, long thread, long number) {
    long x = stream * 7919 + generation * 104729 + thread * 1299709 + number * 2654435761L & WORD;
    x ^= x >> 15;
    x = x * 2246822519L & WORD;
    x ^= x >> 13;
    x = x * 3266489917L & WORD;
    x ^= x >> 16;
    int size = (int) (x % 32 == 0 ? LARGE + (x >> 5) % (MOST - LARGE) : 32 + (x >> 5) % (4 << 10));
    int at = (int) ((x >> 8) % (pool.length - MOST));
    ByteBuffer made = ByteBuffer.allocate(size);
    for (long part : new long[] {stream, generation, thread, number, size}) {
      made.putInt((int) part);
    }
    return made.put(pool, at, size - HEADER).array();
  }

  private static long micros(long began) {
    return (System.nanoTime() - began) / 1000;
  }

  private static String text(Exception failure) {
    return failure.toString().replaceAll("\\s+", " ");
  }

  private synchronized void note(String what, Object... words) {
    StringBuilder line = new StringBuilder(what).append(' ').append(System.nanoTime());
    for (Object word : words) {
      line.append(' ').append(word);
    }
    try {
      ByteBuffer bytes = ByteBuffer.wrap(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
      while (bytes.hasRemaining()) {
        journal.write(bytes);
      }
      journal.force(false);
    } catch (IOException failure) {
      System.exit(3);
    }
  }
}
