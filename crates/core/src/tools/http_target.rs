//! Where a request goes: the address is read, its host is resolved, and every address that it resolves to is held against the
//! guard; which authorities a host's certificate may come from. It sends nothing.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use agentflow_http::{AddressGuard, TrustedRoots};
use reqwest::Url;

use crate::tool::ToolError;

/// The most bytes of an address.
const LONGEST: usize = 8 << 10;

/// Finds the addresses of a host.
pub(super) type Resolver =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync>;

/// Which addresses are requested.
#[derive(Clone, Default)]
pub(super) struct Targets {
    /// Names of hosts, also `*.example.org` and `example.org:8443`; without them any host.
    pub(super) hosts: Option<Vec<String>>,
    pub(super) guard: AddressGuard,
    /// In place of that of the operating system.
    pub(super) resolver: Option<Resolver>,
    /// Mistakes in the names of hosts: a tool with one is not built.
    problems: Vec<String>,
    /// Hosts whose certificates come from other authorities than those of the platform.
    roots: Vec<(String, TrustedRoots)>,
}

impl Targets {
    /// Any host whose addresses the guard allows.
    #[cfg(any(feature = "a2a-client", feature = "mcp-auth"))]
    pub(super) fn within(guard: AddressGuard) -> Self {
        Self { guard, ..Self::default() }
    }

    /// Sets the hosts that are requested. Notes the names that no request can have.
    pub(super) fn name_hosts<H: Into<String>>(&mut self, hosts: impl IntoIterator<Item = H>) {
        let hosts: Vec<String> = hosts.into_iter().map(|named| self.read_host(named.into())).collect();
        self.hosts = Some(hosts);
    }

    /// Returns the name of a host as requests have it. Notes a mistake in it.
    pub(super) fn read_host(&mut self, named: String) -> String {
        host_name(&named).unwrap_or_else(|problem| {
            self.problems.push(problem);
            named
        })
    }

    /// Returns the mistakes in the names of hosts, if there are any.
    pub(super) fn problem(&self) -> Option<String> {
        (!self.problems.is_empty()).then(|| self.problems.join("; "))
    }

    /// Has the certificates of a host come from the authorities of a PEM text. What is said last of a host counts.
    pub(super) fn trust(&mut self, host: String, pem: &[u8]) -> io::Result<()> {
        let host = host_name(&host).map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        let roots =
            TrustedRoots::from_pem(pem).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))?;
        self.roots.push((host, roots));
        Ok(())
    }

    /// The authorities for the host of a URL, where they are not those of the platform.
    pub(super) fn roots_of(&self, url: &Url) -> Option<&TrustedRoots> {
        self.roots.iter().rev().find(|(named, _)| is_named(url, named)).map(|(_, roots)| roots)
    }

    /// An address of the web, by its text or relative to the one that leads to it.
    pub(super) fn url(&self, text: &str, from: Option<&Url>) -> Result<Url, ToolError> {
        let wrong = |problem: String| Err(ToolError::new(problem));
        if text.len() > LONGEST {
            return wrong(format!("an address has at most {LONGEST} bytes, and this one has {}", text.len()));
        }
        let read = match from {
            Some(from) => from.join(text),
            None => text.parse(),
        };
        let url: Url = match read {
            Ok(url) => url,
            Err(error) => {
                return wrong(format!("`{text}` is not an address: {error}; give one such as `https://example.org/a`"));
            }
        };
        if !matches!(url.scheme(), "http" | "https") {
            return wrong(format!("`{}:` is not requested; give an address with `https:` or `http:`", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("an address holds no user and no password; leave out what stands before the `@`".to_owned());
        }
        let host = host_of(&url);
        if let Some(hosts) = &self.hosts
            && !hosts.iter().any(|named| is_named(&url, named))
        {
            return wrong(format!("the host `{host}` is not requested; there are: {}", hosts.join(", ")));
        }
        Ok(url)
    }

    /// The addresses that the host of a URL has now, each allowed.
    pub(super) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, ToolError> {
        self.addresses_or(url, None).await
    }

    /// The same; an address that is not allowed is refused with this remedy as a part of the sentence. Without one the remedy
    /// is for the program's authors alone, since a model reads the sentence.
    pub(super) async fn addresses_or(&self, url: &Url, remedy: Option<&str>) -> Result<Vec<SocketAddr>, ToolError> {
        let host = host_of(url);
        let port = url.port_or_known_default().unwrap_or(80);
        let found = match (host.parse::<IpAddr>(), &self.resolver) {
            (Ok(address), _) => vec![address],
            (Err(_), Some(resolver)) => resolver(host.clone()).await.map_err(|error| unresolved(&host, &error))?,
            (Err(_), None) => of_system(host.clone(), port).await.map_err(|error| unresolved(&host, &error))?,
        };
        // One that is not allowed among others is no accident: the name is not trusted at all.
        if let Some(refused) = found.iter().find(|address| !self.guard.allows(**address)) {
            let subject = if refused.to_string() == host { "it".to_owned() } else { refused.to_string() };
            let problem = format!("`{host}` is not requested: {subject} is not an address of the public internet");
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

/// The name of a host as it is compared: without the brackets of IPv6 and the point at its end.
pub(super) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// Reads the name of a host as it is configured: `api.example.org`, `*.example.org`, an address, each with a port or without.
/// Gives it as the URLs of requests have it, such as `xn--caf-dma.example` for `café.example`.
///
/// # Errors
/// When no request can lead there, as a sentence.
pub(super) fn host_name(named: &str) -> Result<String, String> {
    let example = "give a name such as `api.example.org`, `*.example.org` or `api.example.org:8443`";
    let wrong = |problem: &str| Err(format!("`{named}` is not the name of a host: {problem}; {example}"));
    if named.contains(['/', '?', '#', '@', '\\']) {
        return wrong("it is an address");
    }
    let (host, port) = named_port(named);
    let (below, host) = host.strip_prefix("*.").map_or(("", host), |host| ("*.", host));
    if host.is_empty() || host.ends_with(':') || host.contains(['*', '%']) || host.contains(char::is_whitespace) {
        return wrong("it has no host, or a sign that no host has");
    }
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
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

/// Returns true if a URL leads to a host that was named, and to its port where one was named with it.
fn is_named(url: &Url, named: &str) -> bool {
    let (host, port) = named_port(named);
    is_of(&host_of(url), host) && (port.is_none() || url.port_or_known_default() == port)
}

/// Returns true if a key for a named host may be sent to a URL: to the named port, or else only to the default port of the
/// scheme. Another port of a host may belong to another server.
pub(super) fn may_have_key(url: &Url, named: &str) -> bool {
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

/// Whether a host is one that was named, or below one that was named with `*.`.
pub(super) fn is_of(host: &str, named: &str) -> bool {
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
    let resolve = move || (host.as_str(), port).to_socket_addrs().map(|found| found.map(|one| one.ip()).collect());
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
            assert!(problem.starts_with(&format!("`{named}` is not the name of a host: ")), "{problem}");
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
            assert_eq!((is_named(&url, named), may_have_key(&url, named)), (is_there, has_key), "{url} {named}");
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
