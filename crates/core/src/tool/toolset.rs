//! `Toolset`: tools that are known only after somebody was asked for them, such as those of a server. It fetches and
//! keeps them; it calls none and gives them to nobody.

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

/// The longest that the tools of a toolset are waited for.
const LONGEST_FETCH: Duration = Duration::from_secs(30);

/// The most tools of one toolset.
const MOST_TOOLS: usize = 1000;

/// Several tools that come from one place and may change while the program runs.
///
/// A program knows the tool `read` of the toolset `files` as `files.read`; a model calls it by its wire name,
/// `files__read`. Give a toolset to agents with [`Agent::tools`](crate::Agent::tools), or to a runtime with
/// [`RuntimeBuilder::toolset`](crate::runtime::RuntimeBuilder::toolset), which lists it and finds its tools by name.
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
///         // Usually a server is asked here.
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
    /// The name: parts of letters, digits, `_` and `-`, with dots between them. The same at every call.
    fn name(&self) -> &str;

    /// Prepares the place of the tools, such as a connection: called once, before the tools are asked for the first time, and
    /// again after it failed or after [`cleanup`](Self::cleanup). Dropping the future stops it. Default: nothing to prepare.
    ///
    /// # Errors
    /// An error of the place of the tools, with which the fetch of the tools fails.
    async fn initialize(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// Releases the resources of [`initialize`](Self::initialize). [`Runtime::drain`](crate::Runtime::drain) calls it for the
    /// toolsets of the runtime when no run is executed any more, [`ToolsetRef::cleanup`] for any other. Default: nothing to
    /// release.
    async fn cleanup(&self) {}

    /// All tools that there are now, by names of their own; one whose name is empty has the name of the toolset. Asked for when an agent or a catalogue first needs them,
    /// and again when [`version`](Self::version) is another one than before. Dropping the future stops the fetch.
    ///
    /// # Errors
    /// Whatever the place of the tools says. When an earlier fetch succeeded, its tools stay; else the agent's run
    /// fails with [`Error::Toolset`].
    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn StdError + Send + Sync>>;

    /// Checks that the place of the tools can be reached now, for [`Runtime::health`](crate::Runtime::health). Default: it can.
    ///
    /// # Errors
    /// Whatever the place of the tools says.
    async fn check(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    /// A number that becomes another one when the tools have changed. It is looked at before each model call, so it
    /// must be cheap. Default: always 0, tools that never change.
    fn version(&self) -> u64 {
        0
    }
}

/// A toolset by reference, with the tools that were fetched last. Cloning is one reference count, and all clones share
/// what was fetched.
#[derive(Clone)]
pub struct ToolsetRef(Arc<Kept>);

struct Kept {
    toolset: Box<dyn Toolset>,
    name: Arc<str>,
    /// The fetch in progress: whoever waits for it polls it, so that nobody waits for one who no longer does.
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
    /// A toolset whose tools are fetched when they are first needed.
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

    /// The toolset's name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The tools as a model may have them, ordered by name; fetched unless that was done and they have not changed.
    /// Concurrent callers wait for one fetch, 30 seconds at most.
    ///
    /// # Errors
    /// [`Error::Toolset`] when they cannot be fetched, [`Error::Registry`] when they contradict each other.
    pub async fn tools(&self) -> Result<Arc<[ToolRef]>> {
        let Kept { toolset, name, .. } = &*self.0;
        loop {
            let fetched = self.fetched();
            if let Some(fetched) = fetched.as_ref().filter(|fetched| fetched.version == toolset.version()) {
                return Ok(Arc::clone(&fetched.tools));
            }
            let (fetch, is_own) = self.fetch_in_progress();
            match (fetch.await, fetched) {
                (Ok(tools), _) if is_own => return Ok(tools),
                // Of another version, perhaps.
                (Ok(_), _) => {}
                // Who waited for a fetch that failed does not wait for one of its own.
                (Err(error), Some(before)) => {
                    tracing::warn!(toolset = %name, %error, "the tools before the change stay in use");
                    return Ok(before.tools);
                }
                (Err(error), None) => return Err(error),
            }
        }
    }

    /// The fetch in progress, or one that begins; whether it is that.
    fn fetch_in_progress(&self) -> (Shared<Fetch>, bool) {
        let mut current = self.0.fetch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fetch) = current.as_ref().and_then(WeakShared::upgrade) {
            return (fetch, false);
        }
        let this = self.clone();
        let fetch: Fetch = Box::pin(async move {
            // Asked before the tools: a change during the fetch is seen next time.
            let version = this.0.toolset.version();
            let fetched = AssertUnwindSafe(this.fetch()).catch_unwind().await;
            let fetched = fetched.unwrap_or_else(|panic| {
                Err(this.failed(format!("asking for its tools panicked: {}", panic_text(&*panic))))
            });
            this.0.has_failed.store(fetched.is_err(), Ordering::SeqCst);
            // Whoever comes now begins another one.
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

    /// Checks that the place of the tools can be reached now; within 30 seconds.
    ///
    /// # Errors
    /// [`Error::Toolset`] when it cannot.
    pub(crate) async fn check(&self) -> Result<()> {
        let checked = AssertUnwindSafe(self.0.toolset.check()).catch_unwind();
        match tokio::time::timeout(LONGEST_FETCH, checked).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(self.failed(error.to_string())),
            Ok(Err(panic)) => Err(self.failed(format!("the check of it panicked: {}", panic_text(&*panic)))),
            Err(_) => Err(self.failed(format!("nothing came within {LONGEST_FETCH:?}"))),
        }
    }

    /// Calls [`Toolset::cleanup`], if the toolset was used, and forgets its tools: the next use prepares and fetches them again. It takes 30 seconds at most. A call that is running is not waited for.
    pub async fn cleanup(&self) {
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

    /// The tools that were fetched last, without asking for them.
    #[cfg(feature = "dynamic")]
    pub(crate) fn last_fetched(&self) -> Option<Arc<[ToolRef]>> {
        self.fetched().map(|fetched| fetched.tools)
    }

    /// Returns true if its tools are not known, since the last fetch failed.
    #[cfg(feature = "dynamic")]
    pub(crate) fn is_unavailable(&self) -> bool {
        self.fetched().is_none() && self.0.has_failed.load(Ordering::SeqCst)
    }

    /// Whether a name is one that a tool of it could have.
    #[cfg(feature = "dynamic")]
    pub(crate) fn could_have(&self, tool: &str) -> bool {
        tool.strip_prefix(&*self.0.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns a toolset that has only the tool of this whole name.
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
                "its name must be of letters, digits, `_` and `-`, with dots between its parts".to_owned(),
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
            return Err(failed(format!("it has {} tools, and {MOST_TOOLS} is the most", tools.len())));
        }
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
    /// The whole name of the tool.
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
            // A tool without its own name has the name of its toolset.
            return Ok(vec![tool.renamed("")]);
        }
        let names: Vec<Arc<str>> = tools.iter().map(name).collect();
        let near = did_you_mean(nearest(&self.name, names.iter().map(|name| &**name)));
        Err(format!("the toolset `{}` has no tool of this name{near}", self.toolset.name()).into())
    }
}

fn is_part(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
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
