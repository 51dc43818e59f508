//! Makes a login, by a person or by the program itself. Until the authorization code has arrived,
//! the login can be cancelled. Afterwards it runs to its end within the limits of a request,
//! because tokens that were issued and lost are not issued again.

use std::sync::atomic::Ordering;

use agentflow_schema::text::head;
use reqwest::Url;

use super::authorizer::{Asking, Shared, with};
use super::browser_login::BrowserLogin;
use super::challenge::{Challenge, is_scope};
use super::client_identity::{ClientIdentity, Earlier};
use super::discovery::{LoginTarget, discovered};
use super::kept_login::StoredLogin;
use super::loopback_redirect::LoopbackRedirect;
use super::mcp_authorization::How;
use super::token_endpoint::tokens;
use crate::mcp::mcp_error::McpError;

/// Scope that requests a refresh token.
const OFFLINE: &str = "offline_access";

/// A token request, ready to be sent.
struct Grant {
    found: LoginTarget,
    client: ClientIdentity,
    scopes: Vec<String>,
    fields: Vec<(&'static str, String)>,
}

impl Shared {
    /// Makes a login in the configured way, and records a failure for callers that wait for the
    /// same login.
    pub(super) async fn made(&self, challenge: &Challenge) -> Result<(), McpError> {
        let made = match self.says.how {
            How::ClientCredentials => self.of_client(challenge).await,
            How::Loopback(_) | How::Browser { .. } => self.log_in_person(challenge).await,
            How::Stored => Err("the program has said of nobody that they may be asked".to_owned()),
        };
        made.map_err(|problem| {
            let error = self.error(problem);
            // Waiting callers fail with this error, instead of asking the person again.
            let mut state = self.state();
            state.failures += 1;
            state.failure = Some(error.clone());
            error
        })
    }

    /// Runs the cancellable part of a login. It ends early when its time is over, the client is
    /// dropped or closed, or the login is removed.
    async fn within<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let limit = self.says.login_timeout;
        let mut closing = self.closing.subscribe();
        let closed = async {
            let _ = closing.wait_for(|closing| *closing > 0).await;
        };
        tokio::select! {
            biased;
            done = tokio::time::timeout(limit, work) => {
                done.unwrap_or_else(|_| Err(format!("nobody has logged in within {limit:?}")))
            }
            () = self.over.cancelled() => Err("the client was dropped while a person was asked".to_owned()),
            () = closed => Err("the login was given up, since the client was closed or logged out".to_owned()),
        }
    }

    async fn log_in_person(&self, challenge: &Challenge) -> Result<(), String> {
        let is_asking = Asking(&self.is_asking);
        self.is_asking.store(true, Ordering::SeqCst);
        let agreed = self.within(self.agreed(challenge)).await;
        drop(is_asking);
        let agreed = agreed?;
        // Another process may be renewing the old login at this moment. Its result must not replace
        // this one.
        let _locked = self.locked().await;
        self.given(agreed).await
    }

    /// Logs in as a client with a secret.
    pub(super) async fn of_client(&self, challenge: &Challenge) -> Result<(), String> {
        let grant = self.within(self.client_grant(challenge)).await?;
        self.given(grant).await
    }

    async fn discovered(&self, challenge: &Challenge) -> Result<LoginTarget, String> {
        let only = self.says.client.as_ref().map(|client| &*client.issuer);
        discovered(&self.requests, &self.url, challenge, only).await
    }

    /// Lets a person log in, and returns the token request with the authorization code.
    async fn agreed(&self, challenge: &Challenge) -> Result<Grant, String> {
        let found = self.discovered(challenge).await?;
        let server = &found.server;
        // Fails early, before a socket is opened or a client is registered.
        server.for_people()?;
        let earlier = self.login().filter(|login| login.issuer == server.issuer);
        // A registered client is bound to its redirect address, so the previous port is preferred.
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
        let forgotten = self.state().forgotten.clone();
        let known = Earlier {
            client: earlier.as_ref().map(|login| &login.client),
            forgotten: forgotten.as_deref(),
        };
        let client =
            ClientIdentity::for_login(&self.says, &self.requests, server, redirect_uri, known)
                .await?;
        let scopes = self.scopes(challenge, &found, earlier.as_deref());
        let login =
            BrowserLogin::begin(server, &client.id, redirect_uri, &found.resource, &scopes)?;
        let back = match (&self.says.how, &loopback) {
            (How::Loopback(show), Some(loopback)) => {
                show(login.url.as_str());
                loopback.answer(&login.state).await?
            }
            (How::Browser { visit, .. }, _) => {
                let visited = visit(login.url.to_string()).await;
                visited.map_err(|error| {
                    format!("the program's own login failed: {}", head(&error.to_string(), 500))
                })?
            }
            _ => return Err("nobody can be asked".to_owned()),
        };
        let fields = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", login.code(&back)?),
            ("redirect_uri", redirect_uri.to_owned()),
            ("code_verifier", login.verifier),
            ("resource", found.resource.clone()),
        ];
        Ok(Grant { found, client, scopes, fields })
    }

    async fn client_grant(&self, challenge: &Challenge) -> Result<Grant, String> {
        let found = self.discovered(challenge).await?;
        let Some(client) = ClientIdentity::given(&self.says, &found.server)? else {
            return Err("the program has no client".to_owned());
        };
        let scopes = match self.says.scopes.is_empty() {
            true => self.scopes(challenge, &found, None),
            // No person confirms the scopes, so the server must not get more than the program has
            // configured.
            false => self.says.scopes.clone(),
        };
        // Client credentials are used again when the token expires, without a refresh token.
        let scopes: Vec<String> = scopes.into_iter().filter(|scope| scope != OFFLINE).collect();
        let mut fields = vec![
            ("grant_type", "client_credentials".to_owned()),
            ("resource", found.resource.clone()),
        ];
        if !scopes.is_empty() {
            fields.push(("scope", scopes.join(" ")));
        }
        Ok(Grant { found, client, scopes, fields })
    }

    /// Requests the tokens and stores the login. This part is not cancelled.
    async fn given(&self, grant: Grant) -> Result<(), String> {
        let Grant { found, client, scopes, fields } = grant;
        let server = &found.server;
        let secret = self.secret_of(&client, &server.issuer);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let given =
            tokens(&self.requests, &server.token, &client, secret.as_deref(), &fields).await;
        let given = given.map_err(|refused| {
            self.note_forgotten(&client, &refused);
            refused.problem
        })?;
        let refresh_token = given.refresh_token.clone();
        let login = StoredLogin {
            version: StoredLogin::VERSION,
            server: self.url.to_string(),
            is_of_client: matches!(self.says.how, How::ClientCredentials),
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
        let version = self.keep(StoredLogin { refresh_token, ..with(login, given) }).await;
        self.state().logged_in = version;
        tracing::info!(server = %self.server, "logged in to an MCP server");
        Ok(())
    }

    /// Returns the scopes to request: the scopes of the previous login, the configured scopes or
    /// else the ones of the challenge or the metadata, and the scopes of the challenge.
    /// `offline_access` is added if other scopes are requested and the authorization server
    /// supports it.
    fn scopes(
        &self,
        challenge: &Challenge,
        found: &LoginTarget,
        earlier: Option<&StoredLogin>,
    ) -> Vec<String> {
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
}
