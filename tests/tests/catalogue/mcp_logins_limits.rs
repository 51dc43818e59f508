//! Limits of a login: it requests no more scopes than the program allows, sends nothing in plain
//! text, delays no other request, and loses no issued tokens.

use std::sync::{Arc, OnceLock};
use std::task::Context as TaskContext;
use std::time::Duration;

use agentflow::mcp::{McpAuthorization, McpClient, McpError, McpLoginFolder, McpLogins};
use agentflow::model::Secret;
use agentflow::serde_json::json;
use agentflow_testing::within;
use futures_util::task::noop_waker_ref;
use tokio::sync::Notify;

use crate::login_server::{LoginSite, field, work};
use crate::raw_http::full;

#[tokio::test]
async fn a_resource_above_the_server_is_read_from_its_own_place() {
    let of_host = |site: &LoginSite| {
        let document = json!({"resource": site.server, "authorization_servers": [site.issuer]});
        Some(full("200 OK", "application/json", &document.to_string()))
    };
    let site = LoginSite::new(move |asked, site| match asked.line.as_str() {
        "GET /.well-known/oauth-protected-resource/mcp" => {
            Some(full("404 Not Found", "text/plain", ""))
        }
        "GET /.well-known/oauth-protected-resource" => of_host(site),
        _ => None,
    })
    .await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    let visit = site.seen().visits[0].clone();
    assert_eq!(field(visit.split_once('?').unwrap().1, "resource"), Some(site.server.clone()));
}

#[tokio::test]
async fn a_client_of_one_authorization_server_is_used_at_no_other() {
    let site = LoginSite::new(|_, _| None).await;
    let client = site.client(site.person().client("https://login.example", "one", None));
    let error = client.login().await.unwrap_err().to_string();
    assert!(error.contains("has no client there, but at `https://login.example`"), "{error}");
    assert_eq!((site.visits(), site.count("GET /.well-known/oauth-authorization-server")), (0, 0));

    // A server that acts as its own authorization server counts as a different one, too.
    let site = LoginSite::new(|asked, site| {
        let is_its_own = asked.line.starts_with("GET /.well-known/oauth-protected-resource");
        let metadata =
            json!({"issuer": site.server, "token_endpoint": format!("{}/token", site.server)});
        match asked.line.as_str() {
            _ if is_its_own => Some(full("404 Not Found", "text/plain", "")),
            "GET /.well-known/oauth-authorization-server" => {
                Some(full("200 OK", "application/json", &metadata.to_string()))
            }
            _ => None,
        }
    })
    .await;
    let secret = Secret::new("s3cret-words");
    let client =
        site.client(McpAuthorization::client_credentials("https://login.example", "one", secret));
    let error = client.connect().await.unwrap_err().to_string();
    assert!(error.contains("has no client there"), "{error}");
    assert_eq!(site.count("GET /.well-known/oauth-authorization-server"), 0);
}

#[tokio::test]
async fn a_document_is_used_where_a_code_says_who_gave_it() {
    for (names_itself, id) in [(true, "https://h.example/client.json"), (false, "registered")] {
        let site = LoginSite::new(move |asked, site| {
            let mut metadata = site.metadata();
            metadata["client_id_metadata_document_supported"] = json!(true);
            metadata["authorization_response_iss_parameter_supported"] = json!(names_itself);
            let is_metadata = asked.line == "GET /.well-known/oauth-authorization-server";
            is_metadata.then(|| full("200 OK", "application/json", &metadata.to_string()))
        })
        .await;
        let client = site.client(site.person().client_document("https://h.example/client.json"));
        client.login().await.unwrap();
        let visit = site.seen().visits[0].clone();
        assert_eq!(field(visit.split_once('?').unwrap().1, "client_id").as_deref(), Some(id));
    }
}

#[tokio::test]
async fn tokens_are_sent_with_tls_or_within_this_machine() {
    let site = LoginSite::new(|_, _| None).await;
    for (url, says) in [
        ("http://h.example/mcp", Some("without TLS")),
        ("http://10.0.0.1:9/mcp", Some("without TLS")),
        ("http://evil.localhost/mcp", Some("without TLS")),
        ("http://127.0.0.1.evil.example/mcp", Some("without TLS")),
        ("https://bob:hunter2@h.example/mcp", Some("a user or a password")),
        ("https://hunter2@h.example/mcp", Some("a user or a password")),
        ("http://bob:hunter2@127.0.0.1/mcp", Some("a user or a password")),
        ("https://bob:hunter2@h.example:x/mcp", Some("is not an address")),
        ("https://h.example/mcp", None),
        ("http://localhost:9/mcp", None),
        ("http://[::1]:9/mcp", None),
        ("http://127.0.0.1:9/mcp", None),
    ] {
        let built = McpClient::http("far", url).authorization(site.person()).build();
        match (built, says) {
            (Ok(_), None) => {}
            (Err(error), Some(says)) => {
                let error = error.to_string();
                assert!(error.contains(says) && !error.contains("hunter2"), "{url}: {error}");
            }
            (built, says) => panic!("{url}: {says:?}, {:?}", built.map(drop)),
        }
    }
}

