//! Checks where a request goes: parses its address, resolves the host, and checks all resolved
//! addresses against the guard. Also holds the certificate authorities of hosts. Sends nothing.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use agentflow_http::{AddressGuard, TrustedRoots};
use reqwest::Url;

use agentflow_core::tool::ToolError;

/// Maximum length of an address in bytes.
const LONGEST: usize = 8 << 10;

/// Function that resolves a host name.
pub(crate) type Resolver = Arc<
    dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync,
>;

/// The addresses that may be requested.
#[derive(Clone, Default)]
pub(crate) struct Targets {
    /// Host names, including forms such as `*.example.org` and `example.org:8443`. `None` allows
    /// all hosts.
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) guard: AddressGuard,
    /// Resolver used instead of the operating system.
    pub(crate) resolver: Option<Resolver>,
    /// Mistakes in host names. A tool with a mistake cannot be built.
    problems: Vec<String>,
    /// Certificate authorities of hosts that do not use the platform's authorities.
    roots: Vec<(String, TrustedRoots)>,
}

impl Targets {
    /// Creates targets for all hosts whose addresses the guard allows.
    #[cfg(any(feature = "http", feature = "http"))]
    pub(crate) fn within(guard: AddressGuard) -> Self {
        Self { guard, ..Self::default() }
    }

    /// Sets the hosts that may be requested. Records names that no request can match.
    pub(crate) fn name_hosts<H: Into<String>>(&mut self, hosts: impl IntoIterator<Item = H>) {
        let hosts: Vec<String> =
            hosts.into_iter().map(|named| self.read_host(named.into())).collect();
        self.hosts = Some(hosts);
    }

    /// Normalizes a host name to the form that URLs have. Records a mistake in it.
    pub(crate) fn read_host(&mut self, named: String) -> String {
        host_name(&named).unwrap_or_else(|problem| {
            self.problems.push(problem);
            named
        })
    }

    /// Returns the mistakes in host names, if any.
    pub(crate) fn problem(&self) -> Option<String> {
        (!self.problems.is_empty()).then(|| self.problems.join("; "))
    }

    /// Sets the certificate authorities of a host from PEM text. The last setting for a host wins.
    pub(crate) fn trust(&mut self, host: String, pem: &[u8]) -> io::Result<()> {
        let host = host_name(&host)
            .map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        let roots = TrustedRoots::from_pem(pem)
            .map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))?;
        self.roots.push((host, roots));
        Ok(())
    }

    /// Returns the authorities for the host of a URL, if they differ from the platform's
    /// authorities.
    pub(crate) fn roots_of(&self, url: &Url) -> Option<&TrustedRoots> {
        self.roots.iter().rev().find(|(named, _)| is_named(url, named)).map(|(_, roots)| roots)
    }

    /// Parses and checks an HTTP address. A redirect is resolved relative to `from`.
    pub(crate) fn url(&self, text: &str, from: Option<&Url>) -> Result<Url, ToolError> {
        let wrong = |problem: String| Err(ToolError::new(problem));
        if text.len() > LONGEST {
            return wrong(format!(
                "an address has at most {LONGEST} bytes, and this one has {}",
                text.len()
            ));
        }
        let read = match from {
            Some(from) => from.join(text),
            None => text.parse(),
        };
        let url: Url = match read {
            Ok(url) => url,
            Err(error) => {
                return wrong(format!(
                    "`{text}` is not an address: {error}; give one such as `https://example.org/a`"
                ));
            }
        };
        if !matches!(url.scheme(), "http" | "https") {
            return wrong(format!(
                "`{}:` is not requested; give an address with `https:` or `http:`",
                url.scheme()
            ));
        }
        // Credentials in a URL would appear in events and logs.
        if !url.username().is_empty() || url.password().is_some() {
            return wrong(
                "an address holds no user and no password; leave out what stands before the `@`"
                    .to_owned(),
            );
        }
        let host = host_of(&url);
        if let Some(hosts) = &self.hosts
            && !hosts.iter().any(|named| is_named(&url, named))
        {
            return wrong(format!(
                "the host `{host}` is not requested; there are: {}",
                hosts.join(", ")
            ));
        }
        Ok(url)
    }

    /// Resolves the host of a URL and checks that the guard allows all of its addresses.
    pub(crate) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, ToolError> {
        self.addresses_or(url, None).await
    }

    /// Resolves and checks the host of a URL. If an address is refused, `remedy` becomes part of
    /// the message. Without it, the remedy is only logged for developers, because a model reads the
    /// message.
    pub(crate) async fn addresses_or(
        &self,
        url: &Url,
        remedy: Option<&str>,
    ) -> Result<Vec<SocketAddr>, ToolError> {
        let host = host_of(url);
        let port = url.port_or_known_default().unwrap_or(80);
        let found = match (host.parse::<IpAddr>(), &self.resolver) {
            (Ok(address), _) => vec![address],
            (Err(_), Some(resolver)) => {
                resolver(host.clone()).await.map_err(|error| unresolved(&host, &error))?
            }
            (Err(_), None) => {
                of_system(host.clone(), port).await.map_err(|error| unresolved(&host, &error))?
            }
        };
        // If any address is refused, the name is not trusted at all: a mixed result may be an
        // attack.
        if let Some(refused) = found.iter().find(|address| !self.guard.allows(**address)) {
            let subject =
                if refused.to_string() == host { "it".to_owned() } else { refused.to_string() };
            let problem = format!(
                "`{host}` is not requested: {subject} is not an address of the public internet"
            );
            return Err(match remedy {
                Some(remedy) => ToolError::new(format!("{problem}, and {remedy}")),
                None => ToolError::new(format!("{problem}, and this program does not allow it")).remedy(format!(
                    "add the network of {refused} to `networks` of the tool in the configuration, or give the tool a `guard` \
                     with `AddressGuard::default().allow(..)`"
                )),
            });
        }
        match found.is_empty() {
            true => Err(ToolError::new(format!("the host `{host}` has no address"))),
            false => Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect()),
        }
    }
}

