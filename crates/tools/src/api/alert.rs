//! `Alert`: the tool `alert`, which sends a message to a webhook that the program configures. The
//! model provides only the text of the message.

use std::fmt;
use std::sync::Arc;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use super::api_access::{ApiAccess, Keys};
use super::api_description::ApiAuth;
use super::api_exchange::ApiRequest;
use agentflow_core::tool::{Effects, FnTool, ToolError, ToolPolicy};

/// Default maximum size of a message in bytes.
const DEFAULT_MAX_BYTES: usize = 4 << 10;
/// Header that carries the idempotency key of the step.
const KEY: &str = "idempotency-key";

/// Builder of the tool `alert`, which sends a message to people through a webhook.
///
/// The arguments are `{"message": ".."}`. The tool posts `{"message": ".."}` as JSON and answers
/// `{"sent": true}`. The service's answer is not shown.
///
/// - **Address**: It is configured by name, like a key, because everyone who knows a webhook's
///   address can post to it. No description, event or error contains it. By default it is read from
///   an environment variable; see [`ApiAccess`].
/// - **Connection**: The address guard of [`ApiAccess`] applies. Redirects are errors. TLS is
///   required, except for addresses that the guard had to allow.
/// - **Effects**: `write`. Each call has the header `idempotency-key`, whose value is the same for
///   all attempts of a step. If the service uses it to send only one message, declare that with
///   [`ToolPolicy::idempotent`]: a call that a crash interrupted is then repeated.
/// - **Size**: A message has at most 4 KiB; see [`max_bytes`](Self::max_bytes).
///
/// ```
/// use agentflow::model::Secret;
/// use agentflow::{Runtime, tools};
///
/// let access = tools::ApiAccess::new().secret("ALERTS", Secret::new("https://hooks.example.org/T0/B1"));
/// let alert = tools::Alert::new("ALERTS").access(access).field("text");
/// let runtime = Runtime::builder().tools(alert.tool()).build();
/// ```
#[derive(Clone)]
#[doc(alias = "AlertTool")]
pub struct Alert {
    address: String,
    field: String,
    auth: Option<ApiAuth>,
    max_bytes: usize,
    access: ApiAccess,
}

impl Alert {
    /// Creates an alert that posts to the address with this name, such as the environment variable
    /// `ALERTS`.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            field: "message".to_owned(),
            auth: None,
            max_bytes: DEFAULT_MAX_BYTES,
            access: ApiAccess::new(),
        }
    }

    /// Sets the JSON field of the message, such as `text`. Default: `message`.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>) -> Self {
        self.field = name.into();
        self
    }

    /// Sets the credentials for services that need more than the address.
    #[must_use]
    pub fn auth(mut self, auth: ApiAuth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Sets the maximum size of a message in bytes. Default: 4 KiB.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the allowed addresses and the source of keys and addresses.
    #[must_use]
    pub fn access(mut self, access: ApiAccess) -> Self {
        self.access = access;
        self
    }

    /// Creates the tool.
    pub fn tool(&self) -> FnTool {
        let about = "Sends a message to the people who watch over this program. Use it for what they have to know now.";
        let alert = Arc::new(self.clone());
        let tool = FnTool::new("alert", about, move |cx, asked: AlertArguments| {
            let alert = Arc::clone(&alert);
            async move { alert.access.within_time(alert.sent(asked, &cx.idempotency_key())).await }
        });
        tool.policy(ToolPolicy::default().effects(Effects::Write))
            .unusable(self.access.targets.problem())
    }

    async fn sent(&self, asked: AlertArguments, step_key: &str) -> Result<AlertResult, ToolError> {
        let size = asked.message.len();
        if size > self.max_bytes {
            let most = self.max_bytes;
            let problem = format!(
                "a message has at most {most} bytes, and this one has {size}; say it in fewer words"
            );
            return Err(ToolError::invalid_arguments(problem));
        }
        if asked.message.trim().is_empty() {
            return Err(ToolError::invalid_arguments(
                "the message is empty; say what people have to know",
            ));
        }
        let deadline = Instant::now() + self.access.timeout;
        let address = self.access.key(&self.address).await?;
        let mut keys = self.access.keys(self.auth.as_ref()).await?;
        keys.hide(address.expose());
        // A service may send back parts of the address, so each part is masked too.
        if let Ok(url) = address.expose().parse::<Url>() {
            [Some(url.path()), url.query()].into_iter().flatten().for_each(|part| keys.hide(part));
            keys.hide(&crate::http::http_target::host_of(&url));
            url.path().split('/').for_each(|part| keys.hide(part));
            url.query_pairs().for_each(|(_, value)| keys.hide(&value));
        }
        let made = self.posted(&asked.message, address.expose(), step_key, &keys, deadline).await;
        made.map_err(|error| keys.without_key(&error))
    }

    async fn posted(
        &self,
        message: &str,
        address: &str,
        step_key: &str,
        keys: &Keys,
        deadline: Instant,
    ) -> Result<AlertResult, ToolError> {
        // The original error would contain the address, which is a secret.
        let url = self.access.targets.url(address, None).map_err(|_| {
            ToolError::new("the address of `alert` is not one that is called; do without it")
                .remedy("give `alert` an address that its access allows")
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let named = HeaderName::from_static(KEY);
        headers.insert(
            named,
            HeaderValue::from_str(step_key).map_err(|error| ToolError::new(error.to_string()))?,
        );
        let body = json!({&self.field: message}).to_string();
        let request = ApiRequest {
            method: Method::POST,
            url,
            headers,
            body: Some(body),
            repeatable: false,
            ignores_body: true,
        };
        self.access.exchange(&request, keys, self.access.max_bytes, deadline).await?;
        Ok(AlertResult { sent: true })
    }
}

#[derive(Deserialize, JsonSchema)]
struct AlertArguments {
    /// What people have to know, in a few sentences.
    message: String,
}

#[derive(Serialize, JsonSchema)]
struct AlertResult {
    sent: bool,
}

/// Does not print the address.
impl fmt::Debug for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address: _, field, auth, max_bytes, access } = self;
        f.debug_struct("Alert")
            .field("field", field)
            .field("auth", auth)
            .field("max_bytes", max_bytes)
            .field("access", access)
            .finish_non_exhaustive()
    }
}
