// BlockingSocket: one TCP connection used by the thread that wants the bytes.
//
// What a reader uses: the caller's own thread waits in poll(2), in slices between which the caller
// may interrupt. Thread-compatible: one thread at a time. Failures are Status with host and port;
// after one of them the connection is good for nothing but its destructor, unless it is kTimedOut
// or comes from the Interrupt: then nothing was received, and an unknown part was sent. A timeout
// of kNoTimeout never passes. Closed by the destructor, which tells the peer even if a forked child
// still has the descriptor; in such a child it leaves the parent's connection alone.
//
// BlockingConnector: where they come from: the machine's, or a simulation's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hflush/base/bytes.h"
#include "hflush/base/check.h"
#include "hflush/base/result.h"
#include "hflush/env/clock.h"
#include "hflush/env/interrupt.h"
#include "hflush/env/socket.h"

namespace hflush::env {

class BlockingSocket {
 public:
  // The connection itself, which never waits but in wait().
  class Line {
   public:
    enum class Ready : std::uint8_t { kToReceive, kToSend };

    virtual ~Line() = default;
    virtual const Clock& clock() const noexcept = 0;
    // Bytes, -EAGAIN, or -errno; 0 received: the end of the stream.
    virtual std::ptrdiff_t send_some(std::span<const ByteView> pieces) noexcept = 0;
    virtual std::ptrdiff_t receive_some(std::span<const MutableByteView> pieces) noexcept = 0;
    // Whether it is ready, or has failed, before the deadline.
    virtual Result<bool> wait(Ready ready, TimePoint deadline, Interrupt& interrupt) = 0;
    virtual void set_low_water(std::size_t bytes) noexcept = 0;
    virtual bool is_stale() const noexcept = 0;
  };

  BlockingSocket(std::unique_ptr<Line> line, Endpoint endpoint) noexcept;
  // On the machine. `timeout` bounds the whole attempt, all addresses of the name included.
  // Failures as those of TcpConnection.
  static Result<BlockingSocket> connect(const Endpoint& endpoint, Duration timeout,
                                        Interrupt& interrupt);
  BlockingSocket(BlockingSocket&& other) noexcept = default;
  BlockingSocket& operator=(BlockingSocket&& other) noexcept = default;
  ~BlockingSocket() = default;

  const Endpoint& endpoint() const noexcept { return endpoint_; }

  // Sends all of `pieces`. kTimedOut if nothing moves for `timeout`.
  Status send_all(std::span<const ByteView> pieces, Duration timeout, Interrupt& interrupt);
  // At least 1 byte, at most out.size(); 0 at the end of the stream. kTimedOut if nothing comes for
  // `timeout`. Requires: !out.empty().
  Result<std::size_t> receive_some(MutableByteView out, Duration timeout, Interrupt& interrupt) {
    HFLUSH_DCHECK(!out.empty());
    return receive_some(std::span<const MutableByteView>(&out, 1), timeout, interrupt);
  }
  // The same into several pieces, filled one after the other.
  Result<std::size_t> receive_some(std::span<const MutableByteView> pieces, Duration timeout,
                                   Interrupt& interrupt);
  // If receive_some() has to wait, let it be for so many bytes, within reason: less that has come
  // is returned after kLowWaterPatience. Spares both sides many wakings. 1 at first.
  void set_low_water(std::size_t bytes) noexcept;
  // Whether the peer has closed, or has sent what was not asked for. Never waits.
  bool is_stale() const noexcept { return line_->is_stale(); }

  static constexpr Duration kLowWaterPatience = std::chrono::milliseconds(20);

 private:
  std::unique_ptr<Line> line_;
  Endpoint endpoint_;
  std::size_t low_water_ = 1;
};

class BlockingConnector {
 public:
  virtual ~BlockingConnector() = default;
  // As BlockingSocket::connect().
  virtual Result<BlockingSocket> connect(const Endpoint& endpoint, Duration timeout,
                                         Interrupt& interrupt) = 0;
};

// The machine's.
BlockingConnector& machine_connector() noexcept;

}  // namespace hflush::env
