"""Parsing of query strings, forms, JSON and multipart bodies into one dictionary."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput, TooLarge
from shoal.http.errors import Malformed
from shoal.http.params import Upload, unfold
from tests.api.harness import json_params, params_of

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=B"


def form(text: str) -> dict[str, Any]:
    """Return the parameters of an urlencoded body."""
    return params_of(text.encode(), FORM)


def part(headers: str, content: bytes) -> bytes:
    """Return one part of a multipart body."""
    return b"--B\r\n" + headers.encode() + b"\r\n\r\n" + content + b"\r\n"


def multipart(*parts: bytes) -> dict[str, Any]:
    """Return the parameters of a multipart body."""
    return params_of(b"".join(parts) + b"--B--\r\n", MULTIPART)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a=1", {"a": "1"}),
        ("a=1&a=2", {"a": "2"}),
        ("a=", {"a": ""}),
        ("a=x+y%20z%26", {"a": "x y z&"}),
        ("a[]=1&a[]=2", {"a": ["1", "2"]}),
        ("a%5B%5D=1", {"a": ["1"]}),
        ("a[k]=v&a[l]=w", {"a": {"k": "v", "l": "w"}}),
        ("a[0][name]=n&a[0][value]=v&a[1][name]=m", {"a": {"0": {"name": "n", "value": "v"}, "1": {"name": "m"}}}),
        ("a[][name]=n&a[][value]=v&a[][name]=m", {"a": [{"name": "n", "value": "v"}, {"name": "m"}]}),
        ("a[][b][c]=1&a[][b][c]=2", {"a": [{"b": {"c": "1"}}, {"b": {"c": "2"}}]}),
        (
            "poll[options][]=a&poll[options][]=b&poll[expires_in]=60",
            {"poll": {"options": ["a", "b"], "expires_in": "60"}},
        ),
        ("a[b=1", {"a[b": "1"}),
        ("[b]=1", {"[b]": "1"}),
        ("a[b]c=1", {"a[b]c": "1"}),
        ("a[b[c]]=1", {"a[b[c]]": "1"}),
    ],
)
def test_form_parameters_with_brackets_become_objects_and_lists(text: str, tree: dict[str, object]) -> None:
    assert form(text) == tree


@pytest.mark.parametrize(
    "text", ["a=1&a[k]=2", "a[k]=2&a=1", "a[]=1&a[k]=2", "a[k]=1&a[]=2", "a[][]=1", "a[k]=1&a[k][l]=2"]
)
def test_form_parameters_with_conflicting_brackets_are_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        form(text)


@given(st.lists(st.tuples(st.text(alphabet="ab[]0", max_size=12), st.text(max_size=3)), max_size=12))
def test_form_parameters_with_random_brackets_raise_only_input_errors(pairs: list[tuple[str, str]]) -> None:
    try:
        json.dumps(unfold(pairs))
    except InvalidInput:
        return


def test_query_and_body_parameters_are_merged_and_body_wins() -> None:
    assert params_of(b'{"b":2,"c":3}', "application/json", query="a=1&b=1") == {"a": "1", "b": 2, "c": 3}


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "application/ld+json", ""]
)
def test_json_body_is_parsed_under_every_json_content_type(content_type: str) -> None:
    body = b'{"status":"hi","media_ids":["9"],"poll":{"options":["a","b"]},"x":null}'
    expected = {"status": "hi", "media_ids": ["9"], "poll": {"options": ["a", "b"]}, "x": None}
    assert params_of(body, content_type) == expected


def test_empty_request_has_no_parameters() -> None:
    assert params_of() == {}
    assert params_of(b"", "application/json") == {}
    assert params_of(b"null", "application/json") == {}


def test_form_body_without_content_type_is_parsed() -> None:
    assert params_of(b"a=1&b[]=2") == {"a": "1", "b": ["2"]}


@pytest.mark.parametrize("body", [b"{", b'{"a":', b"[1]", b'"a"', b"1", b"[" * 100_000, b'{"a":"\xff"}', b'{"a":1}x'])
def test_json_body_that_is_not_an_object_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        params_of(body, "application/json", max_body=1_000_000)


def test_invalid_utf8_in_parameters_is_malformed() -> None:
    with pytest.raises(Malformed):
        params_of(b"a=%ff", FORM)
    with pytest.raises(Malformed):
        params_of(b"a=\xff", FORM)
    with pytest.raises(Malformed):
        params_of(query="a=%ff")
    with pytest.raises(Malformed):
        multipart(part('Content-Disposition: form-data; name="a"', b"\xff"))


def test_request_body_of_unsupported_content_type_raises_malformed() -> None:
    with pytest.raises(Malformed, match="application/json"):
        params_of(b"hello", "text/plain")


def test_request_parameters_over_1000_fields_are_refused() -> None:
    assert len(form("&".join(f"a{n}=1" for n in range(1000)))) == 1000
    with pytest.raises(InvalidInput, match="1000"):
        form("&".join(f"a{n}=1" for n in range(1001)))
    with pytest.raises(InvalidInput, match="1000"):
        json_params({"a": list(range(1001))})
    with pytest.raises(InvalidInput, match="1000"):
        json_params({f"a{n}": [n] for n in range(501)})
    with pytest.raises(InvalidInput, match="1000"):
        multipart(*[part('Content-Disposition: form-data; name="a[]"', b"x")] * 1001)


def test_request_parameters_over_8_nesting_levels_are_refused() -> None:
    deep: object = "x"
    for _ in range(8):
        deep = {"a": deep}
    assert json_params(deep) == deep
    assert form("a" + "[a]" * 7 + "=x") == deep
    with pytest.raises(InvalidInput, match="8 levels"):
        json_params({"a": deep})
    with pytest.raises(InvalidInput, match="8 levels"):
        form("a" + "[a]" * 8 + "=x")


def test_request_body_over_size_limit_raises_too_large() -> None:
    assert params_of(b"a=" + b"x" * 98, FORM, max_body=100)
    with pytest.raises(TooLarge, match="100 bytes"):
        params_of(b"a=" + b"x" * 99, FORM, max_body=100)


def test_json_body_does_not_use_size_limit_of_multipart_files() -> None:
    with pytest.raises(TooLarge, match="multipart"):
        params_of(b"[" * 2_000_000, "application/json", max_body=40_000_000)


@pytest.mark.parametrize("extra", ["", "\r\nContent-Type: ('image/png', None)", "\r\nContent-Type: image/png"])
def test_multipart_file_is_accepted_with_any_content_type(extra: str) -> None:
    file = multipart(
        part(f'Content-Disposition: form-data; name="avatar"; filename="blob"{extra}', b"\x89PNG\r\n\xff")
    )["avatar"]
    assert isinstance(file, Upload)
    assert (file.filename, file.data) == ("blob", b"\x89PNG\r\n\xff")


def test_multipart_body_with_brackets_and_empty_file_field_is_parsed() -> None:
    said = multipart(
        part('Content-Disposition: form-data; name="source[privacy]"', b"public"),
        part('Content-Disposition: form-data; name="fields_attributes[0][name]"', "naïve".encode()),
        part(
            'Content-Disposition: form-data; name="header"; filename=""\r\nContent-Type: application/octet-stream', b""
        ),
    )
    assert said == {"source": {"privacy": "public"}, "fields_attributes": {"0": {"name": "naïve"}}}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"--B\r\nContent-Disposition: form-data; name=a\r\n\r\nhalf", MULTIPART),
        (b"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--\r\n", MULTIPART),
        (b"nothing of the kind", MULTIPART),
        (b"--B--", "multipart/form-data"),
        (b"--B\r\n" + b"a: b\r\n" * 50 + b"\r\nx\r\n--B--\r\n", MULTIPART),
    ],
)
def test_malformed_multipart_body_is_refused_without_log(
    body: bytes, content_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Malformed):
        params_of(body, content_type)
    assert caplog.records == []


@given(st.binary(min_size=1, max_size=200), st.sampled_from([FORM, MULTIPART, "application/json", ""]))
def test_request_body_of_random_bytes_raises_only_input_errors(body: bytes, content_type: str) -> None:
    try:
        params_of(body, content_type)
    except InvalidInput:
        return
