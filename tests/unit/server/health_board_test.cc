// What load balancers and people are told of the daemon's health.
#include "server/rpc/health_board.h"

#include <gmock/gmock.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/unit/server/fake_executor.h"
#include "tests/unit/server/test_certificates.h"

namespace assay::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class HealthBoardTest : public testing::Test {
 protected:
  HealthBoardTest() {
    auto executor = std::make_unique<FakeExecutor>("cuda:0");
    cuda_ = executor.get();
    devices_.executors.push_back(std::move(executor));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&nothing_);
    server_ = builder.BuildAndStart();
    health_port_ = *HealthServer::Start("127.0.0.1:0");
  }
  ~HealthBoardTest() override { server_->Shutdown(); }

  // The answers of the gRPC port and of the health port, which agree.
  std::string Ask(const std::string& name) {
    const std::string on_grpc = AskAt(server_->InProcessChannel({}), name);
    EXPECT_EQ(on_grpc, AskAt(grpc::CreateChannel(health_port_->address(),
                                                 grpc::InsecureChannelCredentials()),
                             name));
    return on_grpc;
  }
  static std::string AskAt(const std::shared_ptr<grpc::Channel>& channel, const std::string& name) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse answer;
    request.set_service(name);
    const grpc::Status status =
        grpc::health::v1::Health::NewStub(channel)->Check(&context, request, &answer);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return "NOT_FOUND";
    return grpc::health::v1::HealthCheckResponse::ServingStatus_Name(answer.status());
  }

  grpc::CallbackGenericService nothing_;
  DeviceSet devices_;
  FakeExecutor* cuda_ = nullptr;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HealthServer> health_port_;
};

TEST_F(HealthBoardTest, ADeviceInQuarantineIsNotServingAndTheDaemonIs) {
  HealthBoard board(devices_, nullptr);
  board.DeviceChanged(cuda_->Describe());  // before the servers are there
  EXPECT_EQ(board.Now().status, "starting");
  EXPECT_FALSE(board.Now().serving);
  board.Serve(*server_, health_port_.get());
  EXPECT_EQ(Ask("devices/cuda:0"), "SERVING");
  EXPECT_EQ(Ask("devices/cuda:1"), "NOT_FOUND");
  EXPECT_THAT(board.Now().warnings, IsEmpty());

  cuda_->state = v1::DEVICE_STATE_QUARANTINED;
  board.DeviceChanged(cuda_->Describe());
  EXPECT_EQ(Ask("devices/cuda:0"), "NOT_SERVING");
  EXPECT_EQ(Ask(""), "SERVING") << "other devices, and results";
  const Health health = board.Now();
  EXPECT_TRUE(health.serving);
  EXPECT_EQ(health.status, "serving");
  EXPECT_THAT(health.warnings, ElementsAre(HasSubstr("device cuda:0 is in quarantine")));
  EXPECT_THAT(health.devices, ElementsAre(Pair("cuda:0", "QUARANTINED")));

  cuda_->state = v1::DEVICE_STATE_READY;
  board.DeviceChanged(cuda_->Describe());
  EXPECT_EQ(Ask("devices/cuda:0"), "SERVING");
}

TEST_F(HealthBoardTest, AStoreThatIsFullOrWasDamagedIsAWarningAndTheDaemonServes) {
  HealthBoard board(devices_, nullptr);
  board.Serve(*server_, health_port_.get());
  StoreState state;
  state.damaged = true;
  board.StoreChanged(state);
  EXPECT_THAT(board.Now().warnings, ElementsAre(HasSubstr("the store was found damaged")));
  state.full = "No space left on device";
  state.held = 7;
  board.StoreChanged(state);
  EXPECT_THAT(board.Now().warnings,
              ElementsAre(HasSubstr("full: No space left on device; 7 updates of jobs wait"),
                          HasSubstr("the store was found damaged")));
  EXPECT_TRUE(board.Now().serving);
  EXPECT_EQ(Ask(""), "SERVING") << "results that are there";
  board.StoreChanged({});
  EXPECT_THAT(board.Now().warnings, IsEmpty());
}

