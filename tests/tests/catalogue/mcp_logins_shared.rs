//! Logins shared by several processes and programs. A login that one renews or removes is updated
//! for the others, and no program uses a login of another identity.

use std::sync::Mutex;

use agentflow::mcp::{McpAuthorization, McpClient, McpLoginFolder, McpLogins};
use agentflow::model::Secret;
use agentflow::serde_json::{self, Value, json};
use async_trait::async_trait;
use tempfile::TempDir;

use crate::login_server::{LoginSite, field, work};
use crate::raw_http::full;

/// A login store that returns an outdated login this many times, like a process that read it before
/// another one changed it.
struct Before {
    logins: McpLoginFolder,
    login: Secret,
    times: Mutex<usize>,
}

#[async_trait]
impl McpLogins for Before {
    async fn load(&self, server: &str) -> std::io::Result<Option<Secret>> {
        let is_before = {
            let mut times = self.times.lock().unwrap();
            let is_before = *times > 0;
            *times = times.saturating_sub(1);
            is_before
        };
        if is_before {
            return Ok(Some(self.login.clone()));
        }
        self.logins.load(server).await
    }

    async fn save(&self, server: &str, login: Option<&Secret>) -> std::io::Result<()> {
        self.logins.save(server, login).await
    }
}

fn folder() -> (TempDir, McpLoginFolder) {
    let folder = tempfile::tempdir().unwrap();
    let logins = McpLoginFolder::new(folder.path().join("logins"));
    (folder, logins)
}

/// Returns the stored login with one field changed.
async fn kept_with(site: &LoginSite, logins: &McpLoginFolder, key: &str, value: Value) -> Secret {
    let text = logins.load(&site.url()).await.unwrap().unwrap();
    let mut login: Value = serde_json::from_str(text.expose()).unwrap();
    login[key] = value;
    Secret::new(login.to_string())
}

