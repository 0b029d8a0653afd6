"""S3 where OpenSSL has no MD5: as on hosts that allow FIPS alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.s3_writers import IMPATIENT
from support.scripted_s3 import BUCKET, ScriptedS3
from support.waiting import DEADLINE_S

pytestmark = pytest.mark.stores("s3")

# A provider of OpenSSL with SHA-256, said to be fit for FIPS, and nothing else.
PROVIDER = r"""
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/core.h>
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

static void *begin(void *provider) { (void)provider; return malloc(sizeof(SHA256_CTX)); }
static void end(void *context) { free(context); }
static void *copy(void *context) {
  return memcpy(malloc(sizeof(SHA256_CTX)), context, sizeof(SHA256_CTX));
}
static int init(void *context, const OSSL_PARAM params[]) {
  (void)params;
  return SHA256_Init(context);
}
static int update(void *context, const unsigned char *data, size_t size) {
  return SHA256_Update(context, data, size);
}
static int finish(void *context, unsigned char *out, size_t *size, size_t room) {
  if (room < 32) return 0;
  *size = 32;
  return SHA256_Final(out, context);
}
static int tell(OSSL_PARAM params[]) {
  OSSL_PARAM *param = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_BLOCK_SIZE);
  if (param != NULL) OSSL_PARAM_set_size_t(param, 64);
  param = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_SIZE);
  if (param != NULL) OSSL_PARAM_set_size_t(param, 32);
  return 1;
}
static const OSSL_DISPATCH kSha256[] = {
    {OSSL_FUNC_DIGEST_NEWCTX, (void (*)(void))begin},
    {OSSL_FUNC_DIGEST_FREECTX, (void (*)(void))end},
    {OSSL_FUNC_DIGEST_DUPCTX, (void (*)(void))copy},
    {OSSL_FUNC_DIGEST_INIT, (void (*)(void))init},
    {OSSL_FUNC_DIGEST_UPDATE, (void (*)(void))update},
    {OSSL_FUNC_DIGEST_FINAL, (void (*)(void))finish},
    {OSSL_FUNC_DIGEST_GET_PARAMS, (void (*)(void))tell},
    {0, NULL}};
static const OSSL_ALGORITHM kDigests[] = {
    {"SHA2-256:SHA-256:SHA256", "provider=few,fips=yes", kSha256, NULL}, {NULL, NULL, NULL, NULL}};
static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache) {
  (void)provider;
  *no_cache = 0;
  return operation == OSSL_OP_DIGEST ? kDigests : NULL;
}
static const OSSL_DISPATCH kProvider[] = {
    {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query}, {0, NULL}};
int OSSL_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                       const OSSL_DISPATCH **out, void **context) {
  (void)handle;
  (void)in;
  *out = kProvider;
  *context = (void *)kProvider;
  return 1;
}
"""

CONFIGURATION = """
openssl_conf = everything
[everything]
providers = providers
alg_section = algorithms
[providers]
few = few
[few]
module = {module}
activate = 1
[algorithms]
default_properties = fips=yes
"""

PROGRAM = """
import ctypes, sys, hflush
crypto = ctypes.CDLL("libcrypto.so.3")
crypto.EVP_MD_fetch.restype = ctypes.c_void_p
assert crypto.EVP_MD_fetch(None, b"SHA256", None), "the provider is loaded"
assert not crypto.EVP_MD_fetch(None, b"MD5", None), "there is no MD5"
crypto.ERR_clear_error()
conf = dict(pair.split("=", 1) for pair in sys.argv[1:])
with hflush.FileSystem.new_instance("s3://bucket/", conf) as fs:
    for path, size in (("/dir/small", 10), ("/dir/large", 12 << 20)):
        with fs.create(path) as out:
            out.write(bytes(size))
        assert len(fs.open(path).read()) == size
    fs.mkdirs("/marker")
    fs.delete("/dir", recursive=True)
    assert not fs.exists("/dir")
assert not crypto.ERR_peek_error(), "another library would take it for its own"
"""


@pytest.fixture(scope="module")
def without_md5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of OpenSSL."""
    directory = tmp_path_factory.mktemp("openssl")
    source, module = directory / "few.c", directory / "few.so"
    source.write_text(PROVIDER)
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-shared", "-fPIC", "-o", str(module), str(source), "-lcrypto"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "openssl/core.h" in built.stderr:
        pytest.skip("there are no headers of OpenSSL 3")
    assert built.returncode == 0, built.stderr
    configuration = directory / "openssl.cnf"
    configuration.write_text(CONFIGURATION.format(module=module))
    return configuration


def run(configuration: Path, server: ScriptedS3, **more: str) -> subprocess.CompletedProcess[str]:
    conf = {**server.conf, **IMPATIENT, **more}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *(f"{key}={value}" for key, value in conf.items())],
        env={**os.environ, "OPENSSL_CONF": str(configuration)},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )


@pytest.mark.rule("FAIL-2")
def test_without_md5(without_md5: Path) -> None:
    """Everything works that does not ask for it."""
    with ScriptedS3() as server:
        ended = run(without_md5, server)
        assert ended.returncode == 0, ended.stderr
        assert sorted(server.objects) == ["marker/"]
    assert BUCKET == "bucket"


@pytest.mark.rule("FAIL-2", "FAIL-4")
def test_md5_is_asked_for(without_md5: Path) -> None:
    """Then the stream says that there is none, and which key asks for it; nothing is published."""
    with ScriptedS3() as server:
        ended = run(without_md5, server, **{"fs.s3a.request.md5.header": "true"})
        assert ended.returncode != 0
        assert "fs.s3a.request.md5.header" in ended.stderr
        assert server.objects == {}
