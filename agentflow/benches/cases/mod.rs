//! The bench cases: each does one piece of work twice in one process, once by hand and once with agentflow.
//!
//! A case does not measure itself: `times` (divan), `ratios` (in pairs) and `instructions` (callgrind) run the same
//! cases.

mod call;
pub(crate) mod dispatch;
#[cfg(feature = "openai-chat")]
mod http;
#[cfg(feature = "openai-chat")]
mod server;
pub(crate) mod step;
#[cfg(all(feature = "anthropic", feature = "gemini", feature = "openai-chat", feature = "openai-responses"))]
mod stream;
pub(crate) mod workflow;

/// A piece of work done in two ways.
pub(crate) struct Case {
    /// What is shown and what a filter on the command line looks for.
    pub(crate) name: String,
    /// How many units of work (calls, steps) one call of `floor` or `ours` is.
    pub(crate) units: u32,
    /// The most that `ours` may take, in multiples of `floor`.
    pub(crate) target: f64,
    /// The hand-written way.
    pub(crate) floor: Work,
    /// Agentflow's way.
    pub(crate) ours: Work,
}

/// Does the work once. The number is part of the answer, so that no work can be left out.
pub(crate) type Work = Box<dyn FnMut() -> usize>;

/// All cases, in the order they are shown.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = dispatch::cases();
    cases.extend(call::cases());
    cases.extend(step::cases());
    cases.extend(workflow::cases());
    #[cfg(feature = "openai-chat")]
    cases.extend(http::cases());
    #[cfg(all(feature = "anthropic", feature = "gemini", feature = "openai-chat", feature = "openai-responses"))]
    cases.extend(stream::cases());
    cases
}
