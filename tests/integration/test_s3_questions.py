"""The snippets of docs/questions that need a bucket, on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.s3 import S3
from support.snippets import Snippet, printed_by, snippets

pytestmark = pytest.mark.stores("s3")

ON_S3 = [snippet for snippet in snippets() if snippet.needs_s3]
BUCKET = "bucket"


@pytest.mark.parametrize("snippet", ON_S3, ids=[snippet.page for snippet in ON_S3])
def test_a_snippet_prints_what_its_page_says(snippet: Snippet, s3_server: S3, tmp_path: Path):
    s3_server.server.make_bucket(BUCKET)
    environment = {
        "AWS_ENDPOINT_URL": s3_server.server.url,
        "AWS_ACCESS_KEY_ID": s3_server.server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.server.secret_key,
        "AWS_REGION": s3_server.conf["fs.s3a.endpoint.region"],
    }
    assert printed_by(snippet, tmp_path, environment) == snippet.printed
