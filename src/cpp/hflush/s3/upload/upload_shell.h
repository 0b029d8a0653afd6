// UploadShell: does what the BlockUpload of one object decides. It reports to it the stream's
// packets and the store's answers. UploadDriver: what only the thread that drives may touch
// (stream/driven.h).
//
// Packets go to the PartStore on the caller's thread, which may wait for a disk there; the loop
// thread may when it sends a part that lies on one (part_store.h). Calls are made through the
// Client, whose answers arrive on the loop thread, or on a caller's that waits.
//
// Thread-safe. No lock is held across a call or a report to the stream, and nothing waits for the
// network. After abandon() has returned nothing of the stream is touched; calls under way are
// cancelled and the upload is aborted on the loop, which keeps alive what that needs. Where an
// allocation of this class fails the stream fails and everything is dropped, also on the loop
// thread; the layers below promise less there (client.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hflush/base/buffer_pool.h"
#include "hflush/base/result.h"
#include "hflush/s3/call/client.h"
#include "hflush/s3/upload/block_upload.h"
#include "hflush/s3/upload/ledger.h"
#include "hflush/s3/upload/part_store.h"
#include "hflush/s3/upload/publication_time.h"
#include "hflush/s3/upload/upload_calls.h"
#include "hflush/s3/upload/upload_target.h"
#include "hflush/s3/upload/writer_window.h"
#include "hflush/stream/driven.h"

namespace hflush::s3 {

class UploadShell;

class UploadDriver {
 public:
  UploadDriver(stream::Reports& reports, UploadShell& shell, const UploadTarget& target,
               PartStore& store, UploadLedger& ledger);

  // Packets were added to the store, which then held the bytes below `end`, those below `stored`
  // on disk.
  void put(const Status& added, std::uint64_t end, std::uint64_t stored);
  void keep(std::uint32_t parts);
  void finish();
  void abandon();

  void perform(const upload_action::Create& create);
  void perform(const upload_action::PutObject& put);
  void perform(const upload_action::UploadPart& part);
  void perform(const upload_action::Complete& complete);
  void perform(const upload_action::LookAtKey& look);
  void perform(const upload_action::LookAtUpload& look);
  void perform(const upload_action::Abort& abort);
  void perform(const upload_action::Cancel& cancel);
  void perform(const upload_action::Forget& forget);
  void perform(const upload_action::Kept& kept);
  void perform(const upload_action::Acknowledge& acknowledge);
  void perform(const upload_action::Finished& finished);
  void perform(const upload_action::Failed& failed);
  void settled();
  void release() noexcept;

  UploadActions actions;

 private:
  // A call that was asked for and has not been answered to the machine.
  enum class Kind : std::uint8_t { kCreate, kPart, kPublication, kLook, kAbort };
  using Ticket = std::uint64_t;
  struct UnderWay {
    Ticket ticket = 0;
    Kind kind = Kind::kCreate;
    std::uint32_t number = 0;            // of a part
    std::optional<std::uint64_t> block;  // the bytes of its body, if that is the stream's
    env::TimePoint since = {};
    Client::CallId id = 0;  // 0: not started yet
  };
  // The attempts to publish.
  struct Publishing {
    PublicationTime time;
    // The last attempt that failed or was cancelled, until a look finds that it took place.
    std::optional<UnderWay> unanswered = {};
    // The counter that has counted `unanswered`; nullptr: none has.
    std::int64_t UploadCounters::* counted_as = nullptr;
    std::uint32_t again = 0;  // how often the publication was asked for before
  };
  enum class Stream : std::uint8_t { kListens, kHasEnded, kAbandoned };

  Ticket begin(Kind kind, std::uint32_t number = 0);
  UnderWay* under_way(Ticket ticket) noexcept;
  // The call is answered; nullopt: it was before.
  std::optional<UnderWay> end(Ticket ticket);
  void begin_block(Ticket ticket, std::uint64_t bytes);
  template <typename Feed>
  void start(Ticket ticket, Call call, const Feed& feed);
  void cancel(Ticket ticket);
  void cancelled(Ticket ticket);

  void ask_publication(std::uint32_t again, void (UploadDriver::*ask)(Ticket));
  void put_object(Ticket ticket);
  void complete(Ticket ticket);
  void publication_unanswered(UnderWay publication, std::int64_t UploadCounters::* counts_as,
                              std::optional<env::TimePoint> deadline = {});
  void publication_done(const UnderWay& publication);
  void publication_found();
  void watch_time();
  env::TimePoint now() const;

  CallFailure failure_of(const CallResult& result, const std::string& detail) const;
  Status explain(const Status& failure, const std::string& detail) const;
  std::string describe_upload() const;
  Seen seen(const CallResult& result);
  void create_answered(const CallResult& result);
  void created(const CallResult& result);
  void part_answered(PartReceipt receipt, const CallResult& result);
  void put_answered(const UnderWay& publication, const CallResult& result);
  void complete_answered(const UnderWay& publication, std::size_t parts, const CallResult& result);
  void abort_answered(const CallResult& result);

  void publish();
  void move_window();
  void let_go() noexcept;

  stream::Reports& reports_;
  UploadShell& shell_;
  const UploadTarget& target_;
  PartStore& store_;
  UploadLedger& ledger_;
  const UploadCalls asking_;

  BlockUpload machine_;
  WriterWindow window_;
  std::optional<BufferPool::Reservation> reservation_;  // from its first part to the stream's end
  std::vector<UnderWay> calls_;
  Ticket last_ticket_ = 0;
  UploadCounters counters_;
  Stream stream_ = Stream::kListens;
  std::string version_id_;
  Checksums checksums_;
  bool compares_parts_ = false;  // Create was answered without a word about encryption
  bool maybe_another_ = false;  // an attempt at Create was not answered: it may have left an upload
  Publishing publishing_;
};

class UploadShell final : public KeepableUpload, public std::enable_shared_from_this<UploadShell> {
 public:
  UploadShell(std::shared_ptr<Client> client, ObjectOptions options);

  const ObjectOptions& options() const noexcept { return target_.options; }
  env::EventLoop& loop() const noexcept { return target_.client->loop(); }
  std::shared_ptr<UploadLedger> ledger() const noexcept { return ledger_; }

  void put(std::span<stream::Packet> packets, stream::SinkEvents& events);
  // The bytes are out of the stream's hands as soon as they are put.
  void sync(stream::Level level, stream::SinkEvents& events);
  void finish(stream::SinkEvents& events);
  void abandon() noexcept;
  Result<KeptUpload> keep(std::uint64_t offset, env::Interrupt& interrupt) override;

  // `feed(driver)`, as Driven has it.
  template <typename Feed>
  void drive(Feed feed) {
    driven_.drive(std::move(feed));
  }
  // The process has memory for the writer.
  void room_came();

 private:
  const UploadTarget target_;
  PartStore store_;
  const std::shared_ptr<UploadLedger> ledger_;
  stream::Driven<UploadDriver> driven_;  // last: its driver uses the others
};

}  // namespace hflush::s3