/// Returns the host of a URL in normalized form: lower case, without the brackets of IPv6 and
/// without a final dot.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// Parses a configured host: `api.example.org`, `*.example.org` or an IP address, each with or
/// without a port. Returns it in the form that URLs have, such as `xn--caf-dma.example` for
/// `café.example`.
///
/// # Errors
/// A message, if no request can match the name.
pub(crate) fn host_name(named: &str) -> Result<String, String> {
    let example =
        "give a name such as `api.example.org`, `*.example.org` or `api.example.org:8443`";
    let wrong =
        |problem: &str| Err(format!("`{named}` is not the name of a host: {problem}; {example}"));
    // A common mistake is to write a URL instead of a host.
    if named.contains(['/', '?', '#', '@', '\\']) {
        return wrong("it is an address");
    }
    let (host, port) = named_port(named);
    let (below, host) = host.strip_prefix("*.").map_or(("", host), |host| ("*.", host));
    if host.is_empty()
        || host.ends_with(':')
        || host.contains(['*', '%'])
        || host.contains(char::is_whitespace)
    {
        return wrong("it has no host, or a sign that no host has");
    }
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    // The URL parser normalizes the host (lower case, IDNA), as it does for requests.
    let url = if is_v6 { format!("http://[{host}]/") } else { format!("http://{host}/") };
    let Some(read) = url.parse::<Url>().ok().filter(|url| url.port().is_none()) else {
        return wrong("its host or its port cannot be read");
    };
    let host = host_of(&read);
    Ok(match port {
        Some(port) if is_v6 => format!("[{host}]:{port}"),
        Some(port) => format!("{below}{host}:{port}"),
        None => format!("{below}{host}"),
    })
}

/// Returns `true` if a URL matches a configured host, and its port if one is configured.
fn is_named(url: &Url, named: &str) -> bool {
    let (host, port) = named_port(named);
    is_of(&host_of(url), host) && (port.is_none() || url.port_or_known_default() == port)
}

/// Returns `true` if a key for a configured host may be sent to a URL: to the configured port,
/// otherwise only to the default port of the scheme. Another port may belong to another server.
pub(crate) fn may_have_key(url: &Url, named: &str) -> bool {
    is_named(url, named) && (url.port().is_none() || named_port(named).1.is_some())
}

