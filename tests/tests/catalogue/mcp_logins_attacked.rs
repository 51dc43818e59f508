//! Misbehaving MCP servers and authorization servers during a login. Each attack is refused in time
//! with a clear error, and no person, code or token reaches the wrong server.

use std::time::{Duration, Instant};

use agentflow::mcp::McpError;
use agentflow::serde_json::{Value, json};

use crate::login_server::{Asked, LoginSite, work};
use crate::raw_http::full;

fn answer(value: &Value) -> String {
    full("200 OK", "application/json", &value.to_string())
}

const RESOURCE: &str = "GET /.well-known/oauth-protected-resource/mcp";
const METADATA: &str = "GET /.well-known/oauth-authorization-server";

/// The stage that a login reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The person is not asked.
    Discovery,
    /// A token is requested, but none is stored.
    Token,
}

type Attack = fn(&Asked, &LoginSite) -> Option<String>;

/// Overrides one field of a metadata document.
fn changed(mut document: Value, key: &str, value: Value) -> Option<String> {
    document[key] = value;
    Some(answer(&document))
}

/// Attacks: name, the stage reached, the expected error, and the overriding answers.
const ATTACKS: [(&str, Until, &str, Attack); 27] = [
    (
        "of the whole host, by one who has a part of it",
        Until::Discovery,
        "is only a part of",
        |asked, site| {
            (asked.line == RESOURCE)
                .then(|| changed(site.resource(), "resource", json!(site.server)))?
        },
    ),
    (
        "of the whole host, at a place of its own",
        Until::Discovery,
        "is only a part of",
        |asked, site| {
            let metadata = format!("{}/mcp/metadata", site.server);
            match asked.line.as_str() {
                "POST /mcp" => Some(format!(
                    "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n\
                 content-length: 0\r\n\r\n"
                )),
                "GET /mcp/metadata" => changed(site.resource(), "resource", json!(site.server)),
                _ => None,
            }
        },
    ),
    ("of another server", Until::Discovery, "which is another server", |asked, site| {
        (asked.line == RESOURCE)
            .then(|| changed(site.resource(), "resource", json!("https://evil.example/mcp")))?
    }),
    (
        "no authorization server",
        Until::Discovery,
        "names no authorization server",
        |asked, site| {
            (asked.line == RESOURCE)
                .then(|| changed(site.resource(), "authorization_servers", json!([])))?
        },
    ),
    ("wrong types", Until::Discovery, "not of the form", |asked, site| {
        (asked.line == RESOURCE)
            .then(|| changed(site.resource(), "authorization_servers", json!({"a": 1})))?
    }),
    ("a key twice", Until::Discovery, "a key twice", |asked, site| {
        let text = format!(
            r#"{{"resource": "{}", "resource": "x", "authorization_servers": []}}"#,
            site.url()
        );
        (asked.line == RESOURCE).then(|| full("200 OK", "application/json", &text))
    }),
    (
        "a private address",
        Until::Discovery,
        "10.1.2.3 is not an address of the public internet",
        |asked, site| {
            (asked.line == RESOURCE).then(|| {
                changed(site.resource(), "authorization_servers", json!(["https://10.1.2.3"]))
            })?
        },
    ),
    ("the metadata of a cloud", Until::Discovery, "must begin with `https://`", |asked, site| {
        let place = json!(["http://169.254.169.254/latest"]);
        (asked.line == RESOURCE)
            .then(|| changed(site.resource(), "authorization_servers", place))?
    }),
    ("without TLS", Until::Discovery, "must begin with `https://`", |asked, site| {
        (asked.line == RESOURCE).then(|| {
            changed(site.resource(), "authorization_servers", json!(["http://login.example"]))
        })?
    }),
    ("metadata at a private address", Until::Discovery, "10.1.2.3", |asked, _| {
        (asked.line == "POST /mcp").then(|| {
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"https://10.1.2.3/x\"\r\ncontent-length: \
             0\r\n\r\n"
                .to_owned()
        })
    }),
    ("metadata of a file", Until::Discovery, "must begin with `https://`", |asked, _| {
        (asked.line == "POST /mcp").then(|| {
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"file:///etc/passwd\"\r\ncontent-length: \
             0\r\n\r\n"
                .to_owned()
        })
    }),
    ("redirects without an end", Until::Discovery, "redirects are not followed", |asked, _| {
        (asked.line == METADATA).then(|| {
            format!(
                "HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
                &METADATA["GET ".len()..]
            )
        })
    }),
    ("huge metadata", Until::Discovery, "more than", |asked, site| {
        (asked.line == METADATA)
            .then(|| changed(site.metadata(), "padding", json!("x".repeat(1 << 20))))?
    }),
    (
        "metadata of another issuer",
        Until::Discovery,
        "is that of `https://evil.example`",
        |asked, site| {
            (asked.line == METADATA)
                .then(|| changed(site.metadata(), "issuer", json!("https://evil.example")))?
        },
    ),
    ("an issuer written otherwise", Until::Discovery, "is that of", |asked, site| {
        let written = json!(format!("{}/", site.issuer));
        (asked.line == METADATA).then(|| changed(site.metadata(), "issuer", written))?
    }),
    ("a page that is a script", Until::Discovery, "must begin with `https://`", |asked, site| {
        let page = json!("javascript:alert(1)");
        (asked.line == METADATA)
            .then(|| changed(site.metadata(), "authorization_endpoint", page))?
    }),
    ("tokens without TLS", Until::Discovery, "must begin with `https://`", |asked, site| {
        let place = json!("http://login.example/token");
        (asked.line == METADATA).then(|| changed(site.metadata(), "token_endpoint", place))?
    }),
    ("no PKCE", Until::Discovery, "`S256`", |asked, site| {
        (asked.line == METADATA).then(|| {
            changed(site.metadata(), "code_challenge_methods_supported", json!(["plain"]))
        })?
    }),
    ("no codes", Until::Discovery, "gives no codes", |asked, site| {
        (asked.line == METADATA)
            .then(|| changed(site.metadata(), "response_types_supported", json!(["token"])))?
    }),
    ("a registration without a name", Until::Discovery, "cannot be used", |asked, _| {
        (asked.line == "POST /register")
            .then(|| answer(&json!({"client_id": 7, "client_secret": "leaked-secret"})))
    }),
    ("no registration", Until::Discovery, "did not register this program: 403", |asked, _| {
        (asked.line == "POST /register")
            .then(|| full("403 Forbidden", "text/plain", "leaked-secret"))
    }),
    ("tokens at a private address", Until::Discovery, "10.1.2.3", |asked, site| {
        let place = json!("https://10.1.2.3/token");
        (asked.line == METADATA).then(|| changed(site.metadata(), "token_endpoint", place))?
    }),
    ("tokens of wrong types", Until::Token, "not of the form", |asked, _| {
        (asked.line == "POST /token")
            .then(|| answer(&json!({"access_token": ["leaked-secret"], "token_type": "Bearer"})))
    }),
    ("tokens of another kind", Until::Token, "not bearer tokens", |asked, _| {
        (asked.line == "POST /token")
            .then(|| answer(&json!({"access_token": "leaked-secret", "token_type": "DPoP"})))
    }),
    ("a token with a line", Until::Token, "not of the letters of tokens", |asked, _| {
        let token = "leaked-secret\r\nx-evil: 1";
        (asked.line == "POST /token")
            .then(|| answer(&json!({"access_token": token, "token_type": "Bearer"})))
    }),
    ("a refusal with a good status", Until::Token, "200 `access_denied`", |asked, _| {
        let says = json!({"error": "access_denied", "access_token": "leaked-secret", "token_type": "Bearer"});
        (asked.line == "POST /token").then(|| answer(&says))
    }),
    ("a refusal with what was sent", Until::Token, "400 `invalid_grant`", |asked, _| {
        (asked.line == "POST /token").then(|| {
            let says = json!({"error": "invalid_grant", "error_description": asked.request.body});
            full("400 Bad Request", "application/json", &says.to_string())
        })
    }),
];

