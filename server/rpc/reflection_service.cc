#include "server/rpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <utility>

#include "kernels/text/cat.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/message_weight.h"

namespace assay::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using Request = ReflectionService::Request;
using Response = ReflectionService::Response;

constexpr char kService[] = "grpc.reflection.v1alpha.ServerReflection";
constexpr std::int64_t kMostInMemory = 4096;  // of a request [bytes]

// Adds a file and all that it imports, each once.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
             Response& response) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, response);
}

void SetError(grpc::StatusCode code, const std::string& message, Response& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(message);
}

void SetFile(const FileDescriptor* file, const std::string& name, Response& response) {
  std::set<const FileDescriptor*> added;
  if (file != nullptr) return AddFile(*file, added, response);
  SetError(grpc::StatusCode::NOT_FOUND, Cat("no file, symbol or extension \"", name, "\""),
           response);
}

void SetExtensions(const DescriptorPool& pool, const std::string& name, Response& response) {
  const Descriptor* type = pool.FindMessageTypeByName(name);
  if (type == nullptr) {
    SetError(grpc::StatusCode::NOT_FOUND, Cat("no message \"", name, "\""), response);
    return;
  }
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(name);
  std::vector<const google::protobuf::FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  for (const auto* extension : extensions) numbers.add_extension_number(extension->number());
}

// Reads a question, writes its answer, and begins again. Deletes itself.
class Conversation final : public grpc::ServerBidiReactor<grpc::ByteBuffer, Response> {
 public:
  explicit Conversation(const ReflectionService& service) : service_(service) {
    StartRead(&bytes_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    Request request;
    const absl::Status parsed = ParseWeighed(bytes_, kMostInMemory, request);
    bytes_.Clear();
    if (!parsed.ok()) return Finish(ToGrpcStatus(parsed));
    response_ = service_.Answer(request);
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&bytes_);
  }
  void OnDone() override { delete this; }

  const ReflectionService& service_;
  grpc::ByteBuffer bytes_;
  Response response_;
};

}  // namespace

ReflectionService::ReflectionService(std::vector<std::string> services)
    : RawService(kService), services_(std::move(services)) {
  services_.emplace_back(kService);
  Handle("ServerReflectionInfo", &ReflectionService::Info);
}

Response ReflectionService::Answer(const Request& request) const {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(),
              response);
      break;
    case Request::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              request.file_containing_symbol(), response);
      break;
    case Request::kFileContainingExtension: {
      const auto& wanted = request.file_containing_extension();
      const Descriptor* type = pool.FindMessageTypeByName(wanted.containing_type());
      const auto* field =
          type == nullptr ? nullptr : pool.FindExtensionByNumber(type, wanted.extension_number());
      SetFile(field == nullptr ? nullptr : field->file(), wanted.containing_type(), response);
      break;
    }
    case Request::kAllExtensionNumbersOfType:
      SetExtensions(pool, request.all_extension_numbers_of_type(), response);
      break;
    case Request::kListServices:
      for (const std::string& name : services_) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::StatusCode::INVALID_ARGUMENT, "the request asks for nothing", response);
      break;
  }
  return response;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, Response>* ReflectionService::Info(Context*) {
  return new Conversation(*this);
}

}  // namespace assay::server
