//! `Runs`: lists the runs in the store, sums up their usage, lists their open questions, and
//! removes runs that ended some time ago.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};

use crate::access::ActingCaller;
use crate::error::Result;
use crate::event::Spending;
use crate::model::Usage;
use crate::run::{read_events, spending_of_runs, usage_of_runs};
use crate::runtime::Runtime;
use crate::runtime::runs::open_questions::{OpenQuestion, questions, recorded_questions};
use crate::runtime::runs::retention::{Purge, remove_notes};
use crate::store::{RunFilter, RunList, RunOrder, RunRecord, RunStatus, StoreErrorKind};

/// Number of journals that are read concurrently.
const AT_ONCE: usize = 8;

/// Number of runs that are listed at once.
const PAGE: usize = 500;

/// The runs in the store of a runtime, returned by [`Runtime::runs`].
/// [`Runtime::run`] gives access to a single run.
///
/// # Cancel safety
/// All methods except [`purge`](Self::purge) only read, so their futures can be dropped at any
/// time.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the runs"]
pub struct Runs<'a>(pub(crate) &'a Runtime);

impl Runs<'_> {
    /// Returns the runs in the store that match a filter, in its [order](RunFilter::order): the newest
    /// first, unless another one is set.
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs.
    #[doc(alias = "runs")]
    pub async fn list(self, filter: RunFilter) -> Result<Vec<RunRecord>> {
        Ok(self.0.require_store()?.list(filter).await?)
    }

    /// Returns the number of runs that match the conditions of a filter, regardless of its limit and
    /// position.
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot count its runs.
    pub async fn count(self, filter: RunFilter) -> Result<u64> {
        Ok(self.0.require_store()?.count(filter).await?)
    }

    /// Returns the runs that match a filter, and unreadable runs that may match it.
    #[doc(hidden)]
    pub async fn list_with_unreadable(self, filter: RunFilter) -> Result<RunList> {
        Ok(self.0.require_store()?.list_with_unreadable(filter).await?)
    }

    /// Returns the total token usage of all runs that match a filter, including unfinished runs:
    /// for example of a session, of a caller, or of a period. Reads the list of runs, and the
    /// journals of runs that an earlier release started.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use agentflow::store::{MemoryStore, RunFilter};
    /// use agentflow::{Result, Runtime};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let yesterday = SystemTime::now() - Duration::from_secs(24 * 3600);
    /// let usage = runtime.runs().usage(RunFilter::new().caller("ada").since(yesterday.into())).await?;
    /// assert_eq!(usage.total_tokens(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs.
    pub async fn usage(self, filter: RunFilter) -> Result<Usage> {
        Ok(usage_of_runs(&self.0.require_store()?, filter, None).await?)
    }

    /// Returns the token usage by agent and model, with the number of calls.
    /// [`Prices::cost`](crate::middleware::Prices::cost) computes the cost. Reads the journal of
    /// each run.
    ///
    /// # Errors
    /// As [`usage`](Self::usage), and if a journal cannot be read.
    pub async fn spending(self, filter: RunFilter) -> Result<Vec<Spending>> {
        Ok(spending_of_runs(&self.0.require_store()?, filter).await?)
    }

    /// Returns the runs that [`purge`](Self::purge) would remove, newest first. Runs of sessions
    /// are excluded: they are the content of their session and are removed with it
    /// ([`Sessions::purge`](crate::runtime::Sessions::purge)).
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs.
    pub async fn purgeable(self, purge: &Purge) -> Result<Vec<RunRecord>> {
        let store = self.0.require_store()?;
        let now = self.0.host().clock.now();
        let (mut old, mut filter) = (Vec::new(), purge.filter.clone().limit(PAGE));
        loop {
            let page = store.list(filter.clone()).await?;
            if let Some(last) = page.last() {
                filter = filter.after(last);
            }
            let ends = page.len() < PAGE;
            old.extend(
                page.into_iter()
                    .filter(|run| run.session.is_none() && now.since(run.updated) > purge.age),
            );
            if ends {
                return Ok(old);
            }
        }
    }

    /// Removes ended runs, one after another, and returns the removed runs. A run that is retried
    /// meanwhile stays.
    ///
    /// # Cancel safety
    /// Dropping the future stops between two runs.
    ///
    /// # Errors
    /// As [`purgeable`](Self::purgeable) and [`RunRef::delete`](crate::runtime::RunRef::delete).
    /// Runs that were removed before the error remain removed.
    pub async fn purge(self, purge: &Purge) -> Result<Vec<RunRecord>> {
        let store = self.0.require_store()?;
        let mut removed = Vec::new();
        for run in self.purgeable(purge).await? {
            match store.delete(&run.run_id).await {
                Ok(()) => {
                    if let Err(error) = remove_notes(&store, &run.run_id).await {
                        tracing::warn!(run = %run.run_id, %error, "the notes of a removed run stay; delete it again");
                    }
                    removed.push(run);
                }
                // The run continues, or was removed by another process.
                Err(error)
                    if matches!(
                        error.kind(),
                        StoreErrorKind::Unfinished
                            | StoreErrorKind::Busy
                            | StoreErrorKind::NotFound
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }

    /// Returns the open questions of runs in the store, oldest first, for all processes. The filter
    /// selects runs; without a status in the filter, all waiting runs are included. Reads the
    /// records of these runs, and the journals of runs whose record does not contain all of their
    /// questions ([`RecordedQuestions`](crate::store::RecordedQuestions)).
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// # use agentflow::store::{MemoryStore, RunFilter};
    /// #[workflow]
    /// async fn publish_news(text: String) -> Result<String> {
    ///     let answer = gate!("publish this?", text).await?;
    ///     Ok(if answer.is_granted() { text } else { String::new() })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let run = runtime.start(publish_news::workflow(), "news".to_owned()).tag("desk", "sports").await?;
    /// run.asked().await?;
    /// let questions = runtime.runs().questions(RunFilter::new().tag("desk", "sports")).await?;
    /// assert_eq!(questions[0].message, "publish this?");
    /// runtime.run(&questions[0].run).approve(&questions[0].id, Approval::granted(), "ada").await?;
    /// assert_eq!(run.result().await?, "news");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs or read one of them.
    #[doc(alias = "approvals")]
    pub async fn questions(self, filter: RunFilter) -> Result<Vec<OpenQuestion>> {
        let runs = self.list(waiting(filter)).await?;
        questions_of(self.0, runs).await
    }
}

/// Selects the runs that may have questions.
fn waiting(filter: RunFilter) -> RunFilter {
    match filter.get_statuses().is_empty() {
        // Compensations may ask questions too.
        true => filter.status(RunStatus::Paused).status(RunStatus::Compensating),
        false => filter,
    }
}

/// Returns the open questions of these runs, oldest first. Reads only the journals of runs whose
/// record does not contain all of their questions.
async fn questions_of(runtime: &Runtime, runs: Vec<RunRecord>) -> Result<Vec<OpenQuestion>> {
    let store = runtime.require_store()?;
    let (mut all, mut incomplete) = (Vec::new(), Vec::new());
    for run in runs.into_iter().filter(|run| !run.status.has_ended()) {
        match recorded_questions(&run) {
            Some(questions) => all.extend(questions),
            None => incomplete.push(run),
        }
    }
    let read = incomplete.into_iter().map(|run| {
        let store = Arc::clone(&store);
        async move {
            let events = read_events(&store, &run.run_id, 0).await?;
            Ok::<_, crate::error::Error>(questions(&run, &events))
        }
    });
    let read: Vec<Vec<OpenQuestion>> =
        futures_util::stream::iter(read).buffered(AT_ONCE).try_collect().await?;
    all.extend(read.into_iter().flatten());
    all.sort_by(|one, other| {
        (one.asked, &one.run, &one.path).cmp(&(other.asked, &other.run, &other.path))
    });
    Ok(all)
}

/// The runs that a caller may read, returned by
/// [`CallerRuntime::runs`](crate::runtime::CallerRuntime::runs).
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the runs"]
pub struct CallerRuns<'a> {
    runtime: &'a Runtime,
    acting: Option<&'a ActingCaller>,
}

impl<'a> CallerRuns<'a> {
    pub(crate) fn new(runtime: &'a Runtime, acting: Option<&'a ActingCaller>) -> Self {
        Self { runtime, acting }
    }

    /// Returns the runs that match a filter and that the caller may read, in the
    /// [order](RunFilter::order) of the filter. Asks the access control for each run that the store
    /// lists.
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs.
    pub async fn list(self, filter: RunFilter) -> Result<Vec<RunRecord>> {
        let Some(acting) = self.acting else { return self.runtime.runs().list(filter).await };
        let most = filter.get_limit().unwrap_or(usize::MAX);
        let mut allowed = Vec::new();
        self.each_page(acting, filter, |run| {
            if allowed.len() < most {
                allowed.push(run);
            }
            allowed.len() < most
        })
        .await?;
        Ok(allowed)
    }

    /// Returns the number of runs that match the conditions of a filter and that the caller may read,
    /// regardless of its limit and position. With an access control, it asks for each of these runs.
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its runs.
    pub async fn count(self, filter: RunFilter) -> Result<u64> {
        let acting = match self.acting {
            Some(acting) if acting.has_policy() => acting,
            _ => return self.runtime.runs().count(filter).await,
        };
        let mut count = 0;
        self.each_page(acting, filter.without_page().order(RunOrder::Created), |_| {
            count += 1;
            true
        })
        .await?;
        Ok(count)
    }

    /// Calls a function for each run of a filter that the caller may read, until it returns `false`.
    async fn each_page(
        self,
        acting: &ActingCaller,
        filter: RunFilter,
        mut take: impl FnMut(RunRecord) -> bool,
    ) -> Result<()> {
        let store = self.runtime.require_store()?;
        let page = filter.get_limit().unwrap_or(usize::MAX).min(PAGE);
        if page == 0 {
            return Ok(());
        }
        let mut filter = acting.narrow(filter).limit(page);
        loop {
            let runs = store.list(filter.clone()).await?;
            let ends = runs.len() < page;
            if let Some(last) = runs.last() {
                filter = filter.after(last);
            }
            for run in runs {
                if acting.may_read(&run).await && !take(run) {
                    return Ok(());
                }
            }
            if ends {
                return Ok(());
            }
        }
    }

    /// Returns the open questions of the runs that the caller may read, oldest first, as
    /// [`Runs::questions`].
    ///
    /// # Errors
    /// As [`Runs::questions`].
    pub async fn questions(self, filter: RunFilter) -> Result<Vec<OpenQuestion>> {
        questions_of(self.runtime, self.list(waiting(filter)).await?).await
    }
}
