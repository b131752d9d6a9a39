#include "client/lib/compare.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/text.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

// A message's overhead goes on top; the daemon takes at most 1 MiB of data in one.
constexpr std::size_t kPiece = std::size_t{1} << 20;

// Formats that elements of a file can be taken for: "e4m3fn, e5m2".
std::string FormatsOf(const NpyElement& element) {
  std::vector<std::string> words;
  for (int number = v1::DType_MIN + 1; number <= v1::DType_MAX; ++number) {
    const auto dtype = static_cast<v1::DType>(number);
    if (v1::DType_IsValid(number) && CanHold(element, dtype)) words.push_back(Word(dtype));
  }
  return absl::StrJoin(words, ", ");
}

}  // namespace

std::vector<std::int64_t> CompareTensor::Shape() const {
  std::vector<std::int64_t> shape = file->shape();
  if (dtype != v1::DTYPE_E2M1) return shape;
  if (shape.empty()) shape.push_back(1);
  // Of a file's bytes; an empty one may claim any other extent.
  if (__builtin_mul_overflow(shape.back(), 2, &shape.back())) {
    shape.back() = std::numeric_limits<std::int64_t>::max();
  }
  return shape;
}

absl::StatusOr<v1::DType> FormatOf(const NpyFile& file, const DtypeOption& own,
                                   const DtypeOption& common) {
  const NpyElement& element = file.element();
  const auto fits = [&](const DtypeOption& option) {
    return option.dtype != v1::DTYPE_UNSPECIFIED && CanHold(element, option.dtype);
  };
  const auto refuse = [&](const DtypeOption& option) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": its elements of ", 8 * element.bytes, " bits cannot be ",
        Word(option.dtype), "; ", View(option.option), " may be ", FormatsOf(element)));
  };
  if (own.dtype != v1::DTYPE_UNSPECIFIED) {
    if (fits(own)) return own.dtype;
    return refuse(own);
  }
  if (fits(common)) return common.dtype;
  if (element.dtype != v1::DTYPE_UNSPECIFIED) return element.dtype;
  if (common.dtype != v1::DTYPE_UNSPECIFIED) return refuse(common);
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": holds raw words of ", 8 * element.bytes,
      " bits; say which format they are: ", View(common.option), " (", FormatsOf(element), ")"));
}

grpc::Status CompareTensors(Connection& connection, const v1::CompareHeader& header,
                            const std::vector<const CompareTensor*>& tensors,
                            v1::CaseResult* result) {
  grpc::ClientContext context;
  const auto writer = connection.stub().CompareTensors(&context, result);
  v1::CompareTensorsRequest request;
  *request.mutable_header() = header;
  bool open = writer->Write(request);
  absl::Status lost;
  for (std::size_t i = 0; i < tensors.size() && open && lost.ok(); ++i) {
    if (tensors[i] == nullptr) continue;
    v1::TensorChunk& chunk = *request.mutable_chunk();
    chunk.set_tensor(static_cast<std::int32_t>(i));
    NpyFile::Reader reader(*tensors[i]->file, kPiece);
    while (open) {
      const absl::StatusOr<std::string_view> piece = reader.Next();
      lost = piece.status();
      if (!lost.ok() || piece->empty()) break;
      chunk.mutable_data()->assign(piece->data(), piece->size());
      open = writer->Write(request);
    }
  }
  if (!lost.ok()) context.TryCancel();
  if (open) writer->WritesDone();
  grpc::Status status = writer->Finish();
  // What the daemon refused is what there is to say, whatever else went wrong.
  if (lost.ok() || status.error_code() != grpc::StatusCode::CANCELLED) return status;
  return {grpc::StatusCode::DATA_LOSS, std::string(lost.message())};
}

}  // namespace assay::client
