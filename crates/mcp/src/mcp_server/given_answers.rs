//! Answers that a client sends together with a call: answers to the questions of a running run, and
//! answers in advance to the questions of a new run.

use std::collections::BTreeMap;

use rmcp::model::InputResponses;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::offered::Offer;
use super::served_call;
use super::served_question::{self, Said, is_approval};
use super::served_run::{SOMEBODY, may_approve, own, unreadable};
use super::server_settings::Shared;
use agentflow_core::Caller;
use agentflow_core::error::Error;
use agentflow_core::run::{Events, RunHandle};
use agentflow_core::store::RunRecord;
use agentflow_core::value::Encoded;

/// Separates the run's state from the id of its newest question in the state of a call. The
/// client's state thus changes with each question. The id is only checked for its form.
const ROUND: char = '+';
/// Maximum number of answers of one call.
const MOST_ANSWERS: usize = 256;

/// Returns the state of a call whose run asks questions.
pub(super) fn state_of_call(
    of_run: &str,
    newest: Option<&agentflow_core::runtime::OpenQuestion>,
) -> String {
    let round = newest.and_then(|question| question.id.rsplit_once('@')).map_or("", |(_, id)| id);
    format!("{of_run}{ROUND}{round}")
}

/// Checks the size of the answers of a call.
///
/// # Errors
/// Fails if the answers exceed the limits of a call.
pub(super) fn checked(
    shared: &Shared,
    responses: Option<InputResponses>,
) -> Result<InputResponses, ErrorData> {
    let responses = responses.unwrap_or_default();
    let most = shared.settings.max_arguments;
    let problem = match responses.len() > MOST_ANSWERS {
        true => Some(format!(
            "`inputResponses` has {} answers, and {MOST_ANSWERS} is the most",
            responses.len()
        )),
        false => {
            let bytes: usize =
                responses.iter().map(|(key, answer)| key.len() + answer.to_string().len()).sum();
            (bytes > most)
                .then(|| format!("`inputResponses` has {bytes} bytes, and {most} is the most"))
        }
    };
    problem.map_or(Ok(responses), |problem| Err(ErrorData::invalid_params(problem, None)))
}

/// Result of giving answers to a run.
#[derive(Default)]
pub(super) struct Given {
    /// Refused answers: the reason by the id of the question.
    pub(super) problems: BTreeMap<String, String>,
    /// `true` if the person declined a question.
    pub(super) is_declined: bool,
    /// Number of answers that the run accepted.
    pub(super) count: usize,
    /// Events of the run, if an answer made it continue in this process.
    events: Option<Events>,
}

/// Time at which the client has sent the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// After the questions were sent.
    Asked,
    /// With the call that starts the run. Approvals are not accepted then, because the client has
    /// not seen the question. Other answers are accepted only for questions that the client
    /// supports.
    Beforehand,
}

/// Gives a run the answers to its open questions, and removes them from `responses`. Questions that
/// the run asks afterwards, even at the same path, are not answered.
///
/// # Errors
/// Fails if the run cannot be read or answered.
pub(super) async fn give(
    shared: &Shared,
    record: &RunRecord,
    responses: &mut InputResponses,
    sent: Sent,
    context: &RequestContext<RoleServer>,
) -> Result<Given, ErrorData> {
    let internal = |error: Error| unreadable(shared, &error);
    let runtime = served_call::runtime(shared, context);
    let by = served_call::caller(context).map_or(SOMEBODY, Caller::name);
    let may_answer = |question: &_| match sent {
        Sent::Asked => !is_approval(question) || may_approve(shared, context),
        Sent::Beforehand => {
            !is_approval(question) && served_question::is_askable(question, context)
        }
    };
    let mut given = Given::default();
    for question in runtime.run(&record.run_id).questions().await.map_err(internal)? {
        let Some(response) = responses.remove(question.key()) else { continue };
        if !may_answer(&question) {
            continue;
        }
        match served_question::said(&question, response) {
            Err(problem) => drop(given.problems.insert(question.id, problem)),
            Ok(Said::Declined) => given.is_declined = true,
            Ok(Said::Answer(answer)) => {
                match runtime.run(&record.run_id).answer_here(&question.id, answer, by).await {
                    Ok(continued) => {
                        given.count += 1;
                        given.events = given.events.or(continued);
                    }
                    Err(error @ (Error::Control(_) | Error::AccessDenied { .. })) => {
                        given.problems.insert(question.id, error.to_string());
                    }
                    Err(error) => return Err(internal(error)),
                }
            }
        }
    }
    Ok(given)
}

/// The run of a call, with the result of the answers that came with the call.
pub(super) struct CalledRun {
    pub(super) run: RunHandle<Encoded>,
    /// The run's events, subscribed before the run was started or answered, so that no progress is
    /// missed.
    pub(super) events: Events,
    pub(super) given: Given,
}

/// Finds the run that a call continues, and answers its questions.
///
/// # Errors
/// Fails if the server has not given this state to this client for a call to this tool.
pub(super) async fn continued(
    shared: &Shared,
    offer: &Offer,
    state: &str,
    mut responses: InputResponses,
    context: &RequestContext<RoleServer>,
) -> Result<CalledRun, ErrorData> {
    let unknown = || {
        ErrorData::invalid_params(
            "`requestState` is not one that this server gave for this call",
            None,
        )
    };
    let (state, round) = state.rsplit_once(ROUND).ok_or_else(unknown)?;
    // Eight hexadecimal digits follow the `@` in the id of a question.
    if round.len() != 8 || !round.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(unknown());
    }
    let record = own(shared, state, context)
        .await?
        .filter(|record| record.name == offer.name)
        .ok_or_else(unknown)?;
    // Subscribes before the answers are given, because these make the run continue.
    let before = shared.runtime.run(&record.run_id).events_here();
    let mut given = give(shared, &record, &mut responses, Sent::Asked, context).await?;
    let run = served_call::runtime(shared, context)
        .run(&record.run_id)
        .attach()
        .await
        .map_err(|error| unreadable(shared, &error))?;
    // If an answer resumed the run here, `before` belongs to an earlier execution that has stopped.
    let events = given.events.take().or(before).unwrap_or_else(|| run.events());
    Ok(CalledRun { run, events, given })
}
