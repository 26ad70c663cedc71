"""An S3 of this process that can refuse: the six calls that Arrow makes, spoken to over HTTP.

What is real is the client, so what a test sees of a failed upload is what becomes of one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Refusal = tuple[int, str]  # a status of HTTP and a code of S3
BUCKET = "lake"


class SmallS3:
    """A store with one bucket.

    Attributes:
        objects: what is there, by key.
        uploads: parts of objects that are not complete, by their id.
        calls: the names of all requests, in S3's words, but for retries of the client.
        refuse: called with a request's name and number among those of that name; what to answer,
            None to do it.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.calls: list[str] = []
        self.refuse: Callable[[str, int], Refusal | None] = lambda name, number: None
        self.port = 0

    def url(self, path: str = "zaichik") -> str:
        """The place of a recording in it."""
        options = f"scheme=http&endpoint_override=127.0.0.1:{self.port}&region=us-east-1"
        return f"s3://{BUCKET}/{path}?{options}"


@contextmanager
def small_s3() -> Iterator[SmallS3]:
    """Returns a store, which is there during the block."""
    store = SmallS3()

    class Handler(_Handler):
        s3 = store

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    store.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Requests as S3 calls them, and what answers them.
_METHODS = {
    "HeadBucket": "_head_bucket",
    "HeadObject": "_head_object",
    "GetObject": "_get_object",
    "ListObjectsV2": "_list_objects",
    "PutObject": "_put_object",
    "CreateMultipartUpload": "_create_multipart_upload",
    "UploadPart": "_upload_part",
    "CompleteMultipartUpload": "_complete_multipart_upload",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3: SmallS3

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        body = self._body()
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _unchunked(body)
        url = urlsplit(self.path)
        query = {name: words[0] for name, words in parse_qs(url.query, True).items()}
        bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
        name = _name(self.command, key, query)
        self.s3.calls.append(name)
        refusal = self.s3.refuse(name, self.s3.calls.count(name))
        if refusal is None and bucket != BUCKET:
            refusal = 404, "NoSuchBucket"
        if refusal is not None:
            status, code = refusal
            self._answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>")
            return
        getattr(self, _METHODS[name])(key, query, body)

    do_GET = do_PUT = do_POST = do_HEAD = _serve  # noqa: N815 (their names are given)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _answer(self, status: int, text: str | bytes = b"", **headers: str) -> None:
        body = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head_bucket(self, key, query, body) -> None:
        self._answer(200)

    def _head_object(self, key, query, body) -> None:
        found = self.s3.objects.get(key)
        if found is None:
            self._answer(404)
        else:
            self._answer(200, Content_Length=str(len(found)))

    def _get_object(self, key, query, body) -> None:
        found = self.s3.objects.get(key)
        if found is None:
            self._answer(404, "<Error><Code>NoSuchKey</Code></Error>")
            return
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        piece = found[int(first) : int(last) + 1]
        place = f"bytes {first}-{int(first) + len(piece) - 1}/{len(found)}"
        self._answer(206, piece, Content_Range=place)

    def _list_objects(self, key, query, body) -> None:
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
            "<LastModified>2026-01-31T00:00:00.000Z</LastModified></Contents>"
            for key, data in sorted(self.s3.objects.items())
            if key.startswith(query.get("prefix", ""))
        )
        count = items.count("<Key>")
        self._answer(
            200,
            f"<ListBucketResult><Name>{BUCKET}</Name><KeyCount>{count}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{items}</ListBucketResult>",
        )

    def _put_object(self, key, query, body) -> None:
        self.s3.objects[key] = body
        self._answer(200, ETag='"1"')

    def _create_multipart_upload(self, key, query, body) -> None:
        upload = str(len(self.s3.uploads) + 1)
        self.s3.uploads[upload] = {}
        self._answer(
            200,
            f"<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key>"
            f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>",
        )

    def _upload_part(self, key, query, body) -> None:
        self.s3.uploads[query["uploadId"]][int(query["partNumber"])] = body
        self._answer(200, ETag=f'"{query["partNumber"]}"')

    def _complete_multipart_upload(self, key, query, body) -> None:
        parts = self.s3.uploads.pop(query["uploadId"])
        self.s3.objects[key] = b"".join(parts[number] for number in sorted(parts))
        self._answer(
            200,
            f"<CompleteMultipartUploadResult><Key>{escape(key)}</Key><ETag>1</ETag>"
            "</CompleteMultipartUploadResult>",
        )


def _name(command: str, key: str, query: dict[str, str]) -> str:
    match command:
        case "GET":
            return "GetObject" if key else "ListObjectsV2"
        case "HEAD":
            return "HeadObject" if key else "HeadBucket"
        case "POST":
            return "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
        case _:
            return "UploadPart" if "partNumber" in query else "PutObject"


def _unchunked(body: bytes) -> bytes:
    """Returns what was sent in chunks, each with its size, and a checksum at the end."""
    pieces = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        count = int(size.partition(b";")[0], 16)
        if count == 0:
            break
        pieces.append(rest[:count])
        body = rest[count + 2 :]
    return b"".join(pieces)
