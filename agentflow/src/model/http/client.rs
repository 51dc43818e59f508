//! The one constructor of HTTP clients.
//!
//! TLS is rustls: with the provider that the host installed, else with ring. Nothing process-wide is installed, so a
//! host that installs its own later is not disturbed. Clients are shared by all adapters, one per tokio runtime: a
//! pooled connection must not outlive the runtime that drives it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::Client;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::runtime::{Handle, Id};

use super::failure::reason;
use crate::model::{ModelError, ModelErrorKind};

/// More than the runtimes and connect time-outs of any program but a test run.
const KEPT: usize = 16;

const USER_AGENT: &str = concat!("agentflow/", env!("CARGO_PKG_VERSION"));

struct Kept {
    runtime: Id,
    tls: bool,
    connect_timeout: Duration,
    client: Client,
}

/// The client for the runtime this is called on. Cheap: mostly a look into a short list.
pub(super) fn client(tls: bool, connect_timeout: Duration) -> Result<Client, ModelError> {
    static CLIENTS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

    let runtime = Handle::try_current()
        .map_err(|_| ModelError::new(ModelErrorKind::Transport, "a model can only be called inside a tokio runtime"))?
        .id();
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |kept: &&Kept| kept.runtime == runtime && kept.tls == tls && kept.connect_timeout == connect_timeout;
    if let Some(kept) = clients.iter().find(fits) {
        return Ok(kept.client.clone());
    }
    let client = build(tls, connect_timeout)?;
    if clients.len() == KEPT {
        clients.remove(0);
    }
    clients.push(Kept { runtime, tls, connect_timeout, client: client.clone() });
    Ok(client)
}

fn build(tls: bool, connect_timeout: Duration) -> Result<Client, ModelError> {
    Client::builder()
        .tls_backend_preconfigured(if tls { verified()? } else { unused() })
        .connect_timeout(connect_timeout)
        .user_agent(USER_AGENT)
        // A redirect would take the key to an address that nobody named.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| {
            ModelError::new(ModelErrorKind::Transport, format!("no HTTP client can be set up: {}", reason(&error)))
                .with_source(error)
        })
}

fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().map_or_else(|| Arc::new(rustls::crypto::ring::default_provider()), Arc::clone)
}

/// TLS that trusts what the platform trusts.
fn verified() -> Result<ClientConfig, ModelError> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|error| {
            ModelError::new(ModelErrorKind::Transport, format!("TLS cannot be set up: {error}")).with_source(error)
        })?
        .with_no_client_auth();
    Ok(CONFIG.get_or_init(|| config).clone())
}

/// TLS for a client that only makes plain HTTP calls: it trusts nobody and reads no certificates from the disk.
fn unused() -> ClientConfig {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    CONFIG
        .get_or_init(|| {
            ClientConfig::builder_with_provider(provider())
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

    use super::{build, client, verified};

    #[tokio::test]
    async fn clients_of_both_kinds_can_be_built_without_a_process_wide_provider() {
        build(false, Duration::from_secs(1)).expect("plain");
        // A machine without certificates cannot verify anybody, and then it says so.
        match verified() {
            Ok(_) => drop(build(true, Duration::from_secs(1)).expect("TLS")),
            Err(error) => assert!(error.message().contains("certificates"), "{error}"),
        }
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
    }

    #[test]
    fn outside_a_runtime_it_is_an_error_not_a_panic() {
        let error = client(false, Duration::from_secs(1)).expect_err("no runtime");
        assert!(error.message().contains("tokio runtime"), "{error}");
    }
}
