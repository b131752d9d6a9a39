#include "server/rpc/compare_stream.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/text/cat.h"
#include "server/base/compare_header.h"
#include "server/base/error_info.h"
#include "server/base/even_time.h"
#include "server/base/limit.h"
#include "server/base/request_errors.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/message_weight.h"
#include "server/worker/raw_message.h"

namespace assay::server {
namespace {

// The most comparisons that wait for one device.
constexpr std::size_t kMostWaiting = 32;

absl::StatusOr<CaseExecutor*> FindDevice(const DeviceSet& devices, const std::string& wanted) {
  const std::vector<CaseExecutor*> found = devices.Select(wanted);
  if (!found.empty()) return found.front();
  for (const v1::Device& device : devices.unavailable) {
    if (device.id() != wanted && Cat(device.id(), ":*") != wanted) continue;
    return WithReason(absl::NotFoundError(Cat("device: \"", wanted, "\" cannot be used here: ",
                                              device.unavailable_reason())),
                      v1::ERROR_REASON_DEVICE_UNUSABLE, "header.device");
  }
  std::vector<std::string> known;
  for (const auto& executor : devices.executors) known.push_back(executor->device_id());
  return WithReason(absl::NotFoundError(Cat("device: no device \"", wanted.substr(0, 64),
                                            "\"; this daemon has ", Join(known, ", "))),
                    v1::ERROR_REASON_DEVICE_NOT_FOUND, "header.device");
}

// Of a message, in memory: the bytes of a piece, and what is around them. No header that is right
// takes as much.
constexpr std::int64_t kMostPieceInMemory = kMostPieceBytes + 4096;

absl::Status WrongSize(std::size_t bytes) {
  return BadRequestError(
      {{"chunk.data", Cat("must have 1 to ", kMostPieceBytes, " bytes, got ", bytes)}});
}

absl::Status ParseHeader(const grpc::ByteBuffer& bytes, v1::CompareTensorsRequest& first) {
  switch (ParseAtMost(bytes, kMostPieceInMemory, first)) {
    case Parsed::kTooLarge:
      return BadRequestError(
          {{"header",
            Cat("must take at most ", kMostPieceInMemory, " bytes in memory, and has ",
                bytes.Length(), " bytes on the wire; it names at most ", kMostInputs, " inputs")}});
    case Parsed::kDamaged:
      return BadRequestError({NoMessage("header", first)});
    case Parsed::kWhole:
      break;
  }
  if (first.has_header()) return absl::OkStatus();
  return BadRequestError({{"header", "must be the first message of the stream"}});
}

// A message behind the first.
absl::Status ParsePiece(const grpc::ByteBuffer& bytes, v1::CompareTensorsRequest& piece) {
  switch (ParseAtMost(bytes, kMostPieceInMemory, piece)) {
    case Parsed::kTooLarge:
      return WrongSize(bytes.Length());
    case Parsed::kDamaged:
      return BadRequestError({NoMessage("chunk", piece)});
    case Parsed::kWhole:
      break;
  }
  const std::size_t size = piece.chunk().data().size();
  return static_cast<std::int64_t>(size) <= kMostPieceBytes ? absl::OkStatus() : WrongSize(size);
}

}  // namespace

std::shared_ptr<CompareStream> CompareStream::Start(Options options, grpc::ByteBuffer* response) {
  std::shared_ptr<CompareStream> stream(new CompareStream(std::move(options), response));
  stream->self_ = stream;
  if (stream->options_.refuse.ok()) {
    stream->ExpectHeader();
    stream->Begin();
  } else {
    stream->Finished(stream->options_.refuse);
  }
  return stream;
}

void CompareStream::ExpectHeader() {
  late_header_.Set(
      absl::ToChronoTime(absl::Now() + options_.upload.base), [weak = weak_from_this()](bool rang) {
        const std::shared_ptr<CompareStream> late = weak.lock();
        if (!rang || late == nullptr || late->first_seen_.exchange(true)) return;
        late->Finished(absl::DeadlineExceededError(Cat(
            "the header did not come within ", absl::FormatDuration(late->options_.upload.base))));
      });
}

void CompareStream::OnReadDone(bool ok) {
  if (!first_seen_.exchange(true)) return OnFirst(ok);
  v1::CompareTensorsRequest piece;
  if (ok) {
    // A few messages are read ahead, before the device takes them.
    if (absl::Status s = ParsePiece(incoming(), piece); !s.ok()) {
      Abort(s);
      ok = false;  // it is not taken, and nothing is read behind it
    }
  }
  Push(ok ? &piece : nullptr);
}

void CompareStream::OnFirst(bool ok) {
  v1::CompareTensorsRequest first;
  if (!ok) {
    Push(nullptr);
    if (RawPieceReader::Take(&first) == Next::kGone) {
      return Finished(absl::CancelledError("the client has gone"));
    }
    return Finished(BadRequestError({{"header", "must be the first message of the stream"}}));
  }
  absl::Status status = ParseHeader(incoming(), first);
  Pause();
  if (status.ok()) status = Accept(first);
  if (!status.ok()) return Finished(status);
  const bool taken = options_.run(device_, [stream = shared_from_this()] { stream->Run(); });
  if (taken) return;
  Finished(LimitReached({.limit = Limit::kWaitingComparisons,
                         .value = kMostWaiting,
                         .again = absl::Seconds(1),
                         .may = Cat("comparisons that wait for ", device_->device_id())}));
}

absl::Status CompareStream::Accept(const v1::CompareTensorsRequest& first) {
  header_ = first.header();
  std::vector<FieldError> errors;
  // Checked first, because a header may hold millions of inputs.
  if (header_.inputs_size() > kMostInputs) {
    return BadRequestError(
        {{"header.inputs", Cat("must be at most ", kMostInputs, ", got ", header_.inputs_size())}});
  }
  const Comparison comparison = FromProto(header_, errors);
  if (!errors.empty()) {
    for (FieldError& e : errors) e.field = Cat("header.", e.field);
    return BadRequestError(errors);
  }
  const absl::StatusOr<Plan> plan = PlanOf(comparison);
  if (absl::IsInvalidArgument(plan.status())) {
    return BadRequestError({ErrorInHeader(plan.status())});
  }
  if (!plan.ok()) return plan.status();
  absl::StatusOr<CaseExecutor*> device = FindDevice(*options_.devices, header_.device());
  if (!device.ok()) return device.status();
  device_ = *device;
  limit_ = comparison.rule.deadline_seconds ? absl::Seconds(*comparison.rule.deadline_seconds)
                                            : options_.limit;
  numbers_ = comparison.numbers();
  for (int i = 0; i < numbers_; ++i) {
    const TensorSpec* tensor = comparison.tensor(i);
    if (tensor != nullptr) upload_bytes_ += tensor->bytes();
  }
  upload_limit_ =
      options_.upload.base + absl::Seconds(upload_bytes_ / options_.upload.bytes_per_second);
  const std::int64_t there = device_->Describe().arena_bytes();
  const std::int64_t needed = ArenaBytes(comparison, *plan);
  if (there <= 0 || needed <= there) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat("the comparison needs ", needed,
                                          " bytes (the tensors, and FP64 for their reference), ",
                                          "the arena of ", device_->device_id(), " has ", there));
}

