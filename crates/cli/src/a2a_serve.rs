//! `agentwf a2a serve`: serves agents and workflows of this program over the Agent2Agent protocol.
//! Binds only to loopback addresses, unless clients must send a token.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;

use super::a2a_args::A2aServeArgs;
use super::print::{Stop, line, note};
use super::workflows::store_argument;
use super::{a2a_listener, ctrl_c, runs, validate};
use agentflow_a2a::a2a_server::{A2aCaller, A2aRefusal, A2aServer, A2aServerError};
use agentflow_core::__private::sha256;
use agentflow_core::runtime::Runtime;
use agentflow_tools::{AddressGuard, HttpRequest};

/// Caller name of all clients that send the token.
const HOLDER: &str = "token";
/// Time limit of one push notification attempt.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn serve(host: &Runtime, args: A2aServeArgs) -> Result<(), Stop> {
    let guard = guard(&args.push_allow)?;
    let A2aServeArgs {
        agents,
        workflows,
        grant,
        clients_approve,
        store,
        listen,
        public_url,
        token_from,
        ..
    } = args;
    let token = token_from.map(|variable| match std::env::var(&variable) {
        Ok(token) if !token.is_empty() => Ok(token),
        _ => Err(Stop::failed("a2a", format!("the variable `{variable}` is not set"))),
    });
    let token = token.transpose()?;
    let address: SocketAddr = listen.parse().map_err(|_| {
        Stop::failed(
            "a2a",
            format!("`{listen}` is not an address and a port, such as 127.0.0.1:3200"),
        )
    })?;
    if !address.ip().is_loopback() && token.is_none() {
        let problem = "other machines reach this address; say which variable has the token of clients, `--token-from`";
        return Err(Stop::failed("a2a", problem));
    }
    let with_documents = validate::with(host, &args.documents)?;
    with_documents.note_mistakes();
    let named_store = store_argument(store.as_ref());
    let host = match (store, with_documents.host) {
        (Some(address), host) => runs::with_store(&host, Some(&address)).await?,
        (None, host) if host.store().is_some() => host,
        (None, _) => {
            return Err(Stop::failed("a2a", "tasks are kept in a store; name one with --store"));
        }
    };
    let server = A2aServer::from_runtime(&host).agents(agents).workflows(workflows).grant(grant);
    let server = if clients_approve { server.clients_approve() } else { server };
    let server = public_url.into_iter().fold(server, A2aServer::public_url);
    let server = server.input_files(args.input_files).output_files(args.output_files);
    let server = match args.push {
        true => server.push_notifications(HttpRequest::new().guard(guard).timeout(PUSH_TIMEOUT)),
        false => server,
    };
    let server = match token {
        Some(token) => with_token(server, &token),
        None => server,
    };
    server.check().await?;
    let head = Duration::from_secs(args.head_timeout.max(1));
    let serving = async {
        let cannot = |error: std::io::Error| Stop::failed("a2a", format!("{address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        // Continues the unfinished tasks of an earlier process.
        let recovered = host.recover().await?;
        for (run, error) in &recovered.left {
            note(format_args!("the task `{run}` does not continue: {error}"));
        }
        runs::note_waiting(&recovered, &named_store);
        let router = server.router().await?;
        line(format_args!("http://{}", listener.local_addr().map_err(cannot)?))?;
        a2a_listener::listen(listener, router, args.max_connections.max(1), head).await;
        Ok(())
    };
    ctrl_c::or_stop(serving).await
}

/// Returns the guard for push notifications: public addresses, and ranges such as `10.1.0.0/16`.
fn guard(allowed: &[String]) -> Result<AddressGuard, Stop> {
    allowed.iter().try_fold(AddressGuard::default(), |guard, range| {
        // Without a prefix length the range is a single address: the guard limits 255 to the
        // address size.
        let (address, bits) = range.split_once('/').unwrap_or((range, "255"));
        match (address.parse(), bits.parse()) {
            (Ok(address), Ok(bits)) => Ok(guard.allow(address, bits)),
            _ => Err(Stop::failed(
                "a2a",
                format!("`{range}` is not a range of addresses, such as 10.1.0.0/16"),
            )),
        }
    })
}

/// Requires a token from all clients. All of them are the same caller.
fn with_token(server: A2aServer, token: &str) -> A2aServer {
    // Comparing hashes makes the time independent of the token.
    let expected = sha256(token.as_bytes());
    let server = server.auth(move |headers| {
        let sent = headers.get("authorization").and_then(|value| value.to_str().ok());
        let sent = sent
            .and_then(|value| value.split_once(' '))
            .filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
        match sent.is_some_and(|(_, token)| sha256(token.trim().as_bytes()) == expected) {
            true => Ok(A2aCaller::new(HOLDER)),
            false => Err(A2aRefusal::bearer()),
        }
    });
    // All clients are one caller, so limits per caller would apply to all of them together.
    let server = server.max_requests_of_caller(usize::MAX).max_streams_of_caller(usize::MAX);
    let scheme = serde_json::json!({"httpAuthSecurityScheme": {"scheme": "Bearer"}});
    let requirement = serde_json::json!({"schemes": {"bearer": {"list": []}}});
    server.security([("bearer".to_owned(), scheme)].into(), vec![requirement])
}

impl From<A2aServerError> for Stop {
    fn from(error: A2aServerError) -> Self {
        Self::failed("a2a", error.to_string())
    }
}
