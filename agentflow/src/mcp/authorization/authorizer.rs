//! The login of one server, for all who use it: one is renewed or made at a time, whoever waits for it has it, and what has
//! begun ends although its caller is gone, since a token that was renewed and lost cannot be replaced. Dropping it ends a
//! login that waits for a person.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::auth_requests::AuthRequests;
use super::browser_login::BrowserLogin;
use super::challenge::{Challenge, is_scope};
use super::client_identity::{ClientIdentity, ClientOrigin};
use super::discovery::{Discovered, discovered};
use super::kept_login::KeptLogin;
use super::loopback_redirect::LoopbackRedirect;
use super::mcp_authorization::{How, McpAuthorization};
use super::token_endpoint::{NoTokens, Tokens, revoke, tokens};
use crate::mask;
use crate::mcp::http_failures::Refused;
use crate::mcp::mcp_error::McpError;
use crate::model::Secret;
use crate::text::head;
use crate::time::{Clock as _, SystemClock};

/// How long before its end a token is renewed, at most; of one that ends soon a quarter of its time.
const EARLY: Duration = Duration::from_secs(30);
/// The pause after a token could not be renewed before its end; until then it is used as it is.
const RENEWS_AGAIN: Duration = Duration::from_secs(10);

/// How often one request leads to another login: a renewal, a person's, and one with more scopes.
const MOST_LOGINS: usize = 3;

/// The login of one server.
pub(in crate::mcp) struct Authorizer {
    shared: Arc<Shared>,
    _over: DropGuard,
}

struct Shared {
    server: Arc<str>,
    url: Url,
    says: McpAuthorization,
    requests: AuthRequests,
    state: Mutex<State>,
    /// Held while a login is made, renewed or removed.
    turn: tokio::sync::Mutex<()>,
    /// How many callers allow that a person is asked.
    allowed: AtomicUsize,
    is_asking: AtomicBool,
    over: CancellationToken,
}

#[derive(Default)]
struct State {
    is_loaded: bool,
    login: Option<Arc<KeptLogin>>,
    /// Whether what is kept is this login.
    is_saved: bool,
    /// Grows with each login and each renewal; where the last of each was.
    version: u64,
    renewed: u64,
    logged_in: u64,
    /// How often a person did not log in, and why the last time.
    failures: u64,
    failure: Option<McpError>,
    not_before: Option<Instant>,
}

/// How one request fares.
pub(in crate::mcp) struct Tries {
    /// The version before it was sent for the first time.
    first: u64,
    /// The one before it was sent last.
    seen: u64,
    logins: usize,
}

/// While it is there a person may be asked.
pub(in crate::mcp) struct Allowed(Arc<Shared>);

impl Drop for Allowed {
    fn drop(&mut self) {
        self.0.allowed.fetch_sub(1, Ordering::SeqCst);
    }
}

