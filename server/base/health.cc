#include "server/base/health.h"

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace assay::server {

std::string HealthJson(const Health& health) {
  google::protobuf::Struct document;
  auto& fields = *document.mutable_fields();
  fields["status"].set_string_value(health.status);
  fields["serving"].set_bool_value(health.serving);
  auto& warnings = *fields["warnings"].mutable_list_value();
  for (const std::string& warning : health.warnings) {
    warnings.add_values()->set_string_value(warning);
  }
  auto& devices = *fields["devices"].mutable_struct_value()->mutable_fields();
  for (const auto& [device, state] : health.devices) devices[device].set_string_value(state);
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(document, &json).ok()) json = "{}";
  return json + "\n";
}

}  // namespace assay::server
