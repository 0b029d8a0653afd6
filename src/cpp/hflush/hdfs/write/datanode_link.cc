#include "hflush/hdfs/write/datanode_link.h"

#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "hflush/hdfs/write/node_faults.h"

namespace hflush::hdfs {
namespace {

// A reply or an ack: some hundred bytes, unless the DataNode explains itself.
constexpr std::size_t kMaxMessage = 64U << 10U;
// Acks take 13 bytes or so: this holds those of a whole window.
constexpr std::size_t kReceiveAtOnce = 4096;

}  // namespace

// Nothing but a failed allocation is thrown: an action is never without a value.
template <typename What>
void DataNodeLink::or_lost(What what) noexcept {  // NOLINT(bugprone-exception-escape)
  try {
    what();
  } catch (const std::bad_alloc&) {
    listener_->event_lost();
  }
}

void DataNodeLink::open() {
  MutexLock lock(mutex_);
  connection_ = loop_.connect(resolver_, node_, options_, shared_from_this());
}

void DataNodeLink::close() noexcept {
  std::shared_ptr<env::TcpConnection> ended;
  {
    MutexLock lock(mutex_);
    ended = std::move(connection_);
  }
  if (ended) ended->close();
}

std::ptrdiff_t DataNodeLink::send_some(std::span<const ByteView> pieces) noexcept {
  const std::shared_ptr<env::TcpConnection> open = connection();
  return open ? open->send_some(pieces) : -ENOTCONN;
}

void DataNodeLink::want_writable() {
  if (const std::shared_ptr<env::TcpConnection> open = connection()) open->want_writable();
}

void DataNodeLink::sending_failed(int error_number) {
  loop_.post([self = shared_from_this(), error_number] {
    self->on_readable();
    self->or_lost([&] { self->report_loss(Status::from_errno(error_number, "send", {})); });
  });
}

void DataNodeLink::on_connect_failed(Status failure) {
  or_lost([&] {
    const auto pause = is_own_shortage(failure) ? pauses_.next() : std::nullopt;
    if (!pause) return report_loss(std::move(failure));
    loop_.run_after(*pause, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->or_lost([&] { self->try_again(); });
    });
  });
}

// Unless it was closed meanwhile.
void DataNodeLink::try_again() {
  std::shared_ptr<env::TcpConnection> failed;  // destroyed without the lock
  const MutexLock lock(mutex_);
  if (!connection_) return;
  failed = std::exchange(connection_, nullptr);
  connection_ = loop_.connect(resolver_, node_, options_, shared_from_this());
}

void DataNodeLink::report_loss(Status failure) {
  Received received;
  received.lost = std::move(failure);
  listener_->received(number_, std::move(received));
}

// Once for each readiness: what is left is reported again.
void DataNodeLink::on_readable() {
  const std::shared_ptr<env::TcpConnection> open = connection();
  if (!open) return;
  or_lost([&] {
    Received received = receive(*open);
    if (received.reply || !received.acks.empty() || !received.lost.ok()) {
      listener_->received(number_, std::move(received));
    }
  });
}

DataNodeLink::Received DataNodeLink::receive(env::TcpConnection& connection) {
  Received received;
  std::array<std::byte, kReceiveAtOnce> buffer;
  const std::ptrdiff_t size = connection.receive_some(buffer);
  if (size > 0) {
    parse(ByteView(buffer).first(static_cast<std::size_t>(size)), received);
  } else if (size == 0) {
    received.lost =
        Status(StatusCode::kEndOfFile,
               "the DataNode " + connection.endpoint().to_string() + " closed the connection");
  } else if (size != -EAGAIN && size != -ENOTCONN) {
    received.lost = Status::from_errno(static_cast<int>(-size),
                                       "receive from " + connection.endpoint().to_string(), {});
  }
  return received;
}

void DataNodeLink::parse(ByteView bytes, Received& received) {
  std::string joined;
  if (!partial_.empty()) {
    joined = std::move(partial_);
    joined += as_text(bytes);
    bytes = as_bytes(joined);
  }
  while (received.lost.ok()) {
    const Result<std::size_t> size = delimited_size(bytes, kMaxMessage);
    if (!size.ok()) {
      received.lost = size.status();
    } else if (*size == 0) {
      break;
    } else if (!std::exchange(replied_, true)) {
      Result<OperationReply> reply = decode_operation_reply(bytes.first(*size));
      received.lost = reply.status();
      if (reply.ok()) received.reply = *std::move(reply);
    } else {
      Result<PipelineAck> ack = decode_pipeline_ack(bytes.first(*size));
      received.lost = ack.status();
      if (ack.ok()) received.acks.push_back(*std::move(ack));
    }
    if (received.lost.ok()) bytes = bytes.subspan(*size);
  }
  partial_.assign(as_text(bytes));
}

}  // namespace hflush::hdfs
