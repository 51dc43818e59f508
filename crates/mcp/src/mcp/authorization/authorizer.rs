//! The login of one server, shared by all its users. Only one login is made, renewed or removed at
//! a time, and all waiting callers use its result. An operation that has begun is completed even if
//! its caller is gone, because a refresh token that was used and lost cannot be replaced. Dropping
//! the `Authorizer` ends a login that waits for a person. Before a token is renewed, the stored
//! login is read again, because another process may have renewed it or logged out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentflow_schema::text::head;
use reqwest::Url;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::auth_requests::AuthRequests;
use super::challenge::Challenge;
use super::client_identity::{ClientIdentity, ClientOrigin};
use super::discovery::authorization_server;
use super::kept_login::StoredLogin;
use super::mcp_authorization::{How, McpAuthorization};
use super::token_endpoint::{TokenFailure, revoke, tokens};
use crate::mcp::http_failures::Refused;
use crate::mcp::mcp_error::McpError;
use agentflow_core::__private::extension::SecretMasker;
use agentflow_core::model::Secret;
use agentflow_core::time::{Clock as _, SystemClock};
use agentflow_tools::__private::oauth_tokens::Tokens;

/// Time before the expiry of a token at which it is renewed. For short-lived tokens it is a quarter
/// of the lifetime.
const EARLY: Duration = Duration::from_secs(30);
/// Pause after a failed early renewal. Until then the current token is used.
const RENEWS_AGAIN: Duration = Duration::from_secs(10);

/// Maximum number of earlier logins whose tokens are masked.
const MOST_EARLIER: usize = 8;

/// Maximum number of new logins for one request: a renewal, a login by a person, and a login with
/// more scopes.
const MOST_LOGINS: usize = 3;

/// The login of one server.
pub(in crate::mcp) struct Authorizer {
    shared: Arc<Shared>,
    _over: DropGuard,
}

/// State of the login, shared with the tasks that change it.
pub(super) struct Shared {
    pub(super) server: Arc<str>,
    pub(super) url: Url,
    pub(super) says: McpAuthorization,
    pub(super) requests: AuthRequests,
    state: Mutex<State>,
    /// Locked while a login is made, renewed or removed.
    turn: tokio::sync::Mutex<()>,
    /// Number of callers that allow asking a person.
    allowed: AtomicUsize,
    pub(super) is_asking: AtomicBool,
    /// Number of callers that forbid asking a person.
    pub(super) closing: watch::Sender<usize>,
    pub(super) over: CancellationToken,
}

#[derive(Default)]
pub(super) struct State {
    is_loaded: bool,
    login: Option<Arc<StoredLogin>>,
    /// Previous logins. Responses to requests with their tokens may still arrive.
    earlier: VecDeque<Arc<StoredLogin>>,
    /// `true` if the store contains this login.
    is_saved: bool,
    /// Number that grows with each login and renewal. `renewed` and `logged_in` hold its value
    /// after the last renewal and the last login.
    version: u64,
    renewed: u64,
    pub(super) logged_in: u64,
    /// Number of logins that a person did not complete. `failure` is the reason of the last one.
    pub(super) failures: u64,
    pub(super) failure: Option<McpError>,
    not_before: Option<Instant>,
    /// The refresh token that was refused last. It is ignored when the store still contains it.
    spent: Option<String>,
    /// Id of a registered client that its authorization server no longer knows.
    pub(super) forgotten: Option<String>,
    /// The server's request for a login that could not be met.
    wanted: Option<Challenge>,
}

impl State {
    /// Moves the login to the previous ones.
    fn put_aside(&mut self) {
        self.earlier.extend(self.login.take());
        let over = self.earlier.len().saturating_sub(MOST_EARLIER);
        self.earlier.drain(..over);
    }
}

/// Result of comparing the stored login with the current one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoginComparison {
    Same,
    Another,
    Removed,
}

/// State of one request that may be sent several times with different logins.
pub(in crate::mcp) struct LoginTries {
    /// Version of the login before the request was sent for the first time.
    first: u64,
    /// Version of the login before the request was sent last.
    seen: u64,
    logins: usize,
}

/// Permission to ask a person. Valid until it is dropped.
pub(in crate::mcp) struct AskPermission(Arc<Shared>);

