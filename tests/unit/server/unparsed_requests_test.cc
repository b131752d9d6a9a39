// No request is parsed before it is known who calls and what it takes in memory.
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/auth/access.h"
#include "server/kernels/user_kernels.h"
#include "server/rpc/call_desk.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/health_server.h"
#include "server/rpc/upload_stream.h"
#include "tests/unit/server/rpc_fixture.h"

namespace assay::server {
namespace {

using testing::HasSubstr;

// The tokens are "viewer" and "admin".
constexpr char kRoles[] =
    "[[token]]\n"
    "sha256 = \"d35ca5051b82ffc326a3b0b6574a9a3161dee16b9478a199ee39cd803ce5b799\"\n"
    "role = \"viewer\"\n"
    "[[token]]\n"
    "sha256 = \"8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918\"\n"
    "role = \"admin\"\n";

// Texts of a field that no request has. Once parsed, two bytes are a hundred.
std::string Unknown(std::size_t bytes) {
  std::string made;
  while (made.size() < bytes) made += std::string_view("\x7a\x00", 2);
  return made;
}

// A request that is cut off. Its beginning sets the first field, and so asks to measure ceilings.
constexpr char kDamaged[] = "\x08\x01\x0a\x7f and so on";

// The calls that take a list of cases or results, and those whose requests stream.
bool MayBeLarge(const google::protobuf::MethodDescriptor& method) {
  return method.client_streaming() || method.name() == "CreateJob" ||
         method.name() == "CreateBaseline" || method.name() == "CompareBaselines";
}

class UnparsedRequests : public ServiceTest {
 protected:
  UnparsedRequests() {
    const std::string file = folder_ + "/roles.toml";
    std::ofstream(file) << kRoles;
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    access_ = *Access::Open(file);
    UserKernelOptions kernels;
    kernels.library = true;
    kernels.folder.path = folder_ + "/kernels";
    kernels_ = *UserKernels::Open(kernels);
    ServiceOptions options;
    options.access = access_.get();
    options.kernels = kernels_.get();
    options.request_bytes = kRequestBytes;
    guarded_ = std::make_unique<ValidationService>(*jobs_, devices_, &metrics_, options);
    grpc::ServerBuilder builder;
    builder.RegisterService(guarded_.get());
    guarded_server_ = builder.BuildAndStart();
    generic_ = std::make_unique<grpc::GenericStub>(guarded_server_->InProcessChannel({}));
  }
  ~UnparsedRequests() override {
    guarded_->Stop();
    guarded_server_->Shutdown();
    guarded_server_->Wait();
  }

  // Sends one message and the end. An empty token: none.
  grpc::Status Send(const std::string& method, const std::string& message,
                    const std::string& token) {
    Answers answers;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    const grpc::Slice slice(message);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer answer;
    generic_->UnaryCall(&context, "/assay.v1.ValidationService/" + method, {}, &sent, &answer,
                        answers.Take());
    EXPECT_TRUE(answers.Await(1)) << method;
    return answers.came().empty() ? grpc::Status::CANCELLED : answers.came().front();
  }

  static std::vector<const google::protobuf::MethodDescriptor*> Methods() {
    const google::protobuf::ServiceDescriptor* service =
        v1::CreateJobRequest::descriptor()->file()->FindServiceByName("ValidationService");
    std::vector<const google::protobuf::MethodDescriptor*> methods;
    for (int n = 0; n < service->method_count(); ++n) methods.push_back(service->method(n));
    return methods;
  }

