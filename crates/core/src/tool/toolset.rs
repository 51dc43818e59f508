//! Toolsets: groups of tools that are known only at run time, such as the tools of a server.
//! Fetches the tools and caches them. Does not call them.

use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use agentflow_schema::text::panic_text;
#[cfg(feature = "documents")]
use agentflow_schema::text::{did_you_mean, nearest};
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};

use super::{Registry, ToolRef};
use crate::error::{Error, Result};
use crate::future::BoxFuture;

/// Time limit for fetching, checking or releasing a toolset.
const LONGEST_FETCH: Duration = Duration::from_secs(30);

/// Maximum number of tools in a toolset.
const MOST_TOOLS: usize = 1000;

/// A group of tools that come from one source and may change while the program runs.
///
/// A program knows the tool `read` of the toolset `files` as `files.read`; a model calls it by its
/// wire name, `files__read`. Pass a toolset to an agent with [`Agent::tools`](crate::Agent::tools),
/// or to a runtime with [`RuntimeBuilder::toolset`](crate::runtime::RuntimeBuilder::toolset), which
/// lists the toolset and finds its tools by name.
///
/// ```
/// use agentflow::async_trait;
/// use agentflow::prelude::*;
/// use agentflow::tool::{ToolRef, Toolset, ToolsetRef};
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// /// The text of a page.
/// #[tool(effects = "read")]
/// fn read(page: String) -> String {
///     format!("this is {page}")
/// }
///
/// struct Wiki;
///
/// #[async_trait]
/// impl Toolset for Wiki {
///     fn name(&self) -> &str {
///         "wiki"
///     }
///
///     async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
///         // A real toolset requests the list from a server here.
///         Ok(tools![read])
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let model = ScriptedModel::new([
///     Turn::call("wiki__read", serde_json::json!({"page": "Home"})),
///     Turn::text("It is the home page."),
/// ]);
/// let agent = Agent::new(model).tools(ToolsetRef::new(Wiki));
/// assert_eq!(agent.run("What is on Home?").await?.output(), "It is the home page.");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Toolset: Send + Sync {
    /// Returns the name: parts of letters, digits, `_` and `-`, separated by dots. The name must
    /// not change.
    fn name(&self) -> &str;

    /// Prepares the source of the tools, for example a connection. Default: does nothing.
    ///
    /// Called once before the first fetch of the tools, and again after it failed or after
    /// [`cleanup`](Self::cleanup).
    ///
    /// # Errors
    /// An error of the source. The fetch of the tools fails with it.
    ///
    /// # Cancel safety
    /// Dropping the future stops the preparation.
    async fn initialize(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// Releases the resources of [`initialize`](Self::initialize). Default: does nothing.
    ///
    /// [`Runtime::drain`](crate::Runtime::drain) calls this for the toolsets of the runtime after
    /// all runs have stopped. For other toolsets, call [`ToolsetRef::cleanup`].
    async fn cleanup(&self) {}

    /// Returns all tools that exist now, under names without the toolset's name. A tool with an
    /// empty name gets the name of the toolset.
    ///
    /// Called when an agent or a catalogue first needs the tools, and again after
    /// [`version`](Self::version) has changed.
    ///
    /// # Errors
    /// An error of the source. If an earlier fetch succeeded, its tools stay in use; otherwise the
    /// agent's run fails with [`Error::Toolset`].
    ///
    /// # Cancel safety
    /// Dropping the future stops the fetch.
    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn StdError + Send + Sync>>;

    /// Checks that the source of the tools is reachable, for
    /// [`Runtime::health`](crate::Runtime::health). Default: `Ok(())`.
    ///
    /// # Errors
    /// An error of the source.
    async fn check(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// Returns a number that changes when the tools have changed. It is read before each model
    /// call, so it must be cheap. Default: always 0, for tools that never change.
    fn version(&self) -> u64 {
        0
    }
}

/// A shared reference to a toolset and its cached tools. Cloning costs one reference count; all
/// clones share the cache.
#[derive(Clone)]
pub struct ToolsetRef(Arc<Kept>);

struct Kept {
    toolset: Box<dyn Toolset>,
    name: Arc<str>,
    /// The fetch in progress. All its waiters poll it, so it continues when some of them are
    /// dropped.
    fetch: Mutex<Option<WeakShared<Fetch>>>,
    fetched: RwLock<Option<Fetched>>,
    /// `true` if the last fetch failed.
    has_failed: AtomicBool,
    /// `true` once the toolset is prepared.
    is_ready: AtomicBool,
}

type Fetch = BoxFuture<'static, Result<Arc<[ToolRef]>>>;

#[derive(Clone)]
struct Fetched {
    version: u64,
    tools: Arc<[ToolRef]>,
}

impl ToolsetRef {
    /// Creates a reference to a toolset. Its tools are fetched on first use.
    pub fn new(toolset: impl Toolset + 'static) -> Self {
        let name = toolset.name().into();
        Self(Arc::new(Kept {
            toolset: Box::new(toolset),
            name,
            fetch: Mutex::default(),
            fetched: RwLock::default(),
            has_failed: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
        }))
    }

    /// Returns the toolset's name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns the tools under the names that models use, ordered by name. Fetches them if they
    /// were not fetched yet or have changed. Concurrent callers share one fetch, which takes at
    /// most 30 seconds.
    ///
    /// # Errors
    /// [`Error::Toolset`] if the fetch fails, [`Error::Registry`] if names or schemas of the tools
    /// are invalid or conflict.
    ///
    /// # Cancel safety
    /// Dropping the future ends the fetch, unless another caller waits for it.
    pub async fn tools(&self) -> Result<Arc<[ToolRef]>> {
        let Kept { toolset, name, .. } = &*self.0;
        loop {
            let fetched = self.fetched();
            if let Some(fetched) =
                fetched.as_ref().filter(|fetched| fetched.version == toolset.version())
            {
                return Ok(Arc::clone(&fetched.tools));
            }
            // Compare `is_own`: only the fetch that was started after the version was read is known
            // to be current.
            let (fetch, is_own) = self.fetch_in_progress();
            match (fetch.await, fetched) {
                (Ok(tools), _) if is_own => return Ok(tools),
                // Another caller's fetch may have read an older version, so check again.
                (Ok(_), _) => {}
                // A caller that waited for a failed fetch does not wait for another one.
                (Err(error), Some(before)) => {
                    tracing::warn!(toolset = %name, %error, "the tools before the change stay in use");
                    return Ok(before.tools);
                }
                (Err(error), None) => return Err(error),
            }
        }
    }

    /// Returns the fetch in progress, or starts one. The flag is `true` if it was started here.
    fn fetch_in_progress(&self) -> (Shared<Fetch>, bool) {
        let mut current = self.0.fetch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fetch) = current.as_ref().and_then(WeakShared::upgrade) {
            return (fetch, false);
        }
        let this = self.clone();
        let fetch: Fetch = Box::pin(async move {
            // Read the version before the tools, so that a change during the fetch is noticed next
            // time.
            let version = this.0.toolset.version();
            // A panic must not poison the shared future, because other callers wait for it.
            let fetched = AssertUnwindSafe(this.fetch()).catch_unwind().await;
            let fetched = fetched.unwrap_or_else(|panic| {
                Err(this.failed(format!("asking for its tools panicked: {}", panic_text(&*panic))))
            });
            this.0.has_failed.store(fetched.is_err(), Ordering::SeqCst);
            // From now on, callers start a new fetch.
            *this.0.fetch.lock().unwrap_or_else(PoisonError::into_inner) = None;
            if let Ok(tools) = &fetched {
                let fetched = Fetched { version, tools: Arc::clone(tools) };
                *this.0.fetched.write().unwrap_or_else(PoisonError::into_inner) = Some(fetched);
            }
            fetched
        });
        let fetch = fetch.shared();
        *current = fetch.downgrade();
        (fetch, true)
    }

    /// Checks within 30 seconds that the source of the tools is reachable.
    ///
    /// # Errors
    /// [`Error::Toolset`] if it is not.
    pub(crate) async fn check(&self) -> Result<()> {
        let checked = AssertUnwindSafe(self.0.toolset.check()).catch_unwind();
        match tokio::time::timeout(LONGEST_FETCH, checked).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(self.failed(error.to_string())),
            Ok(Err(panic)) => {
                Err(self.failed(format!("the check of it panicked: {}", panic_text(&*panic))))
            }
            Err(_) => Err(self.failed(format!("nothing came within {LONGEST_FETCH:?}"))),
        }
    }

    /// Calls [`Toolset::cleanup`] if the toolset was used, and clears its cached tools. The next
    /// use prepares and fetches them again.
    ///
    /// Takes at most 30 seconds. Does not wait for running calls to the tools.
    ///
    /// # Cancel safety
    /// Dropping the future ends the release. It is not repeated before the toolset is used again.
    pub async fn cleanup(&self) {
        // Only the caller that resets the flag releases the toolset.
        if !self.0.is_ready.swap(false, Ordering::SeqCst) {
            return;
        }
        *self.0.fetched.write().unwrap_or_else(PoisonError::into_inner) = None;
        let released = AssertUnwindSafe(self.0.toolset.cleanup()).catch_unwind();
        match tokio::time::timeout(LONGEST_FETCH, released).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => {
                tracing::warn!(toolset = %self.0.name, panic = %panic_text(&*panic), "releasing a toolset panicked");
            }
            Err(_) => tracing::warn!(toolset = %self.0.name, "releasing a toolset took too long"),
        }
    }

    fn fetched(&self) -> Option<Fetched> {
        self.0.fetched.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the cached tools without a fetch.
    #[cfg(feature = "dynamic")]
    pub(crate) fn last_fetched(&self) -> Option<Arc<[ToolRef]>> {
        self.fetched().map(|fetched| fetched.tools)
    }

    /// Returns `true` if no tools are cached because the last fetch failed.
    #[cfg(feature = "dynamic")]
    pub(crate) fn is_unavailable(&self) -> bool {
        self.fetched().is_none() && self.0.has_failed.load(Ordering::SeqCst)
    }

    /// Returns `true` if a tool of this toolset could have this name.
    #[cfg(feature = "dynamic")]
    pub(crate) fn could_have(&self, tool: &str) -> bool {
        tool.strip_prefix(&*self.0.name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns a toolset that contains only the tool with this full name.
    #[cfg(feature = "documents")]
    pub(crate) fn only_tool(&self, name: &str) -> Self {
        Self::new(OneTool { toolset: self.clone(), name: name.to_owned() })
    }

    fn failed(&self, problem: String) -> Error {
        Error::Toolset { toolset: Arc::clone(&self.0.name), problem }
    }

    async fn fetch(&self) -> Result<Arc<[ToolRef]>> {
        let Kept { toolset, name, .. } = &*self.0;
        let failed = |problem: String| self.failed(problem);
        if name.is_empty() || !name.split('.').all(is_part) {
            return Err(failed(
                "its name must be of letters, digits, `_` and `-`, with dots between its parts"
                    .to_owned(),
            ));
        }
        let prepared = async {
            if !self.0.is_ready.load(Ordering::SeqCst) {
                toolset.initialize().await?;
                self.0.is_ready.store(true, Ordering::SeqCst);
            }
            toolset.tools().await
        };
        let tools = tokio::time::timeout(LONGEST_FETCH, prepared)
            .await
            .map_err(|_| failed(format!("nothing came within {LONGEST_FETCH:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        if tools.len() > MOST_TOOLS {
            return Err(failed(format!(
                "it has {} tools, and {MOST_TOOLS} is the most",
                tools.len()
            )));
        }
        // A registry detects duplicate and invalid names, and sorts the tools.
        let mut registry = Registry::new();
        for tool in tools {
            let whole = match &**tool.catalogue_name() {
                "" => name.to_string(),
                own => format!("{name}.{own}"),
            };
            registry.register(tool.renamed(whole))?;
        }
        Ok(registry.tools().cloned().collect())
    }
}

/// A single tool of a toolset.
#[cfg(feature = "documents")]
struct OneTool {
    toolset: ToolsetRef,
    /// The full name of the tool.
    name: String,
}

#[cfg(feature = "documents")]
#[async_trait]
impl Toolset for OneTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.toolset.0.toolset.version()
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn StdError + Send + Sync>> {
        let tools = self.toolset.tools().await?;
        let name = |tool: &ToolRef| Arc::clone(tool.catalogue_name());
        if let Some(tool) = tools.iter().find(|tool| *name(tool) == *self.name) {
            // An empty name makes the tool take the name of this toolset, which is its full name
            // already.
            return Ok(vec![tool.renamed("")]);
        }
        let names: Vec<Arc<str>> = tools.iter().map(name).collect();
        let near = did_you_mean(nearest(&self.name, names.iter().map(|name| &**name)));
        Err(format!("the toolset `{}` has no tool of this name{near}", self.toolset.name()).into())
    }
}

fn is_part(part: &str) -> bool {
    !part.is_empty()
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

impl<T: Toolset + 'static> From<T> for ToolsetRef {
    fn from(toolset: T) -> Self {
        Self::new(toolset)
    }
}

impl fmt::Debug for ToolsetRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolsetRef").field(&self.0.name).finish()
    }
}