impl Drop for AskPermission {
    fn drop(&mut self) {
        self.0.allowed.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Prohibition to ask a person. Valid until it is dropped.
pub(in crate::mcp) struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.closing.send_modify(|closing| *closing -= 1);
    }
}

/// Marks that a person is being asked, until it is dropped.
pub(super) struct Asking<'a>(pub(super) &'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Authorizer {
    pub(in crate::mcp) fn new(server: Arc<str>, url: Url, says: McpAuthorization) -> Self {
        let over = CancellationToken::new();
        let shared = Shared {
            server,
            requests: AuthRequests::new(url.clone(), says.guard.clone()),
            url,
            says,
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            allowed: AtomicUsize::new(0),
            is_asking: AtomicBool::new(false),
            closing: watch::Sender::new(0),
            over: over.clone(),
        };
        Self { shared: Arc::new(shared), _over: over.drop_guard() }
    }

    /// Creates the state of a request, for [`answer`](Self::answer).
    pub(in crate::mcp) fn tries(&self) -> LoginTries {
        let first = self.shared.state().version;
        LoginTries { first, seen: first, logins: 0 }
    }

    /// Records the version of the login before the request is sent.
    pub(in crate::mcp) fn begin(&self, tries: &mut LoginTries) {
        tries.seen = self.shared.state().version;
    }

    /// Returns `true` while a person is being asked to log in.
    pub(in crate::mcp) fn is_asking(&self) -> bool {
        self.shared.is_asking.load(Ordering::SeqCst)
    }

    /// Allows asking a person until the guard is dropped.
    pub(in crate::mcp) fn allow(&self) -> AskPermission {
        self.shared.allowed.fetch_add(1, Ordering::SeqCst);
        AskPermission(Arc::clone(&self.shared))
    }

    /// Ends a login that waits for a person, and prevents new ones until the guard is dropped.
    pub(in crate::mcp) fn closing(&self) -> Closing {
        self.shared.closing.send_modify(|closing| *closing += 1);
        Closing(Arc::clone(&self.shared))
    }

    /// Returns `others` with the tokens of the current login and the previous ones.
    pub(in crate::mcp) fn hidden(&self, others: &SecretMasker) -> SecretMasker {
        let state = self.shared.state();
        let logins = state.login.iter().chain(&state.earlier);
        let tokens =
            logins.flat_map(|login| [Some(&login.access_token), login.refresh_token.as_ref()]);
        others.with(tokens.flatten().cloned())
    }

    /// Returns the access token for a request, renewed if it expires soon. Returns `None` without a
    /// login.
    pub(in crate::mcp) async fn token(&self) -> Result<Option<Secret>, McpError> {
        if !self.shared.state().is_loaded {
            // The store is read once at the beginning. `reload` notices later changes by other
            // processes.
            self.in_turn(None, |shared| async move { shared.load().await }).await?;
        }
        let (login, version) = {
            let state = self.shared.state();
            // While a person is being asked, the lock is held. A token that is still valid is then
            // used without renewal.
            let may = state.not_before.is_none_or(|not_before| not_before <= Instant::now())
                && !self.is_asking();
            (state.login.clone().filter(|login| may && self.shared.ends_soon(login)), state.version)
        };
        if login.is_some() {
            // A failed renewal is no error here, because the current token is still valid.
            let _ = self
                .in_turn(Some(version), |shared| async move {
                    let renewed = shared.renew_early().await;
                    if renewed.is_err() {
                        shared.state().not_before = Some(Instant::now() + RENEWS_AGAIN);
                    }
                    renewed
                })
                .await;
        }
        Ok(self.shared.login().map(|login| Secret::new(login.access_token.clone())))
    }

