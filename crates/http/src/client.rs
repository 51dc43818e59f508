//! Creates and shares HTTP clients.
//!
//! TLS uses rustls with the crypto provider that the host installed, or ring if the host installed
//! none. This module installs no process-wide provider, so the host can install its own later. All
//! adapters share the clients. Each tokio runtime has its own clients, because a pooled connection
//! must not outlive the runtime that drives it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Client, ClientBuilder, Url};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::runtime::{Handle, Id};

use crate::client_error::{ClientError, innermost_cause};
use crate::trusted_roots::{TrustedRoots, crypto_provider};

/// Maximum number of cached clients. Only test runs use more combinations of runtime and settings.
const KEPT: usize = 16;

/// Maximum number of redirects of one request.
const MOST_REDIRECTS: usize = 5;

const USER_AGENT: &str = concat!("agentflow/", env!("CARGO_PKG_VERSION"));

struct Kept {
    runtime: Id,
    kind: Kind,
    client: Client,
}

/// The settings in which clients differ.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    tls: bool,
    /// `true` if the client uses the proxies of the environment (such as `HTTPS_PROXY`). A request
    /// to this machine never uses them: a proxy on another machine cannot reach it, and would
    /// receive the API key.
    proxies: bool,
    connect_timeout: Duration,
}

/// Returns the client for a URL on the current tokio runtime. The call is cheap: clients are cached
/// in a short list.
///
/// # Errors
/// Returns an error if the caller is outside a tokio runtime, or if TLS cannot be set up.
pub fn client(url: &Url, connect_timeout: Duration) -> Result<Client, ClientError> {
    kept(Kind { tls: url.scheme() == "https", proxies: !is_this_machine(url), connect_timeout })
}

/// Returns true if the host of a URL is this machine: `localhost`, a subdomain of it, a loopback
/// address or the unspecified address.
pub fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

fn kept(kind: Kind) -> Result<Client, ClientError> {
    static CLIENTS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

    let runtime = Handle::try_current()
        .map_err(|_| ClientError::new("HTTP requests can only be made inside a tokio runtime"))?
        .id();
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |kept: &&Kept| kept.runtime == runtime && kept.kind == kind;
    if let Some(kept) = clients.iter().find(fits) {
        return Ok(kept.client.clone());
    }
    let client = build(kind)?;
    // The list is short and new entries are rare, so the oldest entry is evicted.
    if clients.len() == KEPT {
        clients.remove(0);
    }
    clients.push(Kept { runtime, kind, client: client.clone() });
    Ok(client)
}

/// Returns a client for a single URL. It connects only to the given addresses of the host and does
/// not resolve the name again. It uses no proxy, follows no redirects, and does not share its
/// connections. With `roots`, it trusts only these certificate authorities.
///
/// # Errors
/// Returns an error if TLS cannot be set up.
pub fn pinned_client(
    url: &Url,
    addresses: &[SocketAddr],
    connect_timeout: Duration,
    roots: Option<&TrustedRoots>,
) -> Result<Client, ClientError> {
    let kind = Kind { tls: url.scheme() == "https", proxies: false, connect_timeout };
    let builder = Client::builder().resolve_to_addrs(url.host_str().unwrap_or_default(), addresses);
    set_up(
        kind,
        roots.map_or_else(|| tls(kind), |roots| Ok(roots.config()))?,
        builder.redirect(Policy::none()),
    )
}

fn build(kind: Kind) -> Result<Client, ClientError> {
    set_up(kind, tls(kind)?, Client::builder().redirect(Policy::custom(within_origin)))
}

/// Follows a redirect that keeps the method and the origin. Python servers send such redirects, for
/// example from `/mcp` to `/mcp/`. Any other redirect is returned as the response: following it
/// would send the API key to another origin, or lose the body.
fn within_origin(attempt: Attempt<'_>) -> Action {
    // Other redirects may change a POST request to GET.
    let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
    let first = attempt.previous().first().map(Url::origin);
    match keeps_method
        && first == Some(attempt.url().origin())
        && attempt.previous().len() <= MOST_REDIRECTS
    {
        true => attempt.follow(),
        false => attempt.stop(),
    }
}

fn tls(kind: Kind) -> Result<ClientConfig, ClientError> {
    if kind.tls { verified() } else { Ok(unused()) }
}

fn set_up(kind: Kind, tls: ClientConfig, builder: ClientBuilder) -> Result<Client, ClientError> {
    let builder = if kind.proxies { builder } else { builder.no_proxy() };
    let builder = builder
        .tls_backend_preconfigured(tls)
        .connect_timeout(kind.connect_timeout)
        .user_agent(USER_AGENT);
    builder.build().map_err(|error| {
        ClientError::caused_by(
            format!("no HTTP client can be set up: {}", innermost_cause(&error)),
            error,
        )
    })
}

/// Returns the TLS settings that trust the certificate authorities of the platform.
fn verified() -> Result<ClientConfig, ClientError> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let config = ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|error| ClientError::caused_by(format!("TLS cannot be set up: {error}"), error))?
        .with_no_client_auth();
    Ok(CONFIG.get_or_init(|| config).clone())
}

/// Returns TLS settings for a client that only makes plain HTTP requests. They trust no server and
/// do not read certificates from the disk.
fn unused() -> ClientConfig {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            ClientConfig::builder_with_provider(crypto_provider())
                .with_safe_default_protocol_versions()
                .expect("every rustls provider has the default protocol versions")
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth()
        })
        .clone()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::Url;

    use super::{Kind, build, client, is_this_machine, verified};

    fn kind(tls: bool) -> Kind {
        Kind { tls, proxies: true, connect_timeout: Duration::from_secs(1) }
    }

    #[test]
    fn this_machine_has_several_names() {
        for (url, expected) in [
            ("http://localhost/v1", true),
            ("http://LOCALHOST.:1", true),
            ("http://api.localhost", true),
            ("http://127.8.9.1:80", true),
            ("http://[::1]:80", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://0.0.0.0:11434", true),
            ("http://localhost.example", false),
            ("http://notlocalhost", false),
            ("http://10.0.0.1", false),
            ("http://[::2]", false),
        ] {
            assert_eq!(is_this_machine(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn clients_of_both_kinds_can_be_built_without_a_process_wide_provider() {
        build(kind(false)).expect("plain");
        // A machine without certificates cannot verify a server. The error must mention
        // certificates.
        match verified() {
            Ok(_) => drop(build(kind(true)).expect("TLS")),
            Err(error) => assert!(error.to_string().contains("certificates"), "{error}"),
        }
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }

    #[test]
    fn outside_a_runtime_it_is_an_error_not_a_panic() {
        let error = client(&Url::parse("http://h").unwrap(), Duration::from_secs(1))
            .expect_err("no runtime");
        assert!(error.to_string().contains("tokio runtime"), "{error}");
    }
}