/// While it is there a person is asked.
struct Asking<'a>(&'a AtomicBool);

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
            over: over.clone(),
        };
        Self { shared: Arc::new(shared), _over: over.drop_guard() }
    }

    /// What a request has from its beginning on, for [`answer`](Self::answer).
    pub(in crate::mcp) fn tries(&self) -> Tries {
        let first = self.shared.state().version;
        Tries { first, seen: first, logins: 0 }
    }

    /// Before a request is sent.
    pub(in crate::mcp) fn begin(&self, tries: &mut Tries) {
        tries.seen = self.shared.state().version;
    }

    /// Whether a person is asked now.
    pub(in crate::mcp) fn is_asking(&self) -> bool {
        self.shared.is_asking.load(Ordering::SeqCst)
    }

    /// Lets a person be asked as long as the guard is there.
    pub(in crate::mcp) fn allow(&self) -> Allowed {
        self.shared.allowed.fetch_add(1, Ordering::SeqCst);
        Allowed(Arc::clone(&self.shared))
    }

    pub(in crate::mcp) fn has_login(&self) -> bool {
        self.shared.state().login.is_some()
    }

    /// A text without the tokens.
    pub(in crate::mcp) fn masked(&self, text: &str) -> String {
        let Some(login) = self.shared.login() else { return text.to_owned() };
        let secrets = [Some(&login.access_token), login.refresh_token.as_ref()];
        let secrets = secrets.into_iter().flatten().filter(|secret| secret.len() >= 6);
        secrets.fold(text.to_owned(), |text, secret| mask::without(&text, secret, "***").unwrap_or(text))
    }

    /// The token to send, renewed before it ends; `None` without a login.
    pub(in crate::mcp) async fn token(&self) -> Result<Option<Secret>, McpError> {
        if !self.shared.state().is_loaded {
            self.in_turn(None, |shared| async move { shared.load().await }).await?;
        }
        let (login, version) = {
            let state = self.shared.state();
            // Nobody waits for a person as long as the token is good.
            let may = state.not_before.is_none_or(|not_before| not_before <= Instant::now()) && !self.is_asking();
            (state.login.clone().filter(|login| may && self.shared.ends_soon(login)), state.version)
        };
        if let Some(login) = login {
            // Until it has ended the old one is good.
            let _ = self
                .in_turn(Some(version), |shared| async move {
                    let renewed = shared.renew(&login).await;
                    if renewed.is_err() {
                        shared.state().not_before = Some(Instant::now() + RENEWS_AGAIN);
                    }
                    renewed.map_err(|failed| shared.error(failed.problem))
                })
                .await;
        }
        Ok(self.shared.login().map(|login| Secret::new(login.access_token.clone())))
    }

    /// After a request was refused: another token, if there can be one. Dropping the future ends nothing that has begun.
    ///
    /// # Errors
    /// [`McpError::Unauthorized`], which says what to do.
    pub(in crate::mcp) async fn answer(&self, refused: &Refused, tries: &mut Tries) -> Result<(), McpError> {
        if tries.logins == MOST_LOGINS {
            return Err(self.shared.error(format!("it has refused {MOST_LOGINS} logins, one after the other")));
        }
        let (status, challenge) = (refused.status, Challenge::read(&refused.challenge));
        let Tries { first, seen, .. } = *tries;
        tries.logins += 1;
        self.in_turn(Some(seen), move |shared| async move { shared.answered(status, &challenge, first, seen).await })
            .await
    }

    /// Has a person log in, or the program itself, unless there is another login meanwhile.
    pub(in crate::mcp) async fn log_in(&self) -> Result<(), McpError> {
        let version = self.shared.state().version;
        self.in_turn(Some(version), |shared| async move { shared.made(&Challenge::default()).await }).await
    }

    /// Removes the login, also where it is kept, and tells the authorization server so where it wants to know.
    pub(in crate::mcp) async fn log_out(&self) -> Result<(), McpError> {
        self.in_turn(None, |shared| async move { shared.removed().await }).await
    }

    /// Does something of which one is done at a time. With `seen` nothing is done when there is another version by then, and
    /// the failure of a login that a person has not made meanwhile is everybody's.
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
        let task = tokio::spawn(async move {
            let _turn = shared.turn.lock().await;
            {
                let state = shared.state();
                if seen.is_some_and(|seen| seen != state.version) {
                    return Ok(());
                }
                if let Some(failure) = state.failure.as_ref().filter(|_| seen.is_some() && state.failures != failures) {
                    return Err(failure.clone());
                }
            }
            work(Arc::clone(&shared)).await
        });
        task.await.unwrap_or_else(|_| Err(self.shared.error("the login was interrupted".to_owned())))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn login(&self) -> Option<Arc<KeptLogin>> {
        self.state().login.clone()
    }

    fn error(&self, problem: String) -> McpError {
        McpError::Unauthorized { server: Arc::clone(&self.server), problem }
    }

    fn ends_soon(&self, login: &KeptLogin) -> bool {
        let can_renew = login.refresh_token.is_some() || matches!(self.says.how, How::ClientCredentials);
        can_renew && login.renew_at.is_some_and(|at| at <= SystemClock.now().as_millis())
    }

    /// Reads the login that is kept.
    async fn load(&self) -> Result<(), McpError> {
        if !self.state().is_loaded {
            let login = self.kept().await?;
            let mut state = self.state();
            (state.is_loaded, state.is_saved, state.login) = (true, true, login.map(Arc::new));
        }
        Ok(())
    }

    async fn kept(&self) -> Result<Option<KeptLogin>, McpError> {
        let kept = self.says.logins.load(self.url.as_str()).await;
        let kept = kept.map_err(|error| self.error(format!("its login cannot be read where it is kept: {error}")))?;
        Ok(kept.and_then(|text| KeptLogin::read(self.url.as_str(), &text)))
    }

    /// Takes the login of another process, if there is another; whether there is one.
    async fn reload(&self) -> Result<bool, McpError> {
        if !self.state().is_saved {
            return Ok(false);
        }
        let kept = self.kept().await?;
        let mut state = self.state();
        if state.login.as_deref() == kept.as_ref() {
            return Ok(false);
        }
        state.version += 1;
        state.login = kept.map(Arc::new);
        Ok(state.login.is_some())
    }

    /// Has this login from now on, and keeps it.
    async fn keep(&self, login: KeptLogin) -> u64 {
        let text = login.secret();
        let version = {
            let mut state = self.state();
            state.version += 1;
            (state.login, state.is_loaded, state.is_saved, state.not_before) =
                (Some(Arc::new(login)), true, false, None);
            state.version
        };
        match self.says.logins.save(self.url.as_str(), Some(&text)).await {
            Ok(()) => self.state().is_saved = true,
            Err(error) => tracing::warn!(server = %self.server, %error, "the login of an MCP server cannot be kept"),
        }
        version
    }

    async fn answered(&self, status: u16, challenge: &Challenge, first: u64, seen: u64) -> Result<(), McpError> {
        // Another process may have logged in, or renewed what was here.
        if first == seen && self.reload().await? {
            return Ok(());
        }
        let login = self.login();
        let (renewed, logged_in) = {
            let state = self.state();
            (state.renewed, state.logged_in)
        };
        if status == 403 && !challenge.wants_scopes() {
            return Err(self.error("it answered 403, and does not say which scopes it wants".to_owned()));
        }
        let lacks = match (status, &login) {
            (403, Some(login)) => {
                let lacks = challenge.scopes.iter().filter(|scope| !login.scopes.contains(scope));
                let lacks = lacks.map(String::as_str).collect::<Vec<_>>().join(" ");
                if lacks.is_empty() {
                    let scopes = challenge.scopes.join(" ");
                    let problem = format!(
                        "it asks for the scopes `{}`, which its login was made for; the authorization server has not granted \
                         them",
                        head(&scopes, 200)
                    );
                    return Err(self.error(problem));
                }
                Some(lacks)
            }
            _ => None,
        };
        if lacks.is_none() {
            if logged_in > first {
                let issuer = login.as_ref().map_or("", |login| head(&login.issuer, 200)).to_owned();
                return Err(self.error(format!("it refuses the token that `{issuer}` has just given for it")));
            }
            if let Some(login) = login.as_ref().filter(|login| login.refresh_token.is_some() && renewed <= first) {
                match self.renew(login).await {
                    Ok(()) => return Ok(()),
                    Err(NoTokens { is_final: true, .. }) => {}
                    Err(failed) => return Err(self.error(format!("its login cannot be renewed: {}", failed.problem))),
                }
            }
        }
        let is_allowed = self.says.when_needed || self.allowed.load(Ordering::SeqCst) > 0;
        if matches!(self.says.how, How::ClientCredentials) || (is_allowed && self.says.has_people()) {
            return self.made(challenge).await;
        }
        let why = match (&lacks, &login) {
            (Some(lacks), _) => format!("it asks for the scopes `{}`, which its login lacks", head(lacks, 200)),
            (None, Some(_)) => "its login is over".to_owned(),
            (None, None) => "there is none".to_owned(),
        };
        let address = format!("{}{}", self.url.origin().ascii_serialization(), self.url.path());
        Err(self.error(format!(
            "{why}; log in with `McpClient::login`, or with `agentwf mcp login --url {address}` where the program keeps logins \
             in the folder of the user"
        )))
    }

    /// Renews a login with its refresh token, or as a client with a secret.
    async fn renew(&self, login: &KeptLogin) -> Result<(), NoTokens> {
        let failed = |problem: String| NoTokens { problem, is_final: false };
        let Some(refresh) = &login.refresh_token else {
            return self.of_client(&Challenge::default()).await.map_err(failed);
        };
        let url = self.requests.address(&login.token_endpoint).map_err(failed)?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("resource", &login.resource)];
        let secret = self.secret_of(&login.client, &login.issuer);
        match tokens(&self.requests, &url, &login.client, secret.as_deref(), &fields).await {
            Ok(given) => {
                let refresh_token = given.refresh_token.clone().or_else(|| login.refresh_token.clone());
                let renewed = KeptLogin { refresh_token, ..with(login.clone(), given) };
                let version = self.keep(renewed).await;
                self.state().renewed = version;
                tracing::debug!(server = %self.server, "the login of an MCP server was renewed");
                Ok(())
            }
            Err(refused) if refused.is_final => {
                // Of two processes the one that was later is refused.
                if self.reload().await.is_ok_and(|is_another| is_another) {
                    return Ok(());
                }
                self.keep(KeptLogin { refresh_token: None, ..login.clone() }).await;
                Err(refused)
            }
            Err(refused) => Err(refused),
        }
    }

    /// Makes a login: of a person within their time, or of the program itself.
    async fn made(&self, challenge: &Challenge) -> Result<(), McpError> {
        let is_asking = Asking(&self.is_asking);
        self.is_asking.store(self.says.has_people(), Ordering::SeqCst);
        let limit = self.says.login_timeout;
        let work = async {
            match self.says.how {
                How::ClientCredentials => self.of_client(challenge).await,
                How::Loopback(_) | How::Browser { .. } => self.of_person(challenge).await,
                How::Stored => Err("the program has said of nobody that they may be asked".to_owned()),
            }
        };
        let made = tokio::select! {
            made = tokio::time::timeout(limit, work) => {
                made.unwrap_or_else(|_| Err(format!("nobody has logged in within {limit:?}")))
            }
            () = self.over.cancelled() => Err("the client was dropped while a person was asked".to_owned()),
        };
        drop(is_asking);
        made.map_err(|problem| {
            let error = self.error(problem);
            let mut state = self.state();
            state.failures += 1;
            state.failure = Some(error.clone());
            error
        })
    }

    async fn discovered(&self, challenge: &Challenge) -> Result<Discovered, String> {
        let prefers = self.says.client.as_ref().map(|client| &*client.issuer);
        discovered(&self.requests, &self.url, challenge, prefers).await
    }

    async fn of_person(&self, challenge: &Challenge) -> Result<(), String> {
        let found = self.discovered(challenge).await?;
        let server = &found.server;
        server.for_people()?;
        let earlier = self.login().filter(|login| login.issuer == server.issuer);
        let loopback = match self.says.how {
            How::Loopback(_) => {
                let known = earlier.as_ref().map(|login| &*login.client.redirect_uri);
                Some(LoopbackRedirect::bind(self.says.redirect_port, known).await?)
            }
            _ => None,
        };
        let redirect_uri = match (&loopback, &self.says.how) {
            (Some(loopback), _) => loopback.uri(),
            (None, How::Browser { redirect_uri, .. }) => redirect_uri,
            _ => "",
        };
        let known = earlier.as_ref().map(|login| &login.client);
        let client = ClientIdentity::of(&self.says, &self.requests, server, redirect_uri, known).await?;
        let scopes = self.scopes(challenge, &found, earlier.as_deref());
        let login = BrowserLogin::begin(server, &client.id, redirect_uri, &found.resource, &scopes)?;
        let back = match (&self.says.how, &loopback) {
            (How::Loopback(show), Some(loopback)) => {
                show(login.url.as_str());
                loopback.answer(&login.state).await?
            }
            (How::Browser { visit, .. }, _) => {
                let visited = visit(login.url.to_string()).await;
                visited.map_err(|error| format!("the program's own login failed: {}", head(&error.to_string(), 500)))?
            }
            _ => return Err("nobody can be asked".to_owned()),
        };
        let code = login.code(&back)?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", &login.verifier),
            ("resource", &found.resource),
        ];
        self.given(&found, client, scopes, &fields).await
    }

    async fn of_client(&self, challenge: &Challenge) -> Result<(), String> {
        let found = self.discovered(challenge).await?;
        let Some(client) = ClientIdentity::given(&self.says, &found.server)? else {
            let issuer = head(&found.server.issuer, 200);
            return Err(format!("its authorization server is `{issuer}`, and the program has no client there"));
        };
        let scopes = self.scopes(challenge, &found, None);
        let scopes: Vec<String> = scopes.into_iter().filter(|scope| scope != OFFLINE).collect();
        let asked = scopes.join(" ");
        let mut fields = vec![("grant_type", "client_credentials"), ("resource", &*found.resource)];
        if !asked.is_empty() {
            fields.push(("scope", &asked));
        }
        self.given(&found, client, scopes.clone(), &fields).await
    }

    /// Asks for tokens and keeps them.
    async fn given(
        &self,
        found: &Discovered,
        client: ClientIdentity,
        scopes: Vec<String>,
        fields: &[(&str, &str)],
    ) -> Result<(), String> {
        let server = &found.server;
        let secret = self.secret_of(&client, &server.issuer);
        let given = tokens(&self.requests, &server.token, &client, secret.as_deref(), fields).await;
        let given = given.map_err(|failed| failed.problem)?;
        let refresh_token = given.refresh_token.clone();
        let login = KeptLogin {
            version: KeptLogin::VERSION,
            server: self.url.to_string(),
            issuer: server.issuer.clone(),
            resource: found.resource.clone(),
            token_endpoint: server.token.to_string(),
            revocation_endpoint: server.revocation.as_ref().map(Url::to_string),
            client,
            scopes,
            access_token: String::new(),
            refresh_token: None,
            renew_at: None,
        };
        let version = self.keep(KeptLogin { refresh_token, ..with(login, given) }).await;
        self.state().logged_in = version;
        tracing::info!(server = %self.server, "logged in to an MCP server");
        Ok(())
    }

    /// The scopes to ask for: those of the program or of the challenge, those of the login before, and the one that gives
    /// refresh tokens where the authorization server has it.
    fn scopes(&self, challenge: &Challenge, found: &Discovered, earlier: Option<&KeptLogin>) -> Vec<String> {
        let first = match (self.says.scopes.is_empty(), challenge.scopes.is_empty()) {
            (false, _) => &self.says.scopes,
            (true, false) => &challenge.scopes,
            (true, true) => &found.scopes,
        };
        let offline = Some(OFFLINE.to_owned())
            .filter(|_| !first.is_empty() && found.server.scopes.iter().any(|of| of == OFFLINE));
        let mut scopes: Vec<String> = Vec::new();
        let earlier = earlier.iter().flat_map(|login| &login.scopes);
        for scope in earlier.chain(first).chain(&challenge.scopes).chain(&offline) {
            if is_scope(scope) && !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        scopes
    }

    /// The secret of a client: of one that was given the program's, for the authorization server that it is of.
    fn secret_of(&self, client: &ClientIdentity, issuer: &str) -> Option<String> {
        match client.origin {
            ClientOrigin::Given => {
                let given = self.says.client.as_ref().filter(|given| given.issuer == issuer && given.id == client.id);
                given.and_then(|given| given.secret.as_ref()).map(|secret| secret.expose().to_owned())
            }
            ClientOrigin::Document | ClientOrigin::Registered => client.secret.clone(),
        }
    }

    async fn removed(&self) -> Result<(), McpError> {
        self.load().await?;
        let login = {
            let mut state = self.state();
            state.version += 1;
            state.login.take()
        };
        let removed = self.says.logins.save(self.url.as_str(), None).await;
        let removed =
            removed.map_err(|error| self.error(format!("its login cannot be removed where it is kept: {error}")));
        if let Some(login) = login
            && let Some(url) = login.revocation_endpoint.as_ref().and_then(|url| self.requests.address(url).ok())
        {
            let secret = self.secret_of(&login.client, &login.issuer);
            let token = login.refresh_token.as_ref().unwrap_or(&login.access_token);
            revoke(&self.requests, &url, &login.client, secret.as_deref(), token).await;
        }
        removed
    }
}

/// The scope that gives refresh tokens.
const OFFLINE: &str = "offline_access";

/// A login with other tokens.
fn with(login: KeptLogin, given: Tokens) -> KeptLogin {
    let renew_at = given.lasts.map(|lasts| {
        let until = lasts.saturating_sub(EARLY.min(lasts / 4));
        SystemClock.now().as_millis().saturating_add(u64::try_from(until.as_millis()).unwrap_or(u64::MAX))
    });
    KeptLogin { access_token: given.access_token, renew_at, ..login }
}
