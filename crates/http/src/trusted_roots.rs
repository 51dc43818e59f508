//! Certificate authorities that a host configures for one server. They replace the authorities of
//! the platform.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// TLS settings that trust only the certificate authorities of a PEM text.
#[derive(Clone)]
pub struct TrustedRoots(ClientConfig);

impl TrustedRoots {
    /// Reads the certificate authorities from a PEM text.
    ///
    /// # Errors
    /// Returns a message if the text contains no certificate, or a certificate that cannot be read
    /// or trusted.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|error| format!("a certificate cannot be read: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("a certificate cannot be trusted: {error}"))?;
        }
        if roots.is_empty() {
            return Err(
                "there is no certificate; give PEM text with `-----BEGIN CERTIFICATE-----`"
                    .to_owned(),
            );
        }
        // The platform's certificate authorities are not added: only the configured ones are
        // trusted.
        let config = ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(config))
    }

    pub(crate) fn config(&self) -> ClientConfig {
        self.0.clone()
    }
}

impl fmt::Debug for TrustedRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedRoots")
    }
}

/// Returns the crypto provider that the host installed, or ring.
pub(crate) fn crypto_provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default()
        .map_or_else(|| Arc::new(rustls::crypto::ring::default_provider()), Arc::clone)
}
