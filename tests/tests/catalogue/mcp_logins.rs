//! Logins to MCP servers: when a person is asked, how tokens are renewed, how scopes are added, and
//! where logins are stored.

use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::time::Duration;

use agentflow::mcp::{McpAuthorization, McpClient, McpError, McpLoginFolder, McpLogins};
use agentflow::message::ToolCall;
use agentflow::model::Secret;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn, hold_time, within};
use agentflow_tests::{Agentwf, Ended};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::login_server::{LoginSite, field, tools, work};
use crate::raw_http::full;

#[tokio::test]
async fn a_person_logs_in_once_and_calls_have_the_token() {
    let site = LoginSite::new(|_, _| None).await;
    let client = site.client(site.person().scopes(["read", "write"]));
    client.login().await.unwrap();
    assert_eq!(&*work(&client).await.text(), "done");
    client.login().await.unwrap();
    assert_eq!((site.visits(), site.count("POST /token")), (1, 1));
    let url = site.seen().visits[0].clone();
    let query = url.split_once('?').unwrap().1;
    for (name, value) in [
        ("of", "it"),
        ("response_type", "code"),
        ("client_id", "registered"),
        ("code_challenge_method", "S256"),
        ("resource", &site.url()),
        ("scope", "read write"),
    ] {
        assert_eq!(field(query, name).as_deref(), Some(value), "{url}");
    }
    assert!(
        field(query, "state").unwrap().len() >= 43
            && field(query, "code_challenge").unwrap().len() == 43,
        "{url}"
    );
}

#[tokio::test]
async fn nobody_is_asked_by_a_call_unless_the_program_says_so() {
    let site = LoginSite::new(|_, _| None).await;
    let client = site.client(site.person());
    let error = client.connect().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, McpError::Unauthorized { .. }), "{text}");
    assert!(
        text.contains("`far`") && text.contains(&format!("agentwf mcp login --url {}", site.url())),
        "{text}"
    );
    assert!(site.seen().visits.is_empty());
    // This does not count as a failure, so a later login need not wait.
    assert_eq!(client.health().failures, 0);

    let client = site.client(site.person().when_needed());
    assert_eq!(&*work(&client).await.text(), "done");
    assert_eq!(site.visits(), 1);
}

#[tokio::test]
async fn a_run_whose_login_is_over_says_so_and_opens_no_browser() {
    let site = LoginSite::new(|_, _| None).await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    let runtime = Runtime::builder().store(MemoryStore::new()).toolset(client.clone()).build();
    let turn = || Turn::call("mcp__far__work", json!({}));
    let model =
        ScriptedModel::new([turn(), Turn::text("first"), turn(), Turn::text("second")]).capturing();
    let agent = Agent::new(model.clone()).tools(client.clone()).runtime(&runtime);
    assert_eq!(agent.run("Work.").await.unwrap().output(), "first");
    site.forget_tokens();
    site.forget_refresh_tokens();
    assert_eq!(agent.run("Work.").await.unwrap().output(), "second");
    let seen = format!("{:?}", model.requests().last().unwrap());
    assert!(seen.contains("its login is over") && seen.contains("agentwf mcp login"), "{seen}");
    assert!(!seen.contains("-token-"), "{seen}");
    assert_eq!(site.visits(), 1);
}

