#include "client/report/from_json.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/lib/words.h"
#include "google/protobuf/timestamp.pb.h"

namespace assay::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

absl::Status Wrong(const std::string& path, const char* kind, const Json& value) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": must be ", kind, ", got ", Compact(value).substr(0, 60)));
}

// Also the strings that stand for what is not finite.
std::optional<double> AsNumber(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Integers of JSON that the type can hold; a number with a fraction is none.
template <class Int>
std::optional<Int> AsInteger(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<Int>::max())) return std::nullopt;
    return static_cast<Int>(number);
  }
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  if constexpr (std::is_unsigned_v<Int>) {
    if (number < 0) return std::nullopt;
  } else {
    if (number < std::numeric_limits<Int>::min() || number > std::numeric_limits<Int>::max()) {
      return std::nullopt;
    }
  }
  return static_cast<Int>(number);
}

// Sets a field, or adds to a repeated one.
class Setter {
 public:
  Setter(Message& message, const FieldDescriptor* field)
      : message_(message), field_(field), reflection_(message.GetReflection()) {}

  absl::Status Put(const Json& value, const std::string& path) {
    const bool many = field_->is_repeated();
    const auto put = [&](const auto& parsed, const char* kind, auto set, auto add) {
      if (!parsed) return Wrong(path, kind, value);
      if (many) {
        (reflection_->*add)(&message_, field_, *parsed);
      } else {
        (reflection_->*set)(&message_, field_, *parsed);
      }
      return absl::OkStatus();
    };
    using R = google::protobuf::Reflection;
    switch (field_->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return put(AsInteger<std::int32_t>(value), "a whole number", &R::SetInt32, &R::AddInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return put(AsInteger<std::int64_t>(value), "a whole number", &R::SetInt64, &R::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(AsInteger<std::uint32_t>(value), "a whole number", &R::SetUInt32, &R::AddUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(AsInteger<std::uint64_t>(value), "a whole number", &R::SetUInt64, &R::AddUInt64);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return put(AsNumber(value), "a number", &R::SetDouble, &R::AddDouble);
      case FieldDescriptor::CPPTYPE_FLOAT: {
        std::optional<float> number;
        if (const auto wide = AsNumber(value)) number = static_cast<float>(*wide);
        return put(number, "a number", &R::SetFloat, &R::AddFloat);
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt,
                   "true or false", &R::SetBool, &R::AddBool);
      case FieldDescriptor::CPPTYPE_ENUM: {
        std::optional<int> number;
        if (value.is_string()) {
          const auto& word = value.get_ref<const std::string&>();
          if (word.empty()) return absl::OkStatus();  // not said
          const auto parsed = ParseEnumWord(*field_->enum_type(), path, word);
          if (!parsed.ok()) return parsed.status();
          number = *parsed;
        }
        return put(number, "a word", &R::SetEnumValue, &R::AddEnumValue);
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return PutText(value, path);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return FillFromJson(value, path,
                            many ? *reflection_->AddMessage(&message_, field_)
                                 : *reflection_->MutableMessage(&message_, field_));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status PutText(const Json& value, const std::string& path) {
    if (!value.is_string()) return Wrong(path, "a text", value);
    std::string text = value.get<std::string>();
    // What a file says is shown on terminals, which obey control characters.
    std::replace_if(
        text.begin(), text.end(),
        [](unsigned char c) { return c < 0x20 && c != '\n' && c != '\t'; }, '?');
    if (field_->is_repeated()) {
      reflection_->AddString(&message_, field_, std::move(text));
    } else {
      reflection_->SetString(&message_, field_, std::move(text));
    }
    return absl::OkStatus();
  }

  Message& message_;
  const FieldDescriptor* field_;
  const google::protobuf::Reflection* reflection_;
};

absl::Status FillMap(const Json& value, const std::string& path, const FieldDescriptor* field,
                     Message& message) {
  if (!value.is_object()) return Wrong(path, "an object", value);
  for (const auto& [key, element] : value.items()) {
    Message* entry = message.GetReflection()->AddMessage(&message, field);
    entry->GetReflection()->SetString(entry, field->message_type()->map_key(), key);
    absl::Status status = Setter(*entry, field->message_type()->map_value())
                              .Put(element, absl::StrCat(path, ".", key));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillFromJson(const Json& object, const std::string& path, Message& message) {
  if (auto* time = dynamic_cast<google::protobuf::Timestamp*>(&message)) {
    absl::Time parsed;
    std::string error;
    if (!object.is_string() ||
        !absl::ParseTime(absl::RFC3339_full, object.get<std::string>(), &parsed, &error)) {
      return Wrong(path, "a time as in 2026-01-31T12:00:00Z", object);
    }
    const timespec parts = absl::ToTimespec(parsed);  // nanoseconds alone hold 292 years
    time->set_seconds(parts.tv_sec);
    time->set_nanos(static_cast<std::int32_t>(parts.tv_nsec));
    return absl::OkStatus();
  }
  if (!object.is_object()) return Wrong(path, "an object", object);
  for (const auto& [key, value] : object.items()) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(key);
    if (field == nullptr || value.is_null()) continue;
    const std::string at = path.empty() ? key : absl::StrCat(path, ".", key);
    absl::Status status;
    if (field->is_map()) {
      status = FillMap(value, at, field, message);
    } else if (field->is_repeated()) {
      if (!value.is_array()) return Wrong(at, "a list", value);
      for (std::size_t n = 0; n < value.size() && status.ok(); ++n) {
        status = Setter(message, field).Put(value[n], absl::StrCat(at, "[", n, "]"));
      }
    } else {
      status = Setter(message, field).Put(value, at);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace assay::client
