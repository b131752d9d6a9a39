// Server reflection, as grpcurl and `buf curl` ask for it: which services there are, and the files
// that define them. It says nothing but what is in proto/, so nobody is asked who they are.
//
// gRPC's own parses a request of any size and sends it back, before anybody is known: 32 MiB take
// 2 GB. Here a request may take 4 KiB.
#ifndef ASSAY_SERVER_RPC_REFLECTION_SERVICE_H_
#define ASSAY_SERVER_RPC_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/rpc/raw_service.h"

namespace assay::server {

class ReflectionService final : public RawService {
 public:
  using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
  using Response = grpc::reflection::v1alpha::ServerReflectionResponse;

  // Of a server with these services, by their full names, and its own.
  explicit ReflectionService(std::vector<std::string> services);

  // The answer to one question. A question without an answer gets an error_response.
  Response Answer(const Request& request) const;

 private:
  grpc::ServerBidiReactor<Bytes, Response>* Info(Context* context);

  std::vector<std::string> services_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_REFLECTION_SERVICE_H_
