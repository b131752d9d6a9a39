// What a daemon says is shown on terminals. Here it is made fit for them as soon as it comes.
#ifndef ASSAY_CLIENT_LIB_VISIBLE_MESSAGE_H_
#define ASSAY_CLIENT_LIB_VISIBLE_MESSAGE_H_

#include "google/protobuf/message.h"

namespace assay::client {

// Makes each text of the message visible (VisibleLines in text.h), those of the messages in it,
// too. Bytes stay as they are.
void MakeVisible(google::protobuf::Message& message);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_VISIBLE_MESSAGE_H_