#[tokio::test]
async fn a_client_with_a_secret_gets_the_scopes_of_the_program_alone() {
    let site = LoginSite::new(|asked, site| {
        if asked.line == "POST /token" {
            assert_eq!(asked.field("scope").as_deref(), Some("read"));
        }
        match asked.request.method() {
            "initialize" if site.count("POST /token") == 0 => Some(site.unauthorized(", scope=\"admin\"")),
            "tools/call" => Some(
                "HTTP/1.1 403 Forbidden\r\nwww-authenticate: Bearer error=\"insufficient_scope\", scope=\"write\"\r\n\
                 content-length: 0\r\n\r\n"
                    .to_owned(),
            ),
            _ => None,
        }
    })
    .await;
    let authorization =
        McpAuthorization::client_credentials(&site.issuer, "me", Secret::new("s3cret-words"));
    let client = site.client(authorization.scopes(["read"]));
    let says = work(&client).await.output.to_string();
    assert!(says.contains("`write`") && says.contains("does not ask for"), "{says}");
    assert_eq!(site.count("POST /token"), 1);
}

#[tokio::test]
async fn tokens_that_were_given_are_kept_whatever_ends_meanwhile() {
    let slot: Arc<OnceLock<McpClient>> = Arc::default();
    let site = {
        let slot = Arc::clone(&slot);
        LoginSite::new(move |asked, _| {
            if asked.line == "POST /token" {
                // The client is closed while the code is being exchanged.
                let client = slot.get().unwrap().clone();
                let mut close = Box::pin(async move { client.close().await });
                assert!(
                    close
                        .as_mut()
                        .poll(&mut TaskContext::from_waker(noop_waker_ref()))
                        .is_pending()
                );
                tokio::spawn(close);
            }
            None
        })
        .await
    };
    let folder = tempfile::tempdir().unwrap();
    let logins = McpLoginFolder::new(folder.path().join("logins"));
    let client = site.client(site.person().logins(logins.clone()));
    assert!(slot.set(client.clone()).is_ok());
    client.login().await.unwrap();
    assert!(logins.load(&site.url()).await.unwrap().is_some());
    assert_eq!((&*work(&client).await.text(), site.visits()), ("done", 1));
}

#[tokio::test]
async fn an_end_that_cannot_be_read_is_as_none() {
    for lasts in [json!("soon"), json!(-1), json!([1]), json!(1e300), json!({"a": 1})] {
        let site = LoginSite::lasting(lasts.clone(), |_, _| None).await;
        let client = site.client(site.person());
        client.login().await.unwrap();
        assert_eq!((&*work(&client).await.text(), site.refreshed()), ("done", 0), "{lasts}");
    }
}

/// Simulates a person who never answers, and signals when they are asked.
fn absent(asked: &Arc<Notify>) -> McpAuthorization {
    let asked = Arc::clone(asked);
    McpAuthorization::browser("http://127.0.0.1:1/callback", move |_| {
        asked.notify_one();
        std::future::pending::<Result<String, String>>()
    })
}

#[tokio::test]
async fn who_waits_for_a_login_of_another_caller_waits_so_long_as_for_a_connection() {
    let site = LoginSite::new(|_, _| None).await;
    let asked = Arc::new(Notify::new());
    let client =
        site.builder(absent(&asked)).connect_timeout(Duration::from_secs(1)).build().unwrap();
    let login = tokio::spawn({
        let client = client.clone();
        async move { client.login().await }
    });
    within("`asked`", asked.notified()).await;
    let error = client.connect().await.unwrap_err();
    assert!(matches!(&error, McpError::Unauthorized { .. }), "{error}");
    assert!(error.to_string().contains("has not logged in yet"), "{error}");
    assert!(!login.is_finished());

    client.close().await;
    let error = login.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("was given up"), "{error}");
}

#[tokio::test]
async fn a_login_that_waits_for_a_person_ends_with_a_logout() {
    let site = LoginSite::new(|_, _| None).await;
    let asked = Arc::new(Notify::new());
    let client = site.client(absent(&asked));
    let logins = [(); 3].map(|()| {
        let client = client.clone();
        tokio::spawn(async move { client.login().await })
    });
    within("`asked`", asked.notified()).await;
    client.logout().await.unwrap();
    for login in logins {
        let error = login.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("was given up"), "{error}");
    }
}
