//! Opens connections, with TLS if the server or the URL asks for it.

use std::sync::Arc;

use agentflow_core::store::{StoreError, StoreErrorKind};
use deadpool_postgres::Connect;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Payloads of notifications that a connection receives.
pub(super) type Notices = mpsc::UnboundedSender<String>;

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Connector(Option<MakeRustlsConnect>);

impl Connector {
    /// Creates the connector for a configuration. `roots` is PEM text with the certificate
    /// authorities to trust instead of the platform's.
    pub(super) fn new(config: &Config, roots: Option<&[u8]>) -> Result<Self, StoreError> {
        if config.get_ssl_mode() == SslMode::Disable {
            return Ok(Self(None));
        }
        let config = client_config(roots).map_err(|problem| {
            StoreError::new(StoreErrorKind::Io, format!("TLS cannot be set up: {problem}"))
        })?;
        Ok(Self(Some(MakeRustlsConnect::new(config))))
    }

    /// Opens a connection. A task reads from it until the client is dropped, and sends the payloads
    /// of notifications to `notices`.
    pub(super) async fn open(
        &self,
        config: &Config,
        notices: Option<Notices>,
    ) -> Result<(Client, JoinHandle<()>), Error> {
        Ok(match &self.0 {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                (client, tokio::spawn(drive(connection, notices)))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                (client, tokio::spawn(drive(connection, notices)))
            }
        })
    }
}

impl Connect for Connector {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        async move { self.open(&config, None).await }.boxed()
    }
}

/// Reads from a connection until it is closed.
async fn drive<S, T>(mut connection: Connection<S, T>, notices: Option<Notices>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    while let Some(message) = messages.next().await {
        match (message, &notices) {
            (Ok(AsyncMessage::Notification(notice)), Some(notices)) => {
                let _ = notices.send(notice.payload().to_owned());
            }
            (Ok(_), _) => {}
            // The client of the connection reports the error to its caller.
            (Err(error), _) => {
                tracing::debug!(%error, "a connection to Postgres was lost");
                break;
            }
        }
    }
}

/// Returns TLS settings that verify the certificate and the name of the server.
fn client_config(roots: Option<&[u8]>) -> Result<ClientConfig, String> {
    let provider = CryptoProvider::get_default()
        .map_or_else(|| Arc::new(rustls::crypto::ring::default_provider()), Arc::clone);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match roots {
        Some(pem) => builder.with_root_certificates(read_roots(pem)?),
        None => builder.with_platform_verifier().map_err(|error| error.to_string())?,
    };
    Ok(builder.with_no_client_auth())
}

fn read_roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| format!("a certificate cannot be read: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("a certificate cannot be trusted: {error}"))?;
    }
    match roots.is_empty() {
        true => {
            Err("no certificate found; give PEM text with `-----BEGIN CERTIFICATE-----`".into())
        }
        false => Ok(roots),
    }
}

#[cfg(test)]
mod tests {
    use super::Connector;

    #[test]
    fn roots_without_a_certificate_are_refused() {
        let open = |url: &str| Connector::new(&url.parse().unwrap(), Some(b"nothing"));
        let error = open("postgres://a@h/d?sslmode=require").err().unwrap();
        assert!(error.to_string().contains("no certificate found"), "{error}");
        assert!(open("postgres://a@h/d?sslmode=disable").is_ok(), "TLS is not used");
    }
}
