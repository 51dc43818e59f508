//! `IdempotencyKey`: the header `Idempotency-Key`, with which a client may repeat the start of a run
//! after a lost response.
//!
//! The id of the run is computed from the caller and the key. The store refuses a second run with
//! the same id, so no other place remembers the keys, and all servers of a store agree.

use std::time::Duration;

use agentflow_core::error::Error;
use agentflow_core::runtime::CallerRuntime;
use agentflow_core::store::StoreErrorKind;
use agentflow_core::{Caller, RunId};
use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::api_error::{ApiError, ApiResult};
use crate::server_options::ServerState;

/// Maximum length of a key in bytes.
const MAX_KEY: usize = 255;
/// Tag of a run that holds the digest of the request.
const DIGEST_TAG: &str = "request_sha256";
/// Maximum time for which a repeated request waits for the start of the run of the first one.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Interval at which it looks for the run.
const POLL: Duration = Duration::from_millis(10);

/// The value of the header, if the request has it.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(Option<String>);

impl FromRequestParts<ServerState> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &ServerState,
    ) -> Result<Self, Self::Rejection> {
        let Some(value) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        match value.to_str() {
            Ok(key) if !key.is_empty() && key.len() <= MAX_KEY => Ok(Self(Some(key.to_owned()))),
            _ => Err(ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_idempotency_key",
                format!("`Idempotency-Key` must have 1 to {MAX_KEY} visible ASCII characters"),
            )),
        }
    }
}

impl IdempotencyKey {
    /// Creates the identity of a request with this key; `None` without a key.
    pub(crate) fn request(&self, caller: &Caller, name: &str, body: &str) -> Option<KeyedRequest> {
        let key = self.0.as_ref()?;
        // The lengths separate the parts, so that two different pairs never have the same text.
        let owner = format!("{}:{}{}", caller.name().len(), caller.name(), key);
        let request = format!("{}:{}{}", name.len(), name, body);
        Some(KeyedRequest {
            run: RunId::new(format!("key-{}", &hex(owner.as_bytes())[..32])),
            digest: hex(request.as_bytes()),
        })
    }
}

/// The identity of a request with an idempotency key.
#[derive(Debug)]
pub(crate) struct KeyedRequest {
    /// Id of the run that the request starts.
    pub(crate) run: RunId,
    digest: String,
}

impl KeyedRequest {
    /// Returns the tag that the run gets, to recognize a repeated request.
    pub(crate) fn tag(&self) -> (&'static str, &str) {
        (DIGEST_TAG, &self.digest)
    }

    /// Checks that the existing run was started by the same request.
    ///
    /// # Errors
    /// 422 if another request had this key, and 409 if the first request has not started its run
    /// yet, as the draft of the header asks for
    /// (draft-ietf-httpapi-idempotency-key-header-07, section 2.7).
    pub(crate) async fn check_repeated(&self, runtime: &CallerRuntime) -> ApiResult<()> {
        let find = async {
            // The id is taken before the run is in the store.
            loop {
                match runtime.run(&self.run).record().await {
                    Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => {
                        tokio::time::sleep(POLL).await;
                    }
                    found => return found,
                }
            }
        };
        let Ok(found) = tokio::time::timeout(MAX_WAIT, find).await else {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "request_in_progress",
                "the first request with this `Idempotency-Key` is still in progress; repeat the request later",
            ));
        };
        let record = found?;
        match record.tags.get(DIGEST_TAG) == Some(&self.digest) {
            true => Ok(()),
            false => Err(ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "another request had this `Idempotency-Key`; use a new key for a new request",
            )),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digest = hmac_sha256::Hash::hash(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
