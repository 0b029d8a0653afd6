// Callers: threads of one process that share a stream. Each writes records of its own and asks for
// hflush and hsync; the first of them closes the stream, or drops it, when the others have ended or
// while they are at work.
//
// What must hold: records stay whole, and each caller's in its order; what an acknowledgement
// covers is everything that its caller had written, and everything that was in the stream when it
// asked; what close() publishes are the records that were accepted, and no others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "hflush/stream/output_stream.h"
#include "sim/journal.h"
#include "sim/promises.h"
#include "sim/records.h"
#include "sim/texts.h"
#include "sim/world.h"

namespace hflush::sim {

class Callers {
 public:
  // A call has failed, and the stream goes on.
  using Refused = std::function<void(const Status&, TimePoint began)>;
  // A call has failed, and the stream has ended; others may be at work yet.
  using Ended = std::function<void()>;

  // Of a new file.
  Callers(World& world, Promises& promises, Texts& texts, stream::OutputStream& stream,
          Journal& journal, Refused refused, Ended ended);

  // In the program of the first of them. Returns when all have ended, with what close() has
  // answered; none: the stream was dropped.
  std::optional<Status> run();

 private:
  struct Caller {
    std::size_t number;
    Chance chance;
    std::size_t accepted = 0;  // of its records
  };

  struct Failure {
    Status status;
    TimePoint began;
  };

  void act(Caller& caller);
  Status operate(Caller& caller);
  Status write(Caller& caller);
  Status sync(Caller& caller, stream::Level level);
  void wait_for_others();
  void check_records();
  void check_published();

  World& world_;
  Promises& promises_;
  Texts& texts_;
  stream::OutputStream& stream_;
  Journal& journal_;
  const Refused refused_;
  const Ended ended_;
  Records records_;
  Chance chance_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::size_t working_ = 0;            // of the others
  World::Program* waiting_ = nullptr;  // for them
  std::vector<Failure> failures_;      // that ended a caller
  std::multiset<TimePoint> began_;     // the hsyncs under way
};

}  // namespace hflush::sim
