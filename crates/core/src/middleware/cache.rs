//! [`cache`]: answers repeated model requests from a cache. A [`CacheStore`] stores the answers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Flow, Middleware, ModelStep};
use crate::error::Result;
use crate::model::{ModelResponse, StopReason, Usage};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Note under which the request is passed from the hook before the call to the hook after the call.
const NOTE: &str = "cache";

/// Creates a cache that answers repeated model requests from memory; see [`Cache`].
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::middleware::cache;
/// use agentflow::prelude::*;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let model = ScriptedModel::new([Turn::text("Paris.")]);
/// let agent = Agent::new(model).with(cache().ttl(Duration::from_secs(3600)));
/// assert_eq!(agent.run("The capital of France?").await?.output(), "Paris.");
/// // The script has no second turn, so the answer comes from the cache.
/// assert_eq!(agent.run("The capital of France?").await?.output(), "Paris.");
/// # Ok(())
/// # }
/// ```
pub fn cache() -> Cache {
    Cache { store: Arc::new(MemoryCache::default()), ttl: None }
}

/// Answers repeated model requests; created by [`cache`].
///
/// Two requests are equal if the model, the conversation, the tools, the output type and the
/// settings are equal. Only complete answers are stored, not answers that stopped at a limit or
/// were withheld. An answer from the cache is recorded like any other, with `answered_by: "cache"`
/// and without tokens, and counts in no budget. If the store fails, a warning is logged and the
/// model is called. Each answer is stored with its whole request. A redactor does not apply to
/// them.
#[derive(Clone)]
pub struct Cache {
    store: Arc<dyn CacheStore>,
    ttl: Option<Duration>,
}

impl Cache {
    /// Sets how long an answer is valid, by the runtime's clock. Default: no limit.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the store for answers. Default: a [`MemoryCache`].
    #[must_use]
    pub fn store(mut self, store: impl CacheStore + 'static) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Returns a valid stored answer to exactly this request.
    async fn find(&self, key: &str, request: &str, now: Timestamp) -> Option<ModelResponse> {
        let text = match self.store.get(key).await {
            Ok(text) => text?,
            Err(problem) => {
                tracing::warn!(%problem, "the cache cannot be read");
                return None;
            }
        };
        let entry: CachedAnswer = serde_json::from_str(&text).ok()?;
        let fresh = entry.expires.is_none_or(|expires| now < expires);
        (fresh && entry.request == request).then_some(entry.response)
    }
}

/// Stores strings by key. Implement it to use a database of the program. The store may drop entries
/// at any time.
#[async_trait]
pub trait CacheStore: Send + Sync {
    /// Returns the text of a key.
    ///
    /// # Errors
    /// If it cannot be read.
    async fn get(&self, key: &str) -> Result<Option<String>, StoreError>;

    /// Stores a string, which replaces the previous text of the key. It may be dropped after
    /// `expires`.
    ///
    /// # Errors
    /// If it cannot be written.
    async fn put(
        &self,
        key: &str,
        text: String,
        expires: Option<Timestamp>,
    ) -> Result<(), StoreError>;
}

/// Stores a limited number of strings in memory, and drops the oldest first. Clones share their
/// entries.
///
/// ```
/// use agentflow::Runtime;
/// use agentflow::middleware::{MemoryCache, cache};
///
/// let answers = MemoryCache::new(10_000);
/// let runtime = Runtime::builder().with(cache().store(answers.clone())).build();
/// # drop(runtime);
/// ```
#[derive(Clone, Debug)]
pub struct MemoryCache {
    entries: Arc<Mutex<Entries>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Entries {
    texts: HashMap<String, (u64, String)>,
    order: std::collections::BTreeMap<u64, String>,
    next: u64,
}

impl MemoryCache {
    /// Creates a cache of at most `most` strings. The default is 1,000.
    pub fn new(most: usize) -> Self {
        Self { entries: Arc::default(), most: most.max(1) }
    }
}

impl Default for MemoryCache {
    fn default() -> Self {
        Self::new(1000)
    }
}

#[async_trait]
impl CacheStore for MemoryCache {
    async fn get(&self, key: &str) -> Result<Option<String>, StoreError> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(entries.texts.get(key).map(|(_, text)| text.clone()))
    }

    async fn put(&self, key: &str, text: String, _: Option<Timestamp>) -> Result<(), StoreError> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.next;
        entries.next += 1;
        if let Some((before, _)) = entries.texts.insert(key.to_owned(), (at, text)) {
            entries.order.remove(&before);
        }
        entries.order.insert(at, key.to_owned());
        if entries.order.len() > self.most
            && let Some((_, oldest)) = entries.order.pop_first()
        {
            entries.texts.remove(&oldest);
        }
        Ok(())
    }
}

/// A stored answer. The request is stored too, so that requests with the same hash are
/// distinguished.
#[derive(Serialize, Deserialize)]
struct CachedAnswer {
    request: String,
    expires: Option<Timestamp>,
    response: ModelResponse,
}

#[async_trait]
impl Middleware for Cache {
    fn name(&self) -> &str {
        "cache"
    }

    fn sees_tools(&self) -> bool {
        false
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        let Some(request) = canonical(step) else { return Ok(Flow::Continue) };
        let key = hash(&request);
        if let Some(response) = self.find(&key, &request, step.context().now()).await {
            // The cached answer costs nothing and must not count in budgets.
            return Ok(Flow::Return(ModelResponse { usage: Usage::default(), ..response }));
        }
        step.set_note(NOTE, request);
        Ok(Flow::Continue)
    }

    async fn after_model(&self, step: &mut ModelStep, response: &mut ModelResponse) -> Result<()> {
        let whole = matches!(response.stop_reason, StopReason::Stop | StopReason::ToolCalls);
        // An answer with `answered_by` came from middleware, not from a model.
        let Some(request) = step.note(NOTE).filter(|_| whole && response.answered_by.is_none())
        else {
            return Ok(());
        };
        let now = step.context().now().as_millis();
        let expires = self.ttl.map(|ttl| {
            let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
            Timestamp::from_millis(now.saturating_add(ttl))
        });
        let entry =
            CachedAnswer { request: request.to_owned(), expires, response: response.clone() };
        let Ok(text) = serde_json::to_string(&entry) else { return Ok(()) };
        if let Err(problem) = self.store.put(&hash(request), text, expires).await {
            tracing::warn!(%problem, "the cache cannot be written");
        }
        Ok(())
    }
}

/// Returns the canonical JSON of all data that the answer depends on.
fn canonical(step: &ModelStep) -> Option<String> {
    let request = &step.request;
    let tools: Vec<_> = request
        .tools
        .definitions()
        .iter()
        .map(|tool| json!([tool.name, tool.description, tool.parameters]))
        .collect();
    let output = request.output.as_ref().map(|output| format!("{output:?}"));
    let info = step.info();
    serde_json::to_string(&json!({
        "model": [info.provider, info.model],
        "messages": serde_json::to_value(&request.messages).ok()?,
        "tools": tools,
        "output": output,
        "settings": serde_json::to_value(&*request.settings).ok()?,
    }))
    .ok()
}

/// FNV-1a with 128 bits, in hexadecimal: equal on every machine and in every release. It need not
/// resist attacks, since the requests are compared too.
fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    format!("{hash:032x}")
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
