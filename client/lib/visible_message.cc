#include "client/lib/visible_message.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/text.h"
#include "google/protobuf/descriptor.h"

namespace assay::client {
namespace {

using google::protobuf::FieldDescriptor;

bool IsPlain(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

void MakeVisible(google::protobuf::Message& message) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  std::vector<const FieldDescriptor*> present;
  fields.ListFields(message, &present);
  for (const FieldDescriptor* field : present) {
    const bool repeated = field->is_repeated();
    const int count = repeated ? fields.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
        MakeVisible(repeated ? *fields.MutableRepeatedMessage(&message, field, i)
                             : *fields.MutableMessage(&message, field));
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        std::string held;
        const std::string& text = repeated
                                      ? fields.GetRepeatedStringReference(message, field, i, &held)
                                      : fields.GetStringReference(message, field, &held);
        if (std::all_of(text.begin(), text.end(), IsPlain)) continue;  // nearly all
        std::string shown = VisibleLines(text);
        if (shown == text) continue;
        if (repeated) {
          fields.SetRepeatedString(&message, field, i, std::move(shown));
        } else {
          fields.SetString(&message, field, std::move(shown));
        }
      }
    }
  }
}

}  // namespace assay::client