fn says_no_secret(site: &LoginSite, what: &str, text: &str) {
    let verifiers: Vec<String> = site
        .seen()
        .visits
        .iter()
        .map(|url| url.split_once("state=").unwrap().1[..43].to_owned())
        .collect();
    for secret in ["leaked-secret", "code-of-login", "-token-"]
        .into_iter()
        .chain(verifiers.iter().map(String::as_str))
    {
        assert!(!text.contains(secret), "{what}: {text}");
    }
    assert!(text.len() < 1500, "{what}: {text}");
}

#[tokio::test]
async fn each_is_refused_before_it_gets_what_it_wants() {
    for (what, until, says, attack) in ATTACKS {
        let site = LoginSite::new(attack).await;
        let client = site.client(site.person());
        let error = client.login().await.unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, McpError::Unauthorized { .. }) && text.contains(says),
            "{what}: {text}"
        );
        let got = match (site.visits(), site.count("POST /token")) {
            (0, 0) => Until::Discovery,
            (1, 1) => Until::Token,
            other => panic!("{what}: {other:?}"),
        };
        assert_eq!(got, until, "{what}: {text}");
        says_no_secret(&site, what, &text);
        // No login was stored, and the next call reports that.
        let text = client.connect().await.unwrap_err().to_string();
        assert!(text.contains("the program has no login"), "{what}: {text}");
    }
}