  std::unique_ptr<Access> access_;
  std::unique_ptr<UserKernels> kernels_;
  std::unique_ptr<ValidationService> guarded_;
  std::unique_ptr<grpc::Server> guarded_server_;
  std::unique_ptr<grpc::GenericStub> generic_;
};

// Bytes that are no request would be found before the role, if they were parsed before.
TEST_F(UnparsedRequests, WhoMayNotCallIsToldBeforeTheRequestIsRead) {
  for (const google::protobuf::MethodDescriptor* method : Methods()) {
    for (const std::string& bytes : {std::string(kDamaged), Unknown(3'000'000)}) {
      EXPECT_EQ(Send(method->name(), bytes, "").error_code(), grpc::StatusCode::PERMISSION_DENIED)
          << method->name();
      EXPECT_EQ(Send(method->name(), bytes, "nobody's").error_code(),
                grpc::StatusCode::UNAUTHENTICATED)
          << method->name();
    }
  }
  EXPECT_EQ(metrics_.calls("limit max-request-bytes"), 0) << "none was weighed";
}

TEST_F(UnparsedRequests, OneWithoutListsMayTakeLittle) {
  int refused = 0;
  for (const google::protobuf::MethodDescriptor* method : Methods()) {
    if (MayBeLarge(*method)) continue;
    for (const std::size_t bytes : {std::size_t{10'000}, std::size_t{3'000'000}}) {
      const grpc::Status status = Send(method->name(), Unknown(bytes), "admin");
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
          << method->name() << ": " << status.error_message();
      EXPECT_EQ(status.error_message(),
                Cat("a limit is reached: one request may have ", kRequestBytes / kSmallPart,
                    " bytes in memory (max-request-bytes); send only its own fields"));
      EXPECT_EQ(InfoOf(status).metadata().at("limit"), "max-request-bytes");
      ++refused;
    }
  }
  EXPECT_EQ(metrics_.calls("limit max-request-bytes"), refused);
  EXPECT_GT(refused, 2 * 14);
}

TEST_F(UnparsedRequests, TheLongestFilterIsNotTooLarge) {
  v1::ListJobsRequest request;
  std::string filter = "suite=smoke";
  for (int n = 0; n < 64; ++n) {
    filter += Cat(" AND label.", std::string(126, 'k'), n + 10, "=", std::string(128, 'v'));
  }
  request.set_filter(filter);
  EXPECT_LT(kRequestBytes, 4 << 20) << "the least that --max-request-bytes may be";
  const grpc::Status status = Send("ListJobs", request.SerializeAsString(), "viewer");
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(UnparsedRequests, BytesThatAreNoRequestAreInvalidInEveryCall) {
  const auto measured = std::make_shared<std::atomic<bool>>(false);
  cpu_->on_measure = [measured](const CancelToken&) {
    *measured = true;
    return absl::OkStatus();
  };
  for (const google::protobuf::MethodDescriptor* method : Methods()) {
    const grpc::Status status = Send(method->name(), kDamaged, "admin");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method->name();
    EXPECT_THAT(status.error_message(), HasSubstr("is no assay.v1."));
    EXPECT_THAT(status.error_details(), HasSubstr("BadRequest"));
  }
  EXPECT_FALSE(measured->load());
}

TEST_F(UnparsedRequests, MeasuringNeedsMoreThanListing) {
  v1::ListDevicesRequest request;
  EXPECT_EQ(Send("ListDevices", request.SerializeAsString(), "viewer").error_code(),
            grpc::StatusCode::OK);
  request.set_measure_ceilings(true);
  const grpc::Status refused = Send("ListDevices", request.SerializeAsString(), "viewer");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("ListDevices.measure_ceilings needs the role"));
  EXPECT_EQ(Send("ListDevices", request.SerializeAsString(), "admin").error_code(),
            grpc::StatusCode::OK);
}

TEST_F(UnparsedRequests, AMessageOfAnUploadIsNoLargerThanAChunk) {
  const grpc::Status header = Send("UploadKernel", Unknown(3'000'000), "admin");
  EXPECT_EQ(header.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(header.error_message(), HasSubstr("header: must take at most 1052672 bytes"));

  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  context.AddMetadata("authorization", "Bearer admin");
  const auto guarded = v1::ValidationService::NewStub(guarded_server_->InProcessChannel({}));
  const auto stream = guarded->UploadKernel(&context);
  v1::UploadKernelRequest request;
  request.mutable_header()->set_file_name("k.so");
  request.mutable_header()->set_form(v1::KERNEL_FORM_LIBRARY);
  request.mutable_header()->set_size_bytes(std::int64_t{2} << 20);
  stream->Write(request);
  request.set_chunk(std::string(kMostChunkBytes, 'x'));
  stream->Write(request);
  EXPECT_TRUE(request.ParseFromString(Unknown(1'000'000)));
  stream->Write(request);
  const grpc::Status chunk = stream->Finish();
  EXPECT_EQ(chunk.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(chunk.error_message(), HasSubstr("chunk: must have 1 to 1048576 bytes, got 1000000"));
}

// gRPC would unpack a gigabyte from a megabyte.
TEST(PackedRequests, AreNotUnpacked) {
  v1::ValidationService::Service service;
  const absl::StatusOr<GrpcServer> server =
      StartGrpcServer(service, {.listen = {"127.0.0.1:0"}, .certificates = nullptr});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::ValidationService::NewStub(
      grpc::CreateChannel(server->addresses.front(), grpc::InsecureChannelCredentials()));
  v1::CreateJobRequest request;
  request.set_request_id(std::string(1'000'000, 'x'));
  for (const grpc_compression_algorithm packed : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    context.set_compression_algorithm(packed);
    v1::Job job;
    const grpc::Status status = stub->CreateJob(&context, request, &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_THAT(status.error_message(), HasSubstr("is disabled"));
  }
}

TEST(PackedRequests, AreNotUnpackedByTheHealthPort) {
  const absl::StatusOr<std::unique_ptr<HealthServer>> server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials()));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(100, 'x'));
  for (const grpc_compression_algorithm packed : {GRPC_COMPRESS_NONE, GRPC_COMPRESS_GZIP}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    context.set_compression_algorithm(packed);
    grpc::health::v1::HealthCheckResponse answer;
    EXPECT_EQ(stub->Check(&context, request, &answer).error_code(),
              packed == GRPC_COMPRESS_NONE ? grpc::StatusCode::NOT_FOUND
                                           : grpc::StatusCode::UNIMPLEMENTED);
  }
}

}  // namespace
}  // namespace assay::server