TEST_F(HealthBoardTest, WhatDrainsServesNothingAnyMore) {
  HealthBoard board(devices_, nullptr);
  board.Serve(*server_, health_port_.get());
  board.Drain();
  board.DeviceChanged(cuda_->Describe());
  EXPECT_EQ(Ask(""), "NOT_SERVING");
  EXPECT_EQ(Ask("devices/cuda:0"), "NOT_SERVING");
  EXPECT_TRUE(board.draining());
  EXPECT_EQ(board.Now().status, "draining");
  EXPECT_FALSE(board.Now().serving);
}

// What needs no room and no record that is lost is served.
TEST_F(HealthBoardTest, AStoreThatIsFullOrWasMovedAsideIsAWarning) {
  HealthBoard board(devices_, nullptr);
  board.Serve(*server_, health_port_.get());
  const std::string folder = ::testing::TempDir() + "board_store";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/assay.db") << std::string(10'000, 'z');
  {
    const auto store = Store::Open({.folder = folder});
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->TellOfState([&](const StoreState& state) { board.StoreChanged(state); });
    EXPECT_THAT(board.Now().warnings, ElementsAre(HasSubstr("the store was found damaged")));
    EXPECT_TRUE(board.Now().serving);
    EXPECT_EQ(Ask(""), "SERVING");
    (*store)->TellOfState(nullptr);
  }
  {
    const auto store = Store::Open({.folder = folder});
    ASSERT_TRUE(store.ok()) << store.status();
    (*store)->TellOfState([&](const StoreState& state) { board.StoreChanged(state); });
    EXPECT_THAT(board.Now().warnings, SizeIs(1)) << "nobody has looked at the old one";
    (*store)->TellOfState(nullptr);
  }
  board.StoreChanged({.full = "no space left", .held = 3});
  EXPECT_THAT(board.Now().warnings,
              ElementsAre(HasSubstr("the store is full: no space left; 3 updates of jobs wait")));
  EXPECT_TRUE(board.Now().serving);
  std::filesystem::remove_all(folder);
}

TEST_F(HealthBoardTest, ACertificateThatExpiresSoonIsAWarning) {
  const TestAuthority authority;
  const std::string folder = ::testing::TempDir();
  const TlsFiles files{folder + "board.pem", folder + "board.key", ""};
  const auto warnings = [&](long days) {
    const PemPair pair = authority.Issue(7, days * 24 * 3600 + 60);
    std::ofstream(files.cert) << pair.cert;
    std::ofstream(files.key) << pair.key;
    chmod(files.key.c_str(), 0600);
    const auto certificates = CertificateStore::Open(files);
    EXPECT_TRUE(certificates.ok()) << certificates.status();
    return HealthBoard(devices_, certificates->get()).Now().warnings;
  };
  EXPECT_THAT(warnings(15), IsEmpty());
  EXPECT_THAT(warnings(13), ElementsAre(HasSubstr("board.pem expires on 20")));
}

// Who takes a role away must hear that nothing has changed.
TEST_F(HealthBoardTest, FilesThatAreNotTakenAreWarnings) {
  const TestAuthority authority;
  const std::string folder = ::testing::TempDir();
  const TlsFiles files{folder + "taken.pem", folder + "taken.key", ""};
  const PemPair pair = authority.Issue(7, 100 * 24 * 3600);
  std::ofstream(files.cert) << pair.cert;
  std::ofstream(files.key) << pair.key;
  const std::string roles = folder + "taken.toml";
  std::ofstream(roles) << "";
  for (const std::string& file : {files.key, roles}) chmod(file.c_str(), 0600);
  const auto certificates = CertificateStore::Open(files);
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  const auto access = Access::Open(roles);
  ASSERT_TRUE(access.ok()) << access.status();
  const HealthBoard board(devices_, certificates->get(), access->get());
  const auto warnings = [&] {
    (*certificates)->LookNow();
    (*access)->LookNow();
    return board.Now().warnings;
  };
  EXPECT_THAT(warnings(), IsEmpty());
  std::ofstream(roles) << "[[client]]\nrole = 3\n";
  std::ofstream(files.cert) << "garbage";
  EXPECT_THAT(warnings(),
              ElementsAre(AllOf(HasSubstr("taken.toml:"), HasSubstr("the roles of before count")),
                          AllOf(HasSubstr("taken.pem holds no PEM certificate"),
                                HasSubstr("the TLS files of before count"))));
  std::ofstream(roles) << "";
  std::ofstream(files.cert) << pair.cert;
  EXPECT_THAT(warnings(), IsEmpty());
}

}  // namespace
}  // namespace assay::server
