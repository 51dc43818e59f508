//! Reads the host from an HTTP request. Servers compare it with their own host names, which
//! prevents DNS rebinding: a web page that resolves its own name to the server's address is
//! refused. The caller has the list of names.

use std::net::Ipv6Addr;

use http::header;
use http::request::Parts;

/// Returns the host and port of a request in lower case. Returns `None` unless it has exactly one: in the header `Host`, in
/// the request target, or the same in both (RFC 9112, section 3.2).
pub(crate) fn named_host(parts: &Parts) -> Option<String> {
    let mut headers = parts.headers.get_all(header::HOST).iter();
    let (header, further) = (headers.next(), headers.next());
    let target = parts.uri.authority().map(|authority| authority.as_str());
    let named = match (header, further, target) {
        (Some(header), None, None) => header.to_str().ok()?,
        (Some(header), None, Some(target)) => {
            header.to_str().ok().filter(|host| host.eq_ignore_ascii_case(target))?
        }
        (None, _, Some(target)) => target,
        _ => return None,
    };
    is_host(named).then(|| named.to_ascii_lowercase())
}

/// Returns a host without its port.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_host(text: &str) -> bool {
    let name = without_port(text);
    match name.strip_prefix('[') {
        Some(address) => {
            address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        }
        None => {
            let fits = |byte: u8| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') || byte >= 0x80
            };
            !name.is_empty() && name.bytes().all(fits)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{named_host, without_port};

    fn named(uri: &str, hosts: &[&str]) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        named_host(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_request_names_one_host() {
        for (uri, hosts, expected) in [
            ("/", &["Tools.Example.com:8443"][..], Some("tools.example.com:8443")),
            ("/", &["[::1]"], Some("[::1]")),
            ("/", &["[::1]:80"], Some("[::1]:80")),
            ("http://localhost:80/", &["localhost:80"], Some("localhost:80")),
            ("http://localhost/", &[], Some("localhost")),
            ("/", &[], None),
            ("/", &["localhost", "localhost"], None),
            ("/", &["localhost", "evil.example"], None),
            ("http://evil.example/", &["localhost"], None),
            ("/", &["[::1].example.org"], None),
            ("/", &["[::1"], None),
            ("/", &["::1"], None),
            ("/", &["user@localhost"], None),
            ("/", &["localhost, evil.example"], None),
            ("/", &[""], None),
            ("/", &[":80"], None),
        ] {
            assert_eq!(named(uri, hosts).as_deref(), expected, "{uri} {hosts:?}");
        }
        assert_eq!(
            (without_port("[::1]:80"), without_port("h:80"), without_port("h")),
            ("[::1]", "h", "h")
        );
    }
}
