// A service whose requests come as bytes. gRPC would parse a request before it is known who calls.
// Here each handler gets the bytes, and parses them itself. Responses are messages, or bytes too.
#ifndef ASSAY_SERVER_RPC_RAW_SERVICE_H_
#define ASSAY_SERVER_RPC_RAW_SERVICE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/byte_buffer.h>

#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/text/cat.h"

namespace assay::server {

// The derived class gives every method its handler before the server starts: a member function.
class RawService : public grpc::Service {
 public:
  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

 protected:
  // The full name of the service: "assay.v1.ValidationService".
  explicit RawService(std::string_view name) : name_(name) {}

  template <class Me, class Response>
  void Handle(std::string_view method,
              grpc::ServerUnaryReactor* (Me::*handler)(Context*, const Bytes*, Response*)) {
    Add(method, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::CallbackUnaryHandler<Bytes, Response>(Bound(handler)));
  }
  template <class Me, class Response>
  void Handle(std::string_view method,
              grpc::ServerWriteReactor<Response>* (Me::*handler)(Context*, const Bytes*)) {
    Add(method, grpc::internal::RpcMethod::SERVER_STREAMING,
        new grpc::internal::CallbackServerStreamingHandler<Bytes, Response>(Bound(handler)));
  }
  template <class Me, class Response>
  void Handle(std::string_view method,
              grpc::ServerReadReactor<Bytes>* (Me::*handler)(Context*, Response*)) {
    Add(method, grpc::internal::RpcMethod::CLIENT_STREAMING,
        new grpc::internal::CallbackClientStreamingHandler<Bytes, Response>(Bound(handler)));
  }
  template <class Me, class Response>
  void Handle(std::string_view method,
              grpc::ServerBidiReactor<Bytes, Response>* (Me::*handler)(Context*)) {
    Add(method, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::CallbackBidiHandler<Bytes, Response>(Bound(handler)));
  }

 private:
  template <class Me, class Reactor, class... Arguments>
  auto Bound(Reactor* (Me::*handler)(Arguments...)) {
    return std::bind_front(handler, static_cast<Me*>(this));
  }

  void Add(std::string_view method, grpc::internal::RpcMethod::RpcType type,
           grpc::internal::MethodHandler* handler) {
    paths_.push_back(Cat("/", name_, "/", method));
    auto* added = new grpc::internal::RpcServiceMethod(paths_.back().c_str(), type, handler);
    added->SetServerApiType(grpc::internal::RpcServiceMethod::ApiType::RAW_CALL_BACK);
    AddMethod(added);
  }

  const std::string name_;
  std::deque<std::string> paths_;  // gRPC keeps pointers into them
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_RAW_SERVICE_H_
