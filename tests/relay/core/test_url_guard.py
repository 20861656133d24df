"""The URL guard: addresses, base URLs and joining."""

from ipaddress import ip_network

import pytest

from relay.core.url_guard import UnsafeUrl, check_base_url, is_allowed_address, join_url

TEN = (ip_network("10.0.0.0/8"),)
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"],
)
def test_public_addresses(address: str) -> None:
    assert is_allowed_address(address, ())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "203.0.113.1",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b::a00:1", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1", "2001:0:4136:e378::1", "100::1",
        "", "localhost", "8.8.8", "0x7f.1", "8.8.8.8/32", " 8.8.8.8",
    ],
)  # fmt: skip
def test_refused_addresses(address: str) -> None:
    assert not is_allowed_address(address, ())


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "2002:a01:203::"])
def test_allowed_private_network(address: str) -> None:
    assert is_allowed_address(address, TEN)
    assert not is_allowed_address(address, LOOPBACK)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://api.openai.com", "https://api.openai.com"),
        ("https://api.openai.com/", "https://api.openai.com"),
        ("https://api.openai.com/v1", "https://api.openai.com"),
        ("https://api.openai.com/v1/", "https://api.openai.com"),
        ("HTTPS://API.OpenAI.com:8443/v1//", "https://api.openai.com:8443"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api"),
        ("https://open.bigmodel.cn/api/paas/v4/", "https://open.bigmodel.cn/api/paas/v4"),
        ("https://x.example.org/apiv1", "https://x.example.org/apiv1"),
        ("http://8.8.8.8/v1", "http://8.8.8.8"),
        ("http://134744072/", "http://8.8.8.8"),
        ("http://[2606:4700:4700::1111]:81/v1", "http://[2606:4700:4700::1111]:81"),
        ("https://api.openai.com.", "https://api.openai.com"),
        ("https://xn--bcher-kva.example.org", "https://xn--bcher-kva.example.org"),
    ],
)
def test_accepted_base_urls(url: str, base: str) -> None:
    assert check_base_url(url, ()) == base
    assert check_base_url(base, ()) == base


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "begin with http"), ("api.openai.com", "begin with http"), ("ftp://x.org", "begin with http"),
        ("file:///etc/passwd", "begin with http"), ("//x.org", "begin with http"),
        ("https://", "no host"), ("https:///v1", "no host"), ("https://:443/", "no host"),
        ("https://user@x.org", "user name"), ("https://u:p@x.org", "user name"), ("https://@x.org", "user name"),
        ("https://x.org/?", "query"), ("https://x.org?key=1", "query"),
        ("https://x.org/#", "fragment"), ("https://x.org#f", "fragment"),
        ("https://x.org/a b", "control"), (" https://x.org", "control"), ("https://x.org\n", "control"),
        ("https://x.org\t", "control"), ("https://x.org\\@evil.org", "backslash"), ("https://x.org/\x7f", "control"),
        ("https://x.org:99999", "port"), ("https://x.org:http", "port"), ("https://[::1", "not valid"),
        ("https://x.org/a/../v1", "dot segments"), ("https://x.org//v1", "empty segments"),
        ("https://x.org/%2e%2e", "dot segments"), ("https://x.org/a%2Fb", "encoded"),
        ("http://127.0.0.1", "private"), ("http://10.0.0.1:8000/v1", "private"), ("http://[::1]:8000", "private"),
        ("http://[::ffff:127.0.0.1]", "private"), ("http://[fe80::1%25eth0]", "not"), ("http://169.254.169.254", "private"),
        ("http://2130706433/", "private"), ("http://0x7f.1", "private"), ("http://0x7f000001", "private"),
        ("http://0177.0.0.1", "private"), ("http://127.1", "private"), ("http://127.0.1", "private"),
        ("http://0", "private"), ("http://0x", "private"), ("http://127.0.0.1.", "private"),
        ("http://1.2.3.4.5", "address"), ("http://256.1.1.1", "address"), ("http://4294967296", "address"),
        ("http://a.1", "address"), ("http://08.1.1.1", "address"),
        ("http://localhost:11434", "loopback"), ("http://LOCALHOST.", "loopback"), ("http://a.localhost", "loopback"),
        ("http://１２７.0.0.1", "not a valid"), ("http://bücher.de", "xn--"), ("http://%31%32%37.0.0.1", "not a valid"),
        ("http://a..b", "valid name"), ("http://x.org..", "valid name"), ("http://x.org|evil", "valid name"),
    ],
)  # fmt: skip
def test_refused_base_urls(url: str, reason: str) -> None:
    with pytest.raises(UnsafeUrl, match=reason):
        check_base_url(url, ())


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://localhost:11434/v1", "http://localhost:11434"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("http://[::1]:9/", "http://[::1]:9"),
        ("http://127.1:9", "http://127.0.0.1:9"),
    ],
)
def test_allowed_private_base_urls(url: str, base: str) -> None:
    assert check_base_url(url, LOOPBACK) == base


def test_refusal_does_not_repeat_the_password() -> None:
    with pytest.raises(UnsafeUrl) as caught:
        check_base_url("https://user:hunter2@x.org", ())
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("base", ["https://x.org", "https://x.org/", "https://x.org/v1", "https://x.org/v1/"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "v1/chat/completions"])
def test_clean_join(base: str, path: str) -> None:
    assert join_url(base, path) == "https://x.org/v1/chat/completions"


@pytest.mark.parametrize(
    ("base", "path", "query", "url"),
    [
        ("https://x.org/api", "/v1/m", "", "https://x.org/api/v1/m"),
        ("https://x.org/v1", "/v1beta/models/m:generateContent", "alt=sse", "https://x.org/v1beta/models/m:generateContent?alt=sse"),
        ("https://x.org/v1beta/", "/v1beta/models", "", "https://x.org/v1beta/models"),
        ("https://x.org/v1", "/chat", "", "https://x.org/v1/chat"),
        ("https://x.org/", "/openai/deployments/d", "api-version=1", "https://x.org/openai/deployments/d?api-version=1"),
        ("https://x.org/api/v1", "/v1", "", "https://x.org/api/v1"),
        ("https://x.org/apiv1", "/v1/m", "", "https://x.org/apiv1/v1/m"),
        ("https://x.org/v1", "/v1x/m", "", "https://x.org/v1/v1x/m"),
    ],
)  # fmt: skip
def test_join(base: str, path: str, query: str, url: str) -> None:
    assert join_url(base, path, query) == url
