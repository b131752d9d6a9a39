// Server reflection over a real server and a real port, as `buf curl` and `grpcurl` use it.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/sync_stream.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "assay/v1/service.grpc.pb.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/reflection_service.h"

namespace assay::server {
namespace {

using Request = ReflectionService::Request;
using Response = ReflectionService::Response;
using Stream = grpc::ClientReaderWriter<Request, Response>;

class Reflection : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<GrpcServer> started =
        StartGrpcServer(service_, {.listen = {"127.0.0.1:0"}, .certificates = nullptr});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    channel_ = grpc::CreateChannel(server_.addresses.front(), grpc::InsecureChannelCredentials());
  }

  std::unique_ptr<Stream> Open(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    const grpc::internal::RpcMethod method(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        grpc::internal::RpcMethod::BIDI_STREAMING, channel_);
    return std::unique_ptr<Stream>(
        grpc::internal::ClientReaderWriterFactory<Request, Response>::Create(channel_.get(), method,
                                                                             &context));
  }

  // Sends questions one after the other in one call, and returns the answers.
  std::vector<Response> Ask(const std::vector<Request>& requests) {
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream = Open(context);
    std::vector<Response> answers(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_TRUE(stream->Write(requests[i]));
      EXPECT_TRUE(stream->Read(&answers[i]));
    }
    EXPECT_TRUE(stream->WritesDone());
    EXPECT_TRUE(stream->Finish().ok());
    return answers;
  }

  static Request OfSymbol(const std::string& name) {
    Request request;
    request.set_file_containing_symbol(name);
    return request;
  }

  v1::ValidationService::Service service_;
  GrpcServer server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// The names of the files of an answer, and the services that they define.
struct Files {
  std::vector<std::string> names, services;
};
Files FilesOf(const Response& response) {
  Files files;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    files.names.push_back(file.name());
    for (const auto& one : file.service()) {
      EXPECT_GT(one.method_size(), 0);
      files.services.push_back(file.package() + "." + one.name());
    }
  }
  return files;
}

TEST_F(Reflection, AnswersForEveryServiceThatItLists) {
  Request list;
  list.set_host("here");
  list.set_list_services("");
  const Response listed = Ask({list}).front();
  EXPECT_EQ(listed.valid_host(), "here");
  EXPECT_EQ(listed.original_request().SerializeAsString(), list.SerializeAsString());
  std::vector<std::string> names;
  std::vector<Request> requests;
  for (const auto& service : listed.list_services_response().service()) {
    names.push_back(service.name());
    requests.push_back(OfSymbol(service.name()));
  }
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("assay.v1.ValidationService", "grpc.health.v1.Health",
                                            "grpc.reflection.v1alpha.ServerReflection"));
  const std::vector<Response> answers = Ask(requests);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_THAT(FilesOf(answers[i]).services, testing::Contains(names[i]));
  }
}

TEST_F(Reflection, AFileComesWithWhatItImportsAndOnce) {
  Request by_name;
  by_name.set_file_by_filename("assay/v1/service.proto");
  const std::vector<Response> answers =
      Ask({by_name, OfSymbol("assay.v1.Job"), OfSymbol("assay.v1.ValidationService.CreateJob")});
  const Files files = FilesOf(answers[0]);
  EXPECT_EQ(files.names.front(), "assay/v1/service.proto");
  EXPECT_THAT(files.names, testing::Contains("assay/v1/job.proto").Times(1));
  EXPECT_THAT(files.names, testing::Contains("google/protobuf/empty.proto").Times(1));
  EXPECT_EQ(FilesOf(answers[1]).names.front(), "assay/v1/job.proto");
  EXPECT_EQ(FilesOf(answers[2]).names.front(), "assay/v1/service.proto");
}

TEST_F(Reflection, SaysWhatItDoesNotKnow) {
  Request extension, numbers, none;
  extension.mutable_file_containing_extension()->set_containing_type("assay.v1.Job");
  numbers.set_all_extension_numbers_of_type("assay.v1.Nothing");
  const std::vector<Response> answers =
      Ask({OfSymbol("assay.v1.Nothing"), extension, numbers, none});
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].error_response().error_code(),
              i < 3 ? grpc::StatusCode::NOT_FOUND : grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(answers[0].error_response().error_message(),
            "no file, symbol or extension \"assay.v1.Nothing\"");
  numbers.set_all_extension_numbers_of_type("google.protobuf.FieldOptions");
  EXPECT_GT(Ask({numbers})[0].all_extension_numbers_response().extension_number_size(), 0);
}

TEST_F(Reflection, AQuestionIsShort) {
  grpc::ClientContext context;
  const std::unique_ptr<Stream> stream = Open(context);
  EXPECT_TRUE(stream->Write(OfSymbol(std::string(1 << 20, 'x'))));
  Response answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace assay::server
