//! The tool `http_request` over TLS: certificates of the test's authority, of another authority and
//! for another name, headers that require TLS, and redirects to a server without TLS.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use agentflow::message::{ToolCall, ToolResult};
use agentflow::model::Secret;
use agentflow::serde_json::{Value, json};
use agentflow::tools::{AddressGuard, HttpRequest};
use agentflow_testing::test_runtime;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ServerConfig, SupportedProtocolVersion};

use crate::loopback_server::{Server, json_of, read, redirect};

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Starts a loopback server with a certificate for this name. It records its requests.
    async fn server(
        &self,
        name: &str,
        versions: &[&'static SupportedProtocolVersion],
        answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> TlsServer {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()])
            .unwrap()
            .signed_by(&key, &self.issuer)
            .unwrap();
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, kept) = (Arc::new(answer), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, kept, acceptor) =
                    (Arc::clone(&answer), Arc::clone(&kept), acceptor.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let (mut stream, request) = read(stream).await;
                    kept.lock().unwrap().push(request.clone());
                    let _ = stream.write_all(&answer(&request)).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        TlsServer { port, asked }
    }
}

struct TlsServer {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl TlsServer {
    fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.port)
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// Builds a request for which every host name resolves to this machine.
fn loopback() -> HttpRequest {
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    HttpRequest::new()
        .guard(AddressGuard::default().allow(here, 32))
        .resolver(move |_| async move { Ok(vec![here]) })
}

async fn ask(request: &HttpRequest, arguments: Value) -> ToolResult {
    let call = ToolCall::new("1", "http_request", arguments.to_string());
    test_runtime().tools(request.tool()).build().invoke(&call, &[]).await.unwrap()
}

async fn answered_with(request: &HttpRequest, url: String) -> Value {
    let result = ask(request, json!({"url": url})).await;
    assert!(result.status.is_success(), "{}", result.text());
    result.text().parse().unwrap()
}

async fn refused(request: &HttpRequest, url: String, says: &str) {
    let result = ask(request, json!({"url": url})).await;
    assert!(
        !result.status.is_success() && result.text().contains(says),
        "{url}: {}",
        result.text()
    );
}

#[tokio::test]
async fn a_server_is_trusted_by_the_authority_that_was_given_for_its_host() {
    let authority = Authority::new();
    for versions in [&BOTH[..], &[&TLS12], &[&TLS13]] {
        let server = authority.server("api.test", versions, |_| json_of(&json!("over TLS"))).await;
        let request = loopback().root_certificate("api.test", &authority.pem).unwrap();
        let read = answered_with(&request, server.url("api.test", "/a")).await;
        assert_eq!(
            (&read["body"], &read["url"]),
            (&json!("over TLS"), &json!(server.url("api.test", "/a")))
        );
        let below = loopback().root_certificate("*.test", &authority.pem).unwrap();
        answered_with(&below, server.url("api.test", "/a")).await;
        assert_eq!(server.asked().len(), 2);
    }
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_is_refused_before_anything_is_sent() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = authority.server("api.test", &BOTH, |_| json_of(&json!("reached"))).await;
    let url = || server.url("api.test", "/");
    // The certificate is unknown to the platform, to another authority, and to the same authority
    // configured for another host.
    refused(&loopback(), url(), "`api.test` did not answer").await;
    let request = loopback().root_certificate("api.test", &other.pem).unwrap();
    refused(&request, url(), "`api.test` did not answer: invalid peer certificate").await;
    let request = loopback().root_certificate("other.test", &authority.pem).unwrap();
    refused(&request, url(), "`api.test` did not answer").await;
    // Each authority of a bundle is trusted. The last setting for a host wins.
    let both = format!("{}{}", other.pem, authority.pem);
    answered_with(&loopback().root_certificate("api.test", both).unwrap(), url()).await;
    let request = loopback().root_certificate("api.test", &authority.pem).unwrap();
    refused(&request.root_certificate("api.test", &other.pem).unwrap(), url(), "did not answer")
        .await;
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let server = authority.server("other.test", &BOTH, |_| json_of(&json!("reached"))).await;
    let request = loopback().root_certificate("*.test", &authority.pem).unwrap().secret_header(
        format!("api.test:{}", server.port),
        "authorization",
        Secret::new("Bearer sk-1234567890"),
    );
    refused(
        &request,
        server.url("api.test", "/"),
        "`api.test` did not answer: invalid peer certificate",
    )
    .await;
    refused(&request, server.url("127.0.0.1", "/"), "did not answer").await;
    assert_eq!(server.asked(), Vec::<String>::new());
    // A server that does not support TLS is not contacted without it.
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = plain.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).await.unwrap();
        stream.write_all(&json_of(&json!("reached"))).await.unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    });
    refused(&request, format!("https://api.test:{port}/"), "`api.test` did not answer").await;
    let heard = heard.await.unwrap();
    assert!(!heard.contains("GET ") && !heard.contains("sk-"), "{heard}");
}

#[tokio::test]
async fn a_redirect_from_tls_to_none_is_refused() {
    let authority = Authority::new();
    let plain = Server::start(|_| json_of(&json!("reached"))).await;
    let to = format!("http://api.test:{}/", plain.port);
    let server = authority
        .server("api.test", &BOTH, move |request| match request.split(' ').nth(1).unwrap() {
            "/down" => redirect(&to),
            "/here" => redirect("/landed"),
            _ => json_of(&json!("landed")),
        })
        .await;
    let request = loopback().root_certificate("api.test", &authority.pem).unwrap();
    let says = "the server redirects from TLS to none, at `api.test`";
    refused(&request, server.url("api.test", "/down"), says).await;
    assert_eq!(plain.asked(), Vec::<String>::new());
    let read = answered_with(&request, server.url("api.test", "/here")).await;
    assert_eq!(read["url"], json!(server.url("api.test", "/landed")));
    // After a redirect, the authority of the new host applies.
    let elsewhere =
        Authority::new().server("far.test", &BOTH, |_| json_of(&json!("reached"))).await;
    let to = elsewhere.url("far.test", "/");
    let leading = authority.server("api.test", &BOTH, move |_| redirect(&to)).await;
    let both = request.root_certificate("far.test", &authority.pem).unwrap();
    refused(
        &both,
        leading.url("api.test", "/"),
        "`far.test` did not answer: invalid peer certificate",
    )
    .await;
    assert_eq!(elsewhere.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_is_sent_over_tls() {
    let authority = Authority::new();
    let server =
        authority.server("api.test", &BOTH, |request| json_of(&json!({"sent": request}))).await;
    let request = loopback().root_certificate("api.test", &authority.pem).unwrap().secret_header(
        format!("api.test:{}", server.port),
        "authorization",
        Secret::new("Bearer sk-1234567890"),
    );
    let read = answered_with(&request, server.url("api.test", "/")).await;
    assert!(server.asked()[0].contains("authorization: Bearer sk-1234567890"));
    assert!(!read.to_string().contains("sk-1234567890"), "{read}");
}

#[test]
fn what_is_no_certificate_is_refused_where_it_is_given() {
    let problem =
        |pem: &str| HttpRequest::new().root_certificate("api.test", pem).unwrap_err().to_string();
    assert!(problem("").starts_with("there is no certificate; give PEM text"), "{}", problem(""));
    let broken = "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n";
    assert!(problem(broken).starts_with("a certificate cannot be trusted"), "{}", problem(broken));
    let key = KeyPair::generate().unwrap().serialize_pem();
    assert!(problem(&key).starts_with("there is no certificate"), "{}", problem(&key));
}