void CompareStream::Run() {
  Begin();  // reads on
  absl::StatusOr<v1::CaseResult> result = device_->Compare(header_, *this, limit_, cancel_);
  if (!refused_.ok()) return Finished(refused_);
  if (result.ok()) *response_ = RawMessage(*result);
  Finished(result.status());
}

PieceSource::Next CompareStream::Take(v1::CompareTensorsRequest* piece) {
  if (!refused_.ok()) return Next::kGone;
  const absl::Time now = EvenTime();
  // The device takes pieces from now on. The client's time begins here, not while it waited.
  if (upload_end_ == absl::InfiniteFuture()) upload_end_ = now + upload_limit_;
  const Next next = RawPieceReader::Take(piece);
  if (next == Next::kPiece) refused_ = CheckPiece(*piece);
  if (next != Next::kEnd && refused_.ok() && now > upload_end_) {
    refused_ = absl::DeadlineExceededError(
        Cat("the tensors, ", upload_bytes_, " bytes, did not come within ",
            absl::FormatDuration(upload_limit_), ", which is ",
            absl::FormatDuration(options_.upload.base), " and their time at ",
            options_.upload.bytes_per_second / 1'000'000, " MB/s"));
  }
  return refused_.ok() ? next : Next::kGone;
}

absl::Status CompareStream::CheckPiece(const v1::CompareTensorsRequest& piece) const {
  if (!piece.has_chunk()) {
    return BadRequestError({{"chunk", "must be all but the first message"}});
  }
  if (piece.chunk().tensor() < 0 || piece.chunk().tensor() >= numbers_) {
    return BadRequestError({{"chunk.tensor", Cat("must be 0 to ", numbers_ - 1,
                                                 " by the header, got ", piece.chunk().tensor())}});
  }
  return piece.chunk().data().empty() ? WrongSize(0) : absl::OkStatus();
}

void CompareStream::Finished(const absl::Status& status) {
  grpc::Status answer;
  {
    const std::lock_guard lock(mutex_);
    status_ = ToGrpcStatus(abort_.value_or(status));
    answer = status_;
  }
  End(answer);
}

void CompareStream::Abort(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    abort_ = status;
  }
  cancel_.Cancel();
  GiveUp();
}

void CompareStream::OnCancel() {
  cancel_.Cancel();
  GiveUp();
}

void CompareStream::OnDone() {
  late_header_.Cancel();
  std::shared_ptr<CompareStream> self;
  grpc::Status status;
  {
    const std::lock_guard lock(mutex_);
    self = std::move(self_);
    status = status_;
  }
  options_.ended(status);
}

Comparisons::Comparisons(JobManager& jobs, const DeviceSet& devices, UploadLimit upload)
    : jobs_(jobs), devices_(devices), upload_(upload) {
  for (const auto& executor : devices_.executors) {
    threads_[executor.get()] = std::make_unique<TaskThread>(kMostWaiting);
  }
}

std::shared_ptr<CompareStream> Comparisons::Start(grpc::ByteBuffer* response,
                                                  std::function<void(const grpc::Status&)> ended) {
  CompareStream::Options options;
  options.devices = &devices_;
  options.upload = upload_;
  options.limit = jobs_.options().case_deadline;
  options.run = [this](CaseExecutor* device, std::function<void()> task) {
    return threads_.at(device)->TryRun(std::move(task));
  };
  options.ended = std::move(ended);
  if (jobs_.draining()) options.refuse = Stopping();
  return CompareStream::Start(std::move(options), response);
}

}  // namespace assay::server