#[tokio::test]
async fn without_an_authorization_the_answer_says_what_to_give() {
    let site = LoginSite::new(|_, _| None).await;
    let error = McpClient::http("far", site.url()).build().unwrap().connect().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, McpError::Connect { .. }), "{text}");
    assert!(
        text.contains("401") && text.contains("`bearer`") && text.contains("`authorization`"),
        "{text}"
    );
    assert!(site.seen().lines.iter().all(|line| line == "POST /mcp"), "{:?}", site.seen().lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_it_ends() {
    let site = LoginSite::lasting(json!(0), |_, _| None).await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    let answers = futures_util::future::join_all((0..8).map(|_| work(&client))).await;
    assert!(answers.iter().all(|answer| &*answer.text() == "done"), "{answers:?}");
    assert_eq!((site.refreshed(), site.visits()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_is_renewed_once_for_all() {
    let site = LoginSite::new(|_, _| None).await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    assert_eq!(&*work(&client).await.text(), "done");
    site.forget_tokens();
    let answers = futures_util::future::join_all((0..8).map(|_| work(&client))).await;
    assert!(answers.iter().all(|answer| &*answer.text() == "done"), "{answers:?}");
    assert_eq!((site.refreshed(), site.visits()), (1, 1));
    // The connection is reused.
    assert_eq!(client.health().connections, 1);
}

#[tokio::test]
async fn a_server_that_refuses_what_was_just_given_ends_it() {
    let site =
        LoginSite::new(|asked, site| (asked.line == "POST /mcp").then(|| site.unauthorized("")))
            .await;
    let client = site.client(site.person());
    let error = client.login().await.unwrap_err().to_string();
    assert!(error.contains("has just given"), "{error}");
    assert_eq!(site.visits(), 1);
}

#[tokio::test]
async fn scopes_are_added_and_asked_for_once() {
    // A call requires `write` and then `admin`, regardless of the granted scopes.
    let site = LoginSite::new(|asked, site| {
        let token = asked.request.head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "))?.to_owned();
        let scopes = site.seen().tokens.iter().find(|(of, _)| *of == token)?.1.clone();
        let wants = match asked.request.method() {
            "tools/call" if !scopes.contains("write") => "write",
            "tools/call" if asked.request.message["params"]["arguments"]["all"] == true => "admin",
            _ => return None,
        };
        Some(format!(
            "HTTP/1.1 403 Forbidden\r\nwww-authenticate: Bearer error=\"insufficient_scope\", scope=\"{wants}\"\r\ncontent-length: 0\r\n\r\n"
        ))
    })
    .await;
    let client = site.client(site.person().scopes(["read"]).when_needed());
    assert_eq!(&*work(&client).await.text(), "done");
    let scopes =
        |visit: usize| field(site.seen().visits[visit].split_once('?').unwrap().1, "scope");
    assert_eq!((scopes(0).as_deref(), scopes(1).as_deref()), (Some("read"), Some("read write")));
    assert_eq!(site.count("POST /register"), 1);

    let call = ToolCall::new("c", "mcp.far.work", r#"{"all": true}"#);
    let refused =
        Runtime::builder().toolset(client.clone()).build().invoke(&call, &[]).await.unwrap();
    assert!(
        refused.output.contains("`admin`") && refused.output.contains("not granted"),
        "{}",
        refused.output
    );
    assert_eq!(site.visits(), 3);

    // Without a person, the error names the missing scopes.
    let quiet = site.client(site.person().scopes(["read"]));
    quiet.login().await.unwrap();
    let lacks = work(&quiet).await;
    assert!(lacks.output.contains("the scopes `write`, which its login lacks"), "{}", lacks.output);
}

#[tokio::test]
async fn a_login_outlives_its_caller_and_is_one_for_all() {
    let site = LoginSite::new(|_, _| None).await;
    let (asked, visited) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let authorization = {
        let (site, asked, visited) = (site.clone(), Arc::clone(&asked), Arc::clone(&visited));
        McpAuthorization::browser("http://127.0.0.1:1/callback", move |url| {
            let (site, asked, visited) = (site.clone(), Arc::clone(&asked), Arc::clone(&visited));
            async move {
                site.seen().visits.push(url.clone());
                asked.notify_one();
                within("`visited`", visited.notified()).await;
                Ok::<_, String>(site.redirected(&url))
            }
        })
    };
    let client = site.client(authorization);
    {
        let login = client.login();
        tokio::pin!(login);
        tokio::select! {
            _ = &mut login => panic!("nobody has logged in"),
            () = asked.notified() => {}
        }
    }
    let again = tokio::spawn({
        let client = client.clone();
        async move { client.login().await }
    });
    visited.notify_one();
    again.await.unwrap().unwrap();
    assert_eq!((site.visits(), site.count("POST /token")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_login_ends_with_its_client_and_after_its_time() {
    let site = LoginSite::new(|_, _| None).await;
    let (asked, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let waits = |asked: &Arc<Notify>, gone: &Arc<Notify>| {
        let (asked, gone) = (Arc::clone(asked), Arc::clone(gone));
        McpAuthorization::browser("http://127.0.0.1:1/callback", move |_| {
            let (asked, gone) = (Arc::clone(&asked), Arc::clone(&gone));
            async move {
                struct Gone(Arc<Notify>);
                impl Drop for Gone {
                    fn drop(&mut self) {
                        self.0.notify_one();
                    }
                }
                let _gone = Gone(gone);
                asked.notify_one();
                std::future::pending::<Result<String, String>>().await
            }
        })
    };
    let client = site.client(waits(&asked, &gone));
    let login = tokio::spawn(async move { client.login().await });
    within("the person to be asked", hold_time(asked.notified())).await;
    login.abort();
    within("the question to be dropped", gone.notified()).await;

    // The clock stops until the person is asked; otherwise the time limit might be reached earlier.
    let client = site.client(waits(&asked, &gone).login_timeout(Duration::from_secs(3600)));
    let login = tokio::spawn(async move { client.login().await });
    within("the person to be asked", hold_time(asked.notified())).await;
    let error = within("the time to be over", login).await.unwrap().unwrap_err().to_string();
    assert!(error.contains("nobody has logged in within 3600s"), "{error}");
    within("the question to be dropped", gone.notified()).await;
}

#[tokio::test]
async fn logins_are_kept_for_other_processes_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let logins = McpLoginFolder::new(folder.path().join("logins"));
    let site = LoginSite::new(|_, _| None).await;
    site.client(site.person().logins(logins.clone())).login().await.unwrap();
    let files: Vec<_> = std::fs::read_dir(folder.path().join("logins"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode =
            |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&files[0]), mode(files[0].parent().unwrap())), (0o600, 0o700));
    }

    // Two other clients share the login. One renews it, and the other uses the renewed tokens.
    let (one, other) = (
        site.client(McpAuthorization::stored(logins.clone())),
        site.client(McpAuthorization::stored(logins.clone())),
    );
    assert_eq!((&*work(&one).await.text(), &*work(&other).await.text()), ("done", "done"));
    site.forget_tokens();
    assert_eq!((&*work(&one).await.text(), &*work(&other).await.text()), ("done", "done"));
    assert_eq!(site.refreshed(), 1);

    one.logout().await.unwrap();
    assert_eq!(site.count("POST /revoke"), 1);
    assert!(std::fs::read_dir(folder.path().join("logins")).unwrap().next().is_none());
    let error = one.connect().await.unwrap_err();
    assert!(
        matches!(&error, McpError::Unauthorized { .. })
            && error.to_string().contains("the program has no login"),
        "{error}"
    );
    let nobody = one.login().await.unwrap_err();
    assert!(matches!(nobody, McpError::Unauthorized { .. }), "{nobody}");

    // An invalid file does not count as a login.
    std::fs::write(&files[0], "{\"version\": 1, \"access_token\": 7").unwrap();
    let error = site.client(McpAuthorization::stored(logins.clone())).connect().await.unwrap_err();
    assert!(error.to_string().contains("the program has no login"), "{error}");
    assert!(logins.load(&site.url()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_program_logs_in_as_a_client_with_a_secret() {
    let site = LoginSite::lasting(json!(0), |asked, site| {
        if asked.line != "POST /token" {
            return None;
        }
        // `me:` and `s3cret+words`, encoded as in RFC 6749.
        let is_known = asked.has_header("authorization: Basic bWUlM0E6czNjcmV0JTJCd29yZHM=");
        let is_of_client = asked.field("grant_type").as_deref() == Some("client_credentials");
        let is_for = asked.field("resource").as_deref() == Some(&*site.url());
        let answer = match is_known && is_of_client && is_for {
            true => {
                let mut tokens = site.tokens(asked);
                tokens["refresh_token"] = json!(null);
                full("200 OK", "application/json", &tokens.to_string())
            }
            false => full("401 Unauthorized", "application/json", r#"{"error": "invalid_client"}"#),
        };
        Some(answer)
    })
    .await;
    let secret = || Secret::new("s3cret+words");
    let client = site.client(McpAuthorization::client_credentials(&site.issuer, "me:", secret()));
    assert_eq!(&*work(&client).await.text(), "done");
    assert!(site.seen().visits.is_empty());

    // The secret belongs to one authorization server. No other receives it, even if the MCP server
    // names another one.
    let before = site.count("POST /token");
    let client =
        site.client(McpAuthorization::client_credentials("https://login.example", "me:", secret()));
    let error = client.connect().await.unwrap_err().to_string();
    assert!(error.contains("has no client there") && !error.contains("s3cret"), "{error}");
    assert_eq!(site.count("POST /token"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_of_a_login_takes_the_answer_to_it_and_nothing_else() {
    let site = LoginSite::new(|_, _| None).await;
    let (shown, mut urls) = tokio::sync::mpsc::unbounded_channel();
    let client =
        site.client(McpAuthorization::loopback(move |url| shown.send(url.to_owned()).unwrap()));
    let login = tokio::spawn({
        let client = client.clone();
        async move { client.login().await }
    });
    let url = within("a message", urls.recv()).await.unwrap();
    let query = url.split_once('?').unwrap().1;
    let (state, redirect) = (field(query, "state").unwrap(), field(query, "redirect_uri").unwrap());
    let host = redirect.strip_prefix("http://").unwrap().strip_suffix("/callback").unwrap();
    let browser = async |bytes: String| {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut page = String::new();
        let _ = stream.read_to_string(&mut page).await;
        page
    };
    // Silent connections delay no login, however many there are.
    let mut mute = Vec::new();
    for _ in 0..40 {
        mute.push(TcpStream::connect(host).await.unwrap());
    }
    for target in ["/", "/callback?code=evil", "/callback?code=evil&state=guessed", "/favicon.ico"]
    {
        let page = browser(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        assert!(page.starts_with("HTTP/1.1 404"), "{target}: {page}");
    }
    browser(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000))).await;
    browser("\r\n\r\n".to_owned()).await;
    let issuer = &site.issuer;
    let page = browser(format!(
        "GET /callback?code=c&state={state}&iss={issuer} HTTP/1.1\r\nhost: {host}\r\n\r\n"
    ))
    .await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    login.await.unwrap().unwrap();
    assert_eq!(&*work(&client).await.text(), "done");
    assert!(TcpStream::connect(host).await.is_err());
}

#[tokio::test]
async fn what_cannot_be_said_together_is_refused_when_it_is_built() {
    let site = LoginSite::new(|_, _| None).await;
    for (builder, says) in [
        (site.builder(site.person()).bearer("key"), "give one of them"),
        (site.builder(site.person()).header("Authorization", "key"), "give one of them"),
        (
            McpClient::stdio("far", "program").authorization(site.person()),
            "only a server at an address",
        ),
        (site.builder(site.person().client_document("http://h/x")), "`https://`"),
        (site.builder(site.person().scopes(["a b"])), "not a scope"),
    ] {
        let error = builder.build().map(drop).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = McpClient::http("far", site.url()).build().unwrap().login().await.unwrap_err();
    assert!(matches!(error, McpError::Config { .. }), "{error}");
    let debug = format!(
        "{:?}",
        McpAuthorization::client_credentials("https://i", "me", Secret::new("s3cret-words"))
    );
    assert!(debug.contains("me") && !debug.contains("s3cret"), "{debug}");
}

#[tokio::test]
async fn tokens_that_a_server_says_are_masked() {
    let site = LoginSite::new(|asked, site| {
        let token = site.seen().tokens.last().map(|(token, _)| token.clone());
        let says = format!("no: {}", token.unwrap_or_default());
        let body =
            json!({"jsonrpc": "2.0", "id": asked.request.message["id"], "error": {"code": -32000, "message": says}});
        (asked.request.method() == "tools/call").then(|| full("200 OK", "application/json", &body.to_string()))
    })
    .await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    let result = work(&client).await;
    assert!(result.output.contains("no: ***"), "{}", result.output);
    let site = LoginSite::new(|asked, site| {
        let token = site.seen().tokens.last().map(|(token, _)| token.clone());
        let says = format!("it is Bearer {}", token.unwrap_or_default());
        let result = json!({"content": [{"type": "text", "text": says}], "structuredContent": {"says": says}});
        let body = asked.request.answer(result).to_string();
        (asked.request.method() == "tools/call").then(|| full("200 OK", "application/json", &body))
    })
    .await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    let result = work(&client).await;
    assert!(result.output.contains("it is Bearer ***"), "{result:?}");
    assert!(!format!("{result:?}").contains(&site.seen().tokens.last().unwrap().0), "{result:?}");
}

#[tokio::test]
async fn a_server_that_lets_anybody_connect_is_logged_in_to_all_the_same() {
    let site = LoginSite::new(|asked, _| {
        let is_open = asked.line == "POST /mcp" && asked.request.method() != "tools/call";
        is_open.then(|| tools(&asked.request))
    })
    .await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    assert_eq!(site.visits(), 1);
    assert_eq!(&*work(&client).await.text(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_logs_in_for_its_other_commands() {
    // The tool returns the token that the server received.
    let site = LoginSite::new(|asked, site| {
        let token = site.seen().tokens.last().map(|(token, _)| token.clone()).unwrap_or_default();
        let result = json!({"content": [{"type": "text", "text": format!("done by {token}")}]});
        let body = asked.request.answer(result).to_string();
        (asked.request.method() == "tools/call").then(|| full("200 OK", "application/json", &body))
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let (home, url) = (home.path().to_str().unwrap().to_owned(), site.url());
    let agentwf = |args: &[&str]| {
        let args = ["mcp"].iter().chain(args).chain(&["--url", &url]).copied().collect::<Vec<_>>();
        Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host"))
            .env("XDG_DATA_HOME", &home)
            .env("HOME", &home)
            .args(args)
    };
    let run = async |command: Agentwf| tokio::task::spawn_blocking(|| command.run()).await.unwrap();
    let without = run(agentwf(&["tools"])).await;
    assert_eq!(without.code, Some(1), "{without:?}");
    assert!(
        without.stderr.contains(&format!("agentwf mcp login --url {url}")),
        "{}",
        without.stderr
    );

    let mut login = agentwf(&["login", "--scope", "read"]).start();
    let mut said = BufReader::new(login.stderr.take().unwrap());
    let (said, page) = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        (said, line)
    })
    .await
    .unwrap();
    let page = page.trim().strip_prefix("log in at ").unwrap_or_else(|| panic!("{page}"));
    let query = page.split_once('?').unwrap().1;
    let (state, redirect) = (field(query, "state").unwrap(), field(query, "redirect_uri").unwrap());
    assert_eq!(field(query, "scope").as_deref(), Some("read"));
    let back = format!("{redirect}?code=c&state={state}&iss={}", site.issuer);
    let answer = tokio::task::spawn_blocking(move || agentflow_tests::get(&back)).await.unwrap();
    // The login's listener accepts only HTTP/1.1, as browsers send it. `get` sends HTTP/1.0.
    assert_eq!(answer.unwrap().status, 404);
    let host = redirect.strip_prefix("http://").unwrap().strip_suffix("/callback").unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request =
        format!("GET /callback?code=c&state={state}&iss={} HTTP/1.1\r\n\r\n", site.issuer);
    stream.write_all(request.as_bytes()).await.unwrap();
    let (ended, said) = tokio::task::spawn_blocking(move || {
        let ended = Ended::of(login, Duration::from_secs(30), "mcp login");
        let mut rest = String::new();
        let mut said = said;
        said.read_to_string(&mut rest).unwrap();
        (ended, rest)
    })
    .await
    .unwrap();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{said}");

    let with = run(agentwf(&["call", "work"])).await;
    assert_eq!((with.code, with.stdout.as_str()), (Some(0), "done by ***\n"), "{}", with.stderr);
    assert_eq!(run(agentwf(&["logout"])).await.code, Some(0));
    assert_eq!(run(agentwf(&["tools"])).await.code, Some(1));
    assert_eq!(site.count("POST /revoke"), 1);
}
