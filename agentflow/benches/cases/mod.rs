//! Benchmark cases. Each does one piece of work in one process in two ways: hand-written and with
//! agentflow.
//!
//! A case does not measure itself. `times` (divan), `ratios` (pairs) and `instructions` (callgrind)
//! run the same cases.

mod call;
pub(crate) mod dispatch;
#[cfg(feature = "openai-chat")]
mod http;
#[cfg(feature = "openai-chat")]
mod server;
pub(crate) mod step;
#[cfg(all(
    feature = "anthropic",
    feature = "gemini",
    feature = "openai-chat",
    feature = "openai-responses"
))]
mod stream;
pub(crate) mod workflow;

/// A piece of work in two versions.
pub(crate) struct Case {
    /// Name for the output and for the filter on the command line.
    pub(crate) name: String,
    /// Number of units of work (calls, steps) in one call of `floor` or `ours`.
    pub(crate) units: u32,
    /// Maximum time of `ours` as a multiple of `floor`.
    pub(crate) target: f64,
    /// The hand-written version.
    pub(crate) floor: Work,
    /// The agentflow version.
    pub(crate) ours: Work,
}

/// Does the work once. The returned number depends on the work, so that no work can be optimized
/// away.
pub(crate) type Work = Box<dyn FnMut() -> usize>;

/// Returns all cases in the order in which they are shown.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = dispatch::cases();
    cases.extend(call::cases());
    cases.extend(step::cases());
    cases.extend(workflow::cases());
    #[cfg(feature = "openai-chat")]
    cases.extend(http::cases());
    #[cfg(all(
        feature = "anthropic",
        feature = "gemini",
        feature = "openai-chat",
        feature = "openai-responses"
    ))]
    cases.extend(stream::cases());
    cases
}
