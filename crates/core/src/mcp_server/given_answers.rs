//! The answers that a client sends with a call: to what its run asks, and to what the run of a new call will ask. It starts no
//! run and asks nobody.

use std::collections::BTreeMap;

use rmcp::model::InputResponses;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::offered::Offer;
use super::served_call;
use super::served_question::{self, Said, is_approval};
use super::served_run::{SOMEBODY, may_approve, own, unreadable};
use super::server_settings::Shared;
use crate::error::Error;
use crate::run::{Events, RunHandle};
use crate::store::RunRecord;
use crate::value::Encoded;

/// What stands in the state of a call before the newest question of its run: a client sees that it is asked something else than
/// the last time. Which question it names decides nothing; a text of another form is refused.
const ROUND: char = '+';
/// The most answers of one call.
const MOST_ANSWERS: usize = 256;

/// The state of a call that asks, from that of its run.
pub(super) fn state_of_call(of_run: &str, newest: Option<&crate::runtime::OpenQuestion>) -> String {
    let round = newest.and_then(|question| question.id.rsplit_once('@')).map_or("", |(_, id)| id);
    format!("{of_run}{ROUND}{round}")
}

/// The answers of a call.
///
/// # Errors
/// When they are more, or larger, than a call may have.
pub(super) fn checked(shared: &Shared, responses: Option<InputResponses>) -> Result<InputResponses, ErrorData> {
    let responses = responses.unwrap_or_default();
    let most = shared.settings.max_arguments;
    let problem = match responses.len() > MOST_ANSWERS {
        true => Some(format!("`inputResponses` has {} answers, and {MOST_ANSWERS} is the most", responses.len())),
        false => {
            let bytes: usize = responses.iter().map(|(key, answer)| key.len() + answer.to_string().len()).sum();
            (bytes > most).then(|| format!("`inputResponses` has {bytes} bytes, and {most} is the most"))
        }
    };
    problem.map_or(Ok(responses), |problem| Err(ErrorData::invalid_params(problem, None)))
}

/// What became of answers.
#[derive(Default)]
pub(super) struct Given {
    /// Those that were refused, by the ids of their questions, and why.
    pub(super) problems: BTreeMap<String, String>,
    /// Somebody declined to answer.
    pub(super) is_declined: bool,
    /// How many were given to the run.
    pub(super) count: usize,
    /// The events of the run, where an answer had it continue here.
    events: Option<Events>,
}

/// When answers were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// After the client was asked.
    Asked,
    /// With the call that begins the run. Nobody agrees to what it has not been shown, so no approval is among them; and they
    /// answer what the client says that it can be asked.
    Beforehand,
}

/// Gives a run the answers to what it asks now, and takes them out of `responses`. What the run asks as soon as it has them,
/// perhaps at the same path, is another question.
///
/// # Errors
/// When the run cannot be read or answered.
pub(super) async fn give(
    shared: &Shared,
    record: &RunRecord,
    responses: &mut InputResponses,
    sent: Sent,
    context: &RequestContext<RoleServer>,
) -> Result<Given, ErrorData> {
    let internal = |error: Error| unreadable(shared, &error);
    let (runtime, caller) = (&shared.runtime, served_call::caller(context));
    let by = caller.as_deref().unwrap_or(SOMEBODY);
    let may_answer = |question: &_| match sent {
        Sent::Asked => !is_approval(question) || may_approve(shared, context),
        Sent::Beforehand => !is_approval(question) && served_question::is_askable(question, context),
    };
    let mut given = Given::default();
    for question in runtime.questions_of(record).await.map_err(internal)? {
        let Some(response) = responses.remove(question.key()) else { continue };
        if !may_answer(&question) {
            continue;
        }
        match served_question::said(&question, response) {
            Err(problem) => drop(given.problems.insert(question.id, problem)),
            Ok(Said::Declined) => given.is_declined = true,
            Ok(Said::Answer(answer)) => match runtime.answer_here(&record.run_id, &question.id, answer, by).await {
                Ok(continued) => {
                    given.count += 1;
                    given.events = given.events.or(continued);
                }
                Err(Error::Control(error)) => drop(given.problems.insert(question.id, error.to_string())),
                Err(error) => return Err(internal(error)),
            },
        }
    }
    Ok(given)
}

/// The run of a call, with what the client of an earlier request has answered.
pub(super) struct CalledRun {
    pub(super) run: RunHandle<Encoded>,
    /// Its events, listened to before it began or had an answer: what it emits then is shown.
    pub(super) events: Events,
    pub(super) given: Given,
}

/// Finds the run of a call that a client continues, and answers what it asks.
///
/// # Errors
/// When the client has not been given this state for a call of this tool.
pub(super) async fn continued(
    shared: &Shared,
    offer: &Offer,
    state: &str,
    mut responses: InputResponses,
    context: &RequestContext<RoleServer>,
) -> Result<CalledRun, ErrorData> {
    let unknown = || ErrorData::invalid_params("`requestState` is not one that this server gave for this call", None);
    let (state, round) = state.rsplit_once(ROUND).ok_or_else(unknown)?;
    if round.len() != 8 || !round.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(unknown());
    }
    let record = own(shared, state, context).await?.filter(|record| record.name == offer.name).ok_or_else(unknown)?;
    let before = shared.runtime.events_here(&record.run_id);
    let mut given = give(shared, &record, &mut responses, Sent::Asked, context).await?;
    let run = shared.runtime.attach(&record.run_id).await.map_err(|error| unreadable(shared, &error))?;
    let events = before.or_else(|| given.events.take()).unwrap_or_else(|| run.events());
    Ok(CalledRun { run, events, given })
}
