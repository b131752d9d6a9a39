// Server reflection over a real server and a real port, as `buf curl` and `grpcurl` use it.
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/sync_stream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "assay/v1/service.grpc.pb.h"
#include "server/rpc/grpc_server.h"

namespace assay::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kPackage[] = "grpc.reflection.v1alpha.";

// The types of the reflection protocol, which gRPC's library brings without headers.
std::unique_ptr<Message> Make(const std::string& name) {
  const auto* type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(kPackage + name);
  return std::unique_ptr<Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

const FieldDescriptor* FieldOf(const Message& message, const std::string& name) {
  return message.GetDescriptor()->FindFieldByName(name);
}

const Message& Part(const Message& message, const std::string& name) {
  return message.GetReflection()->GetMessage(message, FieldOf(message, name));
}

// Sends one question and returns the answer.
std::unique_ptr<Message> Ask(const std::shared_ptr<grpc::Channel>& channel,
                             const std::string& question, const std::string& text) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  const grpc::internal::RpcMethod method(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  const std::unique_ptr<grpc::ClientReaderWriter<Message, Message>> stream(
      grpc::internal::ClientReaderWriterFactory<Message, Message>::Create(channel.get(), method,
                                                                          &context));
  const std::unique_ptr<Message> request = Make("ServerReflectionRequest");
  request->GetReflection()->SetString(request.get(), FieldOf(*request, question), text);
  std::unique_ptr<Message> response = Make("ServerReflectionResponse");
  EXPECT_TRUE(stream->Write(*request));
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Read(response.get()));
  EXPECT_TRUE(stream->Finish().ok());
  return response;
}

std::vector<std::string> ListServices(const std::shared_ptr<grpc::Channel>& channel) {
  const std::unique_ptr<Message> answer = Ask(channel, "list_services", "");
  const Message& list = Part(*answer, "list_services_response");
  const FieldDescriptor* service = FieldOf(list, "service");
  std::vector<std::string> names;
  for (int i = 0; i < list.GetReflection()->FieldSize(list, service); ++i) {
    const Message& one = list.GetReflection()->GetRepeatedMessage(list, service, i);
    names.push_back(one.GetReflection()->GetString(one, FieldOf(one, "name")));
  }
  return names;
}

// Whether the answer holds a file that defines the service.
bool Defines(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  const std::unique_ptr<Message> answer = Ask(channel, "file_containing_symbol", service);
  const Message& files = Part(*answer, "file_descriptor_response");
  const FieldDescriptor* field = FieldOf(files, "file_descriptor_proto");
  for (int i = 0; i < files.GetReflection()->FieldSize(files, field); ++i) {
    google::protobuf::FileDescriptorProto file;
    if (!file.ParseFromString(files.GetReflection()->GetRepeatedString(files, field, i))) continue;
    for (const auto& one : file.service()) {
      if (file.package() + "." + one.name() == service && one.method_size() > 0) return true;
    }
  }
  return false;
}

TEST(Reflection, AnswersForEveryServiceThatItLists) {
  v1::ValidationService::Service service;
  const absl::StatusOr<GrpcServer> server =
      StartGrpcServer(service, {.listen = {"127.0.0.1:0"}, .certificates = nullptr});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel =
      grpc::CreateChannel(server->addresses.front(), grpc::InsecureChannelCredentials());
  const std::vector<std::string> services = ListServices(channel);
  for (const char* name : {"assay.v1.ValidationService", "grpc.health.v1.Health"}) {
    EXPECT_NE(std::find(services.begin(), services.end(), name), services.end()) << name;
  }
  for (const std::string& name : services) EXPECT_TRUE(Defines(channel, name)) << name;
}

}  // namespace
}  // namespace assay::server