/// Splits a name such as `example.org:8443` or `[::1]:8443` into the host and the port.
fn named_port(named: &str) -> (&str, Option<u16>) {
    let bare = |host: &'_ str| host.len() > 2 && host.starts_with('[') && host.ends_with(']');
    match named.rsplit_once(':') {
        Some((host, port)) if bare(host) || !host.contains(':') => match port.parse() {
            Ok(port) => (host.trim_matches(['[', ']']), Some(port)),
            Err(_) => (named, None),
        },
        _ => (named.trim_matches(['[', ']']), None),
    }
}

/// Returns `true` if a host equals a configured name, or is a subdomain of a name with `*.`.
pub(crate) fn is_of(host: &str, named: &str) -> bool {
    let named = named.trim_end_matches('.');
    match named.strip_prefix("*.") {
        Some(parent) => {
            let below = host.len().checked_sub(parent.len() + 1);
            below.is_some_and(|at| {
                at > 0
                    && host.is_char_boundary(at)
                    && host[at..].starts_with('.')
                    && host[at + 1..].eq_ignore_ascii_case(parent)
            })
        }
        None => host.eq_ignore_ascii_case(named),
    }
}

fn unresolved(host: &str, error: &io::Error) -> ToolError {
    ToolError::new(format!("the host `{host}` is not found: {error}"))
}

async fn of_system(host: String, port: u16) -> io::Result<Vec<IpAddr>> {
    let resolve = move || {
        (host.as_str(), port).to_socket_addrs().map(|found| found.map(|one| one.ip()).collect())
    };
    // The system resolver blocks.
    tokio::task::spawn_blocking(resolve).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::{host_name, is_named, is_of, may_have_key};

    #[test]
    fn names_of_hosts_are_those_that_a_request_can_have() {
        for (named, read) in [
            ("api.example.org", "api.example.org"),
            ("API.Example.org.", "api.example.org"),
            ("*.example.org:8443", "*.example.org:8443"),
            ("127.0.0.1:8081", "127.0.0.1:8081"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("[::1]:81", "[::1]:81"),
            ("localhost", "localhost"),
            ("café.example", "xn--caf-dma.example"),
        ] {
            assert_eq!(host_name(named).as_deref(), Ok(read), "{named}");
        }
        for named in [
            "",
            "*",
            "*.",
            "a.*.example.org",
            "https://api.example.org",
            "api.example.org/v1",
            "user@example.org",
            "example.org:99999",
            "example.org:",
            "example.org:http",
            "ex ample.org",
        ] {
            let problem = host_name(named).unwrap_err();
            assert!(
                problem.starts_with(&format!("`{named}` is not the name of a host: ")),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_key_belongs_to_a_host_and_a_port() {
        for (url, named, is_there, has_key) in [
            ("https://h.test/", "h.test", true, true),
            ("https://h.test:443/", "h.test", true, true),
            ("https://h.test:8443/", "h.test", true, false),
            ("https://h.test:8443/", "h.test:8443", true, true),
            ("https://a.h.test:8443/", "*.h.test:8443", true, true),
            ("https://h.test/", "h.test:443", true, true),
            ("https://h.test/", "h.test:8443", false, false),
            ("http://h.test/", "h.test", true, true),
            ("https://[::1]/", "::1", true, true),
            ("https://[::1]/", "[::1]", true, true),
            ("https://[::1]:81/", "[::1]:81", true, true),
            ("https://[::1]:81/", "::1", true, false),
        ] {
            let url: reqwest::Url = url.parse().unwrap();
            assert_eq!(
                (is_named(&url, named), may_have_key(&url, named)),
                (is_there, has_key),
                "{url} {named}"
            );
        }
    }

    #[test]
    fn hosts_are_those_that_are_named() {
        for (host, named, expected) in [
            ("api.example.org", "api.example.org", true),
            ("api.example.org", "API.Example.org.", true),
            ("api.example.org", "*.example.org", true),
            ("a.b.example.org", "*.example.org", true),
            ("example.org", "*.example.org", false),
            ("evilexample.org", "*.example.org", false),
            ("example.org.evil", "*.example.org", false),
            (".example.org", "*.example.org", false),
            ("api.example.org", "example.org", false),
            ("é.example.org", "*.example.org", true),
        ] {
            assert_eq!(is_of(host, named), expected, "{host} {named}");
        }
    }
}
