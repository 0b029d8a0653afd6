// Each Java class becomes the right failure, by its name, and where that is not enough by its text.
#include "hflush/hdfs/wire/remote_exception.h"

#include <doctest/doctest.h>

#include <cerrno>

namespace hflush::hdfs {
namespace {

Status status_of(std::string class_name, std::string message, std::string_view method = "m") {
  return to_status({std::move(class_name), std::move(message)}, method, "NameNode nn:8020", "/p");
}

TEST_CASE("every class of the table") {
  struct Case {
    const char* class_name;
    StatusCode code;
    int error_number = 0;
  };
  const std::string hdfs = "org.apache.hadoop.hdfs.protocol.";
  const Case cases[] = {
      {"java.io.FileNotFoundException", StatusCode::kNotFound},
      {"java.io.IOException", StatusCode::kIo},
      {"java.lang.ClassCastException", StatusCode::kIo},
      {"java.lang.IllegalArgumentException", StatusCode::kInvalidArgument},
      {"java.lang.UnsupportedOperationException", StatusCode::kUnsupported},
      {"org.apache.hadoop.HadoopIllegalArgumentException", StatusCode::kInvalidArgument},
      {"org.apache.hadoop.fs.FileAlreadyExistsException", StatusCode::kAlreadyExists},
      {"org.apache.hadoop.fs.InvalidPathException", StatusCode::kInvalidPath},
      {"org.apache.hadoop.fs.ParentNotDirectoryException", StatusCode::kParentNotDirectory},
      {"org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", StatusCode::kNotEmpty},
      {"org.apache.hadoop.fs.PathIsDirectoryException", StatusCode::kPathIsDirectory},
      {"org.apache.hadoop.fs.PathIsNotDirectoryException", StatusCode::kParentNotDirectory},
      {"org.apache.hadoop.fs.PathExistsException", StatusCode::kAlreadyExists},
      {"org.apache.hadoop.fs.PathNotFoundException", StatusCode::kNotFound},
      {"org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException", StatusCode::kLeaseHeld},
      {"org.apache.hadoop.hdfs.protocol.RecoveryInProgressException", StatusCode::kLeaseHeld},
      {"org.apache.hadoop.hdfs.protocol.RecoveryInProgressException$"
       "NonAbortingRecoveryInProgressException",
       StatusCode::kLeaseHeld},
      {"org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException",
       StatusCode::kIo, ENAMETOOLONG},
      {"org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException",
       StatusCode::kIo, EDQUOT},
      {"org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", StatusCode::kIo, EDQUOT},
      {"org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", StatusCode::kIo, EDQUOT},
      {"org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException", StatusCode::kIo,
       EDQUOT},
      {"org.apache.hadoop.hdfs.protocol.UnresolvedPathException", StatusCode::kIo, ELOOP},
      {"org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException",
       StatusCode::kPermissionDenied},
      {"org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", StatusCode::kLeaseLost},
      {"org.apache.hadoop.hdfs.server.namenode.SafeModeException", StatusCode::kIo, EROFS},
      {"org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException", StatusCode::kIo},
      {"org.apache.hadoop.ipc.StandbyException", StatusCode::kIo},
      {"org.apache.hadoop.ipc.RetriableException", StatusCode::kIo},
      {"org.apache.hadoop.ipc.RpcNoSuchMethodException", StatusCode::kIo, ENOSYS},
      {"org.apache.hadoop.ipc.RpcNoSuchProtocolException", StatusCode::kIo, EPROTONOSUPPORT},
      {"org.apache.hadoop.ipc.RPC$VersionMismatch", StatusCode::kIo, EPROTONOSUPPORT},
      {"org.apache.hadoop.security.AccessControlException", StatusCode::kPermissionDenied},
      {"org.apache.hadoop.security.authorize.AuthorizationException",
       StatusCode::kPermissionDenied},
      {"org.apache.hadoop.security.token.SecretManager$InvalidToken",
       StatusCode::kPermissionDenied},
  };
  for (const Case& one : cases) {
    CAPTURE(one.class_name);
    const Status status = status_of(one.class_name, "what the server says");
    CHECK(status.code() == one.code);
    CHECK(status.error_number() == one.error_number);
    CHECK(status.remote_class() == one.class_name);
    CHECK(status.path() == "/p");
    CHECK(status.message() == "m: NameNode nn:8020: what the server says");
  }
}

TEST_CASE("a class that was moved to another package is known by its own name") {
  CHECK(status_of("com.vendor.FileNotFoundException", "x").code() == StatusCode::kNotFound);
  CHECK(status_of("com.vendor.Limits$PathComponentTooLongException", "x").error_number() ==
        ENAMETOOLONG);
  CHECK(status_of("FileNotFoundException", "x").code() == StatusCode::kNotFound);
  CHECK(status_of("com.vendor.MyFileNotFoundException", "x").code() == StatusCode::kIo);
}

TEST_CASE("what the server's text decides") {
  const std::string exists = "org.apache.hadoop.fs.FileAlreadyExistsException";
  CHECK(status_of(exists, "/d already exists as a directory").code() ==
        StatusCode::kPathIsDirectory);
  CHECK(status_of(exists, "Cannot append to directory /d; already exists as a directory.").code() ==
        StatusCode::kPathIsDirectory);
  CHECK(status_of(exists, "/f for client 127.0.0.1 already exists").code() ==
        StatusCode::kAlreadyExists);
  const std::string denied = "org.apache.hadoop.security.AccessControlException";
  CHECK(status_of(denied, "/f (is not a directory)").code() == StatusCode::kParentNotDirectory);
  CHECK(status_of(denied, "Permission denied: user=u, inode=\"/f (is not a directory)\"").code() ==
        StatusCode::kPermissionDenied);
  const std::string missing = "java.io.FileNotFoundException";
  CHECK(status_of(missing, "Path is not a file: /d").code() == StatusCode::kNotAFile);
  CHECK(status_of(missing, "Is not a file: /d").code() == StatusCode::kNotAFile);
  CHECK(status_of(missing, "File does not exist: /Path is not a file").code() ==
        StatusCode::kNotFound);
  CHECK(status_of("org.apache.hadoop.ipc.RetriableException",
                  "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot delete /f")
            .error_number() == EROFS);
  CHECK(
      status_of("java.io.IOException", "Unexpected BlockUCState: BP:blk_1_2 is COMPLETE").code() ==
      StatusCode::kLeaseLost);
  for (const char* text : {"BP:blk_1_2 does not exist.",
                           "The file blk_1_2 belonged to does not exist or it is not under "
                           "construction."}) {
    CHECK(status_of("java.io.IOException", text, "updatePipeline").code() ==
          StatusCode::kLeaseLost);
    CHECK(status_of("java.io.IOException", text, "updateBlockForPipeline").code() ==
          StatusCode::kLeaseLost);
    CHECK(status_of("java.io.IOException", text, "addBlock").code() == StatusCode::kIo);
  }
  CHECK(status_of("java.lang.AssertionError", "Absolute path required, but got 'x'").code() ==
        StatusCode::kInvalidPath);
  CHECK(status_of("java.lang.AssertionError", "other").code() == StatusCode::kIo);
}

TEST_CASE("CREATE-11: a file that may not be overwritten exists, and is being written") {
  const std::string held = "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException";
  CHECK(status_of(held, "x", "create").code() == StatusCode::kLeaseHeldExists);
  CHECK(status_of(held, "x", "append").code() == StatusCode::kLeaseHeld);
}

TEST_CASE("an unknown class is an I/O error, unless the server's error code says more") {
  const auto coded = [](int detail) {
    return to_status({.class_name = "x.Y", .message = "m", .error_detail = detail}, "m", "s", "/p");
  };
  CHECK(coded(1).code() == StatusCode::kIo);
  CHECK(coded(1).error_number() == 0);
  CHECK(coded(2).error_number() == ENOSYS);
  CHECK(coded(3).error_number() == EPROTONOSUPPORT);
  CHECK(coded(6).error_number() == EPROTONOSUPPORT);
  CHECK(coded(14).error_number() == EPROTONOSUPPORT);
  CHECK(coded(15).code() == StatusCode::kPermissionDenied);
}

TEST_CASE("an exception without a message has its class for one, and none at all says so") {
  CHECK(status_of("java.lang.NullPointerException", "").message() ==
        "m: NameNode nn:8020: java.lang.NullPointerException");
  CHECK(status_of("", "").message() == "m: NameNode nn:8020: an exception without a name");
}

TEST_CASE("the stack trace is cut off, other lines are not") {
  CHECK(without_stack_trace("one\ntwo\n\tat a.b(C.java:1)\n\tat d") == "one\ntwo");
  CHECK(without_stack_trace("one\tat two") == "one\tat two");
  CHECK(without_stack_trace("") == "");
}

}  // namespace
}  // namespace hflush::hdfs