/// Starts a site that revokes all tokens of a login when a refresh token is used twice.
async fn site_with_families() -> LoginSite {
    let spent = Mutex::new(std::collections::BTreeSet::new());
    LoginSite::new(move |asked, site| {
        let token = asked.field("refresh_token").filter(|_| asked.line == "POST /token")?;
        if spent.lock().unwrap().insert(token) {
            return None;
        }
        site.forget_tokens();
        site.forget_refresh_tokens();
        Some(full("400 Bad Request", "application/json", r#"{"error": "invalid_grant"}"#))
    })
    .await
}

#[tokio::test]
async fn a_token_that_another_process_has_renewed_is_not_used_again() {
    let site = site_with_families().await;
    let (_folder, logins) = folder();
    site.client(site.person().logins(logins.clone())).login().await.unwrap();
    let login = kept_with(&site, &logins, "renew_at", json!(0)).await;
    logins.save(&site.url(), Some(&login)).await.unwrap();
    let one = site.client(McpAuthorization::stored(logins.clone()));
    let before = Before { logins: logins.clone(), login, times: Mutex::new(1) };
    let other = site.client(McpAuthorization::stored(before));
    assert_eq!(&*work(&one).await.text(), "done");
    assert_eq!(&*work(&other).await.text(), "done");
    assert_eq!((&*work(&one).await.text(), site.refreshed()), ("done", 1));
}

#[tokio::test]
async fn of_two_processes_that_renew_at_once_one_does() {
    let site = site_with_families().await;
    let (_folder, logins) = folder();
    site.client(site.person().logins(logins.clone())).login().await.unwrap();
    // A token that is about to expire is renewed before use, and a refused one afterwards.
    for is_refused in [false, true] {
        let before = site.refreshed();
        if is_refused {
            site.forget_tokens();
        } else {
            let login = kept_with(&site, &logins, "renew_at", json!(0)).await;
            logins.save(&site.url(), Some(&login)).await.unwrap();
        }
        let clients: Vec<_> =
            (0..4).map(|_| site.client(McpAuthorization::stored(logins.clone()))).collect();
        let said = futures_util::future::join_all(clients.iter().map(work)).await;
        assert!(said.iter().all(|said| &*said.text() == "done"), "{is_refused}: {said:?}");
        assert_eq!(site.refreshed(), before + 1, "{is_refused}");
    }
    // Logins in memory that several clients of a program share.
    let site = site_with_families().await;
    let shared = site.person();
    let clients: Vec<_> = (0..4).map(|_| site.client(shared.clone())).collect();
    clients[0].login().await.unwrap();
    futures_util::future::join_all(clients.iter().map(work)).await;
    site.forget_tokens();
    let said = futures_util::future::join_all(clients.iter().map(work)).await;
    assert!(said.iter().all(|said| &*said.text() == "done"), "{said:?}");
    assert_eq!(site.refreshed(), 1);
}

#[tokio::test]
async fn a_login_that_another_process_renews_is_waited_for() {
    let site = site_with_families().await;
    let (folder, logins) = folder();
    site.client(site.person().logins(logins.clone())).login().await.unwrap();
    let ends_soon = kept_with(&site, &logins, "renew_at", json!(0)).await;
    logins.save(&site.url(), Some(&ends_soon)).await.unwrap();
    let renewed = kept_with(&site, &logins, "renew_at", json!(u64::MAX)).await;
    // Simulates another process that renews the login and stores it later.
    let other = logins.lock(&site.url()).await.unwrap();
    let client = site.client(McpAuthorization::stored(logins.clone()));
    let renews = async {
        // Lets the client advance until it waits for the lock.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        logins.save(&site.url(), Some(&renewed)).await.unwrap();
        drop(other);
    };
    let (said, ()) = tokio::join!(work(&client), renews);
    assert_eq!((&*said.text(), site.refreshed()), ("done", 0));
    // A lock of a removed login does not lock anything, and its file is deleted.
    let before = logins.lock(&site.url()).await.unwrap();
    logins.save(&site.url(), None).await.unwrap();
    let after = logins.lock(&site.url()).await.unwrap();
    drop((before, after));
    logins.save(&site.url(), None).await.unwrap();
    assert!(std::fs::read_dir(folder.path().join("logins")).unwrap().next().is_none());
}

#[tokio::test]
async fn who_is_refused_leaves_what_another_process_has_kept() {
    let site = LoginSite::new(|_, _| None).await;
    let (_folder, logins) = folder();
    site.client(site.person().logins(logins.clone())).login().await.unwrap();
    let login = kept_with(&site, &logins, "renew_at", json!(0)).await;
    logins.save(&site.url(), Some(&login)).await.unwrap();
    let one = site.client(McpAuthorization::stored(logins.clone()));
    assert_eq!(&*work(&one).await.text(), "done");
    let kept = logins.load(&site.url()).await.unwrap().unwrap();
    // This client reads the outdated login until it is refused.
    let before = Before { logins: logins.clone(), login, times: Mutex::new(3) };
    let other = site.client(McpAuthorization::stored(before));
    assert_eq!(&*work(&other).await.text(), "done");
    assert_eq!(site.refreshed(), 2);
    assert_eq!(logins.load(&site.url()).await.unwrap().unwrap().expose(), kept.expose());
    site.forget_tokens();
    assert_eq!((&*work(&other).await.text(), &*work(&one).await.text()), ("done", "done"));
}

#[tokio::test]
async fn a_login_that_another_process_has_removed_is_not_renewed() {
    let site = LoginSite::new(|_, _| None).await;
    let (_folder, logins) = folder();
    site.client(site.person().logins(logins.clone())).login().await.unwrap();
    let login = kept_with(&site, &logins, "renew_at", json!(0)).await;
    logins.save(&site.url(), None).await.unwrap();
    let before = Before { logins: logins.clone(), login, times: Mutex::new(1) };
    let other = site.client(McpAuthorization::stored(before));
    let error = other.connect().await.unwrap_err().to_string();
    assert!(error.contains("the program has no login"), "{error}");
    assert_eq!(site.refreshed(), 0);
    assert!(logins.load(&site.url()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_login_counts_for_the_client_that_it_was_made_with() {
    let site = LoginSite::new(|_, _| None).await;
    let (_folder, logins) = folder();
    let secret = || Some(Secret::new("s3cret-words"));
    let person = |id: &str| site.person().client(&site.issuer, id, secret()).logins(logins.clone());
    site.client(person("one")).login().await.unwrap();
    assert_eq!(&*work(&site.client(person("one"))).await.text(), "done");

    let error = site.client(person("two")).connect().await.unwrap_err().to_string();
    assert!(error.contains("the program has no login"), "{error}");
    let elsewhere =
        site.person().client("https://login.example", "one", secret()).logins(logins.clone());
    let error = site.client(elsewhere).connect().await.unwrap_err().to_string();
    assert!(error.contains("the program has no login"), "{error}");
    // A program that may not use the login does not remove it.
    site.client(person("two")).logout().await.unwrap();
    assert!(logins.load(&site.url()).await.unwrap().is_some());

    // The program's own login is separate from a person's login with the same client, and vice
    // versa.
    let itself = McpAuthorization::client_credentials(&site.issuer, "one", secret().unwrap())
        .logins(logins.clone());
    let before = site.count("POST /token");
    assert_eq!(&*work(&site.client(itself)).await.text(), "done");
    assert_eq!(site.count("POST /token"), before + 1);
    let error = site.client(person("one")).connect().await.unwrap_err().to_string();
    assert!(error.contains("the program has no login"), "{error}");
}

#[tokio::test]
async fn a_secret_goes_where_its_authorization_server_says_and_not_where_a_file_does() {
    let site = LoginSite::new(|_, _| None).await;
    let (_folder, logins) = folder();
    let given = |how: McpAuthorization| {
        how.client(&site.issuer, "one", Some(Secret::new("s3cret-words"))).logins(logins.clone())
    };
    site.client(given(site.person())).login().await.unwrap();
    let changed =
        kept_with(&site, &logins, "token_endpoint", json!(format!("{}/steal", site.issuer))).await;
    logins.save(&site.url(), Some(&changed)).await.unwrap();
    let changed =
        kept_with(&site, &logins, "revocation_endpoint", json!(format!("{}/steal", site.issuer)))
            .await;
    logins.save(&site.url(), Some(&changed)).await.unwrap();
    site.forget_tokens();
    let client = site.client(given(McpAuthorization::stored(logins.clone())));
    assert_eq!(&*work(&client).await.text(), "done");
    logins.save(&site.url(), Some(&changed)).await.unwrap();
    client.logout().await.unwrap();
    assert_eq!(
        (site.count("POST /steal"), site.refreshed(), site.count("POST /revoke")),
        (0, 1, 1)
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_others_can_write_to_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let site = LoginSite::new(|_, _| None).await;
    let (above, logins) = folder();
    let folder = above.path().join("logins");
    site.client(site.person().logins(logins.clone())).login().await.unwrap();
    let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let error =
        async || site.client(McpAuthorization::stored(logins.clone())).connect().await.err();

    for mode in [0o722, 0o770] {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
        let says = error().await.unwrap().to_string();
        assert!(says.contains("can be written to by others"), "{says}");
        assert!(logins.save(&site.url(), Some(&Secret::new("x"))).await.is_err());
        assert!(logins.save(&site.url(), None).await.is_err());
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(error().await.is_none());

    let elsewhere = above.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    let says = error().await.unwrap().to_string();
    assert!(says.contains("cannot be read"), "{says}");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let says = error().await.unwrap().to_string();
    assert!(says.contains("is not a file"), "{says}");
}

#[tokio::test]
async fn a_registered_client_that_is_not_known_any_more_is_registered_again() {
    // The authorization server no longer knows the client.
    let site = LoginSite::new(|asked, _| {
        let is_renewal = asked.field("grant_type").as_deref() == Some("refresh_token");
        is_renewal
            .then(|| full("401 Unauthorized", "application/json", r#"{"error": "invalid_client"}"#))
    })
    .await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    site.forget_tokens();
    assert!(work(&client).await.output.contains("its login is over"));
    client.login().await.unwrap();
    assert_eq!((site.visits(), site.count("POST /register")), (2, 2));

    // The client's secret has expired.
    for (ends, registered) in [(1, 2), (0, 1)] {
        let site = LoginSite::new(move |asked, _| {
            let client = json!({
                "client_id": "registered", "client_secret": "s", "client_secret_expires_at": ends,
                "token_endpoint_auth_method": "client_secret_basic",
            });
            (asked.line == "POST /register")
                .then(|| full("200 OK", "application/json", &client.to_string()))
        })
        .await;
        let client = site.client(site.person());
        client.login().await.unwrap();
        site.forget_tokens();
        site.forget_refresh_tokens();
        assert!(work(&client).await.output.contains("its login is over"));
        client.login().await.unwrap();
        assert_eq!((site.visits(), site.count("POST /register")), (2, registered), "{ends}");
    }
}

#[tokio::test]
async fn a_login_that_was_refused_is_made_anew_when_it_is_asked_for() {
    let site = LoginSite::new(|_, _| None).await;
    let client = site.client(site.person());
    client.login().await.unwrap();
    assert_eq!(&*work(&client).await.text(), "done");
    site.forget_tokens();
    site.forget_refresh_tokens();
    assert!(work(&client).await.output.contains("its login is over"));
    client.login().await.unwrap();
    assert_eq!((site.visits(), &*work(&client).await.text()), (2, "done"));
    client.login().await.unwrap();
    assert_eq!(site.visits(), 2);
}

#[tokio::test]
async fn scopes_that_a_login_lacks_are_asked_for_when_it_is_asked_for() {
    let site = LoginSite::new(|asked, site| {
        let token = asked.request.head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "))?.to_owned();
        let scopes = site.seen().tokens.iter().find(|(of, _)| *of == token)?.1.clone();
        (asked.request.method() == "tools/call" && !scopes.contains("write")).then(|| {
            "HTTP/1.1 403 Forbidden\r\nwww-authenticate: Bearer error=\"insufficient_scope\", scope=\"write\"\r\n\
             content-length: 0\r\n\r\n"
                .to_owned()
        })
    })
    .await;
    let (_folder, logins) = folder();
    let person = |scope: &str| site.person().scopes([scope]).logins(logins.clone());
    let client = site.client(person("read"));
    client.login().await.unwrap();
    assert!(work(&client).await.output.contains("the scopes `write`, which its login lacks"));
    client.login().await.unwrap();
    let asked = |visit: usize| field(site.seen().visits[visit].split_once('?').unwrap().1, "scope");
    assert_eq!((asked(1).as_deref(), &*work(&client).await.text()), (Some("read write"), "done"));

    // Scopes of another program with the same login are added, too.
    let more: McpClient = site.client(person("admin"));
    more.login().await.unwrap();
    assert_eq!(asked(2).as_deref(), Some("read write admin"));
    more.login().await.unwrap();
    assert_eq!(site.visits(), 3);
}