#[tokio::test]
async fn what_a_browser_brings_back_is_for_the_login() {
    type Back = fn(&LoginSite, &str) -> String;
    let cases: [(&str, &str, Back); 6] = [
        ("another state", "another login", |_, _| {
            "http://127.0.0.1:1/callback?code=c&state=guessed".to_owned()
        }),
        ("another server", "https://evil.example", |site, url| {
            site.redirected(url).replace(&site.issuer, "https://evil.example")
        }),
        ("the same server written otherwise", "answered the login at", |site, url| {
            format!("{}/", site.redirected(url))
        }),
        ("no server", "does not say", |site, url| {
            site.redirected(url).split("&iss").next().unwrap().to_owned()
        }),
        ("an error", "`access_denied`", |site, url| {
            site.redirected(url).replace(
                "code=code-of-login",
                "error=access_denied&error_description=leaked-secret",
            )
        }),
        ("two codes", "two values of `code`", |site, url| {
            format!("{}&code=evil", site.redirected(url))
        }),
    ];
    for (what, says, back) in cases {
        let site = LoginSite::new(|_, _| None).await;
        let of = site.clone();
        let client = site.client(site.visited(move |url| back(&of, url)));
        let text = client.login().await.unwrap_err().to_string();
        assert!(text.contains(says), "{what}: {text}");
        assert_eq!((site.visits(), site.count("POST /token")), (1, 0), "{what}");
        says_no_secret(&site, what, &text);
    }
}

#[tokio::test]
async fn one_that_is_silent_costs_the_time_of_the_login() {
    for line in [RESOURCE, METADATA, "POST /register"] {
        let site = LoginSite::new(move |asked, _| (asked.line == line).then(String::new)).await;
        let client = site.client(site.person().login_timeout(Duration::from_millis(300)));
        let began = Instant::now();
        let error = client.login().await.unwrap_err().to_string();
        assert!(error.contains("within 300ms"), "{line}: {error}");
        assert!(began.elapsed() >= Duration::from_millis(300));
    }
}

#[tokio::test]
async fn a_renewal_that_fails_is_said_and_is_not_repeated_for_ever() {
    let site = LoginSite::new(|asked, _| {
        let is_renewal = asked.field("grant_type").as_deref() == Some("refresh_token");
        is_renewal.then(|| full("503 Service Unavailable", "text/plain", &asked.request.body))
    })
    .await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    site.forget_tokens();
    let text = work(&client).await.output.to_string();
    let before = site.count("POST /token");
    assert!(before <= 3, "{before}");
    assert!(text.contains("cannot be renewed") && text.contains("503"), "{text}");
    says_no_secret(&site, "a renewal", &text);
}

#[tokio::test]
async fn a_server_that_always_wants_more_asks_a_person_a_few_times() {
    let site = LoginSite::new(|asked, site| {
        let count = site.visits();
        (asked.request.method() == "tools/list" && count > 0).then(|| {
            format!(
                "HTTP/1.1 403 Forbidden\r\nwww-authenticate: Bearer error=\"insufficient_scope\", scope=\"s{count}\"\r\n\
                 content-length: 0\r\n\r\n"
            )
        })
    })
    .await;
    let client = site.client(site.person().when_needed());
    let runtime = agentflow::Runtime::builder().toolset(client).build();
    let catalogue = runtime.catalogue().snapshot().await;
    assert!(catalogue.check().is_err());
    let visits = site.visits();
    assert!((2..=4).contains(&visits), "{visits}");
}
