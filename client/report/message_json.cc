#include "client/report/message_json.h"

#include <cmath>
#include <map>
#include <utility>

#include "client/lib/words.h"
#include "client/report/report.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace assay::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The value of one element of a repeated field (index >= 0) or of a singular one.
Json ValueJson(const Message& message, const FieldDescriptor* field, int index) {
  const auto* reflection = message.GetReflection();
  const bool repeated = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return repeated ? reflection->GetRepeatedInt32(message, field, index)
                      : reflection->GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return repeated ? reflection->GetRepeatedInt64(message, field, index)
                      : reflection->GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return repeated ? reflection->GetRepeatedUInt32(message, field, index)
                      : reflection->GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return repeated ? reflection->GetRepeatedUInt64(message, field, index)
                      : reflection->GetUInt64(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(repeated ? reflection->GetRepeatedDouble(message, field, index)
                             : reflection->GetDouble(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(static_cast<double>(repeated
                                            ? reflection->GetRepeatedFloat(message, field, index)
                                            : reflection->GetFloat(message, field)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return repeated ? reflection->GetRepeatedBool(message, field, index)
                      : reflection->GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumWord(*field->enum_type(),
                      repeated ? reflection->GetRepeatedEnumValue(message, field, index)
                               : reflection->GetEnumValue(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return repeated ? reflection->GetRepeatedString(message, field, index)
                      : reflection->GetString(message, field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageJson(repeated ? reflection->GetRepeatedMessage(message, field, index)
                                  : reflection->GetMessage(message, field));
  }
  return nullptr;
}

// A map field as an object; protobuf keeps its entries as messages (key, value).
Json MapJson(const Message& message, const FieldDescriptor* field) {
  std::map<std::string, Json> entries;
  const auto* key = field->message_type()->map_key();
  const auto* value = field->message_type()->map_value();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
    const Message& entry = message.GetReflection()->GetRepeatedMessage(message, field, i);
    entries[entry.GetReflection()->GetString(entry, key)] = ValueJson(entry, value, -1);
  }
  Json object = Json::object();
  for (auto& [name, entry] : entries) object[name] = std::move(entry);
  return object;
}

}  // namespace

Json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

std::string UtcText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
}

Json MessageJson(const Message& message) {
  if (const auto* time = dynamic_cast<const google::protobuf::Timestamp*>(&message)) {
    return UtcText(Time(*time));
  }
  if (const auto* duration = dynamic_cast<const google::protobuf::Duration*>(&message)) {
    return Seconds(*duration);
  }
  Json json = Json::object();
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (field->is_map()) {
      json[field->name()] = MapJson(message, field);
    } else if (field->is_repeated()) {
      Json list = Json::array();
      for (int j = 0; j < reflection->FieldSize(message, field); ++j) {
        list.push_back(ValueJson(message, field, j));
      }
      json[field->name()] = std::move(list);
    } else if (!field->has_presence() || reflection->HasField(message, field)) {
      Json value = ValueJson(message, field, -1);
      if (value.is_string() && value.get_ref<const std::string&>().empty()) continue;
      json[field->name()] = std::move(value);
    }
  }
  return json;
}

std::string Compact(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Indented(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace assay::client