    /// Obtains another token after a request was refused. Dropping the future does not end an
    /// operation that has begun.
    ///
    /// # Errors
    /// [`McpError::Unauthorized`] with instructions, if no other token can be obtained.
    pub(in crate::mcp) async fn answer(
        &self,
        refused: &Refused,
        tries: &mut LoginTries,
    ) -> Result<(), McpError> {
        let (status, challenge) = (refused.status, Challenge::read(&refused.challenge));
        // A server that refuses each new token must not start an endless series of logins.
        if tries.logins == MOST_LOGINS {
            self.shared.state().wanted = Some(challenge);
            return Err(self
                .shared
                .error(format!("it has refused {MOST_LOGINS} logins, one after the other")));
        }
        let LoginTries { first, seen, .. } = *tries;
        tries.logins += 1;
        self.in_turn(Some(seen), move |shared| async move {
            let answered = shared.answered(status, &challenge, first).await;
            if answered.is_err() && (status == 401 || challenge.wants_scopes()) {
                shared.state().wanted = Some(challenge);
            }
            answered
        })
        .await
    }

    /// Logs in as a person or as the program, unless the current login was not refused and has all
    /// configured scopes, or another login has been made in the meantime.
    pub(in crate::mcp) async fn log_in(&self) -> Result<(), McpError> {
        let version = self.shared.state().version;
        self.in_turn(Some(version), |shared| async move { shared.logged_in().await }).await
    }

    /// Deletes the login, also from the store, and revokes it if the authorization server supports
    /// that.
    pub(in crate::mcp) async fn log_out(&self) -> Result<(), McpError> {
        self.in_turn(None, |shared| async move { shared.removed().await }).await
    }

