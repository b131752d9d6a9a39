#include "server/rpc/message_weight.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

#include "kernels/text/cat.h"
#include "server/base/limit.h"
#include "server/base/request_errors.h"

namespace assay::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Beside the message itself: the allocator's part, and a pointer in a list that has grown.
constexpr std::int64_t kMessageBeside = 32;
constexpr std::int64_t kMapEntry = 128;
// A string, with the allocator's part and the same pointer; its text comes on top.
constexpr std::int64_t kString = 96;
// A number of a repeated field, of which a byte on the wire may be one.
constexpr std::int64_t kNumber = 16;
// A field that the type does not have, or has in another form, which is kept all the same.
constexpr std::int64_t kUnknown = 96;
// protobuf parses nothing that is nested deeper.
constexpr int kDeepest = 100;

std::int64_t SizeOf(const Descriptor& type) {
  if (type.options().map_entry()) return kMapEntry;
  const google::protobuf::Message* prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type);
  return static_cast<std::int64_t>(prototype->SpaceUsedLong()) + kMessageBeside;
}

// The field if what comes in this form on the wire is of it. Numbers of a list may come packed.
const FieldDescriptor* Fitting(const FieldDescriptor* field, WireFormatLite::WireType form) {
  if (field == nullptr) return nullptr;
  const bool packed = field->is_packable() && form == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  const auto type = static_cast<WireFormatLite::FieldType>(field->type());
  return packed || WireFormatLite::WireTypeForFieldType(type) == form ? field : nullptr;
}

class Scale {
 public:
  explicit Scale(std::int64_t most) : most_(most) {}

  std::int64_t weight() const { return weight_; }

  // Takes the fields of a message, up to the limit of `in`. Returns false if no more is to be
  // taken: there is too much, or damage.
  bool Take(const Descriptor& type, CodedInputStream& in, int depth) {
    int groups = 0;  // that are open: no type has any, so all in them is unknown
    while (weight_ <= most_) {
      const std::uint32_t tag = in.ReadTag();
      if (tag == 0) return in.ConsumedEntireMessage();
      const WireFormatLite::WireType form = WireFormatLite::GetTagWireType(tag);
      const FieldDescriptor* field =
          groups > 0
              ? nullptr
              : Fitting(type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag)), form);
      std::uint64_t number = 0;
      switch (form) {
        case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
          if (!TakeLong(field, in, depth)) return false;
          continue;
        case WireFormatLite::WIRETYPE_START_GROUP:
          ++groups;
          break;
        case WireFormatLite::WIRETYPE_END_GROUP:
          if (--groups < 0) return false;
          break;
        case WireFormatLite::WIRETYPE_VARINT:
          if (!in.ReadVarint64(&number)) return false;
          break;
        case WireFormatLite::WIRETYPE_FIXED64:
          if (!in.Skip(8)) return false;
          break;
        case WireFormatLite::WIRETYPE_FIXED32:
          if (!in.Skip(4)) return false;
          break;
        default:
          return false;
      }
      weight_ += field == nullptr ? kUnknown : kNumber;
    }
    return false;
  }

 private:
  // A field with a length: a message, a text, or packed numbers.
  bool TakeLong(const FieldDescriptor* field, CodedInputStream& in, int depth) {
    int length = 0;
    if (!in.ReadVarintSizeAsInt(&length) || length > in.BytesUntilLimit()) return false;
    if (field == nullptr) {
      weight_ += kUnknown + length;
    } else if (field->message_type() != nullptr && depth < kDeepest) {
      weight_ += SizeOf(*field->message_type());
      const CodedInputStream::Limit outer = in.PushLimit(length);
      const bool whole = Take(*field->message_type(), in, depth + 1);
      in.PopLimit(outer);
      return whole;
    } else {
      const bool text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      weight_ += kString + (text ? length : kNumber * length);
    }
    return in.Skip(length);
  }

  const std::int64_t most_;
  std::int64_t weight_ = 0;
};

absl::Status AnswerTo(Parsed parsed, std::int64_t most, const google::protobuf::Message& request,
                      std::string_view instead) {
  switch (parsed) {
    case Parsed::kWhole:
      return absl::OkStatus();
    case Parsed::kDamaged:
      return BadRequestError({NoMessage("request", request)});
    case Parsed::kTooLarge:
      break;
  }
  return LimitReached({.limit = Limit::kRequestBytes,
                       .value = most,
                       .again = absl::ZeroDuration(),
                       .may = "bytes in memory",
                       .instead = instead});
}

}  // namespace

std::int64_t ParsedBytes(const Descriptor& type, std::string_view bytes, std::int64_t most) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  in.PushLimit(static_cast<int>(bytes.size()));
  Scale scale(most);
  scale.Take(type, in, 0);
  return scale.weight();
}

Parsed ParseAtMost(std::string_view bytes, std::int64_t most, google::protobuf::Message& message) {
  if (ParsedBytes(*message.GetDescriptor(), bytes, most) > most) return Parsed::kTooLarge;
  const bool whole = message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  return whole ? Parsed::kWhole : Parsed::kDamaged;
}

Parsed ParseAtMost(const grpc::ByteBuffer& bytes, std::int64_t most,
                   google::protobuf::Message& message) {
  if (bytes.Valid() && static_cast<std::int64_t>(bytes.Length()) > most) return Parsed::kTooLarge;
  grpc::Slice whole;
  if (bytes.Valid() && !bytes.DumpToSingleSlice(&whole).ok()) return Parsed::kDamaged;
  return ParseAtMost(std::string_view(reinterpret_cast<const char*>(whole.begin()), whole.size()),
                     most, message);
}

FieldError NoMessage(std::string_view field, const google::protobuf::Message& message) {
  return {std::string(field),
          Cat("is no ", message.GetDescriptor()->full_name(), ", but other bytes")};
}

absl::Status ParseWeighed(std::string_view bytes, std::int64_t most,
                          google::protobuf::Message& request) {
  return AnswerTo(ParseAtMost(bytes, most, request), most, request, "send fewer cases at a time");
}

absl::Status ParseWeighed(const grpc::ByteBuffer& bytes, std::int64_t most,
                          google::protobuf::Message& request) {
  return AnswerTo(ParseAtMost(bytes, most, request), most, request, "send only its own fields");
}

}  // namespace assay::server
