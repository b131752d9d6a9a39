#include "server/rpc/upload_stream.h"

#include <utility>

#include "absl/time/clock.h"
#include "kernels/text/cat.h"
#include "server/base/limit.h"
#include "server/base/request_errors.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/message_weight.h"

namespace assay::server {
namespace {

// Of a message, in memory: the bytes of a chunk, and what is around them. No header that is right
// takes as much.
constexpr std::int64_t kMostMessageInMemory = kMostChunkBytes + 4096;

absl::Status WrongChunk(std::size_t bytes) {
  return BadRequestError(
      {{"chunk", Cat("must have 1 to ", kMostChunkBytes, " bytes, got ", bytes)}});
}

// Parses the first message, or one behind it.
absl::Status ParsePart(const grpc::ByteBuffer& bytes, bool first,
                       v1::UploadKernelRequest& message) {
  switch (ParseAtMost(bytes, kMostMessageInMemory, message)) {
    case Parsed::kWhole:
      return absl::OkStatus();
    case Parsed::kDamaged:
      return BadRequestError({NoMessage(first ? "header" : "chunk", message)});
    case Parsed::kTooLarge:
      break;
  }
  if (!first) return WrongChunk(bytes.Length());
  return BadRequestError(
      {{"header", Cat("must take at most ", kMostMessageInMemory, " bytes in memory, and has ",
                      bytes.Length(), " bytes on the wire")}});
}

}  // namespace

std::shared_ptr<UploadStream> UploadStream::Start(Options options) {
  std::shared_ptr<UploadStream> stream(new UploadStream(std::move(options)));
  stream->self_ = stream;
  stream->Expect("header", stream->options_.base, &UploadStream::begun_, stream->late_header_);
  stream->StartRead(&stream->request_);
  return stream;
}

void UploadStream::Expect(std::string_view what, absl::Duration limit,
                          const bool UploadStream::*come, grpc::Alarm& alarm) {
  alarm.Set(absl::ToChronoTime(absl::Now() + limit),
            [weak = weak_from_this(), what, limit, come](bool rang) {
              const std::shared_ptr<UploadStream> late = weak.lock();
              if (!rang || late == nullptr) return;
              {
                const std::lock_guard lock(late->mutex_);
                if ((*late).*come) return;
              }
              late->Abort(absl::DeadlineExceededError(
                  Cat("the ", what, " did not come within ", absl::FormatDuration(limit))));
            });
}

void UploadStream::Abort(const absl::Status& status) {
  cancel_ = true;
  End(status);
}

absl::Status UploadStream::Take(const v1::UploadKernelRequest& request) {
  if (upload_ == nullptr) {
    if (!request.has_header()) {
      return BadRequestError({{"header", "must be the first message of the stream"}});
    }
    absl::StatusOr<std::unique_ptr<KernelUpload>> begun = options_.kernels->Begin(request.header());
    if (!begun.ok()) return begun.status();
    upload_ = *std::move(begun);
    {
      const std::lock_guard lock(mutex_);
      begun_ = true;
    }
    const std::int64_t seconds = upload_->kernel().size_bytes() / options_.bytes_per_second;
    Expect("file", options_.base + absl::Seconds(seconds), &UploadStream::compiling_, late_);
    return absl::OkStatus();
  }
  const std::string& bytes = request.chunk();
  if (bytes.empty() || bytes.size() > kMostChunkBytes) return WrongChunk(bytes.size());
  return upload_->Append(bytes);
}

void UploadStream::OnReadDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    if (end_) return;
  }
  if (ok) {
    v1::UploadKernelRequest request;
    absl::Status taken = ParsePart(request_, upload_ == nullptr, request);
    request_.Clear();
    if (taken.ok()) taken = Take(request);
    if (!taken.ok()) return End(taken);
    return StartRead(&request_);
  }
  if (upload_ == nullptr) {
    return End(BadRequestError({{"header", "must be the first message of the stream"}}));
  }
  {
    const std::lock_guard lock(mutex_);
    compiling_ = true;
  }
  const bool library = upload_->kernel().form() == v1::KERNEL_FORM_LIBRARY;
  TaskThread& thread = library ? *options_.libraries : *options_.compiles;
  if (thread.TryRun([stream = shared_from_this()] { stream->Compile(); })) return;
  End(LimitReached({.limit = Limit::kWaitingKernels,
                    .value = kMostKernelsWaiting,
                    .again = absl::Seconds(5),
                    .may = library ? "libraries that wait to be checked"
                                   : "kernels that wait for the compiler"}));
}

void UploadStream::Compile() {
  if (cancel_) return End(absl::CancelledError("the client has left"));
  const auto log = [this](const std::string& line) {
    v1::UploadKernelResponse response;
    response.set_log_line(line);
    Send(std::move(response));
  };
  absl::StatusOr<v1::UserKernel> kernel = options_.kernels->Keep(*upload_, log, cancel_);
  upload_.reset();
  if (kernel.ok()) {
    {
      const std::lock_guard lock(mutex_);
      provider_ = kernel->provider();
    }
    v1::UploadKernelResponse response;
    *response.mutable_kernel() = *std::move(kernel);
    Send(std::move(response));
    return End(absl::OkStatus());
  }
  End(kernel.status());
}

void UploadStream::Send(v1::UploadKernelResponse response) {
  const std::lock_guard lock(mutex_);
  if (end_) return;
  waiting_.push_back(std::move(response));
  WriteNext();
}

void UploadStream::WriteNext() {
  if (writing_ || finished_) return;
  if (!waiting_.empty()) {
    writing_ = true;
    StartWrite(&waiting_.front());
  } else if (end_) {
    finished_ = true;
    status_ = ToGrpcStatus(*end_);
    Finish(status_);
  }
}

void UploadStream::End(const absl::Status& status) {
  const std::shared_ptr<UploadStream> self = shared_from_this();  // Finish lets go of it
  const std::lock_guard lock(mutex_);
  if (end_) return;
  end_ = status;
  WriteNext();
}

void UploadStream::OnWriteDone(bool ok) {
  const std::shared_ptr<UploadStream> self = shared_from_this();  // Finish lets go of it
  const std::lock_guard lock(mutex_);
  writing_ = false;
  waiting_.pop_front();
  if (!ok) waiting_.clear();
  WriteNext();
}

void UploadStream::OnCancel() { Abort(absl::CancelledError("the client has left")); }

void UploadStream::OnDone() {
  late_header_.Cancel();
  late_.Cancel();
  std::shared_ptr<UploadStream> self;
  grpc::Status status;
  std::string provider;
  {
    const std::lock_guard lock(mutex_);
    self = std::move(self_);
    status = status_;
    provider = provider_;
  }
  options_.ended(status, provider);
}

}  // namespace assay::server