    /// Runs an operation while no other one is running. If `seen` is set, the operation is skipped
    /// when the version of the login has changed in the meantime. If another caller's login by a
    /// person has failed in the meantime, this call fails with the same error.
    async fn in_turn<F>(
        &self,
        seen: Option<u64>,
        work: impl FnOnce(Arc<Shared>) -> F + Send + 'static,
    ) -> Result<(), McpError>
    where
        F: Future<Output = Result<(), McpError>> + Send,
    {
        let shared = Arc::clone(&self.shared);
        let failures = shared.state().failures;
        // A task completes the operation even if this future is dropped.
        let task = tokio::spawn(async move {
            let _turn = shared.turn.lock().await;
            {
                let state = shared.state();
                if seen.is_some_and(|seen| seen != state.version) {
                    return Ok(());
                }
                if let Some(failure) =
                    state.failure.as_ref().filter(|_| seen.is_some() && state.failures != failures)
                {
                    return Err(failure.clone());
                }
            }
            work(Arc::clone(&shared)).await
        });
        task.await
            .unwrap_or_else(|_| Err(self.shared.error("the login was interrupted".to_owned())))
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn login(&self) -> Option<Arc<StoredLogin>> {
        self.state().login.clone()
    }

    pub(super) fn error(&self, problem: String) -> McpError {
        McpError::Unauthorized { server: Arc::clone(&self.server), problem }
    }

    fn ends_soon(&self, login: &StoredLogin) -> bool {
        // A token that cannot be renewed is used until the server refuses it.
        let can_renew =
            login.refresh_token.is_some() || matches!(self.says.how, How::ClientCredentials);
        can_renew && login.renew_at.is_some_and(|at| at <= SystemClock.now().as_millis())
    }

    /// Reads the stored login, unless it has been read before.
    async fn load(&self) -> Result<(), McpError> {
        if !self.state().is_loaded {
            let login = self.kept().await?;
            let mut state = self.state();
            (state.is_loaded, state.is_saved, state.login) = (true, true, login.map(Arc::new));
        }
        Ok(())
    }

    /// Returns the stored login if it fits the program's configuration.
    async fn kept(&self) -> Result<Option<StoredLogin>, McpError> {
        let mut kept = self.load_any().await?.filter(|login| self.is_ours(login));
        // A refused refresh token must not be used again, even if the store still contains it.
        if let Some(login) = &mut kept {
            let spent = &self.state().spent;
            login.refresh_token =
                login.refresh_token.take().filter(|token| spent.as_ref() != Some(token));
        }
        Ok(kept)
    }

    async fn load_any(&self) -> Result<Option<StoredLogin>, McpError> {
        let kept = self.says.logins.load(self.url.as_str()).await;
        let kept = kept.map_err(|error| {
            self.error(format!("its login cannot be read where it is kept: {error}"))
        })?;
        Ok(kept.and_then(|text| StoredLogin::read(self.url.as_str(), &text)))
    }

    /// Returns `true` if the login fits the program's current configuration: the kind of login and
    /// the client.
    fn is_ours(&self, login: &StoredLogin) -> bool {
        let is_by_whom = match self.says.how {
            How::Stored => true,
            How::ClientCredentials => login.is_of_client,
            How::Loopback(_) | How::Browser { .. } => !login.is_of_client,
        };
        let is_of_given = self.says.client.as_ref().is_none_or(|given| {
            login.client.origin == ClientOrigin::Given
                && login.client.id == given.id
                && login.issuer == given.issuer
        });
        let is_of_document = login.client.origin != ClientOrigin::Document
            || self.says.document.as_ref().is_none_or(|document| *document == login.client.id);
        is_by_whom && is_of_given && is_of_document
    }

    /// Locks the stored login. With two processes, the second one then finds the tokens that the
    /// first one has obtained.
    pub(super) async fn locked(&self) -> Option<Box<dyn Send>> {
        match self.says.logins.lock(self.url.as_str()).await {
            Ok(locked) => Some(locked),
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "the login of an MCP server cannot be locked");
                None
            }
        }
    }

    /// Adopts the stored login if another process has changed or removed it.
    async fn reload(&self) -> Result<LoginComparison, McpError> {
        // The store does not contain the current login, so the two cannot be compared.
        if !self.state().is_saved {
            return Ok(LoginComparison::Same);
        }
        let kept = self.kept().await?;
        let mut state = self.state();
        if state.login.as_deref() == kept.as_ref() {
            return Ok(LoginComparison::Same);
        }
        state.version += 1;
        let wants = state.wanted.take();
        // A renewed login has the scopes of the login before. If they were insufficient, the
        // server's request for more scopes still applies.
        state.wanted = wants.filter(|wants| {
            let scopes = kept.as_ref().map(|login| &login.scopes);
            wants.wants_scopes()
                && scopes.is_some_and(|has| wants.scopes.iter().any(|scope| !has.contains(scope)))
        });
        state.put_aside();
        state.login = kept.map(Arc::new);
        Ok(if state.login.is_some() { LoginComparison::Another } else { LoginComparison::Removed })
    }

    /// Makes a new login if the current one is missing or insufficient.
    async fn logged_in(&self) -> Result<(), McpError> {
        self.load().await?;
        self.reload().await?;
        let (login, wanted) = {
            let state = self.state();
            (state.login.clone(), state.wanted.clone())
        };
        let has_all = login
            .is_some_and(|login| self.says.scopes.iter().all(|scope| login.scopes.contains(scope)));
        match wanted {
            None if has_all => Ok(()),
            wanted => self.made(&wanted.unwrap_or_default()).await,
        }
    }

    /// Replaces the current login, stores it, and returns the new version.
    pub(super) async fn keep(&self, login: StoredLogin) -> u64 {
        let text = login.secret();
        let version = {
            let mut state = self.state();
            state.version += 1;
            state.put_aside();
            (state.login, state.is_loaded, state.is_saved, state.not_before) =
                (Some(Arc::new(login)), true, false, None);
            (state.wanted, state.spent) = (None, None);
            state.version
        };
        // A login that cannot be stored is still used.
        match self.says.logins.save(self.url.as_str(), Some(&text)).await {
            Ok(()) => self.state().is_saved = true,
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "the login of an MCP server cannot be kept");
            }
        }
        version
    }

    async fn answered(
        &self,
        status: u16,
        challenge: &Challenge,
        first: u64,
    ) -> Result<(), McpError> {
        // Another process may have logged in or renewed the login.
        if self.reload().await? == LoginComparison::Another {
            return Ok(());
        }
        let mut login = self.login();
        let (renewed, logged_in) = {
            let state = self.state();
            (state.renewed, state.logged_in)
        };
        // A new token would be refused with 403 again.
        if status == 403 && !challenge.wants_scopes() {
            return Err(
                self.error("it answered 403, and does not say which scopes it wants".to_owned())
            );
        }
        let lacks = match (status, &login) {
            (403, Some(login)) => {
                let lacks = challenge.scopes.iter().filter(|scope| !login.scopes.contains(scope));
                let lacks = lacks.map(String::as_str).collect::<Vec<_>>().join(" ");
                if lacks.is_empty() {
                    // The current login was made with these scopes, so another login would not
                    // help.
                    let scopes = challenge.scopes.join(" ");
                    let problem = format!(
                        "it asks for the scopes `{}`, which its login was made for; the authorization server has not granted \
                         them",
                        head(&scopes, 200)
                    );
                    return Err(self.error(problem));
                }
                // Client credentials never exceed the scopes that the program has configured.
                if matches!(self.says.how, How::ClientCredentials) && !self.says.scopes.is_empty() {
                    let problem = format!(
                        "it asks for the scopes `{}`, which the program does not ask for; a program says its scopes with \
                         `McpAuthorization::scopes`",
                        head(&lacks, 200)
                    );
                    return Err(self.error(problem));
                }
                Some(lacks)
            }
            _ => None,
        };
        if lacks.is_none() {
            // This login was made after the request was first sent. Another one would not help.
            if logged_in > first {
                let issuer = login.as_ref().map_or("", |login| head(&login.issuer, 200)).to_owned();
                return Err(self
                    .error(format!("it refuses the token that `{issuer}` has just given for it")));
            }
            if renewed <= first && login.as_ref().is_some_and(|login| login.refresh_token.is_some())
            {
                // The lock and the second `reload` prevent two processes from using one refresh
                // token.
                let _locked = self.locked().await;
                if self.reload().await? == LoginComparison::Another {
                    return Ok(());
                }
                login = self.login();
                if let Some(login) = login.as_ref().filter(|login| login.refresh_token.is_some()) {
                    match self.renew(login).await {
                        Ok(()) => return Ok(()),
                        Err(failed) if failed.is_final() => {}
                        Err(failed) => {
                            return Err(self.error(format!(
                                "its login cannot be renewed: {}",
                                failed.problem
                            )));
                        }
                    }
                }
            }
        }
        // A renewal is impossible, so only a new login can help.
        let is_allowed = self.says.when_needed || self.allowed.load(Ordering::SeqCst) > 0;
        if matches!(self.says.how, How::ClientCredentials)
            || (is_allowed && self.says.can_ask_person())
        {
            return self.made(challenge).await;
        }
        let why = match (&lacks, &login) {
            (Some(lacks), _) => {
                format!("it asks for the scopes `{}`, which its login lacks", head(lacks, 200))
            }
            (None, Some(_)) => "its login is over".to_owned(),
            (None, None) => "the program has no login".to_owned(),
        };
        let address = format!("{}{}", self.url.origin().ascii_serialization(), self.url.path());
        Err(self.error(format!(
            "{why}; log in with `McpClient::login`, or with `agentwf mcp login --url {address}` where the program keeps logins \
             in the folder of the user"
        )))
    }

    /// Renews a login that expires soon, unless another process has renewed or removed it.
    async fn renew_early(&self) -> Result<(), McpError> {
        let _locked = self.locked().await;
        self.reload().await?;
        let Some(login) = self.login().filter(|login| self.ends_soon(login)) else { return Ok(()) };
        self.renew(&login).await.map_err(|failed| self.error(failed.problem))
    }

    /// Renews a login that was just read from the store, with its refresh token or as a client with
    /// a secret.
    async fn renew(&self, login: &StoredLogin) -> Result<(), TokenFailure> {
        let failed = |problem: String| TokenFailure { problem, error: None };
        let Some(refresh) = &login.refresh_token else {
            return self.of_client(&Challenge::default()).await.map_err(failed);
        };
        let (url, _) = self.endpoints(login).await.map_err(failed)?;
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh),
            ("resource", &login.resource),
        ];
        let secret = self.secret_of(&login.client, &login.issuer);
        match tokens(&self.requests, &url, &login.client, secret.as_deref(), &fields).await {
            Ok(given) => {
                // The authorization server may keep the refresh token instead of issuing a new one
                // (RFC 6749, section 6).
                let refresh_token =
                    given.refresh_token.clone().or_else(|| login.refresh_token.clone());
                let renewed = StoredLogin { refresh_token, ..with(login.clone(), given) };
                let version = self.keep(renewed).await;
                self.state().renewed = version;
                tracing::debug!(server = %self.server, "the login of an MCP server was renewed");
                Ok(())
            }
            Err(refused) if refused.is_final() => {
                self.note_forgotten(&login.client, &refused);
                {
                    // The store is not changed: if two processes renew at the same time, the later
                    // one is refused, and the store already has the other one's tokens.
                    let mut state = self.state();
                    state.version += 1;
                    state.spent.clone_from(&login.refresh_token);
                    state.login =
                        Some(Arc::new(StoredLogin { refresh_token: None, ..login.clone() }));
                }
                // A refusal is expected if another process has used the refresh token in the
                // meantime.
                match self.reload().await {
                    Ok(LoginComparison::Another) => Ok(()),
                    _ => Err(refused),
                }
            }
            Err(refused) => Err(refused),
        }
    }

    /// Records that the authorization server no longer knows a registered client.
    pub(super) fn note_forgotten(&self, client: &ClientIdentity, refused: &TokenFailure) {
        if client.origin == ClientOrigin::Registered
            && refused.error.as_deref() == Some("invalid_client")
        {
            self.state().forgotten = Some(client.id.clone());
        }
    }

    /// Returns the endpoints to renew and to revoke the tokens of a login. A secret of the program
    /// is sent only to endpoints from the current metadata of its authorization server, never to an
    /// address from the store of logins.
    async fn endpoints(&self, login: &StoredLogin) -> Result<(Url, Option<Url>), String> {
        if self.is_with_given_secret(login) {
            let server = authorization_server(&self.requests, &login.issuer).await?;
            return Ok((server.token, server.revocation));
        }
        let revocation =
            login.revocation_endpoint.as_ref().map(|url| self.requests.address(url)).transpose()?;
        Ok((self.requests.address(&login.token_endpoint)?, revocation))
    }

    fn is_with_given_secret(&self, login: &StoredLogin) -> bool {
        login.client.origin == ClientOrigin::Given
            && self.secret_of(&login.client, &login.issuer).is_some()
    }

    /// Returns the secret of a client. For a configured client, this is the program's secret, and
    /// only for the authorization server that it belongs to.
    pub(super) fn secret_of(&self, client: &ClientIdentity, issuer: &str) -> Option<String> {
        match client.origin {
            ClientOrigin::Given => {
                let given = self
                    .says
                    .client
                    .as_ref()
                    .filter(|given| given.issuer == issuer && given.id == client.id);
                given
                    .and_then(|given| given.secret.as_ref())
                    .map(|secret| secret.expose().to_owned())
            }
            ClientOrigin::Document | ClientOrigin::Registered => client.secret.clone(),
        }
    }

    async fn removed(&self) -> Result<(), McpError> {
        let _locked = self.locked().await;
        self.load().await?;
        // A login of another configuration in the same store is not deleted.
        let is_of_others = self.load_any().await?.is_some_and(|login| !self.is_ours(&login));
        self.reload().await?;
        let login = {
            let mut state = self.state();
            state.version += 1;
            (state.is_loaded, state.is_saved, state.wanted) = (true, true, None);
            let login = state.login.clone();
            state.put_aside();
            login
        };
        let removed = match is_of_others {
            true => Ok(()),
            false => self.says.logins.save(self.url.as_str(), None).await,
        };
        let removed = removed.map_err(|error| {
            self.error(format!("its login cannot be removed where it is kept: {error}"))
        });
        if let Some(login) = login
            && (login.revocation_endpoint.is_some() || self.is_with_given_secret(&login))
            && let Ok((_, Some(url))) = self.endpoints(&login).await
        {
            let secret = self.secret_of(&login.client, &login.issuer);
            // The revocation of a refresh token should also end the access tokens of the same grant
            // (RFC 7009, section 2.1).
            let token = login.refresh_token.as_ref().unwrap_or(&login.access_token);
            revoke(&self.requests, &url, &login.client, secret.as_deref(), token).await;
        }
        removed
    }
}

/// Returns the login with new tokens.
pub(super) fn with(login: StoredLogin, given: Tokens) -> StoredLogin {
    let renew_at = given.lasts.map(|lasts| {
        let until = lasts.saturating_sub(EARLY.min(lasts / 4));
        SystemClock
            .now()
            .as_millis()
            .saturating_add(u64::try_from(until.as_millis()).unwrap_or(u64::MAX))
    });
    StoredLogin { access_token: given.access_token, renew_at, ..login }
}
