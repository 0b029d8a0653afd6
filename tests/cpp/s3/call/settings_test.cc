// Settings: which hosts requests go to, and whose bodies are signed.
#include "hflush/s3/call/settings.h"

#include <doctest/doctest.h>

#include <string>

namespace hflush::s3 {
namespace {

TEST_CASE("which payloads are signed, and which hosts requests address") {
  Settings settings;
  settings.host = "s3.eu-west-1.amazonaws.com";
  CHECK_FALSE(settings.signs_payload());
  CHECK(settings.authority("bucket") == "bucket.s3.eu-west-1.amazonaws.com");
  CHECK(settings.authority("dotted.bucket") == "s3.eu-west-1.amazonaws.com");
  CHECK(settings.authority("Upper") == "s3.eu-west-1.amazonaws.com");
  CHECK(settings.authority("") == "s3.eu-west-1.amazonaws.com");
  settings.port = 443;
  CHECK(settings.authority("") == "s3.eu-west-1.amazonaws.com");
  settings.port = 8443;
  CHECK(settings.authority("bucket") == "bucket.s3.eu-west-1.amazonaws.com:8443");
  settings.scheme = "http";
  CHECK(settings.signs_payload());
  CHECK(settings.authority("dotted.bucket") == "dotted.bucket.s3.eu-west-1.amazonaws.com:8443");
  settings.path_style = true;
  CHECK(settings.authority("bucket") == "s3.eu-west-1.amazonaws.com:8443");
  settings.path_style = false;
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) {
    settings.host = host;
    CHECK_FALSE(settings.signs_payload());
  }
  CHECK(settings.authority("bucket") == "bucket.localhost:8443");
  settings.host = "::1";
  CHECK(settings.authority("bucket") == "[::1]:8443");
  settings.host = "127.evil.example";
  CHECK(settings.signs_payload());
  settings.host = "10.0.0.1";
  CHECK(settings.signs_payload());
  CHECK(settings.authority("bucket") == "10.0.0.1:8443");
  settings.payload_signing = PayloadSigning::kNever;
  CHECK_FALSE(settings.signs_payload());
}

TEST_CASE("AWS has an endpoint for each region") {
  Settings settings;
  const auto host_of = [&](const std::string& host) {
    settings.host = host;
    return settings.authority("b", "eu-north-7");
  };
  CHECK(host_of("s3.amazonaws.com") == "b.s3.eu-north-7.amazonaws.com");
  CHECK(host_of("s3.us-east-1.amazonaws.com") == "b.s3.eu-north-7.amazonaws.com");
  CHECK(host_of("s3.dualstack.us-east-1.amazonaws.com") ==
        "b.s3.dualstack.eu-north-7.amazonaws.com");
  CHECK(host_of("s3.us-east-1.amazonaws.com.cn") == "b.s3.eu-north-7.amazonaws.com.cn");
  CHECK(host_of("s3.us-east-1.example.com") == "b.s3.us-east-1.example.com");
  CHECK(host_of("minio") == "b.minio");
  settings.path_style = true;
  CHECK(host_of("s3.us-east-1.amazonaws.com") == "s3.eu-north-7.amazonaws.com");
}

TEST_CASE("AWS has servers of other names in its other partitions") {
  CHECK(aws_suffix("us-east-1") == ".amazonaws.com");
  CHECK(aws_suffix("us-iso-east-1") == ".c2s.ic.gov");
  CHECK(aws_suffix("us-isob-east-1") == ".sc2s.sgov.gov");
  CHECK(aws_suffix("") == ".amazonaws.com");
  CHECK(aws_suffix_of("s3.eusc-de-east-1.amazonaws.eu") == ".amazonaws.eu");
  for (const char* host : {"", "amazonaws.com", "s3.amazonaws.com.example", "s3.notamazonaws.eu"}) {
    CHECK(aws_suffix_of(host).empty());
  }
}

TEST_CASE("hosts of AWS's customers are below its domain, too") {
  const auto is_aws = [](const char* host) {
    Settings settings;
    settings.host = host;
    return settings.is_aws();
  };
  for (const char* host :
       {"s3.amazonaws.com", "s3-us-west-2.amazonaws.com", "s3.dualstack.eu-west-1.amazonaws.com",
        "s3-accelerate.amazonaws.com", "s3.cn-north-1.amazonaws.com.cn",
        "b.vpce-1-2.s3.us-east-1.vpce.amazonaws.com"}) {
    CHECK_MESSAGE(is_aws(host), host);
  }
  for (const char* host :
       {"x-1.us-east-1.elb.amazonaws.com", "s3-x-1.elb.us-east-1.amazonaws.com",
        "s3.x-1.us-east-1.elb.amazonaws.com", "ec2-1-2-3-4.compute-1.amazonaws.com",
        "vpce-1-2.vpce-svc-3.us-east-1.vpce.amazonaws.com", "s3.minio.example", ""}) {
    CHECK_MESSAGE(!is_aws(host), host);
  }
}

TEST_CASE("where a redirect may lead to") {
  const auto led = [](const char* scheme, const char* host, const char* location) {
    Settings settings;
    settings.scheme = scheme;
    settings.host = host;
    return settings.redirect_authority("b", location);
  };
  CHECK(led("http", "minio.example", "http://minio.example:9001/b/k") == "minio.example:9001");
  CHECK(led("http", "minio.example", "http://B.MinIO.example/k") == "B.MinIO.example");
  CHECK(led("http", "minio.example", "http://evil-minio.example/").empty());
  CHECK(led("http", "minio.example", "http://example/").empty());
  CHECK(led("http", "minio.example", "http://minio.example@evil.example/").empty());
  CHECK(led("http", "minio.example", "https://minio.example/").empty());
  CHECK(led("https", "minio.example", "http://minio.example/").empty());
  CHECK(led("http", "10.0.0.1", "http://10.0.0.1:81/") == "10.0.0.1:81");
  CHECK(led("http", "10.0.0.1", "http://x.10.0.0.1/").empty());
  CHECK(led("http", "::1", "http://[::1]:81/") == "[::1]:81");
  CHECK(led("http", "minio.example", "/login").empty());
  CHECK(led("http", "minio.example", "").empty());
  const char* const aws = "s3.us-east-1.amazonaws.com";
  for (const char* good : {"b.s3.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com",
                           "b.s3-eu-west-1.amazonaws.com", "b.s3.amazonaws.com",
                           "s3.dualstack.eu-west-1.amazonaws.com",
                           "b.s3-fips.dualstack.us-gov-west-1.amazonaws.com"}) {
    CHECK_MESSAGE(led("https", aws, (std::string("https://") + good + "/k").c_str()) == good, good);
  }
  for (const char* bad :
       {"b.s3.cn-north-1.amazonaws.com.cn", "x-1.us-east-1.elb.amazonaws.com",
        "s3.x-1.us-east-1.elb.amazonaws.com", "ec2-1-2-3-4.compute-1.amazonaws.com",
        "evil.s3-website-us-east-1.amazonaws.com", "amazonaws.com", "s3.amazonaws.com.evil.example",
        "id.execute-api.us-east-1.amazonaws.com", "x.s3.us-east-1.amazonaws.com"}) {
    CHECK_MESSAGE(led("https", aws, (std::string("https://") + bad + "/k").c_str()).empty(), bad);
  }
  // Below a name at AWS are its customers' hosts.
  const char* const vpc = "bucket.vpce-1-2.s3.us-east-1.vpce.amazonaws.com";
  CHECK(led("https", vpc, (std::string("https://b.") + vpc + "/k").c_str()) ==
        std::string("b.") + vpc);
  CHECK(led("https", vpc, (std::string("https://x.") + vpc + "/k").c_str()).empty());
  CHECK(led("https", "amazonaws.com", "https://x-1.us-east-1.elb.amazonaws.com/k").empty());
  CHECK(led("https", "amazonaws.com.cn", "https://x.elb.amazonaws.com.cn/k").empty());
  CHECK(led("https", "s3.us-iso-east-1.c2s.ic.gov", "https://b.s3.us-iso-west-1.c2s.ic.gov/k") ==
        "b.s3.us-iso-west-1.c2s.ic.gov");
  CHECK(led("https", "s3.us-iso-east-1.c2s.ic.gov", "https://x.c2s.ic.gov/k").empty());
  // What is to be certified stays so.
  for (const char* fips :
       {"s3-fips.us-east-1.amazonaws.com", "S3-FIPS.us-east-1.amazonaws.com",
        "s3-fips.dualstack.us-east-1.amazonaws.com", "s3-fips-us-gov-west-1.amazonaws.com"}) {
    CAPTURE(fips);
    CHECK(led("https", fips, "https://b.s3-fips.us-west-2.amazonaws.com/k") ==
          "b.s3-fips.us-west-2.amazonaws.com");
    CHECK(led("https", fips, "https://b.s3.us-west-2.amazonaws.com/k").empty());
    CHECK(led("https", fips, "https://s3.dualstack.us-west-2.amazonaws.com/k").empty());
    CHECK(led("https", fips, "https://b.s3-us-west-2.amazonaws.com/k").empty());
  }
}

TEST_CASE("whether a host that a redirect leads to names the bucket") {
  const auto in_path = [](const char* bucket, const char* host, const char* authority) {
    Settings settings;
    settings.host = host;
    return settings.names_in_path(bucket, authority);
  };
  CHECK_FALSE(in_path("b", "minio.example", "b.minio.example:9000"));
  CHECK_FALSE(in_path("b", "minio.example", "B.Zone.MinIO.example"));
  CHECK_FALSE(in_path("b", "s3.us-east-1.amazonaws.com", "b.s3-eu-west-1.amazonaws.com"));
  CHECK(in_path("b", "minio.example", "minio.example:9000"));
  CHECK(in_path("b", "minio.example", "zone.minio.example"));
  CHECK(in_path("b", "s3.us-east-1.amazonaws.com", "s3.eu-west-1.amazonaws.com"));
  // A bucket that is called as the server is.
  CHECK(in_path("minio", "minio.example", "minio.example:9000"));
  CHECK(in_path("s3-fips", "s3-fips.us-east-1.amazonaws.com", "s3-fips.us-west-2.amazonaws.com"));
  CHECK_FALSE(in_path("minio", "minio.example", "minio.minio.example"));
  CHECK(in_path("b", "::1", "[::1]:9000"));
}

}  // namespace
}  // namespace hflush::s3
